"""One Transformer layer (Sun et al., CIKM 2019, section 3.3): attention, feed-forward network, dropout, LayerNorm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.core.item_features import Contents
from recbole_bert4rec.core.segments import index_within_segment
from recbole_bert4rec.system.constants import OptionValues

Positions = tuple[Tensor, Tensor]
"""Rows and columns of positions in a batch. *Shape:* (M,) each."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True)
class EncoderOptions:
    """Architecture, initialisation and dropout of the encoder.

    Fields that are named like an option mean the same and have its default, as a test holds: see
    ``options/table.py``. That of ``hidden_dropout_prob`` is RecBole's, for the option's follows from a log.

    Attributes:
        n_items: N, padding counted.
        max_length: longest input.
        features: for each item feature, the ids of all items (N + 1, width) and the number of ids; see
            :class:`ItemFeatures`.
        contents: what all items are, in numbers; None if the model reads ids alone.
    """

    _OF_THE_LOG: ClassVar = ("n_items", "max_length", "features", "contents")
    n_items: int
    max_length: int
    features: tuple[tuple[Tensor, int], ...] = ()
    contents: Contents | None = None
    hidden_size: int = 64
    inner_size: int = 256
    n_layers: int = 2
    n_heads: int = 2
    hidden_dropout_prob: float = 0.2
    attn_dropout_prob: float = 0.0
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    value_init: str = "identity"
    position: str = "relative"
    norm: str = "post"
    ablate: Sequence[str] = ()
    output_projection: bool = False
    sparse_update: bool = False

    @classmethod
    def from_config(
        cls,
        config: OptionValues,
        n_items: int,
        features: tuple[tuple[Tensor, int], ...] = (),
        contents: Contents | None = None,
    ) -> EncoderOptions:
        """Take from a configuration the options that the encoder has fields for."""
        options = {field.name: config[field.name] for field in fields(cls) if field.name not in cls._OF_THE_LOG}
        return cls(n_items, config["MAX_ITEM_LIST_LENGTH"], features, contents, **options)


class PositionBias(nn.Module):
    """Learn a number for each head and distance, which all layers add to their attention logits.

    Distances to earlier and to later positions have separate numbers. Not in the paper: T5's (Raffel et al., JMLR 2020,
    section 2.1), without buckets.
    """

    def __init__(self, n_heads: int, max_length: int) -> None:
        super().__init__()
        self.furthest = max_length - 1
        self.bias = nn.Parameter(torch.zeros(n_heads, 2 * max_length - 1))

    def forward(self, width: int) -> Tensor:
        """Return the bias of each head by query and key position.

        *Shape:* (A, L, L)
        """
        position = torch.arange(width, device=self.bias.device)
        return self.bias[:, position - position.unsqueeze(1) + self.furthest]


def attended(two_sided: Tensor, width: int) -> Tensor:
    """Return which positions each position may attend to: see :meth:`BERT4RecEncoder.forward`.

    *Shape:* (B,) -> (B, L, L), by query and key position.
    """
    column = torch.arange(width, device=two_sided.device)
    return (column <= column.unsqueeze(1)) | (column < two_sided[:, None, None])


