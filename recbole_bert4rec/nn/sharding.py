"""The item table shared out over processes by rows: who holds which items, and how the others get at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.constants import PADDING

_BLOCK = 4096
"""Rows that one generator draws, so that a row starts alike whoever holds it."""


class Shard:
    """The rows of the item table that this process holds.

    Items and [MASK], the ids 1 to N, are dealt out in order, equally many to each process, the rest to the last.
    A process numbers its own anew from 1. Its row 0 is padding, and stands for all items that it does not hold: the row
    is zero and has no gradient.

    Collectives have a group of their own, so that those of DistributedDataParallel may come between them.

    Args:
        n_items: N, padding counted; also the id of [MASK].
        rank: number of this process.
        world: number of processes.
        seed: of the first values of the rows, which are the same for any number of processes.
    """

    def __init__(self, n_items: int, rank: int = 0, world: int = 1, seed: int = 0) -> None:
        self.rank, self.world, self.seed = rank, world, seed
        self._each = -(-n_items // world)
        self.first, last = 1 + rank * self._each, min((rank + 1) * self._each, n_items)
        self._stop = last + 1
        self.n_items = min(self._stop, n_items) - self.first + 1
        self.group = dist.new_group() if world > 1 else None

    def __deepcopy__(self, memo: object) -> Shard:
        """A copied model talks in the same group."""
        return self

    @property
    def widest(self) -> int:
        """Most rows that a process holds, padding counted."""
        return self._each + 1

    def own(self, ids: Tensor) -> Tensor:
        """Return the row of each id here; padding for those that another process holds.

        *Shape:* any in, out
        """
        here = (ids >= self.first) & (ids < self._stop)
        return torch.where(here, ids - (self.first - 1), PADDING)

    def ids(self, rows: Tensor) -> Tensor:
        """Return the ids of rows of this process that hold an item; the inverse of :meth:`own`.

        *Shape:* any in, out
        """
        return rows + (self.first - 1)

    def part(self, values: Tensor) -> Tensor:
        """Return this process's part of values of all items, padding first.

        *Shape:* (N, ...) -> (n_items, ...)
        """
        return torch.cat([values[:1], values[self.first : self.first + self.n_items - 1]])

    def lookup(self, ids: Tensor, rows: Callable[[Tensor], Tensor]) -> Tensor:
        """Return vectors of items from the processes that hold them; every process must call it.

        Args:
            ids: those that this process needs; each one travels once. *Shape:* any
            rows: gives the vectors of rows of this process, (R,) -> (R, D); gradients pass through it.

        Returns:
            *Shape:* (*ids.shape, D)
        """
        if self.world == 1:
            return rows(self.own(ids))
        wanted, place = torch.unique(ids, return_inverse=True)
        owner = (wanted - 1).clamp(min=0) // self._each
        sent = torch.bincount(owner, minlength=self.world)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self.group)
        splits = received.tolist(), sent.tolist()
        asked = wanted.new_empty(int(received.sum()))
        dist.all_to_all_single(asked, wanted, *splits, group=self.group)
        found: Tensor = _Exchange.apply(rows(self.own(asked)), *splits, self.group)  # type: ignore[no-untyped-call]
        return F.embedding(place, found)

    def gather(self, values: Tensor) -> Tensor:
        """Return the rows of all processes, one process after the other; gradients go back to whose they are.

        *Shape:* (R, ...) -> (sum of R, ...)
        """
        if self.world == 1:
            return values
        counts = self._counts(len(values))
        padded = F.pad(values, [0, 0] * (values.dim() - 1) + [0, max(counts) - len(values)])
        gathered: tuple[Tensor, ...] = _Gather.apply(padded, self.group)  # type: ignore[no-untyped-call]
        return torch.cat([part[:count] for part, count in zip(gathered, counts, strict=True)])

    def rows_before(self, count: int) -> int:
        """Return how many rows come before this process's in :meth:`gather`."""
        return 0 if self.world == 1 else sum(self._counts(count)[: self.rank])

    def _counts(self, count: int) -> list[int]:
        counts = [torch.empty(1, dtype=torch.int64) for _ in range(self.world)]
        dist.all_gather(counts, torch.tensor([count]), group=self.group)
        return [int(one) for one in counts]

    def stacked(self, values: Tensor) -> Tensor:
        """Return the tensors of all processes, which are of one shape, without a gradient.

        *Shape:* (...) -> (processes, ...)
        """
        if self.world == 1:
            return values.detach().unsqueeze(0)
        parts = [torch.empty_like(values) for _ in range(self.world)]
        dist.all_gather(parts, values.detach().contiguous(), group=self.group)
        return torch.stack(parts)

    @torch.no_grad()
    def draw_(self, table: Tensor, std: float) -> None:
        """Draw the rows of a table from a normal distribution cut at two standard deviations; padding is zero.

        *Shape:* (n_items + 1, H)
        """
        table.zero_()
        for start in range((self.first // _BLOCK) * _BLOCK, self._stop, _BLOCK):
            generator = torch.Generator().manual_seed(self.seed + start)
            block = torch.empty(_BLOCK, table.shape[1])
            nn.init.trunc_normal_(block, std=std, a=-2 * std, b=2 * std, generator=generator)
            low, high = max(start, self.first), min(start + _BLOCK, self._stop)
            table[low - self.first + 1 : high - self.first + 1] = block[low - start : high - start]


class _Exchange(torch.autograd.Function):
    """``all_to_all_single`` of rows; the gradients travel back."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.way_back = received, sent, group
        found = rows.new_empty(sum(received), *rows.shape[1:])
        dist.all_to_all_single(found, rows.contiguous(), received, sent, group=group)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        sent, received, group = ctx.way_back
        back = gradient.new_empty(sum(received), *gradient.shape[1:])
        dist.all_to_all_single(back, gradient.contiguous(), received, sent, group=group)
        return back, None, None, None


class _Gather(torch.autograd.Function):
    """``all_gather`` of equally many rows; each process gets the sum of the gradients of its own."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, rows.contiguous(), group=group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        sent = torch.stack(gradients)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=ctx.group)
        return received.sum(0), None


class ShardedEmbedding(nn.Module):
    """An embedding whose rows lie in several processes; ids and vectors as of ``nn.Embedding``.

    Args:
        shard: the rows of this process.
        hidden_size: H.
        sparse: make the gradient of looked up rows a sparse tensor, which is added in place to the dense one of a
            softmax over all items, if there is one. Autograd would take the memory of a third table for the sum.
    """

    def __init__(self, shard: Shard, hidden_size: int, sparse: bool) -> None:
        super().__init__()
        self.shard, self.sparse = shard, sparse
        self.weight = nn.Parameter(torch.empty(shard.n_items + 1, hidden_size))  # the last row: [MASK], or nothing

    def forward(self, ids: Tensor) -> Tensor:
        """Look vectors up; every process must call it.

        *Shape:* any -> (*ids.shape, H)
        """
        return self.shard.lookup(ids, self.rows)

    def rows(self, rows: Tensor) -> Tensor:
        """Return rows of this process.

        *Shape:* any -> (*rows.shape, H)
        """
        table: Tensor = self.weight
        if self.sparse and self.weight.requires_grad and torch.is_grad_enabled():
            table = table.detach().requires_grad_()  # of the same memory, with a gradient of its own
            table.register_post_accumulate_grad_hook(self._add_gradient)
        return F.embedding(rows, table, padding_idx=PADDING, sparse=self.sparse)

    def _add_gradient(self, table: Tensor) -> None:
        if self.weight.grad is None:
            self.weight.grad = table.grad
        elif table.grad is not None:
            self.weight.grad.add_(table.grad)
