"""The log of a run's epochs: losses, validation and seconds; and reports about them while the run goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, cast

from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer

from recbole_bert4rec.plugin.callbacks import Callback, Metrics


class _TrainedEpoch(TypedDict):
    epoch: int
    train_loss: float | None
    train_seconds: float
    at_second: float


class EpochRecord(_TrainedEpoch, total=False):
    """One epoch of a run; what is in no JSON number (infinite, NaN) is None.

    Keys:
        epoch: from 0.
        train_loss: sum over batches.
        train_seconds: of the batches.
        at_second: when the epoch ended, since training began, validation included.
        valid: validation metrics, where the epoch was validated.
        valid_score: value of ``valid_metric``, where the epoch was validated.
        valid_seconds: of the validation.
    """

    valid: dict[str, float | None]
    valid_score: float | None
    valid_seconds: float


class Best(TypedDict):
    """The best epoch so far.

    Keys:
        best: its validation score.
        best_epoch: its number, from 0.
        valid: its validation metrics.
    """

    best: float | None
    best_epoch: int | None
    valid: dict[str, float | None]


class EpochReport(Best):
    """Score of a validated epoch, beside the best.

    Keys:
        epoch: its number, from 1.
        epochs: of how many.
        score: its validation score.
    """

    epoch: int
    epochs: int
    score: float


Report = Callable[[EpochReport], None]
"""Is told of every validated epoch; may raise to end the training."""


class EpochLog(Callback):
    """Keeps what each epoch gave.

    Attributes:
        epochs: one record an epoch.
        before: seconds of the runs that this one resumes.
    """

    def __init__(self) -> None:
        self.epochs: list[EpochRecord] = []
        self._bigger = True
        self.before = 0.0
        self._began: float | None = None
        self._step_began = 0.0

    def state(self) -> dict[str, Any]:
        """Return the epochs, and the seconds of the training so far."""
        return {"epochs": list(map(dict, self.epochs)), "seconds": self.seconds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the epochs of the run that this one resumes before its own."""
        self.epochs = cast(list[EpochRecord], list(map(dict, state["epochs"])))
        self.before = float(state["seconds"])

    @property
    def seconds(self) -> float:
        """Since training began, those of the runs that this one resumes among them."""
        return self.before + (0.0 if self._began is None else time.perf_counter() - self._began)

    def on_train_begin(self, trainer: Trainer) -> None:
        """Note which scores are better."""
        self._bigger = trainer.valid_metric_bigger

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> None:
        """Start the time."""
        self._step_began = time.perf_counter()
        if self._began is None:
            self._began = self._step_began

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Note loss and seconds."""
        total = sum(loss) if isinstance(loss, tuple) else loss
        train_loss = finite(float(total or 0.0))
        seconds, at_second = self._seconds(), self._at_second()
        self.epochs.append({"epoch": epoch, "train_loss": train_loss, "train_seconds": seconds, "at_second": at_second})

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """Start the time."""
        self._step_began = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, epoch: int, score: float, metrics: Metrics) -> None:
        """Note score, metrics and seconds."""
        if self._began is None:  # nothing was trained: a finished run is validated anew
            return
        row = self.epochs[-1]
        row["valid_seconds"], row["at_second"] = self._seconds(), self._at_second()
        row["valid"], row["valid_score"] = finite_values(metrics), finite(score)

    def _seconds(self) -> float:
        return round(time.perf_counter() - self._step_began, 3)

    def _at_second(self) -> float:
        return round(self.seconds, 3)

    @property
    def best_epoch(self) -> int | None:
        """The epoch whose weights RecBole kept: the last among the best by validation score."""
        sign = 1 if self._bigger else -1
        scores = [(row.get("valid_score"), row["epoch"]) for row in self.epochs]
        scored = [(sign * score, epoch) for score, epoch in scores if score is not None]
        return max(scored)[1] if scored else None

    def best(self) -> Best:
        """Return score, number and metrics of the best epoch so far."""
        epoch = self.best_epoch
        for row in self.epochs:
            if row["epoch"] == epoch and epoch is not None:
                return {"best": row.get("valid_score"), "best_epoch": epoch, "valid": row.get("valid", {})}
        return {"best": None, "best_epoch": None, "valid": {}}


class ProgressReport(EpochLog):
    """A log of epochs that also tells somebody else of each validated epoch, such as a search or a comparison."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Report the epoch."""
        self._report({"epoch": epoch + 1, "epochs": trainer.epochs, "score": score, **self.best()})


def counted(epochs: int, which: str = "") -> str:
    """Return ``1 epoch``, ``20 epochs`` or, with ``which``, ``13 more epochs``."""
    return " ".join([f"{epochs:,}", *which.split(), "epoch" if epochs == 1 else "epochs"])


def finite(value: float) -> float | None:
    """Return a number as JSON can hold it: None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def finite_values(values: Mapping[str, float] | None) -> dict[str, float | None]:
    """Return metrics as JSON can hold them."""
    return {name: finite(value) for name, value in (values or {}).items()}
