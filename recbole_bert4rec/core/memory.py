"""A memory of what came after what in training: "users who had i went on to j", as a sparse table.

Not in the paper. On logs with few interactions an item, a Transformer is hardly better than counting, and the sum of
both is better than either: score(j) = logit_j + w log(1 + m_j / c). The table is scipy's, so that an exported model
needs no torch for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, runs, split_keys
from recbole_bert4rec.system.errors import UserError

SPAN = 20
"""How far after an item its followers may stand, and how many of the latest items of a history are looked up."""
DECAY = 0.85
"""A follower counts so much less for each item between, and an item of a history for each item after it."""
SCALE = 0.1
"""What is far below it adds nothing."""
DAMPING = 0.15
"""Power of the items' counts by which a pair counts less, so that frequent items do not follow everything."""
WIDTH = 100
"""Most followers that are kept of an item."""
_PAIRS_AT_ONCE = 1 << 23
_MEMORY_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Weights among which validation chooses."""

Floats = NDArray[np.float64]
Index = NDArray[np.int64]
Validation = tuple[float, dict[str, float]]
"""A score, of which more is better, and the metrics by RecBole's names."""


def count_transitions(items: NDArray[np.int32], offsets: Index, n_items: int, width: int = WIDTH) -> csr_array:
    """Count pairs of the training sequences, in memory that does not grow with them.

    T[i, j] is the sum over positions p < q <= p + SPAN of a sequence with items i and j of DECAY^(q - p - 1), times
    (n_i n_j)^-DAMPING; n counts an item in training. An item does not follow itself: ``seen_bias`` knows repeats.

    With sequences [1, 2, 3] and [1, 3], T[1, 3] is (.85 + 1) (2 * 2)^-.15.

    The ``width`` strongest followers of an item stay, in numbers that float16 has.

    *Shape:* (T,), (S + 1,) -> (N, N)
    """
    counts = np.bincount(items, minlength=n_items)
    weights = np.maximum(counts, 1.0) ** -DAMPING
    positions = np.argsort(items, kind="stable")  # item after item
    bounds = np.concatenate([[0], counts.cumsum()])
    ends = np.repeat(offsets[1:], np.diff(offsets))  # of each position's sequence
    sizes, begin = np.zeros(n_items + 1, np.int64), 0
    followers: list[NDArray[np.int32]] = []
    values: list[NDArray[np.float16]] = []
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
    del positions, ends, rows, columns, sums, kept
    return _table(sizes.cumsum(), _joined(followers), _joined(values).astype(np.float32))


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Join the parts and free them, for memory may not hold both."""
    whole: NDArray[Any] = np.concatenate(parts)
    parts.clear()
    return whole


def _table(offsets: Index, items: NDArray[np.int32], values: NDArray[np.float32]) -> csr_array:
    """Return the table whose row i is the entries from ``offsets[i]`` to ``offsets[i + 1]``."""
    n_items = len(offsets) - 1
    return csr_array((values, items, offsets), shape=(n_items, n_items))


@dataclass(frozen=True)
class Memory:
    """Adds w log(1 + m_j / SCALE) to the score of item j, with m of :meth:`sums`.

    Attributes:
        transitions: T, of :func:`count_transitions`. *Shape:* (N, N)
        weight: w, at least 0.
    """

    transitions: csr_array
    weight: float

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_items: int) -> Memory:
        """Make a memory of what :meth:`state` returned."""
        offsets, items, values = (np.asarray(state[name]) for name in ("offsets", "items", "values"))
        if len(offsets) != n_items + 1:
            raise UserError(f"its `memory` is of {len(offsets) - 2} items, not of {n_items - 1}; train the model again")
        return cls(_table(offsets, items, values.astype(np.float32)), float(state["weight"]))

    def state(self) -> dict[str, Any]:
        """Return arrays and numbers, by names, that :meth:`from_state` takes."""
        table = self.transitions
        offsets, items = table.indptr.astype(np.int64), table.indices.astype(np.int32)
        return {"offsets": offsets, "items": items, "values": table.data.astype(np.float16), "weight": self.weight}

    def sums(self, item_seq: Index, lengths: Index) -> csr_array:
        """Return m: m_j is the sum over the items i of a history of DECAY^age T[i, j].

        The latest item has the age 0; the SPAN latest are looked up.

        *Shape:* (B, L), (B,) -> (B, N)
        """
        n_items = self.transitions.shape[0]
        ages = np.arange(min(SPAN, item_seq.shape[1]))
        columns = lengths[:, None] - 1 - ages  # (B, SPAN)
        items = np.take_along_axis(item_seq, np.maximum(columns, 0), 1)
        known = (columns >= 0) & (items < n_items)
        weights = np.broadcast_to((DECAY**ages).astype(np.float32), items.shape)[known]
        offsets = np.concatenate([[0], known.sum(1).cumsum()])
        return csr_array(csr_array((weights, items[known], offsets), (len(items), n_items)) @ self.transitions)

    def additions(self, item_seq: Index, lengths: Index) -> tuple[Index, Index, NDArray[np.float32]]:
        """Return row, item and addition, by row; other scores get nothing.

        *Shape:* (B, L), (B,) -> (P,) each
        """
        sums = self.sums(item_seq, lengths)
        logarithms = np.log(1 + sums.data / np.float32(SCALE))  # log1p is six times slower
        rows = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        return rows, sums.indices.astype(np.int64), np.float32(self.weight) * logarithms


class Remembering(Protocol):
    """A model that may have a memory."""

    memory: Memory | None


def fit_memory(model: Remembering, transitions: csr_array, validate: Callable[[], Validation]) -> list[Validation]:
    """Give a model the memory whose weight validates best, or none; return the validation without one, and the best."""
    memories = [None, *(Memory(transitions, weight) for weight in _MEMORY_WEIGHTS)]
    found = []
    for model.memory in memories:
        found.append(validate())
    best = max(range(len(found)), key=lambda number: found[number][0])
    model.memory = memories[best]
    return [found[0], found[best]]


def _pairs(items: NDArray[Any], positions: Index, ends: Index, n_items: int) -> tuple[Index, Index, Floats]:
    """Return item, follower and the sum of DECAY^(distance - 1) of each pair at some positions, by item, by follower.

    *Shape:* (P,) each
    """
    first, after = items[positions].astype(np.int64), ends[positions] - positions
    keys = []
    for distance in range(1, SPAN + 1):
        before = after > distance
        pairs = pair_keys(first[before], items[positions[before] + distance], n_items)
        keys.append(pair_keys(pairs, distance, SPAN + 1))
    key = np.concatenate(keys)
    key.sort()
    pair, distances = split_keys(key, SPAN + 1)
    begin = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = np.add.reduceat(DECAY ** np.arange(-1.0, SPAN)[distances], begin) if len(begin) else np.zeros(0)
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
