"""A batch as it is trained on: what the encoder is shown, which positions are read, and what they predict."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recbole_bert4rec.system.constants import PADDING


class TrainingBatch(NamedTuple):
    """A batch as it is trained on: what is shown, what is read, and what that predicts.

    Attributes:
        item_seq: what the encoder is shown. *Shape:* (B, L)
        rows: row of each position that is read. *Shape:* (M,)
        columns: column of each position that is read. *Shape:* (M,)
        labels: the item that each of them predicts. *Shape:* (M,)
        masked: the positions whose item is masked, though some may show an item. *Shape:* (B, L)
        two_sided: items at the beginning of each sequence that see each other; every later one sees itself and those
            before it. None where all see all. *Shape:* (B,)
    """

    item_seq: Tensor
    rows: Tensor
    columns: Tensor
    labels: Tensor
    masked: Tensor
    two_sided: Tensor | None = None


class Asked(NamedTuple):
    """Histories as they are shown to predict the next item.

    Attributes:
        item_seq: what the encoder is shown. *Shape:* (B, L)
        last: the position of each that is read. *Shape:* (B,)
        two_sided: as in :class:`TrainingBatch`. *Shape:* (B,)
    """

    item_seq: Tensor
    last: Tensor
    two_sided: Tensor | None = None


def most_recent(values: Tensor, lengths: Tensor, kept: Tensor, width: int) -> Tensor:
    """Move the latest values of each history to its left, and pad the rest.

    Args:
        values: of histories padded on the right. *Shape:* (B, L)
        lengths: values of each history. *Shape:* (B,)
        kept: how many of them are kept. *Shape:* (B,)
        width: L' of the result, at least the most that are kept.

    Returns:
        *Shape:* (B, L')
    """
    column = torch.arange(width, device=values.device)
    index = (lengths - kept).unsqueeze(1) + column
    latest = values.gather(1, index.clamp(max=values.shape[1] - 1))
    return latest.masked_fill(column >= kept.unsqueeze(1), PADDING)


def seen_pairs(batch: TrainingBatch, mask_token: int) -> tuple[Tensor, Tensor]:
    """Return which items each read position sees: those of its history at that time, without [MASK].

    Args:
        batch: of a loss.
        mask_token: id of [MASK].

    Returns:
        Index of the read position, ascending, and item; each pair stands once. *Shape:* (P,) each
    """
    visible = distinct_items(batch.item_seq, mask_token)[batch.rows]  # (M, L)
    if batch.two_sided is not None:
        end = torch.maximum(batch.columns + 1, batch.two_sided[batch.rows]).unsqueeze(1)
        visible &= torch.arange(visible.shape[1], device=visible.device) < end
    read, column = visible.nonzero(as_tuple=True)
    return read, batch.item_seq[batch.rows[read], column]


def distinct_items(item_seq: Tensor, mask_token: int) -> Tensor:
    """Mark each item of a sequence where it stands first; neither padding nor [MASK].

    *Shape:* (B, L) in, out
    """
    ordered, order = item_seq.sort(dim=1, stable=True)
    new = (ordered != PADDING) & (ordered != mask_token)
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(new).scatter_(1, order, new)
