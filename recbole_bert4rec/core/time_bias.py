"""Attention bias per head and log2 time gap, for data with real timestamps."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_BUCKETS = 64
"""Buckets of time gaps, one a power of two: enough for nanoseconds."""


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
