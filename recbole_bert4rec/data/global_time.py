"""Splits at one moment for all users, so that nothing is trained which happened after what is tested.

Gusak et al.: Time to Split. RecSys 2025 (arXiv 2507.16289).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.segments import index_within_segment

Index = NDArray[np.int64]
TARGETS = ("last", "first", "random", "all", "successive")
VALIDATIONS = ("GT", "LTI", "UB")


@dataclass(frozen=True)
class GlobalTime:
    """The rule of a split.

    Attributes:
        quantile: share of all interactions that are not after the moment, in (0, 1).
        target: which interactions after the moment are predicted. ``last``, ``first`` or ``random``: one of each user;
            ``successive``: each in turn, after a history that grows; ``all``: each, after the history until the moment.
        validation: ``GT`` splits what is left by the same rule; ``LTI`` takes the last interaction of each user that
            is left; ``UB`` that of some users, of whom nothing is trained.
        users: share of the users that ``UB`` validates on, in (0, 1).
    """

    quantile: float = 0.9
    target: str = "last"
    validation: str = "GT"
    users: float = 0.1

    @classmethod
    def of(cls, given: object) -> GlobalTime:
        """Make the rule of ``eval_args: {split: {GT: ...}}``.

        Raises:
            UserError: naming all mistakes.
        """
        about = "eval_args: split GT"
        if not isinstance(given, dict):
            raise UserError(f"{about} needs a dictionary such as {{'quantile': 0.9}}, but is {given!r}")
        names = [one.name for one in fields(cls)]
        found = [f"{about} has no {name!r}, but {names}." for name in given if name not in names]
        for name in ("quantile", "users"):
            value = given.get(name, 0.5)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
                found.append(f"{about}: {name} must be between 0 and 1, but is {value!r}.")
        for name, known in (("target", TARGETS), ("validation", VALIDATIONS)):
            if given.get(name, known[0]) not in known:
                found.append(f"{about}: {name} must be one of {list(known)}, but is {given[name]!r}.")
        if found:
            raise UserError(" ".join(found))
        return cls(**given)


class Part(NamedTuple):
    """Rows of a part.

    Attributes:
        rows: numbers of the rows. *Shape:* (R,)
        histories: for each of them the row before whose target its history ends; its own, but with target ``all``.
            *Shape:* (R,)
    """

    rows: Index
    histories: Index


class Moments(NamedTuple):
    """The moments at which training and validation end; training too ends at the later one but for ``GT``."""

    validation: float
    test: float


def moments(times: NDArray[np.float32], rule: GlobalTime) -> Moments:
    """Return the moments of a data set.

    Args:
        times: of all interactions. *Shape:* (T,)
        rule: of the split.
    """
    test = np.quantile(times, rule.quantile, method="lower")
    early = times[times <= test]
    return Moments(float(np.quantile(early, rule.quantile, method="lower")), float(test))


def by_global_time(
    users: Index, times: NDArray[np.float32], earlier: Index, at: Moments, rule: GlobalTime, seed: int
) -> list[Part]:
    """Split rows at the moments.

    Args:
        users: user of each row, ascending. *Shape:* (R,)
        times: time of each row, ascending within a user. *Shape:* (R,)
        earlier: number of the user's interactions before each row's. *Shape:* (R,)
        at: the moments.
        rule: of the split.
        seed: of the draws.

    Returns:
        Train, valid and test. A user's first interaction is never a target; a user with no other before training ends
        is not trained.
    """
    generator = np.random.default_rng(seed)
    early = times <= at.test
    test = _targets(users, ~early & (earlier > 0), rule.target, generator)
    if rule.validation == "GT":
        trained = times <= at.validation
        valid = _targets(users, early & ~trained & (earlier > 0), rule.target, generator)
    elif rule.validation == "LTI":
        valid = _targets(users, early & (earlier > 1), "last", generator)
        trained = early.copy()
        trained[valid.rows] = False
    else:
        everybody = np.unique(users[early & (earlier > 0)])
        chosen = generator.choice(everybody, max(1, int(rule.users * len(everybody))), replace=False)
        held_out = np.isin(users, chosen)
        valid = _targets(users, early & held_out & (earlier > 0), "last", generator)
        trained = early & ~held_out
    active = np.unique(users[trained & (earlier > 0)])  # have two interactions or more in training
    train = np.flatnonzero(trained & np.isin(users, active))
    return [Part(train, train), valid, test]


def _targets(users: Index, candidates: NDArray[np.bool_], target: str, generator: np.random.Generator) -> Part:
    """Choose the rows of each user that are predicted."""
    rows = np.flatnonzero(candidates)
    begin = np.flatnonzero(np.diff(users[rows], prepend=-1))
    size = np.diff(begin, append=len(rows))
    if target == "successive":
        return Part(rows, rows)
    if target == "all":
        return Part(rows, np.repeat(rows[begin], size))
    place = {
        "first": np.zeros_like(size),
        "last": size - 1,
        "random": (generator.random(len(size)) * size).astype(np.int64),
    }[target]
    chosen = rows[begin + place]
    return Part(chosen, chosen)


def earlier_interactions(users: Index, firsts_are_rows: bool) -> Index:
    """Count each row's earlier interactions of its user.

    Args:
        users: user of each row, ascending. *Shape:* (R,)
        firsts_are_rows: whether a user's first interaction is a row, as for general models; for sequential models, it
            is only a history.

    Returns:
        *Shape:* (R,)
    """
    size = np.diff(np.flatnonzero(np.diff(users, prepend=-1)), append=len(users))
    group = np.repeat(np.arange(len(size)), size)
    within: Index = index_within_segment(group, size)
    return within if firsts_are_rows else within + 1
