"""Callbacks watch or change a run while it trains and tests; docs/extending.md explains their events and the order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from logging import getLogger
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import recbole.trainer.trainer as recbole_trainer
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer
from torch import Tensor

from recbole_bert4rec.checkpoints import is_plain
from recbole_bert4rec.plugin.candidates import score_candidates
from recbole_bert4rec.plugin.distributed import distributed, name_of_first_process
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError, short

Losses = float | tuple[float, ...]
"""Sum of an epoch's losses, or of each loss where a model has several."""
Metrics = dict[str, float]
"""Values of an evaluation by RecBole's names, such as ``ndcg@10``."""
BestValidation = tuple[float, Metrics | None]
"""Score and metrics of the best validation."""


class StopTraining(Exception):  # noqa: N818  named as what it asks for
    """Raise it in a callback to end the training; the run goes on to its test.

    The other callbacks still hear of the event. In ``on_selection_end`` nothing is lost. Raised earlier, the weights of
    the current epoch are neither validated nor kept. Its message, if there is one, is logged.
    """


class EvalBatch(NamedTuple):
    """A batch of users before it is scored, as RecBole's loaders give it."""

    interaction: Interaction  # histories and users
    excluded: Any  # rows and items that a full ranking leaves out, or None; with candidates, the user of each
    target_rows: Tensor  # the ranking that each target belongs to, (P,)
    targets: Tensor  # internal ids, (P,)


class RankedBatch(NamedTuple):
    """A batch of users after it was scored; see :class:`EvalBatch`."""

    interaction: Interaction
    scores: Any  # (B, N), -inf where an item is not ranked; BERT4Rec has a plugin.evaluating.Ranking of the best items
    target_rows: Tensor
    targets: Tensor


class Callback:
    """A callback that does nothing: override the events of interest, which docs/extending.md explains.

    Each event gets the trainer first: RecBole's, with ``model``, ``optimizer``, ``config``, ``epochs``, ``start_epoch``
    (of a resumed run), ``eval_step`` and ``logger`` among its attributes. Epochs count from 0.
    """

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs of this callback: plain values by their names."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state` returned, read from a checkpoint; not called if it returned nothing."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """Weights and optimizer are ready; in a resumed run they are the checkpoint's."""

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader | None:
        """Return None, or a loader of other batches to train this epoch on."""

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: Losses | None) -> None:
        """All batches of an epoch are trained; it is not yet validated."""

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """The validation of an epoch begins, if ``eval_step`` has it validated."""

    def on_validation_end(self, trainer: Trainer, epoch: int, score: float, metrics: Metrics) -> None:
        """An epoch is validated; ``score`` is the value of ``valid_metric``."""

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """RecBole has kept the weights of a validated epoch if they are the best so far."""

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Training is over; ``best_metrics`` is None where nothing was validated."""

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """An evaluation outside training begins: the test. The best weights are not loaded yet."""

    def on_test_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """The test is over."""

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> EvalBatch | None:
        """Return None, or another batch of users to score, for validation or test."""

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> RankedBatch | None:
        """Return None, or other scores to compute the metrics of."""


class WatchedLoader:
    """A training loader that asks, after every batch that was trained, whether to go on."""

    def __init__(self, loader: AbstractDataLoader, go_on: Callable[[int], bool]) -> None:
        self._loader, self._go_on = loader, go_on

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for done, batch in enumerate(self._loader, 1):
            yield batch
            if not self._go_on(done):
                return


class Callbacks(list[Callback]):
    """The callbacks of a training, which are called together."""

    def call(self, event: str, *arguments: object, value: Any = None) -> Any:
        """Call an event of all callbacks, even if one asks to stop; each may replace the value that it is given."""
        stop: StopTraining | None = None
        for callback in self:
            try:
                changed = getattr(callback, event)(*arguments, *(() if value is None else (value,)))
            except StopTraining as error:
                stop = error
                continue
            value = value if changed is None or value is None else changed
        if stop is not None:
            raise stop
        return value

    def states(self) -> dict[str, dict[str, Any]]:
        """Return what the callbacks keep in a checkpoint, by their names."""
        states = {name: state for name, callback in self._named().items() if (state := dict(callback.state()))}
        for name, state in states.items():
            if not is_plain(state):
                raise UserError(f"the state of {name} must be plain values by their names, but is {short(state)}")
        return states

    def restore(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Restore the states of the callbacks."""
        for name, callback in self._named().items():
            if name in states:
                callback.restore(states[name])

    def _named(self) -> dict[str, Callback]:
        """Return the callbacks by the names of their classes, with a number from the second of a class on."""
        names = [type(callback).__name__ for callback in self]
        numbered = (f"{name} {names[:place].count(name) + 1}".removesuffix(" 1") for place, name in enumerate(names))
        return dict(zip(numbered, self, strict=True))


