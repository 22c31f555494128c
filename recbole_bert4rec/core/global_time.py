"""Splits at one moment for all users, so that no interaction is trained that happened after a tested one.

Gusak et al.: Time to Split. RecSys 2025 (arXiv 2507.16289).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.segments import index_within_segment, runs

Index = NDArray[np.int64]
TARGETS = ("last", "first", "random")
VALIDATIONS = ("GT", "LTI")


@dataclass(frozen=True)
class GlobalTime:
    """The rule of a split.

    Attributes:
        quantile: share of all interactions that are not after the moment, in (0, 1).
        target: which of a user's interactions after the moment is predicted: ``last``, ``first`` or ``random``.
        validation: ``GT`` splits what is left by the same rule; ``LTI`` takes the last interaction of each user that
            is left.
    """

    quantile: float = 0.9
    target: str = "last"
    validation: str = "GT"


class Moments(NamedTuple):
    """The moment after which interactions are tested, and the earlier one after which ``GT`` validates."""

    validation: float
    test: float


def moments(users: Index, times: NDArray[np.float32], rule: GlobalTime) -> Moments:
    """Return the moments of a data set, given all interactions.

    *Shape:* (T,), (T,)
    """
    test = np.quantile(times, rule.quantile, method="lower")
    early = times <= test
    trained = early & (np.bincount(users[early], minlength=int(users.max()) + 1)[users] > 1)
    left = times[trained] if trained.any() else times[early]
    return Moments(float(np.quantile(left, rule.quantile, method="lower")), float(test))


def by_global_time(
    users: Index, times: NDArray[np.float32], earlier: Index, at: Moments, rule: GlobalTime, seed: int
) -> list[Index]:
    """Return the numbers of the rows of train, valid and test; rows are ordered by user, then time.

    A user's first interaction is never a target; a user with no other before training ends is not trained.

    *Shape:* (R,), (R,), (R,) of users, times and numbers of earlier interactions
    """
    generator = np.random.default_rng(seed)
    early = times <= at.test
    test = _targets(users, ~early & (earlier > 0), rule.target, generator)
    if rule.validation == "GT":
        trained = times <= at.validation
        valid = _targets(users, early & ~trained & (earlier > 0), rule.target, generator)
    else:
        valid = _targets(users, early & (earlier > 0), "last", generator)
        trained = early.copy()
        trained[valid] = False
    active = np.unique(users[trained & (earlier > 0)])  # have two interactions or more in training
    return [np.flatnonzero(trained & np.isin(users, active)), valid, test]


def _targets(users: Index, candidates: NDArray[np.bool_], target: str, generator: np.random.Generator) -> Index:
    """Choose the row of each user that is predicted."""
    rows = np.flatnonzero(candidates)
    begin, size = runs(users[rows])
    offset = {
        "first": np.zeros_like(size),
        "last": size - 1,
        "random": (generator.random(len(size)) * size).astype(np.int64),
    }[target]
    chosen: Index = rows[begin + offset]
    return chosen


def earlier_interactions(users: Index, firsts_are_rows: bool) -> Index:
    """Count each row's earlier interactions of its user; users are ascending.

    A user's first interaction is a row for general models; for sequential ones it is only a history.

    *Shape:* (R,) -> (R,)
    """
    _, size = runs(users)
    group = np.repeat(np.arange(len(size)), size)
    within: Index = index_within_segment(group, size)
    return within if firsts_are_rows else within + 1
