"""The bidirectional Transformer of BERT4Rec (Sun et al., CIKM 2019, sections 3.2 to 3.5), in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.core.fast.attention import Mask, attention
from recbole_bert4rec.core.fast.layers import Dropout, Linear, feed_forward
from recbole_bert4rec.core.item_features import Contents, ItemContents, ItemFeatures, PositionBias
from recbole_bert4rec.core.segments import index_within_segment
from recbole_bert4rec.system.constants import PADDING, OptionValues

_ITEMS_AT_ONCE = 1 << 12
"""Whose contents are read together: few enough for a processor's cache."""


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}

Positions = tuple[Tensor, Tensor]
"""Rows and columns of positions in a batch. *Shape:* (M,) each."""


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


def attended(two_sided: Tensor, width: int) -> Tensor:
    """Return which positions each position may attend to: see :meth:`BERT4RecEncoder.forward`.

    *Shape:* (B,) -> (B, L, L), by query and key position.
    """
    column = torch.arange(width, device=two_sided.device)
    return (column <= column.unsqueeze(1)) | (column < two_sided[:, None, None])


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
        self.query_key_value = Linear(hidden, 3 * hidden)
        self.output = Linear(hidden, hidden)
        self._init_residual(options)

    def forward(self, hidden: Tensor, mask: Mask, query_positions: Positions | None = None) -> Tensor:
        """Let positions attend to positions of their sequence.

        *Shape:* (B, L, H) -> (B, L, H), or (M, H) with ``query_positions``
        """
        if query_positions is not None:
            return self._attend_at(hidden, mask, query_positions)
        query, key, value = self.query_key_value(self._pre_norm(hidden)).chunk(3, dim=-1)  # each (B, L, H)
        heads = self._heads_of(query, key, value, mask)
        return self._add_and_norm(hidden, self.output(heads))

    def _attend_at(self, hidden: Tensor, mask: Mask, query_positions: Positions) -> Tensor:
        """Compute some positions: keys and values of all, queries of these alone.

        *Shape:* (B, L, H) -> (M, H)
        """
        normed = self._pre_norm(hidden)
        size = hidden.shape[-1]
        key, value = self.query_key_value(normed, slice(size, None)).chunk(2, dim=-1)  # each (B, L, H)
        rows, columns = query_positions
        index = _index_within_row(rows, len(hidden))  # (M,)
        n_queries = int(index.max()) + 1  # Q, most queries of a sequence
        hidden = hidden[query_positions]  # (M, H)
        query = hidden.new_zeros(len(key), n_queries, size)  # (B, Q, H), padded
        projected = self.query_key_value(normed[query_positions], slice(size))  # (M, H)
        query = query.index_put((rows, index), projected.to(query.dtype)).to(key.dtype)
        heads = self._heads_of(query, key, value, mask.at(rows, columns, index, n_queries))[rows, index]  # (M, H)
        return self._add_and_norm(hidden, self.output(heads))

    def _heads_of(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Return all heads side by side (equation 2).

        *Shape:* (B, Q, H), (B, L, H), (B, L, H) -> (B, Q, H)
        """
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


def _index_within_row(rows: Tensor, batch: int) -> Tensor:
    """Index of each query position among those of its sequence, from 0.

    *Shape:* (M,) in, out
    """
    order, count = rows.argsort(stable=True), torch.bincount(rows, minlength=batch)
    index = index_within_segment(rows[order], count)
    return torch.empty_like(index).scatter_(0, order, index)


class FeedForward(Sublayer):
    """Position-wise feed-forward network: FFN(x) = GELU(x W_1 + b_1) W_2 + b_2 (equation 3).

    ``hidden_act`` names another activation than GELU.
    """

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.inner = Linear(options.hidden_size, options.inner_size)
        self.activation = ACTIVATIONS[options.hidden_act]
        self.output = Linear(options.inner_size, options.hidden_size)
        self._init_residual(options)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position alone.

        *Shape:* (..., H) in, out
        """
        transformed = feed_forward(self._pre_norm(hidden), self.inner, self.activation, self.output)
        return self._add_and_norm(hidden, transformed)


class TransformerLayer(nn.Module):
    """One Transformer layer, Trm: self-attention, then the feed-forward network (equations 4 to 6)."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(options)
        self.feed_forward = nn.Identity() if "feed_forward" in options.ablate else FeedForward(options)

    def forward(self, hidden: Tensor, mask: Mask, query_positions: Positions | None = None) -> Tensor:
        """Apply both sublayers; arguments, shapes and result as in :class:`MultiHeadAttention`."""
        transformed: Tensor = self.feed_forward(self.attention(hidden, mask, query_positions))
        return transformed


class BERT4RecEncoder(nn.Module):
    """Embedding layer (section 3.4), Transformer layers (3.3) and output layer (3.5).

    The summed embeddings pass LayerNorm and dropout, and the output layer has a LayerNorm. The paper's equations lack
    these; the authors' code and RecBole have them.

    What the options change:

    - ``position`` counts positions from the ``start`` of the window (authors, RecBole), from its ``end``, where the
      [MASK] of a recommendation is always position 0, or not at all (``none``); ``relative`` knows distances alone.
    - ``norm`` pre adds a LayerNorm after the last layer.
    """

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.options = options
        hidden, eps = options.hidden_size, options.layer_norm_eps
        rows = options.n_items + 1  # the last row is [MASK]
        self.item_embedding = nn.Embedding(rows, hidden, padding_idx=PADDING, sparse=options.sparse_update)
        counted = options.position in ("start", "end")
        self.position_embedding = nn.Embedding(options.max_length, hidden) if counted else None
        tables, sizes = [values for values, _ in options.features], [size for _, size in options.features]
        self.features = ItemFeatures(tables, sizes, hidden) if options.features else None
        self.contents = None if options.contents is None else ItemContents(options.contents, hidden, eps)
        self._draw: int | None = None
        self._table: Tensor | None = None
        self.embedding_norm = nn.LayerNorm(hidden, eps=eps)
        self.embedding_dropout = Dropout(options.hidden_dropout_prob)
        layers = [TransformerLayer(options) for _ in range(options.n_layers)]
        self.layers = nn.ModuleList(layers)
        self.last_norm = nn.LayerNorm(hidden, eps=eps) if options.norm == "pre" else nn.Identity()
        projected = options.output_projection
        self.head = Linear(hidden, hidden) if projected else nn.Identity()
        self.head_norm = nn.LayerNorm(hidden, eps=eps) if projected else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(options.n_items))
        relative = options.position == "relative"
        self.position_bias = PositionBias(options.n_heads, options.max_length) if relative else None
        self.apply(self._initialise)
        if self.contents is not None:
            nn.init.constant_(self.contents.norm.weight, options.initializer_range)  # as long as embeddings of ids
        if options.value_init == "identity":
            for layer in layers:
                layer.attention.init_identity_values_()

    def _initialise(self, module: nn.Module) -> None:
        """Draw weights from a normal distribution cut at two standard deviations; set biases to 0 (section 4.3)."""
        std = self.options.initializer_range
        if isinstance(module, (nn.Linear, nn.Embedding, nn.EmbeddingBag)):
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[PADDING].zero_()

    def forward(
        self,
        item_seq: Tensor,
        query_positions: Positions | None = None,
        two_sided: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states before the output layer; those of padding, on the right, mean nothing.

        With ``query_positions`` the last layer computes these alone. As many items as ``two_sided`` says, (B,), at the
        beginning of each sequence attend to each other; every later one attends to itself and those before it. None:
        all attend to all, as in the paper.

        *Shape:* (B, L) -> (B, L, H), or (M, H) with ``query_positions``
        """
        if self.contents is not None and self.training:
            self._draw = int(torch.randint(2**62, ()))  # other ids are hidden in each batch
        present = item_seq != PADDING  # (B, L)
        hidden = self.embedding_dropout(self.embedding_norm(self.embed(item_seq)))
        if two_sided is None:
            allowed = present[:, None, None, :]
        else:  # padding comes after all items, so none of them attends to it
            allowed = attended(two_sided, item_seq.shape[1]).unsqueeze(1)
        bias = None if self.position_bias is None else self.position_bias(item_seq.shape[1]).unsqueeze(0)
        mask = Mask(allowed, bias)
        *lower, last = self.layers
        for layer in lower:
            hidden = layer(hidden, mask)
        encoded: Tensor = self.last_norm(last(hidden, mask, query_positions))
        return encoded

    def embed(self, item_seq: Tensor) -> Tensor:
        """Add up the embeddings of items, positions and features (section 3.4).

        *Shape:* (B, L) -> (B, L, H)
        """
        hidden = self.item_vectors(item_seq)
        if self.position_embedding is not None:
            position = torch.arange(item_seq.shape[1], device=item_seq.device)
            if self.options.position == "end":
                length = (item_seq != PADDING).sum(1, keepdim=True)
                position = (length - 1 - position).clamp(min=0)  # (B, L)
            hidden = hidden + self.position_embedding(position)
        return hidden if self.features is None else hidden + self.features(item_seq)

    def item_vectors(self, items: Tensor) -> Tensor:
        """Return the embeddings of items, which are the same at the input and at the output (section 3.5).

        *Shape:* (...) -> (..., H)
        """
        if self.contents is not None and not self.training:
            return F.embedding(items, self.output_embedding)
        vectors: Tensor = self.item_embedding(items)
        if self.contents is None:
            return vectors
        of_contents: Tensor = self.contents(items, vectors, self._draw)
        return of_contents

    def output(self, hidden: Tensor) -> Tensor:
        """Apply the output layer up to the product with the embeddings: LayerNorm(GELU(h W^P + b^P)) (equation 7).

        *Shape:* (..., H) in, out
        """
        if isinstance(self.head, nn.Linear):
            hidden = self.head_norm(F.gelu(self.head(hidden)))
        return hidden

    @torch.no_grad()
    def init_output_bias_(self, counts: Tensor) -> None:
        """Set the output bias to the log frequency of each item, which is the best guess without a history.

        *Shape:* (N,) of the counts
        """
        frequency = torch.log(counts.to(self.output_bias) + 1.0)
        self.output_bias.copy_(frequency - frequency[1:].mean())
        self.output_bias[PADDING] = 0.0

    @property
    def output_embedding(self) -> Tensor:
        """Item embedding as scores use it, tied between input and output (section 3.5).

        *Shape:* (N + 1, H)
        """
        weight = self.item_embedding.weight
        if self.contents is None:
            return weight
        if self._table is not None:
            return self._table
        items = torch.arange(len(weight), device=weight.device)
        if self.training:
            table: Tensor = self.contents(items, weight, self._draw)
            return table
        with torch.no_grad():
            self._table = torch.cat([self.contents(some, weight[some]) for some in items.split(_ITEMS_AT_ONCE)])
        return self._table

    def train(self, mode: bool = True) -> BERT4RecEncoder:
        """Begin or end training; what was made of contents for evaluation is forgotten."""
        self._draw = self._table = None
        return super().train(mode)

    def forget_contents_(self) -> None:
        """Make the items' vectors the embeddings of their ids, for a model that is not trained any more."""
        if self.contents is not None:
            self.item_embedding.weight = nn.Parameter(self.output_embedding, requires_grad=False)
            self.contents = self._draw = self._table = None

    def outputs(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output embeddings and the biases of some items, for losses that need no others.

        *Shape:* (K,) -> (K, H), (K,)
        """
        return self.item_vectors(items), self.output_bias[items]

    @property
    def catalogue(self) -> Tensor:
        """Output embedding of the N items, padding first, without [MASK].

        *Shape:* (N, H)
        """
        return self.output_embedding[: self.options.n_items]

    def scores(self, vectors: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the logits of all items: v E^T + b^O (equation 7, before the softmax).

        *Shape:* (B, H), (N,) -> (B, N)
        """
        return F.linear(vectors, self.catalogue, self.output_bias if bias is None else bias)
