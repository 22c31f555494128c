"""One JSON record a run: configuration, versions, machine, losses and validation by epoch and second, results."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from recbole.config import Config
from recbole.trainer import Trainer

from recbole_bert4rec.environment import commit, environment, peak_memory_mb
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.plugin.checkpoint import is_plain

Report = Callable[[dict[str, Any]], None]
"""Takes what a validated epoch gave: epoch, epochs (of how many), score, best (so far), best_epoch and its valid."""


class EpochLog:
    """Listens to a RecBole trainer, of whatever model, and keeps what each epoch gave.

    Attributes:
        epochs: one dictionary an epoch: epoch, train_loss (sum over batches), train_seconds, at_second
            (since training began, validation included) and, where the epoch was validated, valid and valid_seconds.
    """

    def __init__(self, trainer: Trainer, earlier: list[dict[str, Any]]) -> None:
        self.epochs = earlier  # of the run that this one resumes
        self._trainer = trainer
        self._offset = earlier[-1]["at_second"] if earlier else 0.0
        self._began: float | None = None
        self._train, self._valid = trainer._train_epoch, trainer._valid_epoch
        trainer._train_epoch, trainer._valid_epoch = self._train_epoch, self._valid_epoch  # type: ignore[method-assign]

    def _train_epoch(self, train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        if self._began is None:
            self._began = begin - self._offset
        loss = self._train(train_data, epoch_idx, *args, **kwargs)
        now = time.perf_counter()
        total = sum(loss) if isinstance(loss, tuple) else loss
        seconds = {"train_seconds": round(now - begin, 3), "at_second": round(now - self._began, 3)}
        self.epochs.append({"epoch": epoch_idx, "train_loss": finite(float(total or 0.0)), **seconds})
        return loss

    def _valid_epoch(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        score, result = self._valid(*args, **kwargs)
        now = time.perf_counter()
        if self.epochs and self._began is not None:
            values = finite_values(result)
            seconds = {"valid_seconds": round(now - begin, 3), "at_second": round(now - self._began, 3)}
            self.epochs[-1].update(valid=values, valid_score=finite(score), **seconds)
        return score, result

    def best(self) -> dict[str, Any]:
        """Score (as best), number and metrics of the best epoch so far."""
        epoch = self.best_epoch(self._trainer.valid_metric_bigger)
        row = next((row for row in self.epochs if row["epoch"] == epoch), {})
        return {"best": row.get("valid_score"), "best_epoch": epoch, "valid": row.get("valid", {})}

    def after_validation(self, report: Report) -> Callable[[int, float], None]:
        """A ``callback_fn`` for the trainer's ``fit`` that reports each validated epoch."""

        def said(epoch: int, score: float) -> None:
            report({"epoch": epoch + 1, "epochs": self._trainer.epochs, "score": score, **self.best()})

        return said

    def best_epoch(self, bigger: bool) -> int | None:
        """The epoch whose weights RecBole kept: the last among the best by validation score."""
        sign = 1 if bigger else -1
        scored = [
            (sign * row["valid_score"], row["epoch"]) for row in self.epochs if row.get("valid_score") is not None
        ]
        return max(scored)[1] if scored else None


def record_path(trainer: Trainer) -> Path:
    """Beside the checkpoint; under a new name where nothing is left to train, so that the training's record stays."""
    path = Path(trainer.saved_model_file).with_suffix(".json")
    names = (path.with_stem(f"{path.stem}-again-{number}") for number in itertools.count(1))
    done = trainer.start_epoch >= trainer.epochs > 0
    return next(name for name in names if not name.exists()) if done else path


def earlier_epochs(record: Path, start_epoch: int) -> list[dict[str, Any]]:
    """The epochs before ``start_epoch`` in the record of the run that is resumed, if it came to write one."""
    if start_epoch == 0 or not record.is_file():
        return []
    return [row for row in json.loads(record.read_text("utf-8"))["epochs"] if row["epoch"] < start_epoch]


def make_record(
    config: Config, trainer: Any, log: EpochLog, result: dict[str, Any], seconds: dict[str, float]
) -> dict[str, Any]:
    """Everything about a run that later reports read, as plain JSON values."""
    best_epoch = getattr(trainer, "best_epoch", None)  # ours; it knows of epochs before a resume
    return {
        "model": config["model"],
        "dataset": config["dataset"],
        "seed": config["seed"],
        "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "peak_gpu_memory_mb": round(torch.cuda.max_memory_allocated() / 2**20, 1)
        if torch.cuda.is_available()
        else None,
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "best_epoch": log.best_epoch(config["valid_metric_bigger"]) if best_epoch is None else best_epoch,
        "best_valid_score": finite(result["best_valid_score"]),
        "best_valid_result": finite_values(result["best_valid_result"]),
        "test_result": finite_values(result["test_result"]),
        "checkpoint": str(trainer.saved_model_file),
        "commit": commit(),
        "epochs": log.epochs,
        "config": {key: value for key, value in sorted(config.final_config_dict.items()) if is_plain(value)},
        **environment(),
    }


def finite(value: Any) -> float | None:
    """A number as JSON can hold it."""
    return float(value) if math.isfinite(value) else None


def finite_values(values: dict[str, Any] | None) -> dict[str, float | None]:
    """Metrics as JSON can hold them."""
    return {name: finite(value) for name, value in (values or {}).items()}


def summary(record: dict[str, Any], path: Path) -> str:
    """A run in six lines, for the end of the log."""

    def line(values: dict[str, float | None]) -> str:
        return "    ".join(f"{name} {value:.4f}" for name, value in values.items() if value is not None) or "none"

    seconds = record["seconds"]
    return (
        f"\n{record['model']} on {record['dataset']}, seed {record['seed']}: "
        f"{len(record['epochs'])} epochs, best epoch {record['best_epoch']} (counted from 0)\n"
        f"  valid       {line(record['best_valid_result'])}\n"
        f"  test        {line(record['test_result'])}\n"
        + (f"  refit       {line(record['refit']['test_result'])}\n" if "refit" in record else "")
        + f"  time        {seconds['total']:.1f} s, of which training and validation {seconds['train']:.1f} s\n"
        f"  memory      {record['peak_memory_mb']:.0f} MB at its peak\n"
        f"  checkpoint  {record['checkpoint']}\n"
        f"  record      {path}"
    )


class Clock:
    """Seconds of the parts of a run."""

    def __init__(self) -> None:
        self._marks = [time.perf_counter()]

    def loaded(self) -> None:
        """Data and model are there; training begins."""
        self._marks.append(time.perf_counter())

    def trained(self) -> None:
        """Training has ended; the test begins."""
        self._marks.append(time.perf_counter())

    def seconds(self) -> dict[str, float]:
        """Seconds of loading and training (validation included), and of the whole run so far."""
        began, loaded, trained = self._marks
        return {"load": loaded - began, "train": trained - loaded, "total": time.perf_counter() - began}


def write_json(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a record, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
