"""Next-item tasks: each position predicts the item after it, causally or after a two-sided prefix."""

from __future__ import annotations

import torch
from torch import Tensor

from recbole_bert4rec.core.labelled import TrainingBatch, most_recent
from recbole_bert4rec.system.constants import PADDING


def next_items(
    sequences: Tensor,
    lengths: Tensor,
    mask_token: int,
    generator: torch.Generator | None,
    prefix_share: float = 0.0,
    mask_ratio: float = 0.0,
) -> TrainingBatch:
    """Take the last item from each sequence and let every position predict the item after it.

    With a prefix (prefix language model; Dong et al., UniLM, NeurIPS 2019) the items before a random cut see each other
    from both sides. Then only the last of them and the later ones predict, for the others see what follows them. Masked
    items of a prefix are predicted too, from the position before them (masked next-token prediction): the position that
    a next item is read from.

    Args:
        sequences: items padded on the right. *Shape:* (B, L + 1)
        lengths: items of each sequence. *Shape:* (B,)
        mask_token: id of [MASK].
        generator: on the device of ``sequences``; nothing is drawn without a prefix.
        prefix_share: probability that a sequence has a prefix; the others are causal (Radford et al., 2018; SASRec,
            Kang and McAuley, ICDM 2018).
        mask_ratio: share of the items of a prefix, its first one aside, that are masked.
    """
    shown = sequences[:, :-1].clone()
    column = torch.arange(shown.shape[1], device=shown.device)
    count = (lengths - 1).clamp(min=0)  # items that are shown
    shown.masked_fill_(column >= count.unsqueeze(1), PADDING)
    two_sided = torch.ones_like(count)
    read = column < count.unsqueeze(1)
    if prefix_share:
        draws = torch.rand(2, len(lengths), generator=generator, device=lengths.device, dtype=torch.float64)
        cut = 1 + (draws[1] * count).long().clamp(max=(count - 1).clamp(min=0))  # in 1..count
        two_sided = torch.where(draws[0] < prefix_share, cut, two_sided)
        read &= column >= two_sided.unsqueeze(1) - 1
    masked = torch.zeros_like(read)
    if prefix_share and mask_ratio:
        inside = (column > 0) & (column < two_sided.unsqueeze(1))
        masked = inside & (torch.rand(shown.shape, generator=generator, device=shown.device) < mask_ratio)
        shown.masked_fill_(masked, mask_token)
        read[:, :-1] |= masked[:, 1:]
    rows, columns = read.nonzero(as_tuple=True)
    return TrainingBatch(shown, rows, columns, sequences[rows, columns + 1], masked, two_sided)


def read_last(
    item_seq: Tensor, lengths: Tensor, mask_token: int, max_length: int, trim: bool = True
) -> tuple[Tensor, Tensor]:
    """Show the most recent items of each history, to be read at the last of them.

    A history without items is shown as [MASK].

    Args:
        item_seq: histories padded on the right. *Shape:* (B, L)
        lengths: items of each history; 0 is allowed. *Shape:* (B,)
        mask_token: id of [MASK].
        max_length: of the result.
        trim: the result to the longest. False: L' is L, whatever the lengths are.

    Returns:
        The sequences, (B, L' <= max_length), and the position of each last item, (B,).
    """
    kept = lengths.clamp(max=max_length)
    shown = most_recent(item_seq, lengths, kept, max(1, int(kept.max())) if trim else item_seq.shape[1])
    shown[:, 0] = shown[:, 0].masked_fill(kept == 0, mask_token)
    return shown, (kept - 1).clamp(min=0)
