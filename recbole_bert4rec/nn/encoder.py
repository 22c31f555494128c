"""The bidirectional Transformer of BERT4Rec (Sun et al., CIKM 2019, section 3), in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.nn.dropout import Dropout
from recbole_bert4rec.nn.features import ItemFeatures
from recbole_bert4rec.nn.time_bias import TimeBias


def swiglu(gates_and_values: Tensor) -> Tensor:
    """SwiGLU (Shazeer, 2020): one half, through Swish, says how much of the other passes.

    *Shape:* (..., 2 I) -> (..., I)
    """
    gate, value = gates_and_values.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "swish": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "swiglu": swiglu,
}

Positions = tuple[Tensor, Tensor]
"""Rows and columns of positions in a batch. *Shape:* (M,) each."""


@dataclass(frozen=True)
class EncoderOptions:
    """Size and regularisation of the encoder; the names are RecBole's."""

    n_items: int
    max_length: int
    hidden_size: int = 64
    inner_size: int = 256
    n_layers: int = 2
    n_heads: int = 2
    hidden_dropout_prob: float = 0.2
    attn_dropout_prob: float = 0.2
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    value_init: str = "identity"
    position: str = "start"
    norm: str = "post"
    without: tuple[str, ...] = ()
    temperature: float | None = None
    sparse: bool = False
    """Whether the gradient of the item embedding is a sparse tensor."""
    time_bias: bool = False
    features: tuple[tuple[Tensor, int], ...] = ()
    """Of each item feature: its values (N + 1, width) and how many ids it has; see :class:`ItemFeatures`."""


class Sublayer(nn.Module):
    """What equation 4 puts around attention and feed-forward: LayerNorm(x + Dropout(sublayer(x))).

    With ``norm`` pre it is x + Dropout(sublayer(LayerNorm(x))), which later Transformers prefer.
    """

    def surround(self, options: EncoderOptions) -> None:
        """Make what goes around; after the sublayer's own weights: optimizers know weights by their order."""
        self.pre = options.norm == "pre"
        self.residual = "residual" not in options.without
        self.dropout = Dropout(options.hidden_dropout_prob)
        normed = "layer_norm" not in options.without
        self.norm = nn.LayerNorm(options.hidden_size, eps=options.layer_norm_eps) if normed else nn.Identity()

    def enter(self, hidden: Tensor) -> Tensor:
        """What the sublayer works on. *Shape:* any; the same is returned."""
        return self.norm(hidden) if self.pre else hidden

    def leave(self, hidden: Tensor, made: Tensor) -> Tensor:
        """The layer's output, from its input and what the sublayer made of it. *Shape:* equal; the same is returned."""
        made = hidden + self.dropout(made) if self.residual else self.dropout(made)
        return made if self.pre else self.norm(made)


