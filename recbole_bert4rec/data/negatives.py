"""Negative items for pairwise training, drawn for a whole batch at once."""

from __future__ import annotations

import torch
from torch import Tensor

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
