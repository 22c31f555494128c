"""Softmax cross-entropy over the whole catalogue without the M x N matrix of logits (equations 7 and 8)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from recbole_bert4rec.core.fast.products import by_mkl, faster_products, onednn_multiplies

_LOG2_E = 1 / math.log(2)
_KEPT = 1 << 23  # exponentials kept at once: so many rows of them as fit, all items
_MOST_ROWS = {"cpu": 1 << 10, "cuda": 1 << 20}
_ROWS = 128  # with oneDNN their number is rounded up to a multiple of it, so that it makes few kernels
_LARGE = 1 << 23  # logits, from which on products may be oneDNN's
_LEAST_ROWS = 32  # fewer make the products slow: a million items take 128 MB
_BLOCK = {"cpu": 1 << 20, "cuda": 1 << 24}  # logits made at once; on a processor, what stays in its cache


class LogitOffset(NamedTuple):
    """A learnt number that is added to some logits: ``seen_bias`` of the model.

    Attributes:
        value: the number, a scalar.
        rows: row of each changed logit, ascending; each (row, item) pair stands once. *Shape:* (P,)
        items: item of each changed logit. *Shape:* (P,)
    """

    value: Tensor
    rows: Tensor
    items: Tensor


class Workspace:
    """Memory that successive calls of :func:`cross_entropy` share.

    Fresh pages for every batch would cost as much as the exponentials that are written to them. The memory is freed
    with the workspace, so its owner decides how long it lives; a model keeps one as long as itself. A workspace serves
    one call at a time. A copied or pickled workspace is an empty one.
    """

    def __init__(self) -> None:
        self._memory: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def take(self, size: int, like: Tensor) -> Tensor:
        """Return at least ``size`` uninitialised elements with the device and dtype of ``like``."""
        key = like.device, like.dtype
        if key not in self._memory or len(self._memory[key]) < size:
            self._memory[key] = like.new_empty(size)
        return self._memory[key]

    def __reduce__(self) -> tuple[type[Workspace], tuple[()]]:
        return Workspace, ()


def cross_entropy(
    hidden: Tensor,
    item_embedding: Tensor,
    bias: Tensor,
    labels: Tensor,
    weights: Tensor,
    offset: LogitOffset | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """Return the weighted negative log-likelihood of the labels under the softmax over all items.

    Equation 8 with the softmax of equation 7, and s_mv the logit of item v at masked position m:
    sum_m w_m (logsumexp_v s_mv - s_m,label).

    Padding (item 0) takes no part in the softmax. The logits are made in blocks, and the gradients with them, so that
    memory beyond the gradients does not grow with M. Only gradients that autograd will ask for are made. Under
    autocast with bfloat16 the operands of the products, the exponentials among them, are rounded to it; sums and
    gradients are fp32.

    Rows of the table after the N items take no part. The gradient can be asked for once.

    *Shape:* (M, H), (N or more, H), (N,), (M,), (M,) -> scalar
    """
    value, rows, items = offset or (None, None, None)
    workspace = workspace or Workspace()
    recording = torch.is_grad_enabled()  # inside a Function it is always off
    with faster_products(not hidden.is_cuda and len(hidden) * len(bias) >= _LARGE):
        if onednn_multiplies():
            more = -len(hidden) % _ROWS
            hidden, labels, weights = (
                F.pad(hidden, [0, 0, 0, more]),
                F.pad(labels, [0, more]),
                F.pad(weights, [0, more]),
            )
        loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
            recording, workspace, hidden, item_embedding, bias, labels, weights, value, rows, items
        )
    return loss


class _Operands(NamedTuple):
    """Operands of the products, in their dtype: (R, H) and (N, H); and the bias (N,)."""

    hidden: Tensor
    table: Tensor
    bias: Tensor


class _Block(NamedTuple):
    """Unnormalised softmax of a block of W items: exp(logit - highest) (R, W), highest (R,), and the row sums (R,)."""

    items: slice
    offset: LogitOffset | None  # its items are counted from the block's first
    exponentials: Tensor
    highest: Tensor
    total: Tensor


class _Gradients(NamedTuple):
    """Gradients while they are summed up; None if nobody asks for one."""

    hidden: Tensor | None
    table: Tensor | None
    bias: Tensor | None
    offset: Tensor | None


class _CrossEntropy(torch.autograd.Function):
    """Makes the gradients while it makes the loss, so that no block of logits is computed twice.

    For some rows at once: 1. make the logits in blocks of items and keep their exponentials; 2. the blocks' sums give
    logsumexp, and so the loss; 3. from the exponentials p_mv follows, and the gradients w_m (p_mv - [v is the label])
    times the other factor are added up. ``backward`` only scales them by the incoming gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        recording: bool,
        workspace: Workspace,
        hidden: Tensor,
        item_embedding: Tensor,
        bias: Tensor,
        labels: Tensor,
        weights: Tensor,
        value: Tensor | None,
        rows: Tensor | None,
        items: Tensor | None,
    ) -> Tensor:
        whole = None if value is None or rows is None or items is None else LogitOffset(value, rows, items)
        device = hidden.device.type
        rounded = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
        kind = torch.bfloat16 if rounded else bias.dtype  # float16 is too small for unscaled gradients
        _, _, *needed = ctx.needs_input_grad
        gradients = _Gradients(
            torch.zeros_like(hidden, dtype=bias.dtype) if recording and needed[0] else None,
            torch.zeros_like(item_embedding) if recording and needed[1] else None,
            torch.zeros_like(bias) if recording and needed[2] else None,
            torch.zeros_like(bias[0]) if recording and needed[5] else None,
        )
        low, table, weights = hidden.to(kind), item_embedding.to(kind), weights.to(bias.dtype)
        most = max(_LEAST_ROWS, _KEPT // len(bias))
        n_rows = min(len(hidden), _MOST_ROWS["cuda" if hidden.is_cuda else "cpu"], most)
        memory = workspace.take(n_rows * len(bias), low)
        loss = bias.new_zeros(())
        with torch.autocast(device, enabled=False):
            for start in range(0, len(hidden), n_rows):
                part = slice(start, start + n_rows)
                offset = None if whole is None else _of_rows(whole, start, start + n_rows)
                operands = _Operands(low[part], table, bias)
                blocks = list(_blocks(operands, offset, memory))
                logsumexp = torch.stack([block.highest + block.total.log() for block in blocks]).logsumexp(0)  # (R,)
                loss += _loss_of_rows(operands, labels[part], weights[part], offset, logsumexp)
                of_part = gradients if gradients.hidden is None else gradients._replace(hidden=gradients.hidden[part])
                _add_softmax_gradients(operands, weights[part], blocks, logsumexp, of_part)
                _subtract_label_gradients(operands, labels[part], weights[part], offset, of_part)
        if gradients.hidden is not None:
            gradients = gradients._replace(hidden=gradients.hidden.to(hidden.dtype))
        ctx.gradients = gradients
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss were asked for before; compute the loss again")
        hidden, table, bias, value = (None if total is None else total.mul_(gradient) for total in ctx.gradients)
        ctx.gradients = None
        return None, None, hidden, table, bias, None, None, value, None, None


def _blocks(operands: _Operands, offset: LogitOffset | None, memory: Tensor) -> Iterator[_Block]:
    """Yield the softmax of some rows block by block; the R x N exponentials lie in ``memory``."""
    hidden, table, bias = operands
    n_rows = len(hidden)
    width = max(1, _BLOCK["cuda" if hidden.is_cuda else "cpu"] // n_rows)
    parts = [slice(begin, min(begin + width, len(bias))) for begin in range(1, len(bias), width)]
    binary = hidden * _LOG2_E  # powers of 2 take less time than those of e
    for items, added in zip(parts, _by_items(offset, parts), strict=True):
        block_memory = memory[n_rows * items.start : n_rows * items.stop].view(n_rows, -1)
        logits = torch.mm(binary, table[items].T, out=block_memory).to(bias.dtype).add_(bias[items], alpha=_LOG2_E)
        if added is not None:
            logits.index_put_((added.rows, added.items), added.value.to(bias.dtype) * _LOG2_E, accumulate=True)
        highest = logits.amax(1)
        exponentials = logits.sub_(highest.unsqueeze(1)).exp2_()
        yield _Block(items, added, block_memory.copy_(exponentials), highest / _LOG2_E, exponentials.sum(1))


def _loss_of_rows(
    operands: _Operands, labels: Tensor, weights: Tensor, offset: LogitOffset | None, logsumexp: Tensor
) -> Tensor:
    """Return sum_m w_m (logsumexp_m - s_m,label) over some rows."""
    hidden, table, bias = operands
    scores = (hidden * table[labels]).to(bias.dtype).sum(1) + bias[labels]
    if offset is not None:
        scores = scores + offset.value * _changed_labels(offset, labels, bias)
    return (logsumexp - scores) @ weights


def _add_softmax_gradients(
    operands: _Operands,
    weights: Tensor,
    blocks: list[_Block],
    logsumexp: Tensor,
    gradients: _Gradients,
) -> None:
    """Add the gradients of sum_m w_m logsumexp_v s_mv: those of s_mv are w_m p_mv, with p the softmax."""
    hidden, table, _ = operands
    if all(gradient is None for gradient in gradients):
        return
    for block in blocks:
        share = weights * (block.highest - logsumexp).exp()  # times the block's exponentials it is w_m p_mv
        if gradients.hidden is not None:
            gradients.hidden.add_((block.exponentials @ table[block.items]) * share.unsqueeze(1))
        if gradients.table is not None:
            scaled = hidden * share.unsqueeze(1).to(hidden.dtype)
            _add_product(gradients.table[block.items], block.exponentials.T, scaled)
        if gradients.bias is not None:
            _add_product(gradients.bias[block.items], block.exponentials.T, share.to(hidden.dtype))
        if gradients.offset is not None and block.offset is not None:
            _, rows, items = block.offset
            gradients.offset.add_(block.exponentials[rows, items].to(share.dtype) @ share[rows])


def _subtract_label_gradients(
    operands: _Operands, labels: Tensor, weights: Tensor, offset: LogitOffset | None, gradients: _Gradients
) -> None:
    """Subtract the gradients of sum_m w_m s_m,label."""
    hidden, table, bias = operands
    if gradients.hidden is not None:
        gradients.hidden.sub_(weights.unsqueeze(1) * table[labels])
    if gradients.table is not None:
        gradients.table.index_add_(0, labels, hidden.to(bias.dtype) * weights.unsqueeze(1), alpha=-1)
    if gradients.bias is not None:
        gradients.bias.index_add_(0, labels, weights, alpha=-1)
    if gradients.offset is not None and offset is not None:
        gradients.offset.sub_(_changed_labels(offset, labels, bias) @ weights)


def _changed_labels(offset: LogitOffset, labels: Tensor, like: Tensor) -> Tensor:
    """Return 1 for each row whose label's logit is changed, else 0, in the dtype of ``like``.

    *Shape:* (R,)
    """
    hit = (offset.items == labels[offset.rows]).to(like.dtype)
    return torch.zeros_like(labels, dtype=like.dtype).index_add_(0, offset.rows, hit)


def _add_product(to: Tensor, left: Tensor, right: Tensor) -> None:
    """Add ``left @ right`` to ``to``, in one pass if all are of one dtype."""
    if to.dtype != left.dtype:
        to.add_(left @ right)
    elif right.dim() == 1:
        with by_mkl():  # which is faster with vectors
            to.addmv_(left, right)
    else:
        to.addmm_(left, right)


def _of_rows(offset: LogitOffset, start: int, stop: int) -> LogitOffset:
    """Return the pairs of rows ``start`` to ``stop``; their rows are counted from ``start``."""
    bounds = torch.searchsorted(offset.rows, torch.tensor([start, stop], device=offset.rows.device))
    pairs = slice(*bounds.tolist())
    return LogitOffset(offset.value, offset.rows[pairs] - start, offset.items[pairs])


def _by_items(offset: LogitOffset | None, parts: list[slice]) -> list[LogitOffset | None]:
    """Return the pairs of each block of items, counted from the block's first; the blocks hold all items."""
    if offset is None:
        return [None] * len(parts)
    value, rows, items = offset
    if len(parts) == 1:  # nothing to sort
        return [LogitOffset(value, rows, items - parts[0].start)]
    items, order = items.sort()
    rows = rows[order]
    ends = torch.tensor([part.stop for part in parts], device=items.device)
    bounds = pairwise([0, *torch.searchsorted(items, ends).tolist()])
    return [
        LogitOffset(value, rows[begin:end], items[begin:end] - part.start)
        for part, (begin, end) in zip(parts, bounds, strict=True)
    ]
