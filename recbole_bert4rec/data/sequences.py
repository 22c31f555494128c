"""User histories as one flat array: a row is a slice of it, not a padded copy (design decision 1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recbole_bert4rec.constants import PADDING


@dataclass(frozen=True)
class Sequences:
    """Items oldest first, sequence after sequence; a sequence is a user's (or a row's of a benchmark file).

    Attributes:
        items: internal item ids, int32. *Shape:* (T,)
        offsets: sequence s is ``items[offsets[s]:offsets[s + 1]]``, int64. *Shape:* (U + 1,)
        times: of the items, float64, where the model looks at them. *Shape:* (T,)
    """

    items: Tensor
    offsets: Tensor
    times: Tensor | None = None

    @classmethod
    def from_sorted(cls, users: Tensor, items: Tensor, n_users: int, times: Tensor | None = None) -> Sequences:
        """Build from interactions sorted by user, then time.

        Args:
            users: internal user ids, ascending. *Shape:* (T,)
            items: internal item ids. *Shape:* (T,)
            n_users: U, the number of user ids including padding.
            times: kept with the items. *Shape:* (T,)
        """
        offsets = torch.searchsorted(users.contiguous(), torch.arange(n_users + 1))
        return cls(items.to(torch.int32), offsets, times)

    def windows(self, begin: Tensor, length: Tensor, width: int) -> Tensor:
        """Copy out ``items[begin:begin + length]`` for each row, padded on the right to ``width``.

        Args:
            begin: first position of each row. *Shape:* (B,)
            length: items of each row, at most ``width``. *Shape:* (B,)

        Returns:
            Item ids, int64. *Shape:* (B, width)
        """
        return _cut(self.items, begin, length, width).long()

    def times_of(self, begin: Tensor, length: Tensor, width: int) -> Tensor:
        """The times of :meth:`windows`, 0 at padding. *Shape:* (B, width)"""
        assert self.times is not None
        return _cut(self.times, begin, length, width)

    def before(self, sequences: Tensor, targets: Tensor, max_length: int) -> tuple[Tensor, Tensor]:
        """Where what had been done before the interaction at flat position ``targets`` stands.

        Args:
            sequences: the sequence of each target. *Shape:* (B,)
            targets: flat positions of the items to predict. *Shape:* (B,)
            max_length: only the most recent ``max_length`` items are kept.

        Returns:
            First positions and lengths of the histories, as :meth:`windows` takes them, int64. *Shape:* (B,), (B,)
        """
        begin = torch.maximum(self.offsets[sequences], targets - max_length)
        return begin, targets - begin

    def seen(self, sequences: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """All items before each target, uncut, as (row, item) index pairs of a score matrix, each once.

        Returns:
            Two int64 tensors of equal length: row in 0..B-1, ascending, and item id.
        """
        begin = self.offsets[sequences]
        length = targets - begin
        rows = torch.repeat_interleave(torch.arange(len(sequences)), length)
        first = torch.cumsum(length, 0) - length  # where each row starts in the output
        position = torch.arange(len(rows)) - first[rows] + begin[rows]
        items = self.items[position].long()
        beyond = int(items.max()) + 1 if len(items) else 1
        pairs = torch.unique(rows * beyond + items)
        return pairs // beyond, pairs % beyond

    def longest_slices(self, users: Tensor, sequences: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One slice a user, from the beginning of its sequence to its last target, which is part of it.

        A user without a row has no slice, so nothing leaks from other parts of the data. Where a user's rows lie in
        several sequences (prefixes of a benchmark file), the longest slice counts.

        Args:
            users: user of each row. *Shape:* (R,)
            sequences: sequence of each row. *Shape:* (R,)
            targets: flat position of each row's target. *Shape:* (R,)

        Returns:
            The users that have a slice, ascending, their first positions and their lengths. *Shape:* (S,) each.
        """
        length = targets + 1 - self.offsets[sequences]
        longest = torch.zeros(int(users.max()) + 1 if len(users) else 0, dtype=torch.int64)
        longest.scatter_reduce_(0, users, length, reduce="amax")
        row = (length == longest[users]).nonzero().squeeze(1).flip(0)  # of equally long ones the last row counts
        present, first = np.unique(users[row].numpy(), return_index=True)
        row = row[torch.from_numpy(first)]
        return torch.from_numpy(present), self.offsets[sequences[row]], length[row]


def _cut(values: Tensor, begin: Tensor, length: Tensor, width: int) -> Tensor:
    """``values[begin:begin + length]`` of each row, 0 after it. *Shape:* (T,), (B,), (B,) -> (B, width)"""
    column = torch.arange(width)
    index = (begin.unsqueeze(1) + column).clamp(max=len(values) - 1)
    return values[index].masked_fill(column >= length.unsqueeze(1), PADDING)


def order_by_user_and_time(users: Tensor, times: Tensor) -> Tensor:
    """Positions in order of user, then time; ties stay as they are.

    Times are sorted as integers of the same order (their bits, with those of negative numbers turned over): torch
    sorts integers by radix, five times faster than floats.

    Args:
        users: internal user ids. *Shape:* (T,)
        times: float32 or float64, no NaN. *Shape:* (T,)

    Returns:
        int64. *Shape:* (T,)
    """
    whole = torch.int32 if times.dtype == torch.float32 else torch.int64
    bits = (times + 0.0).view(whole)  # -0.0 becomes 0.0
    key = torch.where(bits < 0, bits ^ torch.iinfo(whole).max, bits)
    order = torch.sort(key, stable=True).indices
    return order[torch.sort(users[order], stable=True).indices]
