"""A memory of what came after what in training: "users who had i went on to j", as a sparse table.

Not in the paper. On logs with few interactions an item, a Transformer is hardly better than counting, and the sum of
both is better than either: score(j) = logit_j + w log(1 + m_j / c). The table is numpy's, so that an exported model
needs no torch for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, runs, segment_starts, split_keys
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError

SPAN = 20
"""How far after an item its followers may stand, and how many of the latest items of a history are looked up."""
DECAY = 0.85
"""A follower counts so much less for each item between, and an item of a history for each item after it."""
SCALE = 0.1
"""An m that is far below it adds nothing."""
DAMPING = 0.15
"""Power of an item's count by which its pairs count less, so that frequent items do not follow everything."""
WIDTH = 100
"""Most followers that are kept of an item."""
_PAIRS_AT_ONCE = 1 << 23
_CELLS_AT_ONCE = 1 << 18  # that stay in a processor's cache
_FLOATS = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # faster than converting each time

Floats = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Transitions:
    """T, N x N: how strongly each item follows another; most of it is 0.

    Attributes:
        offsets: row i is the entries from ``offsets[i]`` to ``offsets[i + 1]``, int64. *Shape:* (N + 1,)
        items: the follower of each entry, ascending in each row, int32. *Shape:* (E,)
        values: of each entry, float16. *Shape:* (E,)
    """

    offsets: Index
    items: NDArray[np.int32]
    values: NDArray[np.float16]

    @classmethod
    def count(cls, items: NDArray[np.int32], offsets: Index, n_items: int, width: int = WIDTH) -> Transitions:
        """Count pairs of the training sequences, in memory that does not grow with them.

        T[i, j] is the sum over positions p < q <= p + SPAN of a sequence with items i and j of DECAY^(q - p - 1), times
        (n_i n_j)^-DAMPING; n counts an item in training. An item does not follow itself: ``seen_bias`` knows repeats.

        With sequences [1, 2, 3] and [1, 3], T[1, 3] is (.85 + 1) (2 * 2)^-.15.

        Args:
            items: of all sequences, one after the other. *Shape:* (T,)
            offsets: sequence s is ``items[offsets[s]:offsets[s + 1]]``. *Shape:* (S + 1,)
            n_items: N.
            width: most followers of an item; the strongest stay.
        """
        counts = np.bincount(items, minlength=n_items)
        weights = np.maximum(counts, 1.0) ** -DAMPING
        positions = np.argsort(items, kind="stable")  # item after item
        bounds = np.concatenate([[0], counts.cumsum()])
        ends = np.repeat(offsets[1:], np.diff(offsets))  # of each position's sequence
        sizes, followers, values, begin = np.zeros(n_items + 1, np.int64), [], [], 0
        while begin < n_items:
            end = int(np.searchsorted(bounds, bounds[begin] + _PAIRS_AT_ONCE // SPAN, "right")) - 1
            end = min(max(end, begin + 1), n_items)
            rows, columns, sums = _pairs(items, positions[bounds[begin] : bounds[end]], ends, n_items)
            sums *= weights[rows] * weights[columns]
            kept = _strongest(rows, sums, width)
            sizes[begin + 1 : end + 1] = np.bincount(rows[kept] - begin, minlength=end - begin)
            followers.append(columns[kept].astype(np.int32))
            values.append(sums[kept].astype(np.float16))
            begin = end
        return cls(sizes.cumsum(), np.concatenate(followers), np.concatenate(values))

    def scores(self, item_seq: Index, lengths: Index) -> tuple[Index, Index, Floats]:
        """Return m, by which items follow each history: m_j is the sum over its items i of DECAY^age T[i, j].

        The latest item has the age 0; the SPAN latest are looked up.

        Args:
            item_seq: histories, padded on the right. *Shape:* (B, L)
            lengths: items of each. *Shape:* (B,)

        Returns:
            Row, item and m of every item that followed one of the history, by row. *Shape:* (P,) each
        """
        n_items = len(self.offsets) - 1
        ages = np.arange(min(SPAN, item_seq.shape[1]))
        columns = lengths[:, None] - 1 - ages  # (B, SPAN)
        known = np.take_along_axis(item_seq, np.maximum(columns, 0), 1)
        known = np.where((columns >= 0) & (known < n_items), known, PADDING)  # whose row is empty
        at_once = max(1, _CELLS_AT_ONCE // n_items)
        entry_of_cell = np.empty(at_once * n_items, np.int64)
        starts = range(0, len(known), at_once)
        parts = [self._scores_of(known[at : at + at_once], DECAY**ages, entry_of_cell) for at in starts]
        rows = np.concatenate([part[0] + n * at_once for n, part in enumerate(parts)])
        return rows, np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])

    def value(self, item: int, follower: int) -> float:
        """Return T[item, follower]."""
        row = slice(self.offsets[item], self.offsets[item + 1])
        entry = np.searchsorted(self.items[row], follower)
        follows = entry < row.stop - row.start and self.items[row][entry] == follower
        return float(self.values[row][entry]) if follows else 0.0

    def _scores_of(self, known: Index, weights: Floats, entry_of_cell: Index) -> tuple[Index, Index, Floats]:
        """Sum the rows of T of some histories' items, each with the weight of its age.

        Args:
            known: items of the histories. *Shape:* (B, SPAN)
            weights: of their ages. *Shape:* (SPAN,)
            entry_of_cell: is written to; holds one of the entries of each (history, follower), if it has any.
                *Shape:* (B * N,) or more
        """
        n_items = len(self.offsets) - 1
        begin = self.offsets[known].ravel()
        sizes = self.offsets[known + 1].ravel() - begin
        numbers = np.arange(sizes.sum())
        entries = numbers + np.repeat(begin - segment_starts(sizes), sizes)
        rows = np.repeat(np.arange(len(known)), len(weights))
        cells = np.repeat(rows * n_items, sizes) + self.items.take(entries)
        values = _FLOATS.take(self.values.view(np.uint16).take(entries))
        entry_of_cell[cells] = numbers
        sums_at = entry_of_cell.take(cells)
        sums = np.bincount(sums_at, values * np.repeat(np.tile(weights, len(known)), sizes), len(numbers))
        once = np.flatnonzero(sums_at == numbers)
        return (*split_keys(cells.take(once), n_items), sums.take(once).astype(np.float64, copy=False))


@dataclass(frozen=True)
class Memory:
    """Adds w log(1 + m_j / SCALE) to the score of item j, with m of :meth:`Transitions.scores`.

    Attributes:
        transitions: T.
        weight: w, at least 0.
    """

    transitions: Transitions
    weight: float

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_items: int) -> Memory:
        """Make a memory of what :meth:`state` returned, which may have come from a stranger's file.

        Args:
            state: arrays and numbers by the names of the attributes.
            n_items: N.

        Raises:
            UserError: it is not the memory of so many items.
        """
        offsets, items, values = (np.asarray(state[name]) for name in ("offsets", "items", "values"))
        weight = float(state["weight"])
        sound = (
            [array.dtype.name for array in (offsets, items, values)] == ["int64", "int32", "float16"]
            and offsets.shape == (n_items + 1,)
            and items.shape == values.shape == (offsets[-1],)
            and offsets[0] == 0
            and bool((np.diff(offsets) >= 0).all())
            and bool((items > PADDING).all() and (items < n_items).all())
            and bool(np.isfinite(values).all() and (values >= 0).all())
            and 0 <= weight < np.inf
        )
        if not sound:
            raise UserError(f"its `memory` is damaged, or of other than {n_items - 1} items; train the model again")
        return cls(Transitions(offsets, items, values), weight)

    def state(self) -> dict[str, Any]:
        """Return arrays and numbers, by names, that :meth:`from_state` takes."""
        table = self.transitions
        return {"offsets": table.offsets, "items": table.items, "values": table.values, "weight": self.weight}

    def additions(self, item_seq: Index, lengths: Index) -> tuple[Index, Index, NDArray[np.float32]]:
        """Return what is added to which items' scores.

        Args:
            item_seq: histories, padded on the right. *Shape:* (B, L)
            lengths: items of each. *Shape:* (B,)

        Returns:
            Row, item and addition, by row; others get nothing. *Shape:* (P,) each
        """
        rows, items, sums = self.transitions.scores(item_seq, lengths)
        logarithms = np.log(1 + (sums / SCALE).astype(np.float32))  # log1p is six times slower
        return rows, items, np.float32(self.weight) * logarithms

    def shares(self, history: Index, item: int) -> Floats:
        """Return how much of an item's addition is due to each item of a history.

        Args:
            history: oldest first. *Shape:* (L,)
            item: whose score is added to.

        Returns:
            They sum up to the addition. *Shape:* (L,)
        """
        ages = np.arange(len(history))[::-1]
        parts = np.where(ages < SPAN, DECAY**ages, 0.0) * [self.transitions.value(int(i), item) for i in history]
        total = parts.sum()
        return parts * (self.weight * np.log1p(total / SCALE) / total) if total else parts


