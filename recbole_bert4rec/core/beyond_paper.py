"""Parts of the encoder beyond the paper: attention biases of distances and times, embeddings of item features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recbole_bert4rec.system.constants import PADDING

_BUCKETS = 64
"""Buckets of time gaps, one a power of two: enough for nanoseconds."""


class PositionBias(nn.Module):
    """Learn a number for each head and distance, which all layers add to their attention logits.

    Distances to earlier and to later positions have separate numbers. Not in the paper: T5's (Raffel et al., JMLR 2020,
    section 2.1), without buckets.

    Args:
        n_heads: A.
        max_length: longest input.
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


class TimeBias(nn.Module):
    """Learn a number for each head and time gap, which all layers add to their attention logits.

    Gaps fall into buckets by powers of two of the data's unit of time; gaps to earlier and to later positions have
    separate buckets. Not in the paper: the idea is that of HSTU (Zhai et al., ICML 2024), which has a bias of its own
    in each layer.

    Args:
        n_heads: A.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_heads, 2 * _BUCKETS))

    def forward(self, times: Tensor) -> Tensor:
        """Return the bias of each head by query and key position.

        *Shape:* (B, L) -> (B, A, L, L)
        """
        gap = times.unsqueeze(1) - times.unsqueeze(2)  # (B, L, L), from query row to key column
        bucket = torch.log2(1.0 + gap.abs()).clamp(max=_BUCKETS - 1).long()  # of an endless gap, too
        return self.bias[:, torch.where(gap > 0, bucket + _BUCKETS, bucket)].movedim(0, 1)


def visible_times(times: Tensor, visible: Tensor) -> Tensor:
    """Give each masked item the timestamp of its last visible predecessor.

    Its own timestamp is unknown at inference, where [MASK] stands for an interaction that has not happened yet.

    Args:
        times: ascending in each sequence; any number where no item is visible. *Shape:* (B, L)
        visible: True where a position holds an item that is not masked. *Shape:* (B, L)

    Returns:
        Times of all positions. Masked items without a visible predecessor get the first visible time of the sequence,
        and 0 if nothing is visible. *Shape:* (B, L)
    """
    first = times.masked_fill(~visible, torch.inf).amin(1, keepdim=True)
    last = times.masked_fill(~visible, -torch.inf).cummax(1).values
    return torch.where(visible.any(1, keepdim=True), torch.maximum(last, first), 0.0)


class ItemFeatures(nn.Module):
    """Embed each feature with a table of its own and add the vectors up.

    If an item has several values of a feature, their vectors are averaged, as in RecBole's SASRecF.

    Args:
        values: for each feature, the ids of every item's values, padded with 0. The last row is [MASK], which has no
            values. *Shape:* (N + 1, width) each
        sizes: number of ids of each feature, padding included.
        hidden_size: H.
    """

    def __init__(self, values: Sequence[Tensor], sizes: Sequence[int], hidden_size: int) -> None:
        super().__init__()
        bags = (nn.EmbeddingBag(size, hidden_size, mode="mean", padding_idx=PADDING) for size in sizes)
        self.tables = nn.ModuleList(bags)
        for number, ids in enumerate(values):
            self.register_buffer(f"values_{number}", ids)

    def forward(self, items: Tensor) -> Tensor:
        """Return the sum of each item's feature vectors.

        *Shape:* (B, L) -> (B, L, H)
        """
        total = torch.zeros((), device=items.device)
        for number, bag in enumerate(self.tables):
            ids = self.get_buffer(f"values_{number}")[items.flatten()]  # (B L, width)
            total = total + bag(ids).view(*items.shape, -1)
        return total
