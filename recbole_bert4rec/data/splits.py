"""RecBole's splits without its loops over rows: the same parts, rows and order, as index arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


class Groups:
    """The rows of each user, in the order that RecBole gives them: users by the time of their first row.

    Args:
        users: user of each row, ascending. *Shape:* (R,)
        times: of each row, ascending within a user. *Shape:* (R,)

    Attributes:
        order: row numbers, group after group. *Shape:* (R,)
        group: group of each entry of ``order``. *Shape:* (R,)
        rank: place of each entry of ``order`` within its group. *Shape:* (R,)
        size: rows of each group. *Shape:* (G,)
    """

    def __init__(self, users: NDArray[np.int64], times: NDArray[np.float32]) -> None:
        begin = np.flatnonzero(np.diff(users, prepend=-1))
        first = np.argsort(times[begin], kind="stable")
        self.size: Index = np.diff(begin, append=len(users))[first]
        self.group: Index = np.repeat(np.arange(len(begin)), self.size)
        self.rank: Index = np.arange(len(users)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        self.order: Index = np.repeat(begin[first], self.size) + self.rank

    def cut(self, bounds: NDArray[np.int64]) -> list[Index]:
        """Cut each group at its own bounds.

        Args:
            bounds: ascending cuts of each group, C of them make C + 1 parts. *Shape:* (G, C)

        Returns:
            The rows of each part, group after group.
        """
        part = np.zeros(len(self.rank), dtype=np.int8)
        for bound in bounds.T:
            part += self.rank >= bound[self.group]
        return [self.order[part == number] for number in range(bounds.shape[1] + 1)]


def leave_one_out(groups: Groups, held_out: int) -> list[Index]:
    """The last ``held_out`` rows of each group go to a part each; a group keeps its first row for training.

    Groups too short for all parts fill the last ones, as RecBole has it.

    Returns:
        ``held_out + 1`` parts, training first.
    """
    legal = np.minimum(held_out, groups.size - 1)
    first_held = groups.size - legal  # (G,)
    cuts = first_held[:, None] + np.maximum(0, np.arange(held_out)[None, :] - (held_out - legal)[:, None])
    return groups.cut(cuts)


def train_on_all_but(count: int, parts: Sequence[Index], seed: int) -> list[Index]:
    """Validate on ``count`` drawn users only; the validation rows of the others are trained.

    Petrov and Macdonald, RecSys 2022: validation on all would keep the item next to the test out of training.

    Args:
        parts: rows of train, valid (a row a user, at least ``count``) and test.
    """
    train, valid, test = parts
    kept = np.zeros(len(valid), dtype=bool)
    kept[np.random.default_rng(seed).choice(len(valid), count, replace=False)] = True
    return [np.concatenate([train, valid[~kept]]), valid[kept], test]


def by_ratio(groups: Groups, bounds_of: Callable[[int], Sequence[int]]) -> list[Index]:
    """Cut each group at the bounds that its size has.

    Args:
        bounds_of: RecBole's ``_calcu_split_ids`` for one size.
    """
    sizes, member = np.unique(groups.size, return_inverse=True)
    bounds = np.array([bounds_of(int(size)) for size in sizes], dtype=np.int64)
    return groups.cut(bounds[member])


def by_time(groups: Groups, times: NDArray[np.float32], ratios: Sequence[float]) -> list[Index]:
    """RecBole's ``TS``: rows after a global moment are test; the earlier ones are cut by ratio within each group.

    Args:
        times: of each row. *Shape:* (R,)
        ratios: of train, valid and test; they add up to 1.
    """
    boundary = np.percentile(times, 100 * (1 - ratios[-1]))
    early = np.bincount(groups.group, weights=times[groups.order] <= boundary, minlength=len(groups.size))
    early = early.astype(np.int64)
    train = (early * (ratios[0] / (1 - ratios[2]))).astype(np.int64)
    return groups.cut(np.stack([train, early], axis=1))
