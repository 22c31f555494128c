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

    Args:
        lengths: elements of each segment; 0 is allowed. *Shape:* (S,)

    Returns:
        Ascending, from 0 to the sum of ``lengths``. *Shape:* (S + 1,)
    """
    offsets = lengths.new_zeros(len(lengths) + 1)
    offsets[1:] = lengths.cumsum(0)
    return offsets


def index_within_segment(segment: Integers, lengths: Integers) -> Integers:
    """Number the elements of each segment from 0.

    Args:
        segment: segment of each element, ascending. *Shape:* (T,)
        lengths: elements of each segment, such as ``bincount(segment)``. *Shape:* (S,)

    Returns:
        Index of each element in its segment. *Shape:* (T,)
    """
    starts = (lengths.cumsum(0) - lengths)[segment]
    if isinstance(segment, np.ndarray):
        return np.arange(len(segment)) - starts
    return segment.new_ones(len(segment)).cumsum(0) - 1 - starts


def runs(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each run of equal values begins, and how long it is.

    Args:
        values: ascending, from 0. *Shape:* (T,)

    Returns:
        *Shape:* (S,) each
    """
    begin = np.flatnonzero(np.diff(values, prepend=-1))
    return begin, np.diff(begin, append=len(values))


def pair_keys(rows: Integers, items: Integers | int, n_items: int) -> Integers:
    """Give each (row, item) pair one integer; keys sort by row, then by item.

    Args:
        rows: *Shape:* any that broadcasts with ``items``.
        items: each in 0..n_items - 1.
        n_items: number of different items.

    Returns:
        ``rows * n_items + items``.
    """
    return rows * n_items + items


def split_keys(keys: Integers, n_items: int) -> tuple[Integers, Integers]:
    """Undo :func:`pair_keys`.

    Args:
        keys: *Shape:* any.
        n_items: as :func:`pair_keys` was given.

    Returns:
        Rows and items. *Shape:* that of ``keys`` each.
    """
    return keys // n_items, keys % n_items
