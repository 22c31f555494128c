"""The JSON record of a run, whose keys docs/operating.md lists: it is written as the run goes on; its summary."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer

from recbole_bert4rec.checkpoints import is_plain
from recbole_bert4rec.plugin.callbacks import Callback, Losses, Metrics, Observed
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.plugin.warm_start import words
from recbole_bert4rec.recommend.answers import viewed_rule
from recbole_bert4rec.system.environment import commit, environment, peak_memory_mb
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write

SCHEMA = 1
"""Version of a record; raise it when a key changes its name or meaning."""


class Record(Callback):
    """Keeps what each epoch gave, and writes the record of a run from its first epoch on.

    A run that is stopped leaves a record, too, with the entry ``unfinished``.
    """

    path: Path  # of the record

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []
        self._before = 0.0  # seconds of the runs that this one resumes
        self._began = time.perf_counter()
        self._trained: float | None = None

    def state(self) -> dict[str, Any]:
        """Return the epochs, and the seconds of the training so far."""
        return {"epochs": self.epochs, "seconds": self._seconds_of_training()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the epochs of the run that this one resumes before its own."""
        self.epochs, self._before = state["epochs"], state["seconds"]

    def _seconds_of_training(self) -> float:
        """Return the seconds since training began, those of the runs that this one resumes among them."""
        return self._before + time.perf_counter() - self._loaded

    def on_train_begin(self, trainer: Trainer) -> None:
        """Note the entries that will not change, and the time."""
        config = trainer.config
        self._facts = {
            "schema": SCHEMA,
            "model": config["model"],
            "dataset": config["dataset"],
            "seed": config["seed"],
            "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
            "checkpoint": str(trainer.saved_model_file),
            "commit": commit(),
            "config": {key: value for key, value in sorted(config.final_config_dict.items()) if is_plain(value)},
            **environment(),
        }
        self._loaded = time.perf_counter()

    def on_epoch_begin(self, trainer: Trainer, epoch: int, batches: AbstractDataLoader) -> None:
        """Start the time."""
        self._step_began = time.perf_counter()

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: Losses | None) -> None:
        """Write loss and seconds of the epoch; the time of its validation begins."""
        total = sum(loss) if isinstance(loss, tuple) else loss
        self.epochs.append({"epoch": epoch, "train_loss": float(total or 0.0)} | self._seconds_of("train"))
        self._write(trainer)
        self._step_began = time.perf_counter()

    def on_validation_end(self, trainer: Observed, epoch: int, score: float, metrics: Metrics) -> None:
        """Note score, metrics and seconds; not of a finished run that is validated anew."""
        if trainer.epoch >= trainer.start_epoch:
            self.epochs[-1] |= self._seconds_of("valid") | {"valid": metrics, "valid_score": score}

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Write the epoch's validation."""
        self._write(trainer)

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Note the time."""
        self._trained = self._seconds_of_training()

    def _seconds_of(self, step: str) -> dict[str, float]:
        """Return the seconds of a step that has just ended, and of the training so far."""
        seconds = time.perf_counter() - self._step_began
        return {f"{step}_seconds": round(seconds, 3), "at_second": round(self._seconds_of_training(), 3)}

    def _write(self, trainer: Trainer) -> None:
        if rank_of(trainer.config) == 0:
            write_json(self.path, self.of(trainer, None) | {"unfinished": True})

    def of(self, trainer: Observed, test: Metrics | None) -> dict[str, Any]:
        """Return the record of the run as it is now."""
        gpu, validated = torch.cuda.is_available(), bool(trainer.best_valid_result)
        seconds = {
            "load": self._loaded - self._began,
            "train": self._trained or self._seconds_of_training(),
            "total": self._before + time.perf_counter() - self._began,
        }
        record = {
            **self._facts,
            "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "peak_memory_mb": round(peak_memory_mb(), 1),
            "peak_gpu_memory_mb": round(torch.cuda.max_memory_allocated() / 2**20, 1) if gpu else None,
            "best_epoch": trainer.best_epoch if validated else None,
            "best_valid_score": trainer.best_valid_score,
            "best_valid_result": trainer.best_valid_result or {},
            "test_result": test or {},
            "epochs": self.epochs,
        }
        if isinstance(trainer, BERT4RecTrainer):
            model: Any = trainer.model
            if trainer.checkpoints.warm_start is not None:
                record["warm_start"] = trainer.checkpoints.warm_start
            if model.seen_bias is not None:
                bias = float(model.seen_bias.detach())
                record["learnt"] = {"seen_bias": round(bias, 4) or bias}  # its sign decides about recommendations
            if model.memory is not None:
                record["memory"] = {"weight": model.memory.weight, "entries": model.memory.transitions.nnz}
        return dict(in_json(record))


def record_path(trainer: Trainer) -> Path:
    """Return the path of a training's record: beside the checkpoint."""
    return Path(trainer.saved_model_file).with_suffix(".json")


def unused(path: Path) -> Path:
    """Return a name for another record of the same training."""
    names = (path.with_stem(f"{path.stem}-again-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a record."""
    try:
        record: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as the record of a run: {error}") from error
    if record.get("schema") != SCHEMA:
        raise UserError(f"{path} is not the record of a run with schema {SCHEMA}: its is {record.get('schema')!r}")
    return record


def summary(record: Mapping[str, Any], path: Path) -> str:
    """Return a run in some lines, for the end of the log."""
    seconds, learnt, best = record["seconds"], record.get("learnt"), record["best_epoch"]
    refit: Mapping[str, Any] = record.get("refit", {})
    epochs = counted(len(record["epochs"]))
    epochs += ", none validated" if best is None else f", best epoch {best} (counted from 0)"
    lines = [
        ("warm start", words(record["warm_start"]) if "warm_start" in record else None),
        ("valid", _line(record["best_valid_result"])),
        ("test", _line(record["test_result"])),
        *(("test", f"{_line(values)}   ({name})") for name, values in record.get("also", {}).items()),
        ("refit", _line(refit["test_result"]) if refit.get("test_result") else None),
        ("seen items", learnt and viewed_rule(learnt["seen_bias"], bool(record["config"]["exclude_seen"])).why),
        ("time", f"{seconds['total']:.1f} s, of which training and validation {seconds['train']:.1f} s"),
        ("peak RAM", f"{record['peak_memory_mb']:.0f} MB"),
        ("checkpoint", record["checkpoint"]),
        ("refitted", refit.get("checkpoint")),
        ("record", path),
    ]
    shown = [f"  {name:<12}{text}" for name, text in lines if text]
    return "\n".join([f"\n{record['model']} on {record['dataset']}, seed {record['seed']}: {epochs}", *shown])


def _line(values: Mapping[str, float | None]) -> str:
    return "    ".join(f"{name} {value:.4f}" for name, value in values.items() if value is not None) or "none"


def counted(epochs: int) -> str:
    """Return ``1 epoch`` or ``20 epochs``."""
    return "1 epoch" if epochs == 1 else f"{epochs:,} epochs"


def in_json(value: object) -> Any:
    """Return a plain value as JSON can hold it: None in place of a number that is not finite."""
    if isinstance(value, dict):
        return {key: in_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a record, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
