"""RecBole 1.2.1: makes data sets, samplers and loaders; each is looked up here by name."""

from collections.abc import Callable, Sequence
from typing import Literal

from recbole.config import Config
from recbole.data.dataloader.abstract_dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.sampler.sampler import UserSampler

_Loaders = tuple[AbstractDataLoader, AbstractDataLoader, AbstractDataLoader]

ensure_dir: Callable[[str], None]

def create_dataset(config: Config) -> Dataset: ...
def save_split_dataloaders(config: Config, dataloaders: _Loaders) -> None: ...
def load_split_dataloaders(config: Config) -> _Loaders | None: ...
def data_preparation(config: Config, dataset: Dataset) -> _Loaders: ...
def get_dataloader(
    config: Config, phase: Literal["train", "valid", "test", "evaluation"]
) -> type[AbstractDataLoader]: ...
def create_samplers(
    config: Config, dataset: Dataset, built_datasets: Sequence[Dataset]
) -> tuple[UserSampler | None, UserSampler | None, UserSampler | None]: ...
