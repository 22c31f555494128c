"""The Cloze task: mask some items of a sequence and predict them from both sides (section 3.6)."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_bert4rec.core.labelled import TrainingBatch, most_recent


def cloze_positions(
    lengths: Tensor, width: int, mask_ratio: float, ft_ratio: float, mask_count: str, generator: torch.Generator
) -> Tensor:
    """Draw the masked positions, at least one in each sequence; all are equally likely.

    Args:
        lengths: items of each sequence. *Shape:* (B,)
        width: L.
        mask_ratio: rho, the share of positions to mask, in (0, 1].
        ft_ratio: probability that a sequence masks its last item and nothing else, as at test time.
        mask_count: ``bernoulli`` masks each position with probability rho; ``exact`` masks max(1, round(rho n))
            positions of a sequence with n items, as the authors' code does.
        generator: on the device of ``lengths``.

    Returns:
        True where masked. *Shape:* (B, L)
    """
    device = lengths.device
    column = torch.arange(width, device=device)
    length = lengths.unsqueeze(1)  # (B, 1)
    present = column < length  # (B, L)
    noise = torch.rand(len(lengths), width, generator=generator, device=device).masked_fill(~present, torch.inf)
    if mask_count == "exact":
        count = (mask_ratio * length + 0.5).long().clamp(min=1)
        masked = noise.argsort(1).argsort(1) < count
    else:
        masked = noise < mask_ratio
        masked |= (column == noise.argmin(1, keepdim=True)) & ~masked.any(1, keepdim=True)
    last_only = torch.rand(len(lengths), 1, generator=generator, device=device) < ft_ratio
    return torch.where(last_only, column == length - 1, masked)


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
) -> TrainingBatch:
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
    """
    masked = cloze_positions(lengths, item_seq.shape[1], mask_ratio, ft_ratio, mask_count, generator)
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
    return TrainingBatch(masked_seq, rows, columns, labels, masked)


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
