"""Training for a given time, of any RecBole model: the last epoch is cut short and validated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import TraditionalTrainer, Trainer

from recbole_bert4rec.options.kinds import is_number
from recbole_bert4rec.plugin.callbacks import Callback, StopTraining, WatchedLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.errors import UserError

NO_END = 1_000_000
"""Epochs, and epochs without improvement, of a training that time alone ends."""


class Budget(Callback):
    """Ends training when training and validation have taken ``seconds``; the last validation comes on top."""

    def __init__(self, seconds: float) -> None:
        if not is_number(seconds) or seconds <= 0:
            raise UserError(f"`budget` must be seconds above 0, but is {seconds!r}")
        self.seconds = self._left_before = seconds  # a resumed run begins with fewer
        self.last_epoch_share = 1.0  # of its batches that were trained

    @property
    def left(self) -> float:
        """How many seconds are left; fewer than 0 after the end."""
        return self._deadline - time.perf_counter()

    def state(self) -> dict[str, Any]:
        """Return the seconds that are spent."""
        return {"spent": self.seconds - self.left, "last_epoch_share": self.last_epoch_share}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the seconds that are left."""
        self._left_before, self.last_epoch_share = self.seconds - state["spent"], state["last_epoch_share"]

    def on_train_begin(self, trainer: Trainer) -> None:
        """Start the time; BERT4Rec's learning rate falls with it."""
        self._deadline = time.perf_counter() + self._left_before
        if isinstance(trainer, BERT4RecTrainer):
            trainer.rate.time_share = lambda: min(1.0, 1.0 - self.left / self.seconds)

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader:
        """Cut the epoch off when the time is up; of the first epoch a batch is trained, however short the time."""
        if epoch > 0:  # some trainers pre-train for epochs that nothing validates
            self._end_if_spent()
        # half an epoch of Pop and the like gives no model
        if isinstance(trainer, TraditionalTrainer):
            return batches

        def go_on(done: int) -> bool:
            self.last_epoch_share = done / len(batches)
            return self.left > 0

        return cast(AbstractDataLoader, WatchedLoader(batches, go_on))

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Have the last epoch validated, whatever ``eval_step`` says."""
        if self.left <= 0:
            trainer.eval_step = 1

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """End the training if the time is up."""
        self._end_if_spent()

    def _end_if_spent(self) -> None:
        if self.left <= 0:
            share = f"{self.last_epoch_share:.0%} of the last epoch"
            raise StopTraining(f"the budget of {self.seconds:g} s is spent, after {share}")
