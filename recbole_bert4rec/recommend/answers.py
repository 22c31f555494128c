"""The parts of a trained model's answers: vectors, reasons, metrics, and the rule about items that a user had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recbole_bert4rec.recommend.histories import Pairs
from recbole_bert4rec.system.errors import UserError

Floats = NDArray[np.float32]


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
    vectors: Floats


class Explanation(NamedTuple):
    """Says how much each item of a history has to do with the score of an item.

    Attributes:
        item: the explained item.
        score: its score.
        table: a row for each item of the history that the model sees, oldest first. Columns: ``position`` counts back
            from the end, 0 is the last; ``item``; ``influence``, by how much the score would be lower without it.
    """

    item: str
    score: float
    table: pd.DataFrame


class ViewedRule(NamedTuple):
    """Whether items of a history are left out of its recommendations.

    Attributes:
        left_out: whether they are.
        why: in words.
    """

    left_out: bool
    why: str


def viewed_rule(seen_bias: float | None, exclude_seen: bool) -> ViewedRule:
    """Return what ``filter_viewed="auto"`` does.

    If the metric left out the items that a user had, so do recommendations. Else they are left out unless the learnt
    ``seen_bias`` is above 0; without one, items rank as in the metric.
    """
    left_out, why = exclude_seen, f"as in evaluation (exclude_seen={exclude_seen})"
    if seen_bias is not None and not exclude_seen:
        left_out = seen_bias <= 0
        why = f"the model learnt to add {seen_bias:+.2g} to the scores of items that a user had (seen_bias)"
    rule = "are left out" if left_out else "may be recommended again"
    return ViewedRule(left_out, f"items of a history {rule}: {why}")


def metrics_of(ranks: NDArray[np.floating[Any]], topk: Sequence[int]) -> dict[str, float]:
    """Return ``mrr@K``, ``ndcg@K`` and ``hit@K`` for each K, and ``users``, how many there are.

    *Shape:* ranks (U,)
    """
    metrics = {}
    for k in topk:
        hit = ranks <= k
        metrics[f"mrr@{k}"] = float(np.mean(hit / ranks))
        metrics[f"ndcg@{k}"] = float(np.mean(hit / np.log2(ranks + 1)))
        metrics[f"hit@{k}"] = float(np.mean(hit))
    return {**metrics, "users": float(len(ranks))}


def most_popular(
    popularity: Floats, n_rows: int, k: int, removed: Pairs, allowed: NDArray[np.int64] | None
) -> tuple[Floats, NDArray[np.int64]]:
    """Return scores and items of the k most popular items that are left for each row; padding is none of them.

    *Shape:* popularity (N,), allowed (C,) -> (B, k) each
    """
    items = np.arange(1, len(popularity)) if allowed is None else allowed
    most_removed = int(np.bincount(removed[0], minlength=1).max())
    items = items[np.argsort(-popularity[items], kind="stable")[: k + most_removed]]
    scores = np.tile(popularity[items], (n_rows, 1))
    column = np.full(len(popularity), -1)
    column[items] = np.arange(len(items))
    among = column[removed[1]] >= 0
    scores[removed[0][among], column[removed[1][among]]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), items[order]


def check_names_of_columns(user: str, item: str) -> None:
    """Refuse columns of users and items that have the name of another column of a table of recommendations."""
    for name in (user, item):
        if name in ("rank", "score"):
            raise UserError(f"the table has a column {name!r} of its own; train on a log whose column has another name")


def check_scores(scores: Floats) -> None:
    """Refuse a model whose scores are not numbers."""
    if np.isnan(scores).any():
        raise UserError("some scores of this model are not numbers, so that it ranks nothing; train it again")
