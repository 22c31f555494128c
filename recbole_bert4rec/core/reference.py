"""BERT4Rec as the paper has it, equation by equation, in plain torch: to read, and to test everything faster against.

Sun, Liu, Wu, Pei, Lin, Ou, Jiang: BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations from
Transformer. CIKM 2019.

Items are 1 to N - 1, 0 is padding, and N is [MASK]. B sequences of L positions; H hidden size; A heads; M masked items.
What the equations leave out and the authors' code has is here too: LayerNorm and dropout after the embedding, biases of
the projections, a LayerNorm in the output layer.

The whole model, from histories to a loss and to a recommendation:

    model = BERT4Rec(n_items=4, max_length=5, hidden_size=8, inner_size=32, n_layers=2, n_heads=2)
    histories = torch.tensor([[1, 2, 3, 0], [3, 1, 0, 0]])
    shown, labels = cloze(histories, mask_token=4, mask_ratio=0.5)
    loss(model(shown), labels).backward()
    shown = append_mask(histories, mask_token=4)
    next_items = model(shown)[shown == 4].argmax(1)
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PADDING = 0
NO_LABEL = -100
"""The label of positions that were not masked."""


def cloze(item_seq: Tensor, mask_token: int, mask_ratio: float) -> tuple[Tensor, Tensor]:
    """Replace each item by [MASK] with probability rho; its label is the item (section 3.6, Cloze task).

    With [1, 2, 3] and the second masked: the model is shown [1, MASK, 3], and the labels are [-100, 2, -100].

    *Shape:* (B, L) -> (B, L), (B, L)
    """
    masked = (torch.rand(item_seq.shape, device=item_seq.device) < mask_ratio) & (item_seq != PADDING)
    return item_seq.masked_fill(masked, mask_token), item_seq.masked_fill(~masked, NO_LABEL)


def append_mask(item_seq: Tensor, mask_token: int) -> Tensor:
    """Append [MASK] to each history; its label would be the next item (section 3.6, Test).

    [[1, 2, 0], [3, 0, 0]] becomes [[1, 2, MASK, 0], [3, MASK, 0, 0]].

    *Shape:* (B, L) -> (B, L + 1)
    """
    lengths = (item_seq != PADDING).sum(1, keepdim=True)
    return F.pad(item_seq, (0, 1)).scatter(1, lengths, mask_token)


def attention(query: Tensor, key: Tensor, value: Tensor, present: Tensor) -> Tensor:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(H / A)) V, of one head; padding is not attended to (equation 2).

    *Shape:* (B, L, H / A) three times, and (B, L) -> (B, L, H / A)
    """
    logits = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])  # (B, L, L)
    return torch.softmax(logits.masked_fill(~present.unsqueeze(1), -math.inf), dim=-1) @ value


class MultiHeadAttention(nn.Module):
    """MH(x) = [head_1; ...; head_A] W^O, head_i = Attention(x W_i^Q, x W_i^K, x W_i^V) (equation 1)."""

    def __init__(self, hidden_size: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.output = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Let each position attend to all items of its sequence, on both sides.

        *Shape:* (B, L, H), (B, L) -> (B, L, H)
        """
        query, key, value = (x.chunk(self.n_heads, dim=-1) for x in self.query_key_value(hidden).chunk(3, dim=-1))
        heads = [attention(q, k, v, present) for q, k, v in zip(query, key, value, strict=True)]
        transformed: Tensor = self.output(torch.cat(heads, dim=-1))
        return transformed


class FeedForward(nn.Module):
    """FFN(x) = GELU(x W_1 + b_1) W_2 + b_2, at each position alone (equation 3)."""

    def __init__(self, hidden_size: int, inner_size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden_size, inner_size)
        self.output = nn.Linear(inner_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=1e-12)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each position.

        *Shape:* (B, L, H) in, out
        """
        transformed: Tensor = self.output(F.gelu(self.inner(hidden)))
        return transformed


class Trm(nn.Module):
    """Trm(x) = LN(a + Dropout(FFN(a))), a = LN(x + Dropout(MH(x))) (equations 4 to 6)."""

    def __init__(self, hidden_size: int, inner_size: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size, n_heads)
        self.feed_forward = FeedForward(hidden_size, inner_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Apply both sublayers.

        *Shape:* (B, L, H), (B, L) -> (B, L, H)
        """
        attended = self.attention.norm(hidden + self.dropout(self.attention(hidden, present)))
        transformed: Tensor = self.feed_forward.norm(attended + self.dropout(self.feed_forward(attended)))
        return transformed


class BERT4Rec(nn.Module):
    """Embedding layer (section 3.4), Transformer layers (3.3) and output layer (3.5), by the paper's defaults.

    Args:
        n_items: N, padding counted.
        max_length: positions that there are embeddings of.
        hidden_size: H.
        inner_size: of the feed-forward network; the paper has 4 H.
        n_layers: Transformer layers.
        n_heads: A.
        dropout: share of the values that are left out in training.
    """

    def __init__(
        self,
        n_items: int,
        max_length: int,
        hidden_size: int = 64,
        inner_size: int = 256,
        n_layers: int = 2,
        n_heads: int = 2,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.n_items = n_items
        self.item_embedding = nn.Embedding(n_items + 1, hidden_size, padding_idx=PADDING)
        self.position_embedding = nn.Embedding(max_length, hidden_size)
        self.embedding_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Trm(hidden_size, inner_size, n_heads, dropout) for _ in range(n_layers))
        self.head = nn.Linear(hidden_size, hidden_size)
        self.head_norm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.output_bias = nn.Parameter(torch.zeros(n_items))

    def encode(self, item_seq: Tensor) -> Tensor:
        """h^0 = v + p, the embeddings of item and position (section 3.4); h^l = Trm(h^(l-1)) (section 3.3).

        *Shape:* (B, L) -> (B, L, H)
        """
        embedded = self.item_embedding(item_seq) + self.position_embedding.weight[: item_seq.shape[1]]
        hidden: Tensor = self.dropout(self.embedding_norm(embedded))
        for layer in self.layers:
            hidden = layer(hidden, item_seq != PADDING)
        return hidden

    def forward(self, item_seq: Tensor) -> Tensor:
        """Return the logits of P(v) = softmax(GELU(h^L W^P + b^P) E^T + b^O) at every position (equation 7).

        E is the item embedding of the input. [MASK] has no logit, and that of padding is -inf: neither is an item.

        *Shape:* (B, L) -> (B, L, N)
        """
        vectors = self.head_norm(F.gelu(self.head(self.encode(item_seq))))
        logits = vectors @ self.item_embedding.weight[: self.n_items].T + self.output_bias
        of_items: Tensor = logits.index_fill(-1, torch.tensor([PADDING], device=logits.device), -torch.inf)
        return of_items


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """L = 1/|S^m| sum over v_m of -log P(v_m), the mean over the masked items of a sequence, then of all (equation 8).

    *Shape:* (B, L, N), (B, L) -> scalar
    """
    of_items = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NO_LABEL, reduction="none")
    masked = (labels != NO_LABEL).sum(1).clamp(min=1)
    return (of_items.view_as(labels).sum(1) / masked).mean()
