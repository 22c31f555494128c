"""A memory of what came after what in training: "users who had i went on to j", as a sparse table of logarithms.

Not in the paper. On logs with few interactions an item, a Transformer is hardly better than counting, and the sum of
both is better than either; on dense logs, too. The table is scipy's, so that an exported model needs no torch for it.
The form is after PCTM (Petrov et al., RecSys 2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from recbole_bert4rec.system.errors import UserError

SPAN = 20
"""How far after an item its followers may stand, and how many of the latest items of a history are looked up."""
FADING = 0.6
"""An item of a history counts this many times as much for each item after it."""
KEPT = 400
"""Most followers that are kept of an item; fewer if all items together would have more than _ENTRIES."""
_ENTRIES = 100_000_000
_PAIRS_AT_ONCE = 1 << 23
_MEMORY_WEIGHTS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Weights among which validation chooses."""

Index = NDArray[np.int64]
Validation = tuple[float, dict[str, float]]
"""A score, of which more is better, and the metrics by RecBole's names."""


def count_transitions(items: NDArray[np.int32], offsets: Index, n_items: int, dense: bool) -> csr_array:
    """Count pairs of the training sequences, in memory that does not grow with them.

    T[i, j] = log(1 + C_ij / sqrt(1/4 + n_i n_j / n)). C_ij is the sum of 1 / sqrt(q - p) over positions p < q <= p +
    SPAN of a sequence with the items i and j; of 1 / (q - p) if the log is dense, for where pairs are many, near ones
    alone tell more. n_i counts an item in training, n all, so n_i n_j / n is how often j would be next by chance. An
    item does not follow itself: ``seen_bias`` knows repeats.

    With sequences [1, 2, 3] and [1, 3], T[1, 3] is log(1 + (2 ** -.5 + 1) / (1/4 + 2 * 2 / 5) ** .5).

    The KEPT strongest followers of an item stay, in numbers that float16 has.

    *Shape:* (T,), (S + 1,) -> (N, N)
    """
    counts = np.bincount(items, minlength=n_items)
    kept = max(1, min(KEPT, _ENTRIES // n_items))
    power = 1.0 if dense else 0.5
    positions = np.argsort(items, kind="stable")  # item after item
    bounds = np.concatenate([[0], counts.cumsum()])
    ends = np.repeat(offsets[1:], np.diff(offsets))  # of each position's sequence
    begin, blocks = 0, []
    while begin < n_items:
        end = int(np.searchsorted(bounds, bounds[begin] + _PAIRS_AT_ONCE // SPAN, "right")) - 1
        end = min(max(end, begin + 1), n_items)
        block = _pairs(items, positions[bounds[begin] : bounds[end]], ends, power, begin, (end - begin, n_items))
        chance = np.repeat(counts[begin:end], np.diff(block.indptr)) * (counts[block.indices] / len(items))
        block.data = np.log1p(block.data / np.sqrt(0.25 + chance)).astype(np.float32)
        block = _strongest(block, kept)
        block.data = block.data.astype(np.float16).astype(np.float32)
        blocks.append(block)
        begin = end
    return vstack(blocks, format="csr")


@dataclass(frozen=True)
class Memory:
    """Adds to the score of item j the weight times the sum over a history's items i of h_age T[i, j].

    The latest item has the age 0; the SPAN latest are looked up, h_age is FADING^age, and all h of a history sum to 1.

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
        table = csr_array((values.astype(np.float32), items, offsets), shape=(n_items, n_items))
        return cls(table, float(state["weight"]))

    def state(self) -> dict[str, Any]:
        """Return arrays and numbers, by names, that :meth:`from_state` takes."""
        table = self.transitions
        offsets, items = table.indptr.astype(np.int32), table.indices.astype(np.int32)
        return {"offsets": offsets, "items": items, "values": table.data.astype(np.float16), "weight": self.weight}

    def additions(self, item_seq: Index, lengths: Index) -> tuple[Index, Index, NDArray[np.float32]]:
        """Return row, item and addition, by item; other scores get nothing.

        *Shape:* (B, L), (B,) -> (P,) each
        """
        n_items = self.transitions.shape[0]
        ages = np.arange(min(SPAN, item_seq.shape[1]))
        columns = lengths[:, None] - 1 - ages  # (B, SPAN)
        items = np.take_along_axis(item_seq, np.maximum(columns, 0), 1)
        known = (columns >= 0) & (items < n_items)
        weights = FADING**ages * known
        weights *= self.weight / np.maximum(weights.sum(1, keepdims=True), 1e-9)
        offsets = np.concatenate([[0], known.sum(1).cumsum()])
        table = self.transitions[items[known]]  # a row for each item of a history
        table.data *= np.repeat(weights[known].astype(np.float32), np.diff(table.indptr))
        sums = csr_array((table.data, table.indices, table.indptr[offsets]), (len(items), n_items)).tocsc()
        sums.sum_duplicates()
        return sums.indices.astype(np.int64), np.repeat(np.arange(n_items), np.diff(sums.indptr)), sums.data


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


def _pairs(
    items: NDArray[Any], positions: Index, ends: Index, power: float, begin: int, shape: tuple[int, int]
) -> csr_array:
    """Return C of the items from ``begin``, which are at some positions. *Shape:* ``shape``."""
    after = ends[positions] - positions
    rows, columns, values = list[Index](), list[Index](), list[NDArray[np.float32]]()
    for distance in range(1, SPAN + 1):
        first = positions[after > distance]
        first = first[items[first] != items[first + distance]]
        rows.append(items[first] - begin)
        columns.append(items[first + distance])
        values.append(np.full(len(first), distance**-power, np.float32))
    return csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape)


def _strongest(block: csr_array, kept: int) -> csr_array:
    """Return the ``kept`` largest entries of each row."""
    for row in np.flatnonzero(np.diff(block.indptr) > kept):
        values = block.data[block.indptr[row] : block.indptr[row + 1]]
        values[np.argpartition(values, -kept)[:-kept]] = 0
    block.eliminate_zeros()
    return block
