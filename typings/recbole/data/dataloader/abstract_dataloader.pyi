"""RecBole 1.2.1: what all loaders share, and what those with negatives do."""

from collections.abc import Iterator
from logging import Logger
from typing import Any

import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.data.transform import Transform
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.sampler.sampler import UserSampler
from recbole.utils import InputType
from torch.utils.data import DataLoader

class AbstractDataLoader(DataLoader[Any]):
    shuffle: bool
    config: Config
    _dataset: Any  # of the class that the model has: SequentialDataset, or ours
    _sampler: UserSampler | None
    sampler: Any  # torch's; a distributed one has set_epoch
    _batch_size: int
    step: int
    model: AbstractRecommender | None
    generator: torch.Generator
    transform: Transform
    is_sequential: bool
    sample_size: int

    def __init__(
        self, config: Config, dataset: Dataset, sampler: UserSampler | None, shuffle: bool = False
    ) -> None: ...
    def _init_batch_size_and_step(self) -> None: ...
    def update_config(self, config: Config) -> None: ...
    def set_batch_size(self, batch_size: int) -> None: ...
    def collate_fn(self, index: list[int]) -> Any: ...  # a batch
    def __iter__(self) -> Iterator[Any]: ...  # type: ignore[override]  # of batches; torch names its own class

class NegSampleDataLoader(AbstractDataLoader):
    _sampler: UserSampler
    logger: Logger
    uid_field: str
    iid_field: str
    dl_format: InputType
    neg_sample_args: dict[str, Any]
    times: int
    neg_sample_num: int
    label_field: str

    def __init__(self, config: Config, dataset: Dataset, sampler: UserSampler | None, shuffle: bool = True) -> None: ...
    def _set_neg_sample_args(
        self, config: Config, dataset: Dataset, dl_format: InputType, neg_sample_args: dict[str, Any]
    ) -> None: ...
    def _neg_sampling(self, inter_feat: Interaction) -> Interaction: ...
    def get_model(self, model: AbstractRecommender) -> None: ...
