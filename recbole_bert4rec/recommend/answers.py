"""Parts of a trained model's answers: vectors, reasons, popular items, and the rule about seen items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recbole_bert4rec.options.kinds import Kind
from recbole_bert4rec.recommend.histories import Pairs
from recbole_bert4rec.system.errors import UserError, short

Floats = NDArray[np.float32]


NOBODY = "there is no history to evaluate; one needs two known items, or a target beside it"


class Vectors(NamedTuple):
    """External ids, and the vector of each. *Shape:* (R,), (R, H) or, with the bias, (R, H + 1)."""

    ids: NDArray[np.object_]
    vectors: Floats


class Explanation(NamedTuple):
    """An item, its score, and a table of how the items of a history influence it."""

    item: str
    score: float
    table: pd.DataFrame


class ViewedRule(NamedTuple):
    """Whether recommendations leave seen items out, those of the history, and the reason in words."""

    left_out: bool
    why: str


def viewed_rule(seen_bias: float | None, exclude_seen: bool) -> ViewedRule:
    """Return what ``filter_viewed="auto"`` does.

    Seen items are left out if the metric left them out, or if the learnt ``seen_bias`` is not above 0.
    """
    left_out, why = exclude_seen, f"as in evaluation (exclude_seen={exclude_seen})"
    if seen_bias is not None and not exclude_seen:
        left_out = seen_bias <= 0
        why = f"the model learnt to add {seen_bias:+.2g} to the scores of items that a user had (seen_bias)"
    rule = "are left out" if left_out else "may be recommended again"
    return ViewedRule(left_out, f"items of a history {rule}: {why}")


def most_popular(
    popularity: Floats, n_rows: int, k: int, removed: Pairs, allowed: NDArray[np.int64] | None
) -> tuple[Floats, NDArray[np.int64]]:
    """Return scores and items of the k most popular items left for each row. *Shape:* (N,) -> (B, k) each."""
    items = np.arange(1, len(popularity)) if allowed is None else allowed
    most_removed = int(np.bincount(removed[0], minlength=1).max())
    items = items[np.argsort(-popularity[items], kind="stable")[: k + most_removed]]
    scores = np.tile(popularity[items], (n_rows, 1))
    column = pd.Index(items).get_indexer(pd.Index(removed[1]))
    scores[removed[0][column >= 0], column[column >= 0]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), items[order]


def check_names_of_columns(user: str, item: str) -> None:
    """Refuse columns of users and items with the name of another column of a table of recommendations."""
    for name in (user, item):
        if name in ("rank", "score"):
            raise UserError(f"the table has a column {name!r} of its own; train on a log whose column has another name")


def check(name: str, value: object, kind: Kind) -> None:
    """Refuse an argument's value that is not of its kind."""
    if not kind.accepts(value):
        raise UserError(f"`{name}` must be {kind.wanted}, but is {short(value)}")


def check_scores(scores: Floats) -> None:
    """Refuse scores that are not numbers."""
    if np.isnan(scores).any():
        raise UserError("some scores of this model are not numbers, so that it ranks nothing; train it again")
