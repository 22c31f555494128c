"""The Cloze task (paper section 3.6): hide some items of a sequence, predict them from both sides."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recbole_bert4rec.constants import PADDING


class Cloze(NamedTuple):
    """A masked batch.

    Attributes:
        item_seq: the sequences with their masked items replaced. *Shape:* (B, L)
        rows, columns: where the masked positions are. *Shape:* (M,) each
        labels: the items that stood there. *Shape:* (M,)
    """

    item_seq: Tensor
    rows: Tensor
    columns: Tensor
    labels: Tensor


def cloze_positions(
    lengths: Tensor,
    width: int,
    mask_ratio: float,
    ft_ratio: float,
    mask_count: str,
    generator: torch.Generator,
    recency: float = 1.0,
) -> Tensor:
    """Draw the masked positions, at least one a sequence, every position alike unless ``recency`` is below 1.

    Args:
        lengths: items of each sequence. *Shape:* (B,)
        width: L.
        mask_ratio: rho, the share of positions to mask.
        ft_ratio: probability that a sequence masks its last item and nothing else, as at test time.
        mask_count: ``bernoulli`` masks each position with probability rho; ``exact`` masks
            max(1, round(rho n)) positions of a sequence of n, as the authors' code does.
        recency: a position weighs ``recency`` to the power of its distance from the end: its probability is rho times
            the weight, 1 in the mean (so that fewer are masked where many late ones are certain); ``exact`` draws by
            weight. The idea is that of recency-based sampling of sequences (Petrov and Macdonald, RecSys 2022).

    Returns:
        True where masked. *Shape:* (B, L)
    """
    device = lengths.device
    column = torch.arange(width, device=device)
    length = lengths.unsqueeze(1)  # (B, 1)
    present = column < length  # (B, L)
    noise = torch.rand(len(lengths), width, generator=generator, device=device)
    weights = _weights(lengths, width, recency) if recency < 1.0 else torch.ones_like(noise)
    first = (-torch.log1p(-noise) / weights).masked_fill(~present, torch.inf)  # a race: drawn by weight
    if mask_count == "exact":
        wanted = (mask_ratio * length + 0.5).long().clamp(min=1)
        masked = first.argsort(1).argsort(1) < wanted
    else:
        masked = present & (noise < mask_ratio * weights)
        masked |= (column == first.argmin(1, keepdim=True)) & ~masked.any(1, keepdim=True)
    last_only = torch.rand(len(lengths), 1, generator=generator, device=device) < ft_ratio
    return torch.where(last_only, column == length - 1, masked)


def _weights(lengths: Tensor, width: int, recency: float) -> Tensor:
    """``recency`` to the power of each item's distance from the end, 1 in the mean of a sequence. *Shape:* (B, L)"""
    distance = lengths.unsqueeze(1) - 1 - torch.arange(width, device=lengths.device)
    weight = (recency ** distance.clamp(min=0).double()).masked_fill(distance < 0, 0.0)
    return (weight * lengths.unsqueeze(1) / weight.sum(1, keepdim=True)).clamp(min=1e-12).float()


def cut_to_prefixes(
    item_seq: Tensor, lengths: Tensor, masked: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """End each sequence that masks its last item alone at a random item, which is masked in its place.

    Such a sequence is then what a user's history was at some time, as in the rows that RecBole trains on.

    Args:
        item_seq: items padded on the right. *Shape:* (B, L)
        lengths: items of each sequence. *Shape:* (B,)
        masked: True where masked. *Shape:* (B, L)

    Returns:
        ``item_seq`` and ``masked`` anew. *Shape:* (B, L) each
    """
    column, last = torch.arange(item_seq.shape[1], device=item_seq.device), lengths - 1
    alone = (masked.sum(1) == 1) & masked.gather(1, last.unsqueeze(1)).squeeze(1)
    draw = torch.rand(len(lengths), generator=generator, device=lengths.device, dtype=torch.float64)
    end = torch.where(alone, (last - (draw * last).long()), last).unsqueeze(1)  # 1 to the last; 0 of a single item
    return item_seq.masked_fill(column > end, PADDING), torch.where(alone.unsqueeze(1), column == end, masked)


def cloze(
    item_seq: Tensor,
    lengths: Tensor,
    mask_token: int,
    generator: torch.Generator,
    mask_ratio: float,
    ft_ratio: float = 0.0,
    mask_count: str = "bernoulli",
    random_share: float = 0.0,
    keep_share: float = 0.0,
    recency: float = 1.0,
    prefix: bool = False,
) -> Cloze:
    """Mask a batch of sequences for training.

    Args:
        item_seq: items padded on the right. *Shape:* (B, L)
        lengths: items of each sequence, at least 1. *Shape:* (B,)
        mask_token: id of [MASK]; real items are 1..mask_token - 1.
        generator: on the device of ``item_seq``.
        mask_ratio, ft_ratio, mask_count, recency: see :func:`cloze_positions`.
        random_share, keep_share: of the masked positions, how many show a random item or keep their own
            instead of [MASK] (0 and 0 in the authors' code; .1 and .1 in BERT).
        prefix: whether to :func:`cut_to_prefixes`.
    """
    masked = cloze_positions(lengths, item_seq.shape[1], mask_ratio, ft_ratio, mask_count, generator, recency)
    if prefix:
        item_seq, masked = cut_to_prefixes(item_seq, lengths, masked, generator)
    rows, columns = masked.nonzero(as_tuple=True)
    labels = item_seq[rows, columns]
    shown = torch.full_like(labels, mask_token)
    if random_share or keep_share:
        draw = torch.rand(len(labels), generator=generator, device=labels.device)
        random_items = torch.randint(1, mask_token, labels.shape, generator=generator, device=labels.device)
        shown = torch.where(draw < random_share, random_items, shown)
        shown = torch.where(draw >= 1.0 - keep_share, labels, shown)
    masked_seq = item_seq.clone()
    masked_seq[rows, columns] = shown
    return Cloze(masked_seq, rows, columns, labels)


def append_mask(item_seq: Tensor, lengths: Tensor, mask_token: int, max_length: int) -> tuple[Tensor, Tensor]:
    """Put [MASK] after each history, as the paper does to recommend (section 3.6, Test).

    Nothing is lost: only a history longer than ``max_length - 1`` gives up its oldest items.

    Args:
        item_seq: histories padded on the right. *Shape:* (B, L)
        lengths: items of each history; 0 is allowed. *Shape:* (B,)

    Returns:
        The input, trimmed to its longest row, (B, <= max_length), and the position of [MASK], (B,).
    """
    kept = lengths.clamp(max=max_length - 1)
    width = int(kept.max()) + 1
    column = torch.arange(width, device=item_seq.device)
    index = (lengths - kept).unsqueeze(1) + column
    shifted = item_seq.gather(1, index.clamp(max=item_seq.shape[1] - 1))
    end = kept.unsqueeze(1)
    shifted = shifted.masked_fill(column > end, PADDING)
    return shifted.masked_fill(column == end, mask_token), kept
