"""Training for a given time, of any RecBole model: the epoch that it runs out in is cut short and validated."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from recbole.trainer import TraditionalTrainer

from recbole_bert4rec.errors import UserError

NO_END = 1_000_000
"""Epochs, and epochs without improvement, of a training that time alone ends."""
_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(text: str) -> float:
    """Seconds of a budget such as ``90s``, ``10m`` or ``1.5h``.

    Raises:
        UserError: it is none.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if found is None or float(found[1]) == 0:
        raise UserError(f"--budget={text} is no time; write for instance --budget=90s, 10m or 1.5h")
    return float(found[1]) * _UNITS[found[2]]


class _TimeIsUpError(Exception):
    """The time is up, and the last weights were validated."""


class _Timed:
    """A loader that gives no further batch once the time is up; the first batch always comes."""

    def __init__(self, loader: Any, budget: Budget) -> None:
        self._loader, self._budget = loader, budget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self._loader):
            if number and self._budget.spent:
                self._budget.last_epoch_share = number / len(self)
                return
            yield batch
        self._budget.last_epoch_share = 1.0


class Budget:
    """Ends a trainer's ``fit`` when training and validation have taken ``seconds``; the last validation comes on top.

    Attributes:
        last_epoch_share: how much of the last epoch was trained.
    """

    def __init__(self, trainer: Any, seconds: float) -> None:
        self.trainer, self.seconds = trainer, seconds
        self.last_epoch_share = 1.0
        self._deadline = float("inf")
        self._train_epoch = trainer._train_epoch
        trainer._train_epoch = self._epoch

    @property
    def spent(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self._deadline

    @property
    def spent_share(self) -> float:
        """How much of the time is over, from 0 to 1."""
        return min(1.0, 1.0 - (self._deadline - time.perf_counter()) / self.seconds)

    def _epoch(self, train_data: Any, *args: Any, **kwargs: Any) -> Any:
        if self.spent:  # some trainers pre-train for epochs that nothing validates
            raise _TimeIsUpError
        counts = isinstance(self.trainer, TraditionalTrainer)  # Pop and the like: half an epoch is no model
        loss = self._train_epoch(train_data if counts else _Timed(train_data, self), *args, **kwargs)
        if self.spent:
            self.trainer.eval_step = 1  # this epoch is the last: validate it
        return loss

    def fit(
        self, *args: Any, callback_fn: Callable[[int, float], None] | None = None, **kwargs: Any
    ) -> tuple[float, dict[str, float] | None]:
        """As the trainer's, within the budget."""
        self._deadline = time.perf_counter() + self.seconds
        if hasattr(self.trainer, "time_share"):  # ours, whose learning rate falls towards the end
            self.trainer.time_share = lambda: self.spent_share

        def after_validation(epoch: int, score: float) -> None:
            if callback_fn is not None:
                callback_fn(epoch, score)
            if self.spent:
                raise _TimeIsUpError

        try:
            best: tuple[float, dict[str, float] | None] = self.trainer.fit(
                *args, callback_fn=after_validation, **kwargs
            )
            return best
        except _TimeIsUpError:
            self.trainer.logger.info(
                f"the budget of {self.seconds:g} s is spent, after {self.last_epoch_share:.0%} of the last epoch"
            )
            return self.trainer.best_valid_score, self.trainer.best_valid_result
