"""Softmax cross-entropy over the whole catalogue without the matrix of logits; gradients come with the value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LOG2_E = 1 / math.log(2)
_KEPT = 1 << 23  # exponentials kept at once: so many rows of them as fit, all items
_LEAST_ROWS = 32  # fewer make the products slow: a million items take 128 MB
_BLOCK = {"cpu": 1 << 20, "cuda": 1 << 24}  # logits made at once; on a processor, what stays in its cache


class Raised(NamedTuple):
    """Logits that are raised by one learnt number: ``seen_bias`` of the model.

    Attributes:
        by: the number, a scalar.
        rows, items: which logits; each pair once, rows ascending. *Shape:* (P,) each
    """

    by: Tensor
    rows: Tensor
    items: Tensor


def cross_entropy(
    hidden: Tensor, item_embedding: Tensor, bias: Tensor, labels: Tensor, weights: Tensor, raised: Raised | None = None
) -> Tensor:
    """Softmax over the whole catalogue (equations 7 and 8): sum_m w_m (logsumexp_v s_mv - s_m,label).

    Padding (item 0) is no item: it takes no part in the softmax. The M x N logits are made in blocks, and with them
    the gradients, so that memory beyond the gradients does not grow with M. Under autocast with
    bfloat16 the operands of the products, the exponentials among them, are rounded to it; sums and gradients are fp32.

    Args:
        hidden: *Shape:* (M, H)
        item_embedding: rows of the N items, padding first; rows after them take no part. *Shape:* (N or more, H)
        bias: *Shape:* (N,)
        labels: *Shape:* (M,)
        weights: *Shape:* (M,)
        raised: logits with an addition.

    Returns:
        A scalar; its gradient can be asked for once.
    """
    inputs = hidden, item_embedding, bias, labels, weights, *(raised or (None, None, None))
    loss: Tensor = _CrossEntropy.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss


class _Operands(NamedTuple):
    """Of the products: (R, H), (N, H), in the type of the products, and (N,)."""

    hidden: Tensor
    table: Tensor
    bias: Tensor


class _Block(NamedTuple):
    """A block of the softmax before it is divided: exp(logit - highest) (R, W), highest (R,), their sum (R,)."""

    items: slice
    exponentials: Tensor
    highest: Tensor
    total: Tensor


class _Gradients(NamedTuple):
    hidden: Tensor
    table: Tensor
    bias: Tensor
    by: Tensor


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        hidden, item_embedding, bias, labels, weights, by, rows, items = arguments
        device = hidden.device.type
        rounded = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
        kind = torch.bfloat16 if rounded else bias.dtype  # float16 is too small for unscaled gradients
        gradients = _Gradients(
            torch.zeros_like(hidden, dtype=bias.dtype),
            torch.zeros_like(item_embedding),
            torch.zeros_like(bias),
            torch.zeros_like(bias[0]),
        )
        low, table, weights = hidden.to(kind), item_embedding.to(kind), weights.to(bias.dtype)
        n_rows = min(len(hidden), max(_LEAST_ROWS, _KEPT // len(bias)))
        kept = _memory(n_rows * len(bias), low)
        loss: Tensor = bias.new_zeros(())
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden), n_rows):
                part = slice(start, start + n_rows)
                raised = None if by is None else _of_rows(Raised(by, rows, items), start, start + n_rows)
                operands = _Operands(low[part], table, bias)
                own = gradients._replace(hidden=gradients.hidden[part])
                loss += _add_rows(operands, labels[part], weights[part], raised, kept, own)
        ctx.gradients = gradients._replace(hidden=gradients.hidden.to(hidden.dtype))
        ctx.has_raised = by is not None
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss were asked for before; compute the loss again")
        hidden, table, bias, by = (one.mul_(gradient) for one in ctx.gradients)
        ctx.gradients = None
        return hidden, table, bias, None, None, by if ctx.has_raised else None, None, None


_memories: dict[tuple[torch.device, torch.dtype], Tensor] = {}


def _memory(size: int, like: Tensor) -> Tensor:
    """Memory that the next call gets again: new pages for every batch would cost as much as the exponentials."""
    key = like.device, like.dtype
    if key not in _memories or len(_memories[key]) < size:
        _memories[key] = like.new_empty(size)
    return _memories[key]


def _add_rows(
    operands: _Operands, labels: Tensor, weights: Tensor, raised: Raised | None, kept: Tensor, gradients: _Gradients
) -> Tensor:
    """Loss of some rows, whose gradients are added; ``kept`` is memory for R x N exponentials."""
    hidden, table, bias = operands
    blocks = list(_blocks(operands, raised, kept))
    logsumexp = torch.stack([block.highest + block.total.log() for block in blocks]).logsumexp(0)  # (R,)
    for block in blocks:
        share = weights * (block.highest - logsumexp).exp()  # what makes the block's numbers w_m p_mv
        scaled = hidden * share.unsqueeze(1).to(hidden.dtype)
        gradients.hidden.add_((block.exponentials @ table[block.items]) * share.unsqueeze(1))
        _add_product(gradients.table[block.items], block.exponentials.T, scaled)
        _add_product(gradients.bias[block.items], block.exponentials.T, share.to(hidden.dtype))
        if raised is not None:
            own = _of_items(raised, block.items)
            shown = block.exponentials[own.rows, own.items - block.items.start]
            gradients.by.add_(shown.to(bias.dtype) @ share[own.rows])
    scores = (hidden * table[labels]).to(bias.dtype).sum(1) + bias[labels]
    gradients.hidden.sub_(weights.unsqueeze(1) * table[labels])
    gradients.table.index_add_(0, labels, hidden.to(bias.dtype) * weights.unsqueeze(1), alpha=-1)
    gradients.bias.index_add_(0, labels, weights, alpha=-1)
    if raised is not None:
        hit = torch.zeros_like(weights).index_add_(0, raised.rows, (raised.items == labels[raised.rows]).to(bias.dtype))
        scores = scores + raised.by * hit
        gradients.by.sub_(hit @ weights)
    return (logsumexp - scores) @ weights


def _blocks(operands: _Operands, raised: Raised | None, kept: Tensor) -> Iterator[_Block]:
    hidden, table, bias = operands
    n_rows = len(hidden)
    width = max(1, _BLOCK["cuda" if hidden.is_cuda else "cpu"] // n_rows)
    binary = hidden * _LOG2_E  # powers of 2 take less time than those of e
    for begin in range(1, len(bias), width):
        items = slice(begin, min(begin + width, len(bias)))
        memory = kept[n_rows * begin : n_rows * items.stop].view(n_rows, -1)
        logits = torch.mm(binary, table[items].T, out=memory).to(bias.dtype).add_(bias[items], alpha=_LOG2_E)
        if raised is not None:
            own = _of_items(raised, items)
            logits.index_put_((own.rows, own.items - begin), own.by.to(bias.dtype) * _LOG2_E, accumulate=True)
        highest = logits.amax(1)
        exponentials = logits.sub_(highest.unsqueeze(1)).exp2_()
        yield _Block(items, memory.copy_(exponentials), highest / _LOG2_E, exponentials.sum(1))


def _add_product(to: Tensor, left: Tensor, right: Tensor) -> None:
    """``to += left @ right``, in one pass where all are of one type."""
    if to.dtype != left.dtype:
        to.add_(left @ right)
    elif right.dim() == 1:
        to.addmv_(left, right)
    else:
        to.addmm_(left, right)


def _of_rows(raised: Raised, start: int, stop: int) -> Raised:
    """The pairs of rows ``start`` to ``stop``, counted from the first of these, by item."""
    bounds = torch.searchsorted(raised.rows, torch.tensor([start, stop], device=raised.rows.device)).tolist()
    rows, items = raised.rows[slice(*bounds)], raised.items[slice(*bounds)]
    items, order = items.sort()
    return Raised(raised.by, rows[order] - start, items)


def _of_items(raised: Raised, items: slice) -> Raised:
    """The pairs of some items; ``raised`` is sorted by item."""
    bounds = torch.searchsorted(raised.items, torch.tensor([items.start, items.stop], device=raised.items.device))
    chosen = slice(*bounds.tolist())
    return Raised(raised.by, raised.rows[chosen], raised.items[chosen])
