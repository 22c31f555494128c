"""Index arithmetic on flat arrays: positions within a segment, and one key for each (row, item) pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # an exported model is asked without torch
    from torch import Tensor

Integers = TypeVar("Integers", "Tensor", NDArray[np.int64])
"""A torch or a numpy array of int64; each function returns the kind that it was given."""


def segment_offsets(lengths: Tensor) -> Tensor:
    """Return the bounds of all segments: segment s spans ``offsets[s]`` to ``offsets[s + 1]``.

    *Shape:* (S,) -> (S + 1,)
    """
    offsets = lengths.new_zeros(len(lengths) + 1)
    offsets[1:] = lengths.cumsum(0)
    return offsets


def index_within_segment(segment: Integers, lengths: Integers) -> Integers:
    """Number the elements of each segment from 0.

    *Shape:* (T,), (S,) -> (T,)
    """
    starts = (lengths.cumsum(0) - lengths)[segment]
    if isinstance(segment, np.ndarray):
        return np.arange(len(segment)) - starts
    return segment.new_ones(len(segment)).cumsum(0) - 1 - starts


def runs(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each run of equal values begins, and how long it is.

    *Shape:* (T,) -> (S,) each
    """
    begin = np.flatnonzero(np.diff(values, prepend=-1))
    return begin, np.diff(begin, append=len(values))


def pair_keys(rows: Integers, items: Integers | int, n_items: int) -> Integers:
    """Give each (row, item) pair one integer; keys sort by row, then by item.

    *Shape:* any that broadcast
    """
    return rows * n_items + items


def split_keys(keys: Integers, n_items: int) -> tuple[Integers, Integers]:
    """Undo :func:`pair_keys`.

    *Shape:* any, of both results as of the keys
    """
    return keys // n_items, keys % n_items
