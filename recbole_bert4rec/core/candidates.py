"""The candidates among which the paper ranks a target (section 4.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.system.errors import UserError


class DistinctCandidates:
    """Draw items by weight, without replacement and without the user's items (section 4.2 and the authors' code).

    Items are drawn with replacement, and items that were drawn before are skipped, which is a draw without
    replacement. If four rounds do not give enough, the rest are the items with the least ``exponential draw /
    weight``, which has the same distribution (Efraimidis and Spirakis, 2006).
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self._weights = weights
        self._cumulative = np.cumsum(weights)
        self._n_weighted = int(np.count_nonzero(weights))

    def check(self, n_user_items: int, count: int) -> None:
        """Refuse a draw for which too few items are left."""
        if (available := self._n_weighted - n_user_items) < count:
            raise UserError(
                f"cannot draw {count} candidates: a user has only {available} items left; use fewer candidates"
            )

    def draw(
        self, user_items: NDArray[np.integer[Any]], count: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw items for one user in their order; ``user_items``, distinct and each with a weight, are not drawn.

        *Shape:* (count,)
        """
        self.check(len(user_items), count)
        drawn = np.empty(0, dtype=np.int64)
        for _ in range(4):
            draw = generator.random(4 * count) * self._cumulative[-1]
            more = np.searchsorted(self._cumulative, draw, side="right")
            drawn = np.concatenate([drawn, more[~np.isin(more, user_items)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            if len(drawn) >= count:
                return drawn[:count]
        left = self._weights.copy()
        left[user_items] = left[drawn] = 0.0
        items = np.flatnonzero(left)
        first = np.argsort(generator.exponential(size=len(items)) / left[items])[: count - len(drawn)]
        return np.concatenate([drawn, items[first]])
