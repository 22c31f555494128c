"""Layers of each position alone, on a processor faster than torch's own: dropout, and products in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from recbole_bert4rec.core.fast.products import onednn_multiplies

_BLOCK = 2048
"""Positions of a block."""
_LAST = 64
"""The last block's are rounded up to a multiple of it: oneDNN makes a kernel for each shape, in a millisecond."""


class Dropout(nn.Module):
    """Zero each element with probability ``p`` (to the nearest 1/65536), scale the rest by 1 / (1 - p).

    On other devices this is torch's own dropout. The random bits come from torch's global generator, as for
    ``nn.Dropout``.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, hidden: Tensor) -> Tensor:
        """Drop elements in training only.

        *Shape:* any in, the same out
        """
        if not self.training or self.p == 0.0:
            return hidden
        if hidden.device.type != "cpu":
            return F.dropout(hidden, self.p)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        words = torch.empty((hidden.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = words.view(torch.int16)[: hidden.numel()].view(hidden.shape)
        keep = bits >= dropped - 2**15
        return hidden * (keep * (2**16 / (2**16 - dropped)))

    def extra_repr(self) -> str:
        """Return what ``print(model)`` shows between the parentheses."""
        return f"p={self.p}"


class Linear(nn.Linear):
    """torch's linear layer, computed by :func:`linear`."""

    def forward(self, hidden: Tensor, outputs: slice | None = None) -> Tensor:
        """Return x W^T + b, or some of its columns.

        *Shape:* (..., I) -> (..., O)
        """
        if outputs is None:
            return linear(hidden, self.weight, self.bias)
        return linear(hidden, self.weight[outputs], self.bias[outputs])


def linear(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W^T + b.

    *Shape:* (..., I), (O, I), (O,) -> (..., O)
    """
    if not _in_blocks(hidden):
        return F.linear(hidden, weight, bias)
    return _apply(None, hidden, weight, bias, weight, bias)


def feed_forward(hidden: Tensor, inner: Linear, activation: Callable[[Tensor], Tensor], output: Linear) -> Tensor:
    """Return FFN(x) = activation(x W_1 + b_1) W_2 + b_2 (equation 3).

    In blocks the inner layer is not kept: the gradients compute it again.

    *Shape:* (..., H) in, out
    """
    if not _in_blocks(hidden):
        return F.linear(activation(inner(hidden)), output.weight, output.bias)
    return _apply(activation, hidden, inner.weight, inner.bias, output.weight, output.bias)


def _in_blocks(hidden: Tensor) -> bool:
    """Return whether blocks are faster: not with bfloat16, whose matrices are half as large."""
    return hidden.device.type == "cpu" and onednn_multiplies() and not torch.is_autocast_enabled("cpu")


def _apply(activation: Callable[[Tensor], Tensor] | None, hidden: Tensor, *weights: Tensor) -> Tensor:
    """Apply :class:`_InBlocks` to all positions, padded to whole blocks."""
    rows = hidden.flatten(0, -2)
    missing = -len(rows) % _LAST
    padded = F.pad(rows, [0, 0, 0, missing]) if missing else rows
    transformed: Tensor = _InBlocks.apply(activation, padded, *weights)  # type: ignore[no-untyped-call]
    shaped: Tensor = transformed[: len(rows)].unflatten(0, hidden.shape[:-1])
    return shaped


class _InBlocks(torch.autograd.Function):
    """Two affine maps with an activation between them; without an activation the first one alone."""

    @staticmethod
    def forward(
        ctx: Any,
        activation: Callable[[Tensor], Tensor] | None,
        hidden: Tensor,
        inner_weight: Tensor,
        inner_bias: Tensor,
        output_weight: Tensor,
        output_bias: Tensor,
    ) -> Tensor:
        ctx.activation = activation
        ctx.save_for_backward(hidden, inner_weight, inner_bias, output_weight)
        transformed = hidden.new_empty(len(hidden), len(output_weight))
        for part in _parts(hidden):
            rows = hidden[part]
            if activation is not None:
                rows = activation(torch.addmm(inner_bias, rows, inner_weight.T))
            torch.addmm(output_bias, rows, output_weight.T, out=transformed[part])
        return transformed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, inner_weight, inner_bias, output_weight = ctx.saved_tensors
        activation = ctx.activation
        gradient = gradient.contiguous()
        of_hidden = torch.empty_like(hidden)
        of_inner, of_inner_bias, of_output = map(torch.zeros_like, (inner_weight, inner_bias, output_weight))
        for part in _parts(hidden):
            rows, of_rows = hidden[part], gradient[part]
            if activation is not None:
                inner = torch.addmm(inner_bias, rows, inner_weight.T).requires_grad_()
                with torch.enable_grad():
                    activated = activation(inner)
                of_output.add_(of_rows.T @ activated.detach())
                (of_rows,) = torch.autograd.grad(activated, inner, of_rows @ output_weight)
                of_inner_bias.add_(of_rows.sum(0))
            of_inner.add_(of_rows.T @ rows)
            torch.mm(of_rows, inner_weight, out=of_hidden[part])
        of_output_bias = gradient.sum(0)
        if activation is None:
            return None, of_hidden, of_inner, of_output_bias, None, None
        return None, of_hidden, of_inner, of_inner_bias, of_output, of_output_bias


def _parts(rows: Tensor) -> Iterator[slice]:
    for start in range(0, len(rows), _BLOCK):
        yield slice(start, start + _BLOCK)
