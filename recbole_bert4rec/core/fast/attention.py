"""Scaled dot-product attention (equation 2), on a processor in blocks of sequences that stay in its cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from recbole_bert4rec.core.fast.products import by_mkl, onednn_multiplies

_BLOCK = 1 << 18  # attention weights made at once: 1 MB


class Mask(NamedTuple):
    """The keys that a query may attend to, and the bias of the logits of equation 2.

    Attributes:
        allowed: which keys each query may attend to, one at least. *Shape:* (B, 1, 1 or Q, L) of bool
        bias: *Shape:* (1 or B, A, Q, L), or None
    """

    allowed: Tensor
    bias: Tensor | None = None

    def at(self, rows: Tensor, columns: Tensor, index: Tensor, n_queries: int) -> Mask:
        """Return the mask of some of the queries; those that pad Q may attend everywhere.

        *Shape:* (M,), (M,), (M,) of sequences, positions and numbers among the queries of a sequence
        """
        allowed, bias = self
        if allowed.shape[2] > 1:
            of_queries = allowed.new_ones(len(allowed), n_queries, *allowed.shape[1::2])  # (B, Q, 1, L)
            allowed = of_queries.index_put((rows, index), allowed[rows, :, columns]).transpose(1, 2)
        if bias is not None:
            of_queries = bias.new_zeros(len(allowed), n_queries, *bias.shape[1::2])  # (B, Q, A, L)
            sequences = rows if len(bias) > 1 else torch.zeros_like(rows)
            bias = of_queries.index_put((rows, index), bias[sequences, :, columns]).transpose(1, 2)
        return Mask(allowed, bias)

    def merged(self) -> Tensor:
        """Return what ``scaled_dot_product_attention`` takes: ``allowed``, or the bias with -inf where it is not."""
        return self.allowed if self.bias is None else self.bias.masked_fill(~self.allowed, -torch.inf)

    def of(self, part: slice) -> Mask:
        """Return the mask of some sequences."""
        bias = self.bias
        return Mask(self.allowed[part], bias if bias is None or len(bias) == 1 else bias[part])


def split_heads(projected: Tensor, n_heads: int) -> Tensor:
    """Split the last dimension into heads.

    *Shape:* (B, L, H) -> (B, A, L, H / A)
    """
    heads: Tensor = projected.unflatten(-1, (n_heads, -1))
    return heads.transpose(1, 2)


def attention(query: Tensor, key: Tensor, value: Tensor, n_heads: int, mask: Mask, dropout: float = 0.0) -> Tensor:
    """Return softmax(Q K^T / sqrt(H / A)) V of each head, side by side.

    *Shape:* (B, Q, H), (B, L, H), (B, L, H) -> (B, Q, H)
    """
    learnt = mask.bias is not None and mask.bias.requires_grad  # torch would keep the weights of all sequences
    if query.device.type == "cpu" and dropout == 0.0 and (learnt or onednn_multiplies()):
        heads: Tensor = _Attention.apply(n_heads, mask.allowed, query, key, value, mask.bias)  # type: ignore[no-untyped-call]
        return heads
    query, key, value = (split_heads(projected, n_heads) for projected in (query, key, value))
    merged = mask.merged()
    if merged.is_floating_point():
        merged = merged.to(query.dtype)
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask=merged, dropout_p=dropout)
    return heads.transpose(1, 2).flatten(2)  # from (B, A, Q, H / A)


class _Attention(torch.autograd.Function):
    """Makes the attention weights of a block, and again for its gradients; in float32, whatever the input is."""

    @staticmethod
    def forward(
        ctx: Any, n_heads: int, allowed: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(allowed, query, key, value, bias)
        ctx.n_heads = n_heads
        heads = _like(query)
        with by_mkl(), torch.autocast("cpu", enabled=False):
            for part in _parts(query, key, n_heads):
                queries, keys, values = (_heads(rows[part], n_heads) for rows in (query, key, value))
                weights = _weights(queries, keys, n_heads, Mask(allowed, bias).of(part))
                _join(weights.flatten(0, 1) @ values, heads[part])
        return heads

    @staticmethod
    @once_differentiable
    @by_mkl()
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        allowed, query, key, value, bias = ctx.saved_tensors
        n_heads = ctx.n_heads
        of_query, of_key, of_value = map(_like, (query, key, value))
        of_bias = torch.zeros_like(bias) if ctx.needs_input_grad[5] else None
        for part in _parts(query, key, n_heads):
            queries, keys, values, of_heads = (_heads(rows[part], n_heads) for rows in (query, key, value, gradient))
            mask = Mask(allowed, bias).of(part)
            weights = _weights(queries, keys, n_heads, mask)  # (S, A, Q, L), as all that are named of_...
            _join(weights.flatten(0, 1).transpose(1, 2) @ of_heads, of_value[part])
            of_weights = (of_heads @ values.transpose(1, 2)).view_as(weights)
            of_logits = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            if of_bias is not None:
                of_part = of_bias if len(of_bias) == 1 else of_bias[part]
                of_part.add_(of_logits.sum_to_size(of_part.shape))
            of_products = of_logits.flatten(0, 1).mul_(queries.shape[-1] ** -0.5)
            _join(of_products @ keys, of_query[part])
            _join(of_products.transpose(1, 2) @ queries, of_key[part])
        return None, None, of_query, of_key, of_value, of_bias


def _like(rows: Tensor) -> Tensor:
    return torch.empty_like(rows, memory_format=torch.contiguous_format)


def _parts(query: Tensor, key: Tensor, n_heads: int) -> Iterator[slice]:
    """Yield the sequences of each block."""
    step = max(1, _BLOCK // (n_heads * query.shape[1] * key.shape[1]))
    for start in range(0, len(query), step):
        yield slice(start, start + step)


def _heads(rows: Tensor, n_heads: int) -> Tensor:
    """Return the heads of a block one after the other.

    *Shape:* (S, L, H) -> (S A, L, H / A)
    """
    heads = split_heads(rows, n_heads).flatten(0, 1)
    return heads.to(torch.promote_types(heads.dtype, torch.float32))


def _join(heads: Tensor, to: Tensor) -> None:
    """Write the heads of a block side by side.

    *Shape:* (S A, L, H / A) -> (S, L, H)
    """
    n_heads = len(heads) // len(to)
    split_heads(to, n_heads).copy_(heads.unflatten(0, (-1, n_heads)))


def _weights(query: Tensor, key: Tensor, n_heads: int, mask: Mask) -> Tensor:
    """Return the softmax of equation 2.

    *Shape:* (S A, Q, H / A), (S A, L, H / A) -> (S, A, Q, L)
    """
    logits = ((query * query.shape[-1] ** -0.5) @ key.transpose(1, 2)).unflatten(0, (-1, n_heads))
    if mask.bias is not None:
        logits.add_(mask.bias)
    if not mask.allowed.all():
        logits.masked_fill_(~mask.allowed, -torch.inf)
    return torch.softmax(logits, -1)
