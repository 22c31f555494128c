"""User histories as one flat array; a row is a slice of it, not a padded copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, segment_offsets, split_keys
from recbole_bert4rec.system.constants import PADDING

_AT_ONCE = 1 << 20
"""Items that are counted at once, roughly."""


@dataclass(frozen=True)
class Sequences:
    """All interactions, sequence after sequence, oldest first.

    There is one sequence for each user, or one for each row of a benchmark file. A *flat position* is an index into
    ``items``.

    Attributes:
        items: internal item ids, int32. *Shape:* (T,)
        offsets: sequence s is ``items[offsets[s]:offsets[s + 1]]``, int64. *Shape:* (U + 1,)
    """

    items: Tensor
    offsets: Tensor

    def slices(self, begin: Tensor, length: Tensor) -> Sequences:
        """Return slices of the flat array as sequences of their own, in the order in which they are named.

        *Shape:* (B,), (B,) of flat positions and lengths
        """
        row = torch.repeat_interleave(torch.arange(len(begin)), length)
        return Sequences(self.items[begin[row] + index_within_segment(row, length)], segment_offsets(length))

    def counts_in(self, begin: Tensor, length: Tensor, n_items: int) -> Tensor:
        """Count how often each item is in some slices, in memory that does not grow with them.

        *Shape:* (B,), (B,) -> (N,)
        """
        counts = torch.zeros(n_items, dtype=torch.int64)
        sizes = torch.unique_consecutive(length.cumsum(0) // _AT_ONCE, return_counts=True)[1].tolist()
        for part in zip(begin.split(sizes), length.split(sizes), strict=True):
            counts += torch.bincount(self.slices(*part).items, minlength=n_items)
        return counts

    @property
    def lengths(self) -> Tensor:
        """How many items each sequence has, int64. *Shape:* (U,)."""
        return self.offsets[1:] - self.offsets[:-1]

    def windows(self, begin: Tensor, length: Tensor, width: int) -> Tensor:
        """Return ``items[begin:begin + length]`` for each row, padded on the right to ``width``.

        *Shape:* (B,), (B,) -> (B, L)
        """
        column = torch.arange(width)
        index = (begin.unsqueeze(1) + column).clamp(max=len(self.items) - 1)
        return self.items[index].masked_fill(column >= length.unsqueeze(1), PADDING).long()

    def before(self, sequences: Tensor, targets: Tensor, max_length: int) -> tuple[Tensor, Tensor]:
        """Locate up to ``max_length`` items before each target, which is a flat position.

        *Shape:* (B,), (B,) -> (B,), (B,) of flat positions and lengths
        """
        begin = torch.maximum(self.offsets[sequences], targets - max_length)
        return begin, targets - begin

    def seen(self, sequences: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """List the distinct items before each target, of the whole history, as indices into a B x N matrix of scores.

        *Shape:* (B,), (B,) -> (P,), (P,) of rows, ascending, and items
        """
        begin = self.offsets[sequences]
        length = targets - begin
        rows = torch.repeat_interleave(torch.arange(len(sequences)), length)
        items = self.slices(begin, length).items.long()
        n_items = int(items.max()) + 1 if len(items) else 1
        return split_keys(torch.unique(pair_keys(rows, items, n_items)), n_items)

    def adjacent(self) -> tuple[Tensor, Tensor]:
        """Return all pairs of items that follow each other in a sequence.

        *Shape:* (P,) each
        """
        within = torch.ones(max(0, len(self.items) - 1), dtype=torch.bool)
        bounds = self.offsets[(self.offsets > 0) & (self.offsets < len(self.items))]
        within[bounds - 1] = False
        return self.items[:-1][within].long(), self.items[1:][within].long()

    def longest_slices(self, users: Tensor, sequences: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return for each user the slice from the beginning of a sequence to the user's last target, inclusive.

        A user without a row has no slice, so nothing leaks from other parts of the data. If a user's rows lie in
        several sequences (prefixes in a benchmark file), the longest slice is taken.

        *Shape:* (R,), (R,), (R,) -> (S,), (S,), (S,) of users, ascending, flat positions and lengths
        """
        length = targets + 1 - self.offsets[sequences]
        longest = torch.zeros(int(users.max()) + 1 if len(users) else 0, dtype=torch.int64)
        longest.scatter_reduce_(0, users, length, reduce="amax")
        row = (length == longest[users]).nonzero().squeeze(1).flip(0)  # the last row wins a tie
        present, first = np.unique(users[row].numpy(), return_index=True)
        row = row[torch.from_numpy(first)]
        return torch.from_numpy(present), self.offsets[sequences[row]], length[row]


def order_by_user_and_time(users: Tensor, times: Tensor) -> Tensor:
    """Return the permutation that sorts interactions by user, then time; equal times keep their order.

    torch sorts integers by radix, five times as fast as floats. So times are sorted by their bits; those of negative
    numbers are inverted, which gives integers of the same order.

    *Shape:* (T,), (T,) -> (T,)
    """
    whole = torch.int32 if times.dtype == torch.float32 else torch.int64
    bits = (times + 0.0).view(whole)  # -0.0 becomes 0.0
    key = torch.where(bits < 0, bits ^ torch.iinfo(whole).max, bits)
    order = torch.sort(key, stable=True).indices
    return order[torch.sort(users[order], stable=True).indices]
