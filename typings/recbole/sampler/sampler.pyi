"""RecBole 1.2.1: draws items by user."""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from recbole.data.dataset import Dataset
from torch import Tensor

_Ids = Sequence[int] | NDArray[np.int64] | Tensor

class UserSampler(Protocol):  # the stub's name for what a loader asks of a sampler
    phase: str

    def sample_by_user_ids(self, user_ids: Any, item_ids: Any, num: int) -> Tensor: ...

class AbstractSampler:
    distribution: str
    alpha: float
    used_ids: NDArray[Any]  # a set of ids by user
    prob: dict[int, float]  # these two where the distribution is popularity
    alias: dict[int, int]
    phase: str

    def __init__(self, distribution: str, alpha: float) -> None: ...
    def set_distribution(self, distribution: str) -> None: ...
    def sampling(self, sample_num: int) -> NDArray[np.int64]: ...
    def get_used_ids(self) -> Any: ...
    def sample_by_key_ids(self, key_ids: _Ids, num: int) -> Tensor: ...

class Sampler(AbstractSampler):
    def __init__(
        self,
        phases: str | list[str],
        datasets: Dataset | Sequence[Dataset],
        distribution: str = "uniform",
        alpha: float = 1.0,
    ) -> None: ...
    def set_phase(self, phase: str) -> Self: ...
    def sample_by_user_ids(self, user_ids: _Ids, item_ids: _Ids, num: int) -> Tensor: ...

class RepeatableSampler(AbstractSampler):
    def __init__(
        self, phases: str | list[str], dataset: Dataset, distribution: str = "uniform", alpha: float = 1.0
    ) -> None: ...
    def set_phase(self, phase: str) -> Self: ...
    def sample_by_user_ids(self, user_ids: _Ids, item_ids: _Ids, num: int) -> Tensor: ...
