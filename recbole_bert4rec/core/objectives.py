"""The objectives on one encoder: how each labels a batch for training and shows a history to be continued."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from recbole_bert4rec.core.cloze import append_mask, cloze
from recbole_bert4rec.core.labelled import Asked, TrainingBatch
from recbole_bert4rec.core.next_item import next_items, read_last
from recbole_bert4rec.system.constants import OptionValues


class Objective(ABC):
    """What a model learns to predict, and from what.

    Args:
        config: the options.
        mask_token: id of [MASK].

    Attributes:
        extra: items of a training window beyond those that are shown at once.
        appended: positions that :meth:`ask` adds to a history.
        read_at: what stands at the position from which the next item of a history is read.
    """

    extra = 0
    appended = 0
    read_at = "[MASK]"

    def __init__(self, config: OptionValues, mask_token: int) -> None:
        self.mask_token = mask_token
        self.max_length: int = config["MAX_ITEM_LIST_LENGTH"]

    def two_sided(self, lengths: Tensor) -> Tensor | None:
        """Return how many items of each history see each other when the model ranks; None where all do.

        *Shape:* (B,) in, out
        """
        return None

    @abstractmethod
    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Make labels of a batch of sequences, (B, L + extra) with (B,) lengths."""

    @abstractmethod
    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> Asked:
        """Show histories, (B, L) with (B,) lengths, to predict the next item of each.

        The result has the length of the longest. Without ``trim`` it has L + ``appended``, at most ``max_length``, so
        that no shape depends on a length.
        """

    @abstractmethod
    def times_of(self, times: Tensor, lengths: Tensor, trim: bool = True) -> Tensor:
        """Return the times of the items that :meth:`ask` shows; 0 elsewhere.

        *Shape:* (B, L), (B,) -> (B, L')
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

    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> Asked:
        """Append [MASK]: :func:`append_mask`."""
        return Asked(*append_mask(item_seq, lengths, self.mask_token, self.max_length, trim))

    def times_of(self, times: Tensor, lengths: Tensor, trim: bool = True) -> Tensor:
        """Shift the times as :func:`append_mask` shifts the items."""
        return append_mask(times, lengths, 0, self.max_length, trim)[0]


class _NextItem(Objective):
    """What next-item objectives share."""

    extra = 1
    read_at = "last item"

    def times_of(self, times: Tensor, lengths: Tensor, trim: bool = True) -> Tensor:
        """Shift the times as :func:`read_last` shifts the items."""
        return read_last(times, lengths, 0, self.max_length, trim)[0]


class Next(_NextItem):
    """SASRec's: every position sees what is before it and predicts the item after it."""

    def two_sided(self, lengths: Tensor) -> Tensor:
        """Let each item see those before it alone."""
        return torch.ones_like(lengths)

    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Label each item with the one after it: :func:`next_items`."""
        return next_items(sequences, lengths, self.mask_token, generator)

    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> Asked:
        """Read the last item, causally: :func:`read_last`."""
        shown, last = read_last(item_seq, lengths, self.mask_token, self.max_length, trim)
        return Asked(shown, last, self.two_sided(last))


class Prefix(_NextItem):
    """Prefix language model: a two-sided beginning, then next items; a whole history is seen from both sides."""

    def __init__(self, config: OptionValues, mask_token: int) -> None:
        super().__init__(config, mask_token)
        self.prefix_share: float = config["prefix_share"]
        self.mask_ratio: float = config["prefix_mask_ratio"]

    def label(self, sequences: Tensor, lengths: Tensor, generator: torch.Generator) -> TrainingBatch:
        """Draw the prefixes, and label what is after them: :func:`next_items`."""
        return next_items(sequences, lengths, self.mask_token, generator, self.prefix_share, self.mask_ratio)

    def ask(self, item_seq: Tensor, lengths: Tensor, trim: bool = True) -> Asked:
        """Read the last item, which sees all: :func:`read_last`."""
        return Asked(*read_last(item_seq, lengths, self.mask_token, self.max_length, trim))


OBJECTIVES: Mapping[str, type[Objective]] = {"cloze": Cloze, "next": Next, "prefix": Prefix}
