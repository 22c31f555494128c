"""The objectives on one encoder: how each labels a batch for training and shows a history to rank next items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from recbole_bert4rec.system.constants import PADDING, OptionValues


class TrainingBatch(NamedTuple):
    """A batch as it is trained on: the items shown, the positions read, and their labels.

    Attributes:
        item_seq: items, padding and [MASK], as the encoder is shown them. *Shape:* (B, L)
        rows: row of each position that is read. *Shape:* (M,)
        columns: column of each position that is read. *Shape:* (M,)
        labels: the item that each of them predicts. *Shape:* (M,)
        two_sided: items at the beginning of each sequence that see each other; every later one sees itself and those
            before it. None if all see all. *Shape:* (B,)
    """

    item_seq: Tensor
    rows: Tensor
    columns: Tensor
    labels: Tensor
    two_sided: Tensor | None = None


class EncoderInput(NamedTuple):
    """Histories as they are shown to predict the next item.

    Attributes:
        item_seq: items, padding and [MASK], as the encoder is shown them. *Shape:* (B, L)
        last: the position of each that is read. *Shape:* (B,)
        two_sided: as in :class:`TrainingBatch`. *Shape:* (B,)
    """

    item_seq: Tensor
    last: Tensor
    two_sided: Tensor | None = None


class Objective(ABC):
    """An objective: it decides what a model learns to predict, and from which items.

    Attributes:
        extra: items of a training window beyond those that are shown at once.
        appended: positions that :meth:`ask` adds to a history.
    """

    extra = 0
    appended = 0

    def __init__(self, config: OptionValues, mask_token: int) -> None:
        self.mask_token = mask_token
        self.max_length: int = config["MAX_ITEM_LIST_LENGTH"]

    def two_sided(self, lengths: Tensor) -> Tensor | None:
        """Return how many items of each history see each other when the model ranks; None if all do.

        *Shape:* (B,) in, out
        """
        return None

    @abstractmethod
    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Make labels of a batch of sequences, (B, L + extra) with (B,) lengths."""

    @abstractmethod
    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> EncoderInput:
        """Show histories, (B, L) with (B,) lengths, to predict the next item of each.

        The result has the length of the longest. Without ``trim`` it has L + ``appended``, at most ``max_length``, so
        that no shape depends on a length.
        """


