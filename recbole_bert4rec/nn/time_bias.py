"""What attention gains from real timestamps: a learnt number by the time between two interactions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_STEPS = 64
"""Powers of two of the time between: enough for nanoseconds."""


class TimeBias(nn.Module):
    """Added to the attention logits of all layers; not in the paper (HSTU, Zhai et al., ICML 2024, has one a layer).

    The time between is counted in powers of two of the data's unit, apart for what came before and what came after.

    Args:
        n_heads: A.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_heads, 2 * _STEPS))

    def forward(self, times: Tensor) -> Tensor:
        """Bias by head, asking and answering position. *Shape:* (B, L) -> (B, A, L, L)"""
        between = times.unsqueeze(1) - times.unsqueeze(2)  # (B, L, L), of asking row to answering column
        step = torch.log2(1.0 + between.abs()).long().clamp(max=_STEPS - 1)
        return self.bias[:, torch.where(between > 0, step + _STEPS, step)].movedim(0, 1)


def known_times(times: Tensor, known: Tensor) -> Tensor:
    """The times that a model may see: where an item is hidden, that of the last one known before it.

    A recommendation is asked for at an unknown time, so no masked item shows its own.

    Args:
        times: ascending in each sequence; anything where not known. *Shape:* (B, L)
        known: whether a position shows an item. *Shape:* (B, L)

    Returns:
        Hidden items at the beginning have the first known time; 0 where nothing is known. *Shape:* (B, L)
    """
    first = times.masked_fill(~known, torch.inf).amin(1, keepdim=True)
    last = times.masked_fill(~known, -torch.inf).cummax(1).values
    return torch.where(known.any(1, keepdim=True), torch.maximum(last, first), 0.0)
