"""The Cloze task: mask some items of a sequence and predict them from both sides (section 3.6)."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.data.labelled import Labelled, most_recent


def cloze_positions(
    lengths: Tensor,
    width: int,
    mask_ratio: float,
    ft_ratio: float,
    mask_count: str,
    generator: torch.Generator,
    recency: float = 1.0,
) -> Tensor:
    """Draw the masked positions, at least one in each sequence.

    All positions are equally likely unless ``recency`` is below 1. Then a position at distance d from the end has the
    weight ``recency`` ** d, scaled to a mean of 1 in each sequence. With ``bernoulli`` its probability is rho times
    the weight, at most 1, so fewer positions than the share rho are masked if some products exceed 1. With ``exact``
    positions are drawn without replacement by weight. Not in the paper: the idea is that of recency-based sampling
    (Petrov and Macdonald, RecSys 2022).

    Args:
        lengths: items of each sequence. *Shape:* (B,)
        width: L.
        mask_ratio: rho, the share of positions to mask, in (0, 1].
        ft_ratio: probability that a sequence masks its last item and nothing else, as at test time.
        mask_count: ``bernoulli`` masks each position with probability rho; ``exact`` masks max(1, round(rho n))
            positions of a sequence with n items, as the authors' code does.
        generator: on the device of ``lengths``.
        recency: factor by which the weight falls with each position from the end, in (0, 1].

    Returns:
        True where masked. *Shape:* (B, L)
    """
    device = lengths.device
    column = torch.arange(width, device=device)
    length = lengths.unsqueeze(1)  # (B, 1)
    present = column < length  # (B, L)
    noise = torch.rand(len(lengths), width, generator=generator, device=device)
    weights = _weights(lengths, width, recency) if recency < 1.0 else torch.ones_like(noise)
    # exponential arrival times; the first k of them are a draw of k positions by weight
    arrival = (-torch.log1p(-noise) / weights).masked_fill(~present, torch.inf)
    if mask_count == "exact":
        count = (mask_ratio * length + 0.5).long().clamp(min=1)
        masked = arrival.argsort(1).argsort(1) < count
    else:
        masked = present & (noise < mask_ratio * weights)
        masked |= (column == arrival.argmin(1, keepdim=True)) & ~masked.any(1, keepdim=True)
    last_only = torch.rand(len(lengths), 1, generator=generator, device=device) < ft_ratio
    return torch.where(last_only, column == length - 1, masked)


def _weights(lengths: Tensor, width: int, recency: float) -> Tensor:
    """Return ``recency`` ** distance from the end, scaled to a mean of 1 in each sequence.

    *Shape:* (B,) -> (B, L)
    """
    distance = lengths.unsqueeze(1) - 1 - torch.arange(width, device=lengths.device)
    weight = (recency ** distance.clamp(min=0).double()).masked_fill(distance < 0, 0.0)
    return (weight * lengths.unsqueeze(1) / weight.sum(1, keepdim=True)).clamp(min=1e-12).float()


def cut_to_prefixes(
    item_seq: Tensor, lengths: Tensor, masked: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Cut each sequence that masks nothing but its last item after a random item, and mask that item instead.

    Such a sequence is a user's history at an earlier time, like the rows on which RecBole trains.

    Args:
        item_seq: items padded on the right. *Shape:* (B, L)
        lengths: items of each sequence. *Shape:* (B,)
        masked: True where masked. *Shape:* (B, L)
        generator: on the device of ``item_seq``.

    Returns:
        The new ``item_seq`` and ``masked``. *Shape:* (B, L) each
    """
    column, last = torch.arange(item_seq.shape[1], device=item_seq.device), lengths - 1
    alone = (masked.sum(1) == 1) & masked.gather(1, last.unsqueeze(1)).squeeze(1)
    draw = torch.rand(len(lengths), generator=generator, device=lengths.device, dtype=torch.float64)
    end = torch.where(alone, (last - (draw * last).long()), last).unsqueeze(1)  # in 1..last; 0 of one item
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
) -> Labelled:
    """Mask a batch of sequences for training.

    Args:
        item_seq: items padded on the right. *Shape:* (B, L)
        lengths: items of each sequence, at least 1. *Shape:* (B,)
        mask_token: id of [MASK]; real items are 1..mask_token - 1.
        generator: on the device of ``item_seq``.
        mask_ratio: see :func:`cloze_positions`.
        ft_ratio: see :func:`cloze_positions`.
        mask_count: see :func:`cloze_positions`.
        random_share: share of the masked positions that hold a random item instead of [MASK]; 0 in the authors' code,
            0.1 in BERT.
        keep_share: share of the masked positions that keep their item; 0 in the authors' code, 0.1 in BERT.
        recency: see :func:`cloze_positions`.
        prefix: apply :func:`cut_to_prefixes`.
    """
    masked = cloze_positions(lengths, item_seq.shape[1], mask_ratio, ft_ratio, mask_count, generator, recency)
    if prefix:
        item_seq, masked = cut_to_prefixes(item_seq, lengths, masked, generator)
    rows, columns = masked.nonzero(as_tuple=True)
    labels = item_seq[rows, columns]
    replacement = torch.full_like(labels, mask_token)
    if random_share or keep_share:
        draw = torch.rand(len(labels), generator=generator, device=labels.device)
        random_items = torch.randint(1, mask_token, labels.shape, generator=generator, device=labels.device)
        replacement = torch.where(draw < random_share, random_items, replacement)
        replacement = torch.where(draw >= 1.0 - keep_share, labels, replacement)
    masked_seq = item_seq.clone()
    masked_seq[rows, columns] = replacement
    return Labelled(masked_seq, rows, columns, labels, masked)


def append_mask(
    item_seq: Tensor, lengths: Tensor, mask_token: int, max_length: int, trim: bool = True
) -> tuple[Tensor, Tensor]:
    """Append [MASK] to each history, as the paper does to recommend (section 3.6, Test).

    A history of more than ``max_length - 1`` items loses its oldest; all others stay whole.

    Args:
        item_seq: histories padded on the right. *Shape:* (B, L)
        lengths: items of each history; 0 is allowed. *Shape:* (B,)
        mask_token: id of [MASK].
        max_length: of the result.
        trim: the result to the longest. False: L' is L + 1, whatever the lengths are.

    Returns:
        The sequences, (B, L' <= max_length), and the position of each [MASK], (B,).
    """
    kept = lengths.clamp(max=max_length - 1)
    shown = most_recent(item_seq, lengths, kept, 1 + (int(kept.max()) if trim else item_seq.shape[1]))
    return shown.scatter(1, kept.unsqueeze(1), mask_token), kept