def _pairs(items: NDArray[np.int32], positions: Index, ends: Index, n_items: int) -> tuple[Index, Index, Floats]:
    """Sum what follows the items at some positions, within their sequences.

    Returns:
        Item, follower and the sum of DECAY^(distance - 1) of each pair, by item, then by follower. *Shape:* (P,) each
    """
    first, after = items[positions].astype(np.int64), ends[positions] - positions
    keys = []
    for distance in range(1, SPAN + 1):
        before = after > distance
        pairs = pair_keys(first[before], items[positions[before] + distance], n_items)
        keys.append(pair_keys(pairs, distance, SPAN + 1))
    key = np.concatenate(keys)
    key.sort()
    pair, distance = split_keys(key, SPAN + 1)
    begin = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = np.add.reduceat(DECAY ** np.arange(-1.0, SPAN)[distance], begin) if len(begin) else np.zeros(0)
    rows, columns = split_keys(pair[begin], n_items)
    others = rows != columns
    return rows[others], columns[others], sums[others]


def _strongest(rows: Index, sums: Floats, width: int) -> Index:
    """Return the places of the ``width`` largest sums of each row, ascending.

    *Shape:* (P,), (P,) -> (kept,)
    """
    _, sizes = runs(rows)
    long = np.flatnonzero(np.repeat(sizes > width, sizes))
    order = long[np.argsort(rows[long] - sums[long] / (2 * sums.max(initial=1.0)), kind="stable")]
    sizes = sizes[sizes > width]
    rank = index_within_segment(np.repeat(np.arange(len(sizes)), sizes), sizes)
    return np.delete(np.arange(len(rows)), order[rank >= width])
