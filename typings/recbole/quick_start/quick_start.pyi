"""RecBole 1.2.1: whole runs."""

from collections.abc import Callable
from typing import Any

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.model.abstract_recommender import AbstractRecommender

def run(
    model: str,
    dataset: str,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    nproc: int = 1,
    world_size: int = -1,
    ip: str = "localhost",
    port: str = "5678",
    group_offset: int = 0,
) -> dict[str, Any] | None: ...
def run_recbole(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    queue: Any = None,
) -> dict[str, Any]: ...

# Looked up by name at call time, so that both may be replaced.
run_recboles: Callable[..., None]
objective_function: Callable[..., dict[str, Any]]

def load_data_and_model(
    model_file: str,
) -> tuple[Config, AbstractRecommender, Dataset, AbstractDataLoader, AbstractDataLoader, AbstractDataLoader]: ...
