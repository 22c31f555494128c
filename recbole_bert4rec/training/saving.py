"""Keeps a training resumable: a checkpoint of every epoch that is finished, and an orderly end at a signal."""

from __future__ import annotations

import os
from typing import Any, cast

import torch
import torch.distributed as dist
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer

from recbole_bert4rec.checkpoints import last_of
from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, Metrics, WatchedLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.interrupts import Interrupted, deferred, requested


class Saver(Callback):
    """Saves a training of this package's models; ends that of any model at a signal.

    Attributes:
        is_over: whether the training has ended by itself.
    """

    def __init__(self) -> None:
        self.is_over = self._validates = False
        self._finished: int | None = None

    def fit(
        self, trainer: Trainer, train_data: AbstractDataLoader, valid_data: AbstractDataLoader, **arguments: Any
    ) -> tuple[float, Metrics | None]:
        """Return ``trainer.fit(train_data, valid_data, **arguments)``."""
        self._validates = bool(valid_data)
        try:
            with deferred():
                best_validation: tuple[float, Metrics | None] = trainer.fit(train_data, valid_data, **arguments)
        except Interrupted as stop:
            best, last = trainer.saved_model_file, last_of(trainer.saved_model_file)
            stop.left_behind = f"the best epoch so far is in {best}" if os.path.isfile(best) else "nothing is saved yet"
            if isinstance(trainer, BERT4RecTrainer) and os.path.isfile(last):
                stop.left_behind = f"all finished epochs are in {last}; the same command with --resume={last} goes on"
            raise
        self.is_over = True
        return best_validation

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader:
        """Save the epochs that are done; end this one at a signal."""
        if epoch > trainer.start_epoch and isinstance(trainer, BERT4RecTrainer):
            trainer.save_last(epoch - 1)
        self._finished = None
        _end_if_asked(trainer)

        def go_on(_: int) -> bool:
            _end_if_asked(trainer)
            return True

        return cast(AbstractDataLoader, WatchedLoader(batches, go_on))

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Note the epoch as finished if no validation is to come."""
        if not (self._validates and trainer.eval_step > 0 and (epoch + 1) % trainer.eval_step == 0):
            self._finished = epoch

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> None:
        """End a validation at a signal; processes that train together have other numbers of batches here."""
        if requested() and not dist.is_initialized():
            raise Interrupted(requested())

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Note the epoch as finished."""
        self._finished = epoch

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Save the state at the end of this training."""
        if self._finished is not None and isinstance(trainer, BERT4RecTrainer):
            trainer.save_last(self._finished)


def _end_if_asked(trainer: Trainer) -> None:
    """Raise :class:`Interrupted` at a signal that any of the processes that train together got."""
    signal = requested()
    if dist.is_initialized():
        wish = torch.tensor(signal, device=trainer.device)
        dist.all_reduce(wish, dist.ReduceOp.MAX)
        signal = int(wish)
    if signal:
        raise Interrupted(signal)
