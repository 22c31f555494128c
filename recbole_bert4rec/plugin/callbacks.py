"""Callbacks watch or change a run while it trains and tests; one class calls them.

The events of a run, in their order::

    on_train_begin
      for each epoch:
        on_epoch_begin
          (the batches)
        on_epoch_end                  the epoch is trained, and not yet validated
        on_validation_begin           in epochs that `eval_step` validates
          for each batch of users:
            on_ranking_begin
            on_ranking_end
        on_validation_end
        on_selection_end              RecBole has kept the weights if they are the best so far
    on_train_end
    on_test_begin
      for each batch of users:
        on_ranking_begin
        on_ranking_end
    on_test_end

A resumed run that has all its epochs is only validated: on_train_begin, the validation, on_train_end, and its test.
The validations that weigh the `memory`, and the second training of `refit`, call none of the user's callbacks.

At each event all callbacks are called, in the order of their list. A run's list is: the rule about seen items (where
`exclude_seen` is set for another model than BERT4Rec), the log of epochs, the writer of the record, the lines on the
screen, those of the user, the log of ranks, the budget, and what saves the training. A checkpoint keeps the `state` of
each, and a resumed run gives it back to `restore`, before `on_train_begin`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer
from torch import Tensor

from recbole_bert4rec.checkpoints.checkpoint import is_plain
from recbole_bert4rec.plugin.distributed import name_of_first_process
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError, short

Value = TypeVar("Value")
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
    """A batch of users before it is scored, as RecBole's loaders give it.

    Attributes:
        interaction: histories and users. B rows.
        excluded: in full ranking the rows and items that RecBole takes out of the ranking, or None; among sampled
            candidates what says which candidates belong to which user.
        target_rows: ranking that each target belongs to. *Shape:* (P,)
        targets: internal ids. *Shape:* (P,)
    """

    interaction: Interaction
    excluded: Any
    target_rows: Tensor
    targets: Tensor


class RankedBatch(NamedTuple):
    """A batch of users after it was scored.

    Attributes:
        interaction: see :class:`EvalBatch`.
        scores: of all items, -inf where an item is not ranked, *Shape:* (B, N); or, from BERT4Rec, a
            :class:`~recbole_bert4rec.plugin.evaluating.Ranking` of the best items alone.
        target_rows: see :class:`EvalBatch`.
        targets: see :class:`EvalBatch`.
    """

    interaction: Interaction
    scores: Any
    target_rows: Tensor
    targets: Tensor


class Callback:
    """Does nothing; override the events of interest. The file's docstring shows their order.

    Each event gets the trainer first: RecBole's, with ``model``, ``optimizer``, ``config``, ``epochs``, ``start_epoch``
    (of a resumed run), ``eval_step`` and ``logger`` among its attributes. Epochs count from 0.

    Example::

        class Printer(Callback):
            def on_validation_end(self, trainer, epoch, score, metrics):
                print(epoch, metrics["ndcg@10"])

        run(model="BERT4Rec", dataset="ml-100k", callbacks=[Printer()])
    """

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs of this callback: plain values by their names."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned; not called if that was nothing.

        Args:
            state: read from a file, which may come from elsewhere.
        """

    def on_train_begin(self, trainer: Trainer) -> None:
        """Training begins; weights and optimizer are there, those of a checkpoint too."""

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> AbstractDataLoader | None:
        """An epoch begins.

        Args:
            trainer: see the class.
            epoch: from 0. Models that are trained in several stages count each stage from 0.
            batches: the training loader.

        Returns:
            None, or a loader of other batches to train this epoch on.
        """

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: Losses | None) -> None:
        """All batches of an epoch are trained.

        Args:
            trainer: see the class.
            epoch: from 0.
            loss: sum of the losses of its batches; of models with several losses, one sum for each.
        """

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """The validation of an epoch begins.

        Args:
            trainer: see the class.
            epoch: from 0.
            loader: of the validation part.
        """

    def on_validation_end(self, trainer: Trainer, epoch: int, score: float, metrics: Metrics) -> None:
        """An epoch is validated.

        Args:
            trainer: see the class.
            epoch: from 0.
            score: value of ``valid_metric``.
            metrics: of the validation.
        """

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """RecBole has compared a validated epoch with the best one, and has kept its weights if it is better.

        Not called where ``eval_step`` is 0, so that nothing is validated.

        Args:
            trainer: see the class.
            epoch: from 0.
            score: value of ``valid_metric``.
        """

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Training is over, by its epochs, by early stopping or by :class:`StopTraining`.

        Args:
            trainer: see the class.
            best_score: validation score of the best epoch.
            best_metrics: all validation metrics of the best epoch, or None where nothing was validated.
        """

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """An evaluation outside training begins: the test. The best weights are not loaded yet.

        Args:
            trainer: see the class.
            loader: of the test part.
        """

    def on_test_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """The test is over.

        Args:
            trainer: see the class.
            metrics: of the test.
        """

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> EvalBatch | None:
        """A batch of users is to be scored, for validation or test.

        Args:
            trainer: see the class.
            batch: as the loader gives it.

        Returns:
            None, or another batch to score in its place.
        """

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> RankedBatch | None:
        """A batch of users is scored, and its metrics are not yet computed.

        Args:
            trainer: see the class.
            ranked: scores and targets.

        Returns:
            None, or other scores to compute the metrics of.
        """


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


class Callbacks:
    """Calls a list of callbacks around the steps of a training; keeps the epoch that they are told."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self._callbacks = tuple(callbacks)
        self._epoch, self._validating = -1, False

    def __iter__(self) -> Iterator[Callback]:
        return iter(self._callbacks)

    def replace(self, *callbacks: Callback) -> None:
        """Call these from now on, and no others."""
        self._callbacks = callbacks

    def _notify(self, event: str, *arguments: object) -> None:
        """Call every callback; one that asks to stop does so after the others have heard of the event."""
        self._transform(event, None, *arguments)

    def _transform(self, event: str, value: Value, *arguments: object) -> Value:
        """Pass ``value`` through every callback, each of which may return another one."""
        stop: StopTraining | None = None
        for callback in self._callbacks:
            try:
                changed = getattr(callback, event)(*arguments, *(() if value is None else (value,)))
            except StopTraining as error:
                stop = error
                continue
            value = value if changed is None or value is None else changed
        if stop is not None:
            raise stop
        return value

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Call nobody inside the block."""
        callbacks, self._callbacks = self._callbacks, ()
        try:
            yield
        finally:
            self._callbacks = callbacks

    def states(self) -> dict[str, dict[str, Any]]:
        """Return what the callbacks keep in a checkpoint, by their names."""
        states = {name: dict(callback.state()) for name, callback in self._named()}
        for name, state in states.items():
            if not is_plain(state):
                raise UserError(f"the state of {name} must be plain values by their names, but is {short(state)}")
        return {name: state for name, state in states.items() if state}

    def restore(self, states: Mapping[str, dict[str, Any]]) -> None:
        """Give the callbacks back what they kept."""
        for name, callback in self._named():
            if name in states:
                callback.restore(states[name])

    def _named(self) -> Iterator[tuple[str, Callback]]:
        """Give each callback with the name of its class, and a number where there are several of it."""
        count: Counter[str] = Counter()
        for callback in self._callbacks:
            name = type(callback).__name__
            count[name] += 1
            yield name if count[name] == 1 else f"{name} {count[name]}", callback

    def fit(
        self,
        trainer: Trainer,
        train: Callable[..., BestValidation],
        saved: bool,
        callback_fn: Callable[[int, float], None] | None,
        finish: Callable[[], BestValidation] | None = None,
    ) -> BestValidation:
        """Train, and call the callbacks."""

        def selected(epoch: int, score: float) -> None:
            if callback_fn is not None:
                callback_fn(epoch, score)
            self._notify("on_selection_end", trainer, epoch, score)

        self._epoch = trainer.start_epoch - 1
        try:
            self._notify("on_train_begin", trainer)
            best = train(callback_fn=selected)
        except StopTraining as stop:
            if saved and trainer.best_valid_result is None and not Path(trainer.saved_model_file).is_file():
                raise UserError(
                    "training was stopped before an epoch was validated and kept, so that there is no model to test; "
                    "raise StopTraining in on_selection_end"
                ) from stop
            if str(stop):
                getLogger(FOR_THE_USER).info(str(stop))
            best = trainer.best_valid_score, trainer.best_valid_result
        self._notify("on_train_end", trainer, *best)
        if finish is not None:
            best = finish()
        trainer.tensorboard.close()  # RecBole leaves its files and its thread to the end of the process
        return best

    def train_epoch(
        self, trainer: Trainer, train: Callable[[AbstractDataLoader], Value], batches: AbstractDataLoader, epoch: int
    ) -> Value:
        """Train an epoch on its batches, or on those that a callback has in their place."""
        self._epoch = epoch
        loss = train(self._transform("on_epoch_begin", batches, trainer, epoch))
        self._notify("on_epoch_end", trainer, epoch, loss)
        return loss

    def validate(
        self, trainer: Trainer, validate: Callable[[], tuple[float, Metrics]], loader: AbstractDataLoader
    ) -> tuple[float, Metrics]:
        """Validate an epoch; the evaluation inside is not the test."""
        self._notify("on_validation_begin", trainer, self._epoch, loader)
        self._validating = True
        try:
            score, metrics = validate()
        finally:
            self._validating = False
        self._notify("on_validation_end", trainer, self._epoch, score, metrics)
        return score, metrics

    def evaluate(self, trainer: Trainer, evaluate: Callable[[], Value], loader: AbstractDataLoader | None) -> Value:
        """Evaluate; outside a validation it is the test."""
        if self._validating or not loader:
            return evaluate()
        self._notify("on_test_begin", trainer, loader)
        metrics = evaluate()
        self._notify("on_test_end", trainer, metrics)
        return metrics

    def rank(
        self, trainer: Trainer, score: Callable[[EvalBatch], Iterable[Any]], batched_data: tuple[Any, ...]
    ) -> RankedBatch:
        """Score a batch of users."""
        batch = self._transform("on_ranking_begin", EvalBatch(*batched_data), trainer)
        return self._transform("on_ranking_end", RankedBatch(*score(batch)), trainer)


class Observed(Trainer):
    """A trainer of RecBole's that calls callbacks; stands before the trainer's own class, see :func:`observed`."""

    saved_model_file: str

    def __init__(self, config: Config, model: AbstractRecommender, callbacks: Iterable[Callback] = ()) -> None:
        self.callbacks = Callbacks(callbacks)
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
        """Train as RecBole does, and call the callbacks; arguments and result are RecBole's."""
        train = partial(super().fit, train_data, valid_data, verbose, saved, show_progress)
        return self.callbacks.fit(self, train, saved, callback_fn)

    def _train_epoch(self, train_data: AbstractDataLoader, epoch_idx: int, *args: Any, **kwargs: Any) -> Losses | None:
        original = super()._train_epoch
        return self.callbacks.train_epoch(
            self, lambda batches: original(batches, epoch_idx, *args, **kwargs), train_data, epoch_idx
        )

    def _valid_epoch(self, valid_data: AbstractDataLoader, *args: Any, **kwargs: Any) -> tuple[float, Metrics]:
        return self.callbacks.validate(self, partial(super()._valid_epoch, valid_data, *args, **kwargs), valid_data)

    def evaluate(self, eval_data: AbstractDataLoader, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as RecBole does; outside a validation it is the test."""
        return self.callbacks.evaluate(self, partial(super().evaluate, eval_data, *args, **kwargs), eval_data)

    def _full_sort_batch_eval(self, batched_data: tuple[Any, ...]) -> RankedBatch:
        return self.callbacks.rank(self, super()._full_sort_batch_eval, batched_data)

    def _neg_sample_batch_eval(self, batched_data: tuple[Any, ...]) -> RankedBatch:
        return self.callbacks.rank(self, super()._neg_sample_batch_eval, batched_data)


@functools.cache
def observed(trainer_class: type) -> type[Observed]:
    """Return a trainer class that calls callbacks around the methods of ``trainer_class``."""
    if not issubclass(trainer_class, Trainer):
        raise UserError(
            f"{trainer_class.__name__} trains without epochs, as RecBole's decision trees do; such a model runs with "
            "recbole.quick_start.run_recbole only"
        )
    return type(trainer_class.__name__, (Observed, trainer_class), {"__module__": __name__})
