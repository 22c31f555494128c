"""Keeps a training resumable from any moment: checkpoints at every epoch, inside long ones, and at a signal."""

from __future__ import annotations

import os
import time
from typing import Any, cast

import torch
import torch.distributed as dist
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer

from recbole_bert4rec.checkpoints.checkpoint import last_of
from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, Metrics, WatchedLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.interrupts import Interrupted, deferred, requested

_SHARE = 0.05
"""The share of the time that saving may take: of huge models not every epoch is saved."""


class Saver(Callback):
    """Saves a training of this package's models; ends that of any model at a signal."""

    def __init__(self) -> None:
        self._saved_at, self._cost = time.perf_counter(), 0.0
        self._inside = False
        self._before_validation: dict[str, Any] | None = None

    def fit(
        self, trainer: Trainer, train_data: AbstractDataLoader, valid_data: AbstractDataLoader, **arguments: Any
    ) -> tuple[float, Metrics | None]:
        """Return ``trainer.fit(train_data, valid_data, **arguments)``.

        Raises:
            Interrupted: a signal came. The step was finished, and the training is saved.
        """
        try:
            with deferred():
                return trainer.fit(train_data, valid_data, **arguments)
        except Interrupted as stop:
            best = trainer.saved_model_file
            stop.left_behind = f"the best epoch so far is in {best}" if os.path.isfile(best) else "nothing is saved yet"
            if isinstance(trainer, BERT4RecTrainer):
                if self._before_validation is not None:
                    self._save(trainer)
                last = last_of(trainer.saved_model_file)
                stop.left_behind = f"all that is trained is in {last}; the same command with --resume={last} goes on"
            raise

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader:
        """Save the epochs that are done; watch the steps of this one."""
        self._inside = False
        if epoch > trainer.start_epoch:
            self._save_or_end(trainer, 0.0)

        seconds = 60 * (trainer.config["save_minutes"] or 0)

        def go_on(_: int) -> bool:
            self._inside = True
            self._save_or_end(trainer, seconds)
            return True

        return cast(AbstractDataLoader, WatchedLoader(batches, go_on))

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Note that the validation is still to come."""
        self._inside = True

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """Note the random generators: a validation that is interrupted is repeated."""
        if isinstance(trainer, BERT4RecTrainer):
            self._before_validation = trainer.checkpoints.generators.states()

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> None:
        """End a validation at a signal; processes that train together have other numbers of batches here."""
        if self._before_validation is not None and requested() and not dist.is_initialized():
            raise Interrupted(requested())

    def on_validation_end(self, trainer: Trainer, epoch: int, score: float, metrics: Metrics) -> None:
        """Forget the noted generators."""
        self._before_validation = None

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Note that the epoch is over."""
        self._inside = False

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Save the state at the end of this training."""
        if isinstance(trainer, BERT4RecTrainer) and trainer.progress.trained_here:
            self._save(trainer)
        self._inside = False

    def _save_or_end(self, trainer: Trainer, seconds: float) -> None:
        """Save if the last time is at least ``seconds`` ago; raise :class:`Interrupted` at a signal."""
        due = time.perf_counter() - self._saved_at >= max(seconds, self._cost / _SHARE)
        signal, due = _agreed(trainer, requested(), due)
        if (due or signal) and isinstance(trainer, BERT4RecTrainer):
            self._save(trainer)
        if signal:
            raise Interrupted(signal)

    def _save(self, trainer: BERT4RecTrainer) -> None:
        began = time.perf_counter()
        trainer.save_last(self._inside, self._before_validation)
        self._saved_at = time.perf_counter()
        self._cost = self._saved_at - began


def _agreed(trainer: Trainer, signal: int, due: bool) -> tuple[int, bool]:
    """Agree with all processes that train together: on a signal that any of them got, and on the first one's clock."""
    if not dist.is_initialized():
        return signal, due
    wish = torch.tensor([signal, due and dist.get_rank() == 0], device=trainer.device)
    dist.all_reduce(wish, dist.ReduceOp.MAX)
    return int(wish[0]), bool(wish[1])
