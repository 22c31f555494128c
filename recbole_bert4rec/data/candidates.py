"""The candidates that the paper ranks a target among."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.errors import UserError


class DistinctCandidates:
    """Draws items by weight, none twice and none of a user's own (section 4.2, as the authors' code draws them).

    Drawing with replacement and skipping what was drawn before is drawing without replacement. Where that does not
    come to an end soon, the rest are the items of least ``exponential draw / weight``, which is the same (Efraimidis
    and Spirakis, 2006).

    Args:
        weights: of the items; padding weighs nothing. *Shape:* (N,)
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self._weights = weights
        self._cumulative = np.cumsum(weights)
        self._n_weighted = int(np.count_nonzero(weights))

    def check(self, n_own: int, count: int) -> None:
        """Refuse to draw ``count`` items for a user with ``n_own``.

        Raises:
            UserError: fewer may be drawn.
        """
        if (available := self._n_weighted - n_own) < count:
            raise UserError(f"{count} candidates cannot be drawn: a user has only {available} items left; use fewer")

    def draw(self, own: NDArray[np.integer[Any]], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """``count`` items in the order drawn. *Shape:* (count,)

        Args:
            own: distinct items with a weight, which may not be drawn.

        Raises:
            UserError: fewer than ``count`` items may be drawn.
        """
        self.check(len(own), count)
        drawn = np.empty(0, dtype=np.int64)
        for _ in range(4):
            place = generator.random(4 * count) * self._cumulative[-1]
            more = np.searchsorted(self._cumulative, place, side="right")
            drawn = np.concatenate([drawn, more[~np.isin(more, own)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            if len(drawn) >= count:
                return drawn[:count]
        left = self._weights.copy()
        left[own] = left[drawn] = 0.0
        items = np.flatnonzero(left)
        first = np.argsort(generator.exponential(size=len(items)) / left[items])[: count - len(drawn)]
        return np.concatenate([drawn, items[first]])
