"""How far a training is inside its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

Losses = float | tuple[float, ...]


class Progress:
    """The epoch that is trained, and how much of it is done.

    Attributes:
        epoch: that is trained, or was last, from 0.
        batches: of this epoch that are trained.
        losses: sum over these batches; None where there are none.
        trained_here: whether this process has trained, too.
    """

    def __init__(self) -> None:
        self.epoch, self.batches, self.trained_here = -1, 0, False
        self.losses: Losses | None = None
        self._inside = False
        self._masks: Tensor | None = None

    def resume(self, finished: int, middle: Mapping[str, Any] | None, masks: Tensor | None) -> None:
        """Take over what a checkpoint says.

        Args:
            finished: the last epoch that is finished, from 0; -1 where none is.
            middle: see :meth:`middle`; None where the next epoch is not begun.
            masks: state of the generator of masks.
        """
        self._inside, self._masks = middle is not None, masks
        if middle is not None:
            self.batches, self.losses = middle["batches"], middle["loss"]
        self.epoch = finished + self._inside

    def begin(self, epoch: int) -> Tensor | None:
        """Begin an epoch, or go on inside the one that a checkpoint left unfinished.

        Returns:
            The state of the generator of masks to go on with; None at the beginning of an epoch.
        """
        masks = self._masks if self._inside else None
        if not self._inside:
            self.batches, self.losses = 0, None
        self.epoch, self._inside, self.trained_here = epoch, False, True
        return masks

    def add(self, losses: Sequence[float]) -> None:
        """Add a batch's losses to the sums of its epoch."""
        if self.losses is None:
            self.losses = losses[0] if len(losses) == 1 else tuple(losses)
        elif isinstance(self.losses, tuple):
            self.losses = tuple(map(sum, zip(self.losses, losses, strict=True)))
        else:
            self.losses += losses[0]

    def middle(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of an unfinished epoch."""
        return {"batches": self.batches, "loss": self.losses or 0.0}
