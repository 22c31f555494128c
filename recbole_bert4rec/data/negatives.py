"""Negative items: for training against a few of them, and the candidates that the paper ranks a target among."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.errors import UserError


def items_outside(sequences: Tensor, n_items: int, generator: torch.Generator) -> Tensor:
    """Draw one item a row, uniformly among those that the row does not hold.

    The r-th item outside a sorted set e_0 < e_1 < ... is r + 1 + #{i : e_i - i <= r + 1}: no rejection, no loop.

    Args:
        sequences: items padded with 0. *Shape:* (M, L)
        n_items: N; items are 1..N-1.

    Returns:
        Item ids. *Shape:* (M,)

    Raises:
        UserError: a row already holds every item of the catalogue.
    """
    held, _ = sequences.sort(dim=1)
    repeated = torch.zeros_like(held, dtype=torch.bool)
    repeated[:, 1:] = held[:, 1:] == held[:, :-1]
    beyond = n_items + sequences.shape[1]  # stays beyond the catalogue after the subtraction below
    held, _ = held.masked_fill(repeated | (held == PADDING), beyond).sort(dim=1)
    outside = n_items - 1 - (held < n_items).sum(1)  # (M,)
    if bool((outside <= 0).any()):
        raise UserError(
            f"BPR needs an item outside the sequence as a negative, but a sequence holds all {n_items - 1} items; "
            "use loss_type: CE"
        )
    draw = torch.rand(len(sequences), generator=generator, device=sequences.device, dtype=torch.float64)
    candidate = torch.minimum((draw * outside).long(), outside - 1) + 1  # rank among the items outside, from 1
    rank = torch.arange(held.shape[1], device=held.device)
    return candidate + (held - rank <= candidate.unsqueeze(1)).sum(1)


class Negatives(NamedTuple):
    """Items that all masked positions of a batch are told from.

    Attributes:
        items: *Shape:* (K,)
        log_expected: the log of how often each of them is expected among K draws. *Shape:* (K,)
    """

    items: Tensor
    log_expected: Tensor


class SharedNegatives(nn.Module):
    """Draws, with replacement, the negatives that all masked positions of a batch share.

    Args:
        counts: interactions of each item in training; 0 of padding. *Shape:* (N,)
        how: ``uniform``; ``popularity``, by counts + 1, so that items which training lacks are told apart too; or
            ``batch``, the labels of the batch, which are drawn by their counts.
    """

    cumulative: Tensor
    log_share: Tensor

    def __init__(self, counts: Tensor, how: str) -> None:
        super().__init__()
        weights = {"uniform": torch.ones_like(counts), "popularity": counts + 1, "batch": counts}[how].double()
        weights[PADDING] = 0.0
        self.how = how
        self.register_buffer("cumulative", weights.cumsum(0) / weights.sum(), persistent=False)
        self.register_buffer("log_share", (weights / weights.sum()).log().float(), persistent=False)

    def draw(self, count: int, labels: Tensor, generator: torch.Generator) -> Negatives:
        """``count`` negatives, or as many as ``labels`` in mode ``batch``."""
        items = labels
        if self.how != "batch":
            draw = torch.rand(count, generator=generator, device=labels.device, dtype=torch.float64)
            items = torch.searchsorted(self.cumulative, draw, right=True).clamp(max=len(self.cumulative) - 1)
        return Negatives(items, self.log_share[items] + math.log(len(items)))
