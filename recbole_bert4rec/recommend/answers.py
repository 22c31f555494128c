"""The parts of a trained model's answers: vectors, metrics, and the rule about items that a user had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.options.kinds import AUTO, SWITCH, Kind, or_auto
from recbole_bert4rec.system.errors import UserError, short


class NobodyError(UserError):
    """Raised if no history can be evaluated."""

    def __init__(self) -> None:
        super().__init__("there is no history to evaluate; one needs two known items, or a target beside it")


class Vectors(NamedTuple):
    """Vectors with the ids that they belong to.

    Attributes:
        ids: external ids. *Shape:* (R,)
        vectors: float32. *Shape:* (R, H), or (R, H + 1) with the bias.
    """

    ids: NDArray[np.object_]
    vectors: NDArray[np.float32]


class ViewedRule(NamedTuple):
    """Whether items of a history are left out of its recommendations.

    Attributes:
        left_out: whether they are.
        why: in words.
    """

    left_out: bool
    why: str

    def decide(self, filter_viewed: object) -> bool:
        """Return whether they are left out, given the argument of that name."""
        check("filter_viewed", filter_viewed, or_auto(SWITCH))
        return self.left_out if filter_viewed == AUTO else bool(filter_viewed)


def viewed_rule(seen_bias: float | None, exclude_seen: bool) -> ViewedRule:
    """Return what ``filter_viewed="auto"`` does.

    If the metric left out the items that a user had, so do recommendations. Else they follow the sign of the learnt
    ``seen_bias``; without one they rank as the metric does.
    """
    if seen_bias is not None and not exclude_seen:
        learnt = f"the model learnt to add {seen_bias:+.2g} to the scores of items that a user had (seen_bias)"
        if seen_bias > 0:
            return ViewedRule(False, f"items of a history may be recommended again: {learnt}")
        return ViewedRule(True, f"items of a history are left out: {learnt}")
    rule = "are left out" if exclude_seen else "may be recommended again"
    return ViewedRule(exclude_seen, f"items of a history {rule}, as in evaluation (exclude_seen={exclude_seen})")


def metrics_of(ranks: NDArray[np.floating[Any]], topk: Sequence[int]) -> dict[str, float]:
    """Return ``mrr@K``, ``ndcg@K`` and ``hit@K`` for each K, and ``users``, how many there are.

    *Shape:* ranks (U,)
    """
    result = {}
    for k in topk:
        hit = ranks <= k
        result[f"mrr@{k}"] = float(np.mean(hit / ranks))
        result[f"ndcg@{k}"] = float(np.mean(hit / np.log2(ranks + 1)))
        result[f"hit@{k}"] = float(np.mean(hit))
    return {**result, "users": float(len(ranks))}


def check_names_of_columns(user: str, item: str) -> None:
    """Refuse columns of users and items that have the name of another column of a table of recommendations."""
    for name in (user, item):
        if name in ("rank", "score"):
            raise UserError(f"the table has a column {name!r} of its own; train on a log whose column has another name")


def ranks_of(above: NDArray[np.int64], equal: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ranks of targets, from 1: in the middle of the items with the same score, or just after it.

    *Shape:* above (B,), equal (B,)
    """
    return 1 + above + (equal + 1) // 2


def no_scores() -> UserError:
    """Return the error for a model whose scores are not numbers."""
    return UserError("some scores of this model are not numbers, so that it ranks nothing; train it again")


def nothing_left() -> UserError:
    """Return the error for arguments that leave no item."""
    return UserError("`items_to_recommend` and `exclude` leave nothing to recommend")


def check(name: str, value: object, kind: Kind) -> None:
    """Refuse an argument's value that is not of its kind."""
    if not kind.accepts(value):
        raise UserError(f"`{name}` must be {kind.wanted}, but is {short(value)}")
