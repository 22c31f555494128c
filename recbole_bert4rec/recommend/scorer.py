"""The interface between a recommender and a model that torch or onnxruntime computes; numpy alone."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.recommend.histories import Histories, Pairs
from recbole_bert4rec.system.constants import PADDING

Floats = NDArray[np.float32]


class Batch(NamedTuple):
    """Histories that are encoded together.

    Attributes:
        rows: their places among all. *Shape:* (B,)
        items: the latest of each, as many as the model reads, padded on the right; without a column if no history
            has a known item. *Shape:* (B, L)
        histories: all.
        seen: the items of whole histories, with the places of these among the rows; each pair once.
    """

    rows: NDArray[np.intp]
    items: NDArray[np.int64]
    histories: Histories
    seen: Pairs

    @property
    def known(self) -> bool:
        """Whether the histories have known items: those of a batch all have, or none has."""
        return bool(self.items.shape[1])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many items of each history the model reads. *Shape:* (B,)."""
        lengths: NDArray[np.int64] = (self.items != PADDING).sum(1)
        return lengths


class Ranking(Protocol):
    """The items that may be recommended, ready to be ranked."""

    n_items: int

    def best(self, batch: Batch, k: int, removed: Pairs) -> tuple[Floats, NDArray[np.int64]]:
        """Return the k best items of each history.

        *Shape:* -> (B, k) each
        """


class Scorer(Protocol):
    """The scores of a trained model.

    Attributes:
        n_items: N.
        longest: items of a history that the model reads, at most.
        hidden_size: H.
        popularity: scores of items for a history without a known item. *Shape:* (N,)
        most: histories whose best items are found at once, at most; None: any number.
    """

    n_items: int
    longest: int
    hidden_size: int
    popularity: Floats
    most: int | None

    @property
    def seen_bias(self) -> float | None:
        """The learnt number that is added to the scores of a history's items; None if the option is off."""

    def ranking(self, items: NDArray[np.int64] | None) -> Ranking:
        """Make some items, ascending, or all ready to be ranked."""

    def scores(self, batch: Batch) -> Floats:
        """Score all items after known histories. *Shape:* (B, N)."""

    def vectors(self, batch: Batch) -> Floats:
        """Return the vector from which the next item of each known history is read. *Shape:* (B, H)."""
