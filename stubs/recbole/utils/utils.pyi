"""RecBole 1.2.1: looks models and trainers up, seeds, and says what a run is."""

from logging import Logger
from typing import Protocol

import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.data.transform import Transform
from recbole.model.abstract_recommender import AbstractRecommender, ConcreteRecommender
from recbole.trainer import Trainer
from recbole.utils.enum_type import ModelType

class _Table(Protocol):  # texttable's, which has no types
    def draw(self) -> str: ...

def get_local_time() -> str: ...
def ensure_dir(dir_path: str) -> None: ...
def get_model(model_name: str) -> type[ConcreteRecommender]: ...
def get_trainer(model_type: ModelType, model_name: str) -> type[Trainer]: ...  # but for decision trees
def early_stopping(
    value: float, best: float, cur_step: int, max_step: int, bigger: bool = True
) -> tuple[float, int, bool, bool]: ...
def calculate_valid_score(valid_result: dict[str, float], valid_metric: str | None = None) -> float: ...
def dict2str(result_dict: dict[str, float]) -> str: ...
def init_seed(seed: int, reproducibility: bool) -> None: ...
def get_flops(
    model: AbstractRecommender,
    dataset: Dataset,
    device: torch.device,
    logger: Logger,
    transform: Transform,
    verbose: bool = False,
) -> float: ...
def get_environment(config: Config) -> _Table: ...