class MultiHeadAttention(Sublayer):
    """Equations 1 and 2."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        hidden = options.hidden_size
        self.n_heads = options.n_heads
        self.attn_dropout_prob = options.attn_dropout_prob
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.surround(options)

    def forward(self, hidden: Tensor, attended: Tensor | None, wanted: Positions | None = None) -> Tensor:
        """Mix every position with all others of its sequence.

        Args:
            hidden: *Shape:* (B, L, H)
            attended: True where a position may be looked at, None if all may, or what is added to the logits of
                equation 2. *Shape:* (B, 1, 1, L), or (B, A, L, L) of numbers
            wanted: the M positions to return; all by default. No other position asks then.

        Returns:
            *Shape:* (B, L, H), or (M, H) of the wanted positions.
        """
        entered = self.enter(hidden)
        if wanted is None:
            query, key, value = self.query_key_value(entered).chunk(3, dim=-1)  # each (B, L, H)
            mixed = self._mix(query, key, value, attended)
        else:
            query_weight, other_weight = self.query_key_value.weight.tensor_split([hidden.shape[-1]])
            query_bias, other_bias = self.query_key_value.bias.tensor_split([hidden.shape[-1]])
            key, value = F.linear(entered, other_weight, other_bias).chunk(2, dim=-1)
            rows, place = wanted[0], _places(wanted[0], len(hidden))
            hidden = hidden[wanted]  # (M, H)
            query = hidden.new_zeros(len(key), int(place.max()) + 1, hidden.shape[-1])
            query = query.index_put((rows, place), F.linear(entered[wanted], query_weight, query_bias).to(query.dtype))
            if attended is not None and attended.is_floating_point():
                added = attended.new_zeros(len(key), query.shape[1], *attended.shape[1::2])  # (B, Q, A, L)
                attended = added.index_put((rows, place), attended[rows, :, wanted[1]]).transpose(1, 2)
            mixed = self._mix(query.to(key.dtype), key, value, attended)[rows, place]
        return self.leave(hidden, self.output(mixed))

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, attended: Tensor | None) -> Tensor:
        """Attention(Q, K, V) of every head, side by side. *Shape:* (B, Q, H), (B, L, H), (B, L, H) -> (B, Q, H)"""
        query, key, value = map(self._heads, (query, key, value))
        dropout = self.attn_dropout_prob if self.training else 0.0
        if attended is not None and attended.is_floating_point():
            attended = attended.to(query.dtype)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=attended, dropout_p=dropout)
        return mixed.transpose(1, 2).flatten(2)  # from (B, A, Q, H / A)

    def _heads(self, projected: Tensor) -> Tensor:
        """*Shape:* (B, L, H) -> (B, A, L, H / A)"""
        heads: Tensor = projected.unflatten(-1, (self.n_heads, -1))
        return heads.transpose(1, 2)

    def weights(self, hidden: Tensor, attended: Tensor | None) -> Tensor:
        """The softmax of equation 2, to be looked at; ``attended`` as above. *Shape:* (B, L, H) -> (B, A, L, L)"""
        query, key, _ = self.query_key_value(self.enter(hidden)).chunk(3, dim=-1)
        query, key = map(self._heads, (query, key))
        logits = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        if attended is not None:
            numbers = attended.is_floating_point()
            logits = logits + attended if numbers else logits.masked_fill(~attended, -torch.inf)
        return torch.softmax(logits, dim=-1)

    @torch.no_grad()
    def start_as_average(self) -> None:
        """Add the identity to the projections W^V and W^O: what attention mixes then passes through unchanged.

        With weights near 0, a layer's output begins as noise around its residual, and training stays on a plateau, at
        the loss of the items' frequencies, until attention has found something to say. Not in the paper.
        """
        *_, value = self.query_key_value.weight.chunk(3)  # each (H, H)
        for weight in (value, self.output.weight):
            weight.diagonal().add_(1.0)


def _places(rows: Tensor, batch: int) -> Tensor:
    """The how manieth of its row each wanted position is, from 0. *Shape:* (M,) in and out"""
    order, count = rows.argsort(stable=True), torch.bincount(rows, minlength=batch)
    first = count.cumsum(0) - count
    place = torch.arange(len(rows), device=rows.device) - first[rows[order]]
    return torch.empty_like(place).scatter_(0, order, place)


class FeedForward(Sublayer):
    """Equation 3."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        gated = options.hidden_act == "swiglu"
        self.inner = nn.Linear(options.hidden_size, options.inner_size * (2 if gated else 1))
        self.activation = ACTIVATIONS[options.hidden_act]
        self.output = nn.Linear(options.inner_size, options.hidden_size)
        self.surround(options)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position alone. *Shape:* (..., H) in and out."""
        return self.leave(hidden, self.output(self.activation(self.inner(self.enter(hidden)))))


class TransformerLayer(nn.Module):
    """One layer Trm (equation 4): self-attention, then feed-forward."""

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(options)
        self.feed_forward = nn.Identity() if "feed_forward" in options.without else FeedForward(options)

    def forward(self, hidden: Tensor, attended: Tensor | None, wanted: Positions | None = None) -> Tensor:
        """Arguments, shapes and result as in :class:`MultiHeadAttention`."""
        transformed: Tensor = self.feed_forward(self.attention(hidden, attended, wanted))
        return transformed


class BERT4RecEncoder(nn.Module):
    """Embedding layer (section 3.4), Transformer layers (3.3) and output layer (3.5).

    LayerNorm and dropout on the summed embeddings, and LayerNorm in the output layer, are not in the paper's
    equations; the authors' code and RecBole have them, and so has this. Positions are counted from the
    ``start`` of the window (authors, RecBole), from its ``end`` (the mask of a recommendation is then always 0), or
    not at all (``none``). With ``norm`` pre a last LayerNorm follows the layers. With a ``temperature`` scores are
    cosines divided by it, in place of products.
    """

    def __init__(self, options: EncoderOptions) -> None:
        super().__init__()
        self.options = options
        hidden, eps = options.hidden_size, options.layer_norm_eps
        rows = options.n_items + 1  # the last row is [MASK]
        self.item_embedding = nn.Embedding(rows, hidden, padding_idx=PADDING, sparse=options.sparse)
        counted = options.position != "none"
        self.position_embedding = nn.Embedding(options.max_length, hidden) if counted else None
        tables, sizes = [values for values, _ in options.features], [size for _, size in options.features]
        self.features = ItemFeatures(tables, sizes, hidden) if options.features else None
        self.embedding_norm = nn.LayerNorm(hidden, eps=eps)
        self.embedding_dropout = Dropout(options.hidden_dropout_prob)
        layers = [TransformerLayer(options) for _ in range(options.n_layers)]
        self.layers = nn.ModuleList(layers)
        self.last_norm = nn.LayerNorm(hidden, eps=eps) if options.norm == "pre" else nn.Identity()
        projected = "projection" not in options.without
        self.head = nn.Linear(hidden, hidden) if projected else nn.Identity()
        self.head_norm = nn.LayerNorm(hidden, eps=eps) if projected else nn.Identity()
        self.output_bias = nn.Parameter(torch.zeros(options.n_items))
        self.time_bias = TimeBias(options.n_heads) if options.time_bias else None
        self.apply(self._initialise)
        if options.value_init == "identity":
            for layer in layers:
                layer.attention.start_as_average()

    def _initialise(self, module: nn.Module) -> None:
        """Truncated normal in [-2 std, 2 std] for weights, 0 for biases (the authors' code)."""
        std = self.options.initializer_range
        if isinstance(module, (nn.Linear, nn.Embedding, nn.EmbeddingBag)):
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)) and module.padding_idx is not None:
            with torch.no_grad():
                module.weight[PADDING].zero_()

    def forward(self, item_seq: Tensor, wanted: Positions | None = None, times: Tensor | None = None) -> Tensor:
        """Encode sequences from both sides.

        Args:
            item_seq: item ids padded on the right, [MASK] among them. *Shape:* (B, L), L <= max_length
            wanted: the M positions whose states are asked for; the last layer then works on no other.
            times: of each item as far as they are known (:func:`known_times`), for ``time_bias``. *Shape:* (B, L)

        Returns:
            Hidden states before the output layer; meaningless at padding. *Shape:* (B, L, H), or (M, H) if wanted.
        """
        present = item_seq != PADDING  # (B, L)
        hidden = self.item_embedding(item_seq)
        if self.position_embedding is not None:
            position = torch.arange(item_seq.shape[1], device=item_seq.device)
            if self.options.position == "end":
                position = (present.sum(1, keepdim=True) - 1 - position).clamp(min=0)  # (B, L)
            hidden = hidden + self.position_embedding(position)
        if self.features is not None:
            hidden = hidden + self.features(item_seq)
        hidden = self.embedding_dropout(self.embedding_norm(hidden))
        attended = present[:, None, None, :]
        if self.time_bias is not None:
            assert times is not None
            attended = self.time_bias(times).masked_fill(~attended, -torch.inf)
        *lower, last = self.layers
        for layer in lower:
            hidden = layer(hidden, attended)
        vectors: Tensor = self.last_norm(last(hidden, attended, wanted))
        return vectors

    def attention(self, item_seq: Tensor, times: Tensor | None = None) -> Tensor:
        """Weights of every layer and head, by asking and answering position. *Shape:* (B, L) -> (B, layers, A, L, L)"""
        found: list[Tensor] = []
        hooks = [
            module.register_forward_pre_hook(lambda own, inputs: found.append(own.weights(*inputs[:2])))
            for module in self.modules()
            if isinstance(module, MultiHeadAttention)
        ]
        try:
            self(item_seq, times=times)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack(found, 1)

    def output(self, hidden: Tensor) -> Tensor:
        """The output layer's projection, GELU and LayerNorm (equation 7, inner part). *Shape:* (..., H) in and out."""
        projected = "projection" not in self.options.without
        vectors: Tensor = self.head_norm(F.gelu(self.head(hidden))) if projected else hidden
        temperature = self.options.temperature
        return vectors if temperature is None else F.normalize(vectors, dim=-1) / temperature

    @torch.no_grad()
    def start_at_frequencies(self, counts: Tensor) -> None:
        """Set the output bias to the logarithm of how often each item occurs, the best guess without a history.

        Args:
            counts: of the N items; padding first. *Shape:* (N,)
        """
        frequency = torch.log(counts.to(self.output_bias) + 1.0)
        self.output_bias.copy_(frequency - frequency[1:].mean())
        self.output_bias[PADDING] = 0.0

    @property
    def output_embedding(self) -> Tensor:
        """What vectors are multiplied with: the item embedding, tied between input and output. *Shape:* (N + 1, H)"""
        weight: Tensor = self.item_embedding.weight
        return weight if self.options.temperature is None else F.normalize(weight, dim=-1)

    @property
    def catalogue(self) -> Tensor:
        """The output embedding of the N items, padding first, without [MASK]. *Shape:* (N, H)"""
        return self.output_embedding[: self.options.n_items]

    def scores(self, vectors: Tensor, bias: Tensor | None = None) -> Tensor:
        """Score every item (equation 7, before the softmax).

        Args:
            vectors: what :meth:`output` returned. *Shape:* (B, H)
            bias: in place of the output bias. *Shape:* (N,)

        Returns:
            *Shape:* (B, N)
        """
        return F.linear(vectors, self.catalogue, self.output_bias if bias is None else bias)