class Cloze(Objective):
    """The paper's: masked items are predicted from both sides, and [MASK] after the history is the next (3.6)."""

    appended = 1

    def __init__(self, config: OptionValues, mask_token: int) -> None:
        super().__init__(config, mask_token)
        self.masking = {
            "mask_ratio": config["mask_ratio"],
            "ft_ratio": config["ft_ratio"],
            "mask_count": config["mask_count"],
            "random_share": config["mask_random_share"],
            "keep_share": config["mask_keep_share"],
        }

    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Mask the sequences: :func:`cloze`."""
        return cloze(sequences, lengths, self.mask_token, generator, **self.masking)

    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> EncoderInput:
        """Append [MASK]: :func:`append_mask`."""
        return EncoderInput(*append_mask(item_seq, lengths, self.mask_token, self.max_length, trim))


def cloze_positions(
    lengths: Tensor, width: int, mask_ratio: float, ft_ratio: float, mask_count: str, generator: torch.Generator
) -> Tensor:
    """Draw the masked positions, at least one in each sequence; all are equally likely.

    ``bernoulli`` masks each with probability rho; ``exact`` masks max(1, round(rho n)) of n, as the authors' code does.
    A sequence masks its last item alone, as at test time, with probability ``ft_ratio``.

    *Shape:* (B,) -> (B, L)
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
    """Mask a batch of sequences for training; see :func:`cloze_positions`.

    Of the masked positions ``random_share`` show a random item and ``keep_share`` their own instead of [MASK]: 0 in the
    authors' code, .1 each in BERT.

    *Shape:* (B, L), (B,)
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
    return TrainingBatch(masked_seq, rows, columns, labels)


def append_mask(
    item_seq: Tensor, lengths: Tensor, mask_token: int, max_length: int, trim: bool = True
) -> tuple[Tensor, Tensor]:
    """Append [MASK] to each history, as the paper does to recommend (section 3.6, Test).

    A history of more than ``max_length - 1`` items loses its oldest; all others stay whole. ``trim`` cuts the result to
    the longest; else L' is L + 1, whatever the lengths are.

    *Shape:* (B, L), (B,) -> (B, L'), (B,) of the position of [MASK]
    """
    n_shown = lengths.clamp(max=max_length - 1)
    shown = most_recent(item_seq, lengths, n_shown, 1 + (int(n_shown.max()) if trim else item_seq.shape[1]))
    return shown.scatter(1, n_shown.unsqueeze(1), mask_token), n_shown


class Next(Objective):
    """SASRec's: every position sees the items up to its own and predicts the one after it."""

    extra = 1
    prefix_share = 0.0

    def two_sided(self, lengths: Tensor) -> Tensor | None:
        """Let each item see those before it alone."""
        return torch.ones_like(lengths)

    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Label each item with the one after it: :func:`next_items`."""
        return next_items(sequences, lengths, generator, self.prefix_share)

    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> EncoderInput:
        """Read the last item: :func:`read_last`."""
        shown, last = read_last(item_seq, lengths, self.mask_token, self.max_length, trim)
        return EncoderInput(shown, last, self.two_sided(last))


class Prefix(Next):
    """Prefix language model: a two-sided beginning, then next items; a whole history is seen from both sides."""

    def __init__(self, config: OptionValues, mask_token: int) -> None:
        super().__init__(config, mask_token)
        self.prefix_share = config["prefix_share"]

    def two_sided(self, lengths: Tensor) -> None:
        """Let all items see each other."""


def next_items(
    sequences: Tensor, lengths: Tensor, generator: torch.Generator | None, prefix_share: float = 0.0
) -> TrainingBatch:
    """Take the last item from each sequence and let every position predict the item after it.

    With a prefix (prefix language model; Dong et al., UniLM, NeurIPS 2019) the items before a random cut see each other
    from both sides. Then only the last of them and the later ones predict, for the others see what follows them.

    ``prefix_share`` is the probability of one; the other sequences are causal (Radford et al., 2018; SASRec, Kang and
    McAuley, ICDM 2018). Nothing is drawn if it is 0.

    *Shape:* (B, L + 1), (B,)
    """
    column = torch.arange(sequences.shape[1] - 1, device=sequences.device)
    count = (lengths - 1).clamp(min=0)  # items that are shown
    shown = sequences[:, :-1].masked_fill(column >= count.unsqueeze(1), PADDING)
    two_sided = torch.ones_like(count)
    read = column < count.unsqueeze(1)
    if prefix_share:
        draws = torch.rand(2, len(lengths), generator=generator, device=lengths.device, dtype=torch.float64)
        cut = 1 + (draws[1] * count).long().clamp(max=(count - 1).clamp(min=0))  # in 1..count
        two_sided = torch.where(draws[0] < prefix_share, cut, two_sided)
        read &= column >= two_sided.unsqueeze(1) - 1
    rows, columns = read.nonzero(as_tuple=True)
    return TrainingBatch(shown, rows, columns, sequences[rows, columns + 1], two_sided)


def read_last(
    item_seq: Tensor, lengths: Tensor, mask_token: int, max_length: int, trim: bool = True
) -> tuple[Tensor, Tensor]:
    """Show the most recent items of each history, to be read at the last of them.

    A history without items is shown as [MASK]. ``trim`` cuts the result to the longest; else L' is L.

    *Shape:* (B, L), (B,) -> (B, L'), (B,) of the position of the last item
    """
    n_shown = lengths.clamp(max=max_length)
    shown = most_recent(item_seq, lengths, n_shown, max(1, int(n_shown.max())) if trim else item_seq.shape[1])
    shown[:, 0] = shown[:, 0].masked_fill(n_shown == 0, mask_token)
    return shown, (n_shown - 1).clamp(min=0)


OBJECTIVES: Mapping[str, type[Objective]] = {"cloze": Cloze, "next": Next, "prefix": Prefix}


def most_recent(values: Tensor, lengths: Tensor, n_shown: Tensor, width: int) -> Tensor:
    """Move the latest values of each history, as many as are shown, to its left, and pad the rest.

    *Shape:* (B, L), (B,), (B,) -> (B, L')
    """
    column = torch.arange(width, device=values.device)
    index = (lengths - n_shown).unsqueeze(1) + column
    latest = values.gather(1, index.clamp(max=values.shape[1] - 1))
    return latest.masked_fill(column >= n_shown.unsqueeze(1), PADDING)


def seen_pairs(batch: TrainingBatch, mask_token: int) -> tuple[Tensor, Tensor]:
    """Return the number of each read position, ascending, with each item that it sees, once and without [MASK].

    *Shape:* (P,) each
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
