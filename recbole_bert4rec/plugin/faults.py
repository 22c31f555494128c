"""Numbers that are no longer finite: single batches are left out, a training that has diverged ends with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from logging import getLogger

from torch import Tensor, nn, optim

from recbole_bert4rec.plugin.progress import Progress
from recbole_bert4rec.system.errors import UserError

_MOST_IN_A_ROW = 10
"""Batches without a finite gradient, one after the other, after which a training has diverged."""
_SHOWN = 5
"""Users of a batch that a message names."""


class Faults:
    """An eye on losses, gradients, weights and scores.

    Args:
        model: is trained.
        optimizer: trains it; messages say its learning rate.
        progress: messages say its epoch.
        best_file: returns the checkpoint of the best epoch; None before there is one.

    Attributes:
        skipped_steps: batches of the whole training that were left out, because their loss or gradient is not finite.
    """

    def __init__(
        self, model: nn.Module, optimizer: optim.Optimizer, progress: Progress, best_file: Callable[[], str | None]
    ) -> None:
        self._model, self._optimizer, self._progress, self._best_file = model, optimizer, progress, best_file
        self.skipped_steps = self._in_a_row = 0
        self._has_trained = False

    def trained(self) -> None:
        """Note that a batch was trained."""
        self._in_a_row, self._has_trained = 0, True

    def skip(self, losses: Iterable[float], norm: float, users: Sequence[str]) -> None:
        """Leave a batch out."""
        self.skipped_steps += 1
        self._in_a_row += 1
        loss = ", ".join(f"{value:g}" for value in losses)
        more = f" and {len(users) - _SHOWN} others" if len(users) > _SHOWN else ""
        batch = f"loss {loss}, gradient {norm:g}, users {', '.join(users[:_SHOWN])}{more}"
        if self._in_a_row >= _MOST_IN_A_ROW:
            self.check_trained()
            raise self._diverged(f"{self._in_a_row} batches in a row have no finite gradient ({batch})")
        if self._in_a_row == 1:
            getLogger().warning(
                f"epoch {self._progress.epoch}: a batch is left out, its loss or gradient is not finite ({batch})"
            )

    def check_trained(self) -> None:
        """Refuse a loss that was finite in no batch, with the weights that the training began with."""
        if self._in_a_row and not self._has_trained:
            raise UserError(
                f"the loss of {type(self._model).__name__}, or its gradient, is not finite in any of the first "
                f"{self._in_a_row} batches, before a step was made: the reason is the loss or the data, and not the "
                "rate of learning. In a `loss_of` of your own, column 0 of `logits_of` is -inf (docs/extending.md)"
            )

    def check_weights(self) -> None:
        """Refuse weights that are not finite."""
        for name, weights in self._model.state_dict().items():
            if weights.is_floating_point() and not weights.isfinite().all():
                raise self._diverged(f"the weights {name} are not finite")

    def check_scores(self, scores: Tensor) -> None:
        """Refuse scores that cannot be ranked; NaN and infinity would stand first."""
        if not (scores < math.inf).all():
            raise self._diverged("scores are not finite")

    def _diverged(self, fault: str) -> UserError:
        best_file = self._best_file()
        kept = "no epoch was kept" if best_file is None else f"{best_file} holds the best epoch before that"
        rate = self._optimizer.param_groups[0]["lr"]
        return UserError(
            f"training diverged in epoch {self._progress.epoch}, at a learning rate of {rate:g}: {fault}; {kept}. "
            "Try a lower `learning_rate`, or `clip_grad_norm`"
        )
