"""RecBole's splits as index arrays, without its loops over rows; the parts and their order are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.segments import index_within_segment, runs

Index = NDArray[np.int64]


class Groups:
    """The rows of each user, in RecBole's order: users are ordered by the time of their first row.

    Attributes:
        order: row numbers, group after group. *Shape:* (R,)
        group: group of each entry of ``order``. *Shape:* (R,)
        rank: index of each entry of ``order`` within its group. *Shape:* (R,)
        size: number of rows of each group. *Shape:* (G,)
    """

    def __init__(self, users: NDArray[np.int64], times: NDArray[np.float32]) -> None:
        begin, size = runs(users)
        first = np.argsort(times[begin], kind="stable")
        self.size: Index = size[first]
        self.group: Index = np.repeat(np.arange(len(begin)), self.size)
        self.rank: Index = index_within_segment(self.group, self.size)
        self.order: Index = np.repeat(begin[first], self.size) + self.rank

    def cut(self, bounds: NDArray[np.int64]) -> list[Index]:
        """Cut each group at its own bounds, ascending; return the rows of each part, group after group.

        *Shape:* (G, C)
        """
        part = np.zeros(len(self.rank), dtype=np.int8)
        for bound in bounds.T:
            part += self.rank >= bound[self.group]
        return [self.order[part == number] for number in range(bounds.shape[1] + 1)]


def leave_one_out(groups: Groups, held_out: int) -> list[Index]:
    """Hold out the last rows of each group, one for each part after training.

    A group always keeps its first row for training. A group that is too short for all parts fills the last parts, as
    in RecBole.
    """
    legal = np.minimum(held_out, groups.size - 1)
    first_held = groups.size - legal  # (G,)
    cuts = first_held[:, None] + np.maximum(0, np.arange(held_out)[None, :] - (held_out - legal)[:, None])
    return groups.cut(cuts)


def train_on_all_but(count: int, parts: Sequence[Index], seed: int) -> list[Index]:
    """Validate on ``count`` drawn users only, and train on the validation rows of all others.

    Validation on all users would keep the item before the test item out of training (Petrov and Macdonald, RecSys
    2022).
    """
    train, valid, test = parts
    validated = np.zeros(len(valid), dtype=bool)
    validated[np.random.default_rng(seed).choice(len(valid), count, replace=False)] = True
    return [np.concatenate([train, valid[~validated]]), valid[validated], test]


def by_ratio(groups: Groups, bounds_of: Callable[[int], Sequence[int]]) -> list[Index]:
    """Cut each group at bounds that depend on its size alone, by RecBole's ``_calcu_split_ids``."""
    sizes, member = np.unique(groups.size, return_inverse=True)
    bounds = np.array([bounds_of(int(size)) for size in sizes], dtype=np.int64)
    return groups.cut(bounds[member])


def by_time(groups: Groups, times: NDArray[np.float32], ratios: Sequence[float]) -> list[Index]:
    """Split by time, as RecBole's ``TS``: rows after one moment are test, the earlier rows of a group are cut by ratio.

    *Shape:* (R,)
    """
    boundary = np.percentile(times, 100 * (1 - ratios[-1]))
    early = np.bincount(groups.group, weights=times[groups.order] <= boundary, minlength=len(groups.size))
    early = early.astype(np.int64)
    train = (early * (ratios[0] / (1 - ratios[2]))).astype(np.int64)
    return groups.cut(np.stack([train, early], axis=1))
