"""Softmax cross-entropy over the whole catalogue without the M x N matrix of logits (equations 7 and 8)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_LOGITS_AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 26}
"""On a processor, what stays in its cache."""
_LEAST_ROWS = 64
"""Fewer make the products slow: a million items take 256 MB."""


class LogitOffset(NamedTuple):
    """A learnt number that is added to some logits: ``seen_bias`` of the model.

    Attributes:
        value: the number, a scalar.
        rows: row of each changed logit, ascending; each (row, item) pair stands once. *Shape:* (P,)
        items: item of each changed logit, never padding. *Shape:* (P,)
    """

    value: Tensor
    rows: Tensor
    items: Tensor


def cross_entropy(
    hidden: Tensor,
    item_embedding: Tensor,
    bias: Tensor,
    labels: Tensor,
    weights: Tensor,
    offset: LogitOffset | None = None,
) -> Tensor:
    """Return the weighted negative log-likelihood of the labels under the softmax over all items.

    Equation 8 with the softmax of equation 7, and s_mv the logit of item v at masked position m:
    sum_m w_m (logsumexp_v s_mv - s_m,label).

    Padding (item 0) takes no part in the softmax, nor do rows of the table after the N items. The logits are made for
    some rows at once, and the gradients with them, so memory beyond the gradients does not grow with M, and no logit
    is made twice: torch's own loss takes two to three times as long. Under autocast the operands of the products are
    rounded; sums and gradients are not.

    *Shape:* (M, H), (N or more, H), (N,), (M,), (M,) -> scalar
    """
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]  # torch gives it no types
        hidden, item_embedding, bias, labels, weights, *(offset or (None, None, None))
    )
    return loss


class _CrossEntropy(torch.autograd.Function):
    """Makes the gradients with the loss: those of s_mv are w_m (p_mv - [v is the label]), with p the softmax."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        item_embedding: Tensor,
        bias: Tensor,
        labels: Tensor,
        weights: Tensor,
        value: Any,  # these three are tensors, or None
        rows: Any,
        items: Any,
    ) -> Tensor:
        device = hidden.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else bias.dtype
        low, table = hidden.to(kind), item_embedding[1 : len(bias)].to(kind)
        weights = weights.to(bias.dtype).unsqueeze(1)  # (M, 1)
        step = max(_LEAST_ROWS, _LOGITS_AT_ONCE["cuda" if hidden.is_cuda else "cpu"] // len(bias))
        starts = torch.arange(0, len(hidden) + step, step, device=hidden.device)
        bounds = None if rows is None else torch.searchsorted(rows, starts).tolist()
        memory = low.new_empty(min(step, len(hidden)), len(table))  # fresh pages for every step would cost much
        of_hidden, of_table, of_bias = torch.empty_like(low), torch.zeros_like(item_embedding), torch.zeros_like(bias)
        loss, of_value = bias.new_zeros(()), bias.new_zeros(())
        with torch.autocast(device, enabled=False):
            for number, start in enumerate(range(0, len(hidden), step)):
                part = slice(start, start + step)
                products = torch.mm(low[part], table.T, out=memory[: len(low[part])])
                logits = products.to(bias.dtype).add_(bias[1:])  # (R, N - 1)
                changed: tuple[Tensor, Tensor] | None = None
                if bounds is not None:
                    pairs = slice(*bounds[number : number + 2])
                    changed = rows[pairs] - start, items[pairs] - 1
                    logits.index_put_(changed, value.to(bias.dtype), accumulate=True)
                label = labels[part].unsqueeze(1) - 1
                logits.sub_(logits.amax(1, keepdim=True))
                of_label = logits.gather(1, label)
                total = logits.exp_().sum(1, keepdim=True)
                loss += ((total.log() - of_label) * weights[part]).sum()
                gradients = logits.mul_(weights[part] / total).scatter_add_(1, label, -weights[part])
                of_bias[1:] += gradients.sum(0)
                if changed is not None:
                    of_value += gradients[changed].sum()
                low_gradients = gradients.to(kind)
                torch.mm(low_gradients, table, out=of_hidden[part])
                _add_product(of_table[1 : len(bias)], low_gradients.T, low[part])
        ctx.gradients = of_hidden.to(hidden.dtype), of_table, of_bias, None if value is None else of_value
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, table, bias, value = (None if total is None else total * gradient for total in ctx.gradients)
        return hidden, table, bias, None, None, value, None, None


def _add_product(to: Tensor, left: Tensor, right: Tensor) -> None:
    """Add ``left @ right`` to ``to``, in one pass if all are of one dtype."""
    if to.dtype == left.dtype:
        to.addmm_(left, right)
    else:
        to.add_(left @ right)
