"""Attention bias per head and distance between positions, in place of position embeddings."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
