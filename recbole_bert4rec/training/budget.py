"""Training for a given time, of any RecBole model: the last epoch is cut short and validated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import TraditionalTrainer, Trainer

from recbole_bert4rec.plugin.callbacks import Callback, StopTraining, WatchedLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer

NO_END = 1_000_000
"""Epochs, and epochs without improvement, of a training that time alone ends."""


class Budget(Callback):
    """Ends training when training and validation have taken ``seconds``; the last validation comes on top.

    Attributes:
        seconds: see above.
        last_epoch_share: how much of the last epoch was trained, from 0 to 1.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.last_epoch_share = 1.0
        self._deadline = float("inf")
        self._epochs_begun = 0
        self._spent_before = 0.0

    @property
    def spent(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self._deadline

    @property
    def left(self) -> float:
        """How many seconds are left."""
        return max(0.0, self._deadline - time.perf_counter())

    @property
    def spent_share(self) -> float:
        """How much of the time is over, from 0 to 1."""
        return min(1.0, 1.0 - (self._deadline - time.perf_counter()) / self.seconds)

    def state(self) -> dict[str, Any]:
        """Return the seconds that are spent."""
        spent = self.seconds - (self._deadline - time.perf_counter())
        return {"spent": spent, "epochs_begun": self._epochs_begun, "last_epoch_share": self.last_epoch_share}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the seconds that are left."""
        self._spent_before, self._epochs_begun = float(state["spent"]), int(state["epochs_begun"])
        self.last_epoch_share = float(state["last_epoch_share"])

    def on_train_begin(self, trainer: Trainer) -> None:
        """Start the time; BERT4Rec's learning rate falls with it."""
        self._deadline = time.perf_counter() + self.seconds - self._spent_before
        if isinstance(trainer, BERT4RecTrainer):
            trainer.rate.time_share = lambda: self.spent_share

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader:
        """Cut the epoch off when the time is up; of the first epoch a batch is trained, however short the time."""
        if self.spent and self._epochs_begun:  # some trainers pre-train for epochs that nothing validates
            raise self._stop()
        self._epochs_begun += 1
        # half an epoch of Pop and the like gives no model
        if isinstance(trainer, TraditionalTrainer):
            return batches
        return cast(AbstractDataLoader, WatchedLoader(batches, partial(self._go_on, len(batches))))

    def _go_on(self, batches: int, done: int) -> bool:
        """Note how much of an epoch's batches is done."""
        self.last_epoch_share = done / batches
        return not self.spent

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Have the last epoch validated, whatever ``eval_step`` says."""
        if self.spent:
            trainer.eval_step = 1

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """End the training if the time is up."""
        if self.spent:
            raise self._stop()

    def _stop(self) -> StopTraining:
        return StopTraining(
            f"the budget of {self.seconds:g} s is spent, after {self.last_epoch_share:.0%} of the last epoch"
        )
