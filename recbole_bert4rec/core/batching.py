"""Shuffled batches of sequences with similar lengths, and the windows that are cut out of long sequences."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from recbole_bert4rec.core.segments import index_within_segment

_POOL = 100  # batches whose sequences are sorted by length together


class LengthGroupedBatches:
    """Yield batches of sequences with similar lengths, so that little of a batch is padding; see :meth:`resize`.

    The order is a pure function of (seed, epoch). Each epoch shuffles all sequences, sorts each pool of 100 batches by
    length, cuts the pool into batches, and shuffles the batches. With several ranks, every rank draws the same order
    and takes its share of each batch, so that together they see what one process sees. A batch has at least one
    sequence for each rank; where there are fewer in all, some ranks see the first one again.

    Attributes:
        epoch: whose batches an iteration yields.
    """

    def __init__(
        self,
        lengths: Tensor,
        items: int,
        seed: int,
        shuffle: bool = True,
        rank: int = 0,
        world_size: int = 1,
        sequences: int | None = None,
    ) -> None:
        self.lengths = lengths
        self.seed = seed
        self.shuffle = shuffle
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.resize(items, sequences)

    def resize(self, items: int, sequences: int | None = None) -> None:
        """Say how many items, padding included, or how many sequences a batch of all ranks together has at most.

        Where items count, all sequences are sorted together, so that every epoch has equally many batches.
        """
        self._items, self._sequences = items, sequences
        self._count = len(self._batches())  # the same in every epoch

    def __len__(self) -> int:
        return self._count

    def padding_share(self) -> float:
        """Return the share of an epoch's positions that are padding, over all ranks."""
        longest = sum(int(self.lengths[batch].max()) * len(batch) for batch in self._batches())
        return 1.0 - int(self.lengths.sum()) / longest

    def __iter__(self) -> Iterator[list[int]]:
        return iter([batch[self.rank :: self.world_size] or batch[:1] for batch in self._batches()])

    def _batches(self) -> list[list[int]]:
        """Return the batches of this epoch, of all ranks."""
        count = len(self.lengths)
        generator = epoch_generator(self.seed, self.epoch)
        order = torch.randperm(count, generator=generator) if self.shuffle else torch.arange(count)
        batches: list[Tensor] = []
        size = None if self._sequences is None else max(self._sequences, self.world_size)
        for pool in order.split(max(1, count) if size is None else _POOL * size):
            if self.shuffle:
                pool = pool[torch.argsort(self.lengths[pool], stable=True, descending=True)]
            batches.extend(self._by_items(pool) if size is None else pool.split(size))
        if len(batches) > 1 and len(batches[-1]) < self.world_size:
            batches[-2:] = [torch.cat(batches[-2:])]
        if self.shuffle:
            batches = [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
        return [batch.tolist() for batch in batches]

    def _by_items(self, pool: Tensor) -> Iterator[Tensor]:
        """Yield as many sequences as fit the budget of items; the pool need not be sorted."""
        while len(pool):
            longest = self.lengths[pool[: self._items]].cummax(0).values
            fits = int((longest * torch.arange(1, len(longest) + 1) <= self._items).sum())
            fits = max(self.world_size, fits)
            yield pool[:fits]
            pool = pool[fits:]


def similar_lengths(lengths: Tensor) -> list[Tensor]:
    """Return the rows of each group of similar lengths: none is more than half padding, but for up to 8 items.

    *Shape:* (B,) of the lengths
    """
    group = torch.bucketize(lengths, 2 ** torch.arange(3, 32, device=lengths.device))
    return [(group == number).nonzero().squeeze(1) for number in group.unique()]


def epoch_generator(seed: int, epoch: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator that depends on (seed, epoch) alone: a resumed run draws what an uninterrupted one draws."""
    return torch.Generator(device).manual_seed((seed * 1_000_003 + epoch) % 2**63)


def random_windows(begin: Tensor, length: Tensor, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one window of each slice, all windows alike; a shorter slice is its own window.

    *Shape:* (S,), (S,) -> (S,), (S,) of flat positions and lengths
    """
    choices = (length - width).clamp(min=0) + 1
    draw = torch.rand(len(length), generator=generator, dtype=torch.float64)
    return begin + (draw * choices).long().clamp(max=choices - 1), length.clamp(max=width)


def last_windows(begin: Tensor, length: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the most recent ``width`` items of each slice, as :func:`random_windows` returns them."""
    return begin + (length - width).clamp(min=0), length.clamp(max=width)


def covering_windows(begin: Tensor, length: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cut each slice, from its end, into windows in which each item but the slice's first stands after another once.

    The last item of a window is the first of the next. The oldest window is as short as it must be.

    *Shape:* (S,), (S,) -> (W,), (W,), (W,) of slices, flat positions and lengths
    """
    step = width - 1
    count = ((length - 1 + step - 1) // step).clamp(min=1)
    owner = torch.repeat_interleave(torch.arange(len(begin)), count)
    end = length[owner] - index_within_segment(owner, count) * step
    offset = (end - width).clamp(min=0)
    return owner, begin[owner] + offset, end - offset


def sliding_windows(begin: Tensor, length: Tensor, width: int, step: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return all windows of each slice, every ``step`` items from its end, and the window at its beginning.

    These are the windows of the authors' code. ``step`` is at most ``width``, so that no item is left out.

    *Shape:* (S,), (S,) -> (W,), (W,), (W,) of slices, flat positions and lengths
    """
    last = (length - width).clamp(min=0)  # start of the last window of each slice
    count = (last + step - 1) // step + 1
    owner = torch.repeat_interleave(torch.arange(len(begin)), count)
    nth = index_within_segment(owner, count)  # counted from the end of the slice
    offset = (last[owner] - nth * step).clamp(min=0)
    return owner, begin[owner] + offset, length[owner].clamp(max=width)