class Dropout(nn.Dropout):
    """Zero each element with probability ``p`` (to the nearest 1/65536), scale the rest by 1 / (1 - p).

    On a processor 16 random bits decide, which takes less time than torch's own. They come from torch's global
    generator, as for ``nn.Dropout``.
    """

    def forward(self, hidden: Tensor) -> Tensor:
        """Drop elements in training only.

        *Shape:* any in, the same out
        """
        if not self.training or self.p == 0.0:
            return hidden
        if hidden.is_cuda:
            return super().forward(hidden)
        dropped = min(round(self.p * 2**16), 2**16 - 1)
        words = torch.empty((hidden.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        bits = words.view(torch.int16)[: hidden.numel()].view(hidden.shape)
        keep = bits >= dropped - 2**15
        return hidden * (keep * (2**16 / (2**16 - dropped)))


def attention(query: Tensor, key: Tensor, value: Tensor, n_heads: int, mask: Tensor, dropout: float = 0.0) -> Tensor:
    """Return softmax(Q K^T / sqrt(H / A) + mask) V of each head, side by side (equation 2).

    *Shape:* (B, Q, H), (B, L, H), (B, L, H), (1 or B, 1 or A, 1 or Q, L) -> (B, Q, H)
    """
    query, key, value = (rows.unflatten(-1, (n_heads, -1)).transpose(1, 2) for rows in (query, key, value))
    if mask.requires_grad and not mask.is_cuda:  # torch has no kernel for it, and its own plain way is slower
        logits = (query * query.shape[-1] ** -0.5) @ key.transpose(2, 3) + mask  # (B, A, Q, L)
        heads = F.dropout(torch.softmax(logits, -1), dropout) @ value
    else:
        heads = F.scaled_dot_product_attention(query, key, value, mask.to(query.dtype), dropout)
    return heads.transpose(1, 2).flatten(2)  # from (B, A, Q, H / A)


class Sublayer(nn.Module):
    """A sublayer with its residual connection, dropout and LayerNorm (equations 4 to 6).

    With ``norm`` post, as in the paper: LayerNorm(x + Dropout(sublayer(x))).
    With ``norm`` pre, as in later Transformers: x + Dropout(sublayer(LayerNorm(x))).
    """

    def _init_residual(self, options: EncoderOptions) -> None:
        """Make dropout and LayerNorm.

        A subclass calls it after it has made its own weights: optimizers know weights by their order.
        """
        self.pre = options.norm == "pre"
        self.residual = "residual" not in options.ablate
        self.dropout = Dropout(options.hidden_dropout_prob)
        normed = "layer_norm" not in options.ablate
        self.norm = nn.LayerNorm(options.hidden_size, eps=options.layer_norm_eps) if normed else nn.Identity()

    def _pre_norm(self, hidden: Tensor) -> Tensor:
        """Return the input of the sublayer: normalised with ``norm`` pre, else as it is.

        *Shape:* (..., H) in, out
        """
        return self.norm(hidden) if self.pre else hidden

    def _add_and_norm(self, hidden: Tensor, transformed: Tensor) -> Tensor:
        """Add the output of the sublayer to its input; normalise the sum with ``norm`` post.

        *Shape:* (..., H), (..., H) -> (..., H)
        """
        transformed = self.dropout(transformed)
        total = hidden + transformed if self.residual else transformed
        return total if self.pre else self.norm(total)


class MultiHeadAttention(Sublayer):
    """Multi-head self-attention: MH(x) = [head_1; ...; head_A] W^O (equation 1).

    Each head is Attention(Q, K, V) = softmax(Q K^T / sqrt(H / A)) V (equation 2), with Q = x W^Q, K = x W^K and
    V = x W^V. The three projections lie in one weight, and all have a bias, as in the authors' code.
    """

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        hidden = options.hidden_size
        self.n_heads = options.n_heads
        self.attn_dropout_prob = options.attn_dropout_prob
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self._init_residual(options)

    def forward(self, hidden: Tensor, mask: Tensor, query_positions: Positions | None = None) -> Tensor:
        """Let positions attend to positions of their sequence.

        ``mask`` is added to the logits of equation 2: a learnt number, or 0; -inf where a query may not attend.

        *Shape:* (B, L, H), (1 or B, 1 or A, 1 or L, L) -> (B, L, H), or (M, H) with ``query_positions``
        """
        if query_positions is not None:
            return self._attend_at(hidden, mask, query_positions)
        query, key, value = self.query_key_value(self._pre_norm(hidden)).chunk(3, dim=-1)  # each (B, L, H)
        return self._add_and_norm(hidden, self.output(self._heads_of(query, key, value, mask)))

    def _attend_at(self, hidden: Tensor, mask: Tensor, query_positions: Positions) -> Tensor:
        """Compute some positions: keys and values of all, queries of these alone.

        *Shape:* (B, L, H) -> (M, H)
        """
        normed, size = self._pre_norm(hidden), hidden.shape[-1]
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        key, value = F.linear(normed, weight[size:], bias[size:]).chunk(2, dim=-1)  # each (B, L, H)
        rows, columns = query_positions
        order = rows.argsort(stable=True)
        within = index_within_segment(rows[order], torch.bincount(rows, minlength=len(hidden)))
        index = torch.empty_like(within).scatter_(0, order, within)  # of each among the queries of its sequence
        n_queries = int(index.max()) + 1  # Q, most queries of a sequence
        queries = F.linear(normed[query_positions], weight[:size], bias[:size])  # (M, H)
        query = key.new_zeros(len(key), n_queries, size).index_put((rows, index), queries)  # (B, Q, H), padded
        if mask.shape[2] > 1:  # queries that pad Q may attend everywhere
            masks = mask.expand(len(key), -1, -1, -1)[rows, :, columns]  # (M, 1 or A, L)
            padded = mask.new_zeros(len(key), n_queries, *masks.shape[1:]).index_put((rows, index), masks)
            mask = padded.transpose(1, 2)  # (B, 1 or A, Q, L)
        heads = self._heads_of(query, key, value, mask)[rows, index]  # (M, H)
        return self._add_and_norm(hidden[query_positions], self.output(heads))

    def _heads_of(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Return all heads side by side: (B, Q, H), (B, L, H), (B, L, H) -> (B, Q, H)."""
        return attention(query, key, value, self.n_heads, mask, self.attn_dropout_prob if self.training else 0.0)

    @torch.no_grad()
    def init_identity_values_(self) -> None:
        """Add the identity to the projections W^V and W^O, so that attention starts as an average of its inputs.

        With weights near 0 the output of a layer begins as noise around its residual. Training then stays on a
        plateau, where only the items' frequencies are learnt, until attention carries information. Not in the paper.
        """
        *_, value = self.query_key_value.weight.chunk(3)  # each (H, H)
        for weight in (value, self.output.weight):
            weight.diagonal().add_(1.0)


class FeedForward(Sublayer):
    """Position-wise feed-forward network: FFN(x) = GELU(x W_1 + b_1) W_2 + b_2 (equation 3).

    ``hidden_act`` names another activation than GELU.
    """

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.inner = nn.Linear(options.hidden_size, options.inner_size)
        self.activation = ACTIVATIONS[options.hidden_act]
        self.output = nn.Linear(options.inner_size, options.hidden_size)
        self._init_residual(options)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position alone.

        *Shape:* (..., H) in, out
        """
        transformed = self.output(self.activation(self.inner(self._pre_norm(hidden))))
        return self._add_and_norm(hidden, transformed)


class TransformerLayer(nn.Module):
    """One Transformer layer, Trm: self-attention, then the feed-forward network (equations 4 to 6)."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(options)
        self.feed_forward = nn.Identity() if "feed_forward" in options.ablate else FeedForward(options)

    def forward(self, hidden: Tensor, mask: Tensor, query_positions: Positions | None = None) -> Tensor:
        """Apply both sublayers; arguments, shapes and result as in :class:`MultiHeadAttention`."""
        transformed: Tensor = self.feed_forward(self.attention(hidden, mask, query_positions))
        return transformed
