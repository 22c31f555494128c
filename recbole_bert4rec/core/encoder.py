"""The bidirectional Transformer of BERT4Rec (Sun et al., CIKM 2019, sections 3.2 to 3.5), in plain torch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.core.item_features import ItemContents, ItemFeatures
from recbole_bert4rec.core.transformer import (
    Dropout,
    EncoderOptions,
    PositionBias,
    Positions,
    TransformerLayer,
    attended,
)
from recbole_bert4rec.system.constants import PADDING

_ITEMS_AT_ONCE = 1 << 12
"""Whose contents are read together: few enough for a processor's cache."""


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
        self.head = nn.Linear(hidden, hidden) if projected else nn.Identity()
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
        bias = hidden.new_zeros(()) if self.position_bias is None else self.position_bias(item_seq.shape[1])
        mask = bias.masked_fill(~allowed, -torch.inf)  # (1 or B, 1 or A, 1 or L, L)
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