class Observed(Trainer):
    """Calls callbacks around a trainer of RecBole: a base class before the one that trains, see :func:`observed`."""

    saved_model_file: str
    epoch: int  # the current or last one, from 0; -1 before the first
    best_epoch: int  # the one whose weights are kept, from 0; -1 if none are
    valid_result: Metrics  # of the last validation

    def __init__(self, config: Config, model: AbstractRecommender, callbacks: Iterable[Callback] = ()) -> None:
        self.callbacks, self.epoch, self.best_epoch = Callbacks(callbacks), -1, -1
        self.valid_result, self._validating = {}, False
        with patch.object(recbole_trainer, "DistributedDataParallel", distributed):
            super().__init__(config, model)
        self.saved_model_file = name_of_first_process(self.saved_model_file)

    def fit(
        self,
        train_data: AbstractDataLoader,
        valid_data: AbstractDataLoader | None = None,
        verbose: bool = True,
        saved: bool = True,
        show_progress: bool = False,
        callback_fn: Callable[[int, float], None] | None = None,
    ) -> BestValidation:
        """Train, and call the callbacks; arguments and result are RecBole's."""
        self._begin(train_data, saved)

        def selected(epoch: int, score: float) -> None:
            if callback_fn is not None:
                callback_fn(epoch, score)
            self.callbacks.call("on_selection_end", self, epoch, score)

        self.epoch = self.start_epoch - 1
        try:
            self.callbacks.call("on_train_begin", self)
            best: BestValidation = super().fit(train_data, valid_data, verbose, saved, show_progress, selected)
        except StopTraining as stop:
            if saved and self.best_valid_result is None and not Path(self.saved_model_file).is_file():
                raise UserError(
                    "training was stopped before an epoch was validated and kept, so that there is no model to test; "
                    "raise StopTraining in on_selection_end"
                ) from stop
            if str(stop):
                getLogger(FOR_THE_USER).info(str(stop))
            best = self.best_valid_score, self.best_valid_result
        self.callbacks.call("on_train_end", self, *best)
        self.tensorboard.close()  # RecBole leaves its files and its thread to the end of the process
        return self._end(best, train_data, valid_data) if saved and valid_data else best

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **arguments: Any) -> None:
        """Note the epoch whose weights RecBole keeps; -1 is an untrained model."""
        self.best_epoch = epoch
        super()._save_checkpoint(epoch, verbose, **arguments)

    def _begin(self, train_data: AbstractDataLoader, saved: bool) -> None:
        """Prepare a training before its first event."""

    def _end(
        self, best: BestValidation, train_data: AbstractDataLoader, valid_data: AbstractDataLoader
    ) -> BestValidation:
        """Return the validation of the selected weights, once the callbacks have heard of the end."""
        return best

    def _train_epoch(self, train_data: AbstractDataLoader, epoch_idx: int, *args: Any, **kwargs: Any) -> Losses | None:
        """Train an epoch on its batches, or on those that a callback gives instead."""
        self.epoch = epoch_idx
        batches = self.callbacks.call("on_epoch_begin", self, epoch_idx, value=train_data)
        loss: Losses | None = super()._train_epoch(batches, epoch_idx, *args, **kwargs)
        self.callbacks.call("on_epoch_end", self, epoch_idx, loss)
        return loss

    def _valid_epoch(self, valid_data: AbstractDataLoader, *args: Any, **kwargs: Any) -> tuple[float, Metrics]:
        """Validate an epoch; the evaluation inside is not the test."""
        self.callbacks.call("on_validation_begin", self, self.epoch, valid_data)
        self._validating = True
        try:
            score, self.valid_result = super()._valid_epoch(valid_data, *args, **kwargs)
        finally:
            self._validating = False
        self.callbacks.call("on_validation_end", self, self.epoch, score, self.valid_result)
        return score, self.valid_result

    def evaluate(self, eval_data: AbstractDataLoader, load_best_model: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Evaluate once the first process has written the checkpoint that all read; outside validation it is a test."""
        if load_best_model and dist.is_initialized():
            dist.barrier()
        is_test = bool(eval_data) and not self._validating
        if is_test:
            self.callbacks.call("on_test_begin", self, eval_data)
        metrics = super().evaluate(eval_data, load_best_model, *args, **kwargs)
        for name, value in (metrics or {}).items():  # numpy 2 prints its numbers as np.float64(0.1) (evaluator.py:50)
            metrics[name] = value.item() if isinstance(value, np.generic) else value
        if is_test:
            self.callbacks.call("on_test_end", self, metrics)
        return metrics

    def _full_sort_batch_eval(self, batched_data: tuple[Any, ...]) -> RankedBatch:
        return self._rank(super()._full_sort_batch_eval, batched_data)

    def _neg_sample_batch_eval(self, batched_data: tuple[Any, ...]) -> RankedBatch:
        return self._rank(functools.partial(score_candidates, super()._neg_sample_batch_eval, self), batched_data)

    def _rank(self, score: Callable[[EvalBatch], Iterable[Any]], batched_data: tuple[Any, ...]) -> RankedBatch:
        """Score a batch of users."""
        batch = self.callbacks.call("on_ranking_begin", self, value=EvalBatch(*batched_data))
        ranked: RankedBatch = self.callbacks.call("on_ranking_end", self, value=RankedBatch(*score(batch)))
        return ranked


@functools.cache
def observed(trainer_class: type) -> type[Observed]:
    """Return a trainer class that calls callbacks around the methods of ``trainer_class``."""
    if not issubclass(trainer_class, Trainer):
        raise UserError(
            f"{trainer_class.__name__} trains without epochs, as RecBole's decision trees do; such a model runs with "
            "recbole.quick_start.run_recbole only"
        )
    return type(trainer_class.__name__, (Observed, trainer_class), {"__module__": __name__})
