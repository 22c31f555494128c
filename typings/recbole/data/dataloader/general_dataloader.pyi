"""RecBole 1.2.1: the loaders of training, of sampled candidates and of full ranking."""

from logging import Logger
from typing import Any

from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader.abstract_dataloader import AbstractDataLoader, NegSampleDataLoader
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.sampler.sampler import UserSampler
from torch import Tensor

class TrainDataLoader(NegSampleDataLoader):
    def __init__(
        self, config: Config, dataset: Dataset, sampler: UserSampler | None, shuffle: bool = False
    ) -> None: ...
    def collate_fn(self, index: list[int]) -> Interaction: ...

class NegSampleEvalDataLoader(NegSampleDataLoader):
    uid_list: NDArray[Any]
    uid2index: NDArray[Any]  # of slices, and of None for who has no row
    uid2items_num: NDArray[Any]

    def __init__(
        self, config: Config, dataset: Dataset, sampler: UserSampler | None, shuffle: bool = False
    ) -> None: ...
    def collate_fn(self, index: list[int]) -> tuple[Interaction, Any, Tensor | None, Tensor | None]: ...

class FullSortEvalDataLoader(AbstractDataLoader):
    logger: Logger
    uid_field: str
    iid_field: str

    def collate_fn(self, index: list[int]) -> tuple[Interaction, tuple[Tensor, Tensor] | None, Tensor, Tensor]: ...
