"""The JSON record of a run: its schema, how it is made, written and read, and its summary for the log."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from recbole.trainer import Trainer

from recbole_bert4rec.checkpoints import is_plain
from recbole_bert4rec.plugin.callbacks import Callback, Metrics
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.plugin.warm_start import WarmStart, words
from recbole_bert4rec.recommend.answers import viewed_rule
from recbole_bert4rec.system.environment import commit, environment, peak_memory_mb
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write
from recbole_bert4rec.training.epochs import EpochLog, EpochRecord, counted, finite, finite_values

SCHEMA = 1
"""Version of :class:`RunRecord`; raise it when a key changes its name or meaning."""


class Seconds(TypedDict):
    """Seconds of the parts of a run.

    Keys:
        load: of data and model.
        train: of training, validation included.
        total: of the whole run until the record was first written, its test included.
    """

    load: float
    train: float
    total: float


class BudgetRecord(TypedDict):
    """A run that time ended.

    Keys:
        seconds: of the budget.
        last_epoch_share: the share of the last epoch that was trained, from 0 to 1.
    """

    seconds: float
    last_epoch_share: float


class RefitRecord(TypedDict):
    """The training with the validation items that ``refit`` asks for.

    Keys:
        epochs: number of epochs that were trained.
        test_result: test metrics of the refitted model.
        checkpoint: path of its weights.
    """

    epochs: int
    test_result: dict[str, float | None]
    checkpoint: str


class _Facts(TypedDict):
    schema: int
    model: str
    dataset: str
    seed: int
    parameters: int
    checkpoint: str
    commit: str | None
    config: dict[str, Any]
    versions: dict[str, str]
    machine: dict[str, Any]


class _Always(_Facts):
    ended: str
    seconds: Seconds
    peak_memory_mb: float
    peak_gpu_memory_mb: float | None
    best_epoch: int | None
    best_valid_score: float | None
    best_valid_result: dict[str, float | None]
    test_result: dict[str, float | None]
    epochs: list[EpochRecord]


class RunRecord(_Always, total=False):
    """Everything about a run that reports read, as plain JSON values. Schema 1.

    Keys:
        schema: version of this schema, 1.
        model: RecBole's name.
        dataset: RecBole's name.
        seed: of the run.
        ended: when the record was written: local time, such as ``2026-11-22T06:00:00+0000``.
        seconds: see :class:`Seconds`.
        peak_memory_mb: the most memory that the process held, in MB.
        peak_gpu_memory_mb: the most memory of a GPU, in MB; None without a GPU.
        parameters: number of trained weights.
        best_epoch: the epoch whose weights were tested, from 0; None if none was validated.
        best_valid_score: its value of ``valid_metric``; None if it is not finite.
        best_valid_result: its validation metrics.
        test_result: test metrics of the best epoch; none before the test.
        checkpoint: path of the weights.
        commit: of this package's checkout, or None.
        epochs: see :class:`~recbole_bert4rec.training.epochs.EpochRecord`.
        config: every option of the run that JSON can hold.
        versions: of Python and the packages that matter.
        machine: processor, cores, threads and GPU.
        budget: only if time ended the training; see :class:`BudgetRecord`.
        refit: only with the option ``refit``; see :class:`RefitRecord`.
        also: only with further protocols; the test metrics under each, by its file's name.
        learnt: only of a model with ``seen_bias``; its value.
        memory: only of a model with ``memory``; the weight that validation chose, and the entries of its table.
        warm_start: only with the option ``warm_start``; see :class:`~recbole_bert4rec.plugin.warm_start.WarmStart`.
        unfinished: only as long as the run is not tested; True.
        contestant: only in a comparison; the name of the model or variant there.
    """

    budget: BudgetRecord
    refit: RefitRecord
    also: dict[str, dict[str, float]]
    contestant: str
    learnt: dict[str, float]
    memory: dict[str, float]
    warm_start: WarmStart
    unfinished: bool


def record_path(trainer: Trainer) -> Path:
    """Return the path of a training's record: beside the checkpoint."""
    return Path(trainer.saved_model_file).with_suffix(".json")


def unused(path: Path) -> Path:
    """Return a name for another record of the same training."""
    names = (path.with_stem(f"{path.stem}-again-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())


def _facts(trainer: Trainer) -> _Facts:
    """Return the entries that do not change while a run goes on."""
    config, about = trainer.config, environment()
    return {
        "schema": SCHEMA,
        "model": config["model"],
        "dataset": config["dataset"],
        "seed": config["seed"],
        "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
        "checkpoint": str(trainer.saved_model_file),
        "commit": commit(),
        "config": {key: in_json(value) for key, value in sorted(config.final_config_dict.items()) if is_plain(value)},
        "versions": about["versions"],
        "machine": about["machine"],
    }


def read_record(path: str | os.PathLike[str]) -> RunRecord:
    """Read a record."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as the record of a run: {error}") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise UserError(f"{path} is not the record of a run with schema {SCHEMA}; its schema is {schema!r}")
    return cast(RunRecord, content)


def summary(record: RunRecord, path: Path) -> str:
    """Return a run in six lines, for the end of the log."""

    def line(values: Mapping[str, float | None]) -> str:
        return "    ".join(f"{name} {value:.4f}" for name, value in values.items() if value is not None) or "none"

    seconds, learnt, best = record["seconds"], record.get("learnt"), record["best_epoch"]
    epochs = counted(len(record["epochs"]))
    epochs += ", none validated" if best is None else f", best epoch {best} (counted from 0)"
    seen_items = learnt and viewed_rule(learnt["seen_bias"], bool(record["config"]["exclude_seen"])).why
    return (
        f"\n{record['model']} on {record['dataset']}, seed {record['seed']}: {epochs}\n"
        + (f"  warm start  {words(record['warm_start'])}\n" if "warm_start" in record else "")
        + f"  valid       {line(record['best_valid_result'])}\n"
        f"  test        {line(record['test_result'])}\n"
        + "".join(f"  test        {line(values)}   ({name})\n" for name, values in record.get("also", {}).items())
        + (f"  refit       {line(record['refit']['test_result'])}\n" if "refit" in record else "")
        + (f"  seen items  {seen_items}\n" if seen_items else "")
        + f"  time        {seconds['total']:.1f} s, of which training and validation {seconds['train']:.1f} s\n"
        f"  peak RAM    {record['peak_memory_mb']:.0f} MB\n"
        f"  checkpoint  {record['checkpoint']}\n"
        + (f"  refitted    {record['refit']['checkpoint']}\n" if "refit" in record else "")
        + f"  record      {path}"
    )


class Clock:
    """Seconds of the parts of a run."""

    def __init__(self) -> None:
        self._marks = [time.perf_counter()]

    def loaded(self) -> None:
        """Note that data and model are there and training begins."""
        self._marks.append(time.perf_counter())

    def trained(self) -> None:
        """Note that training has ended and the test begins."""
        self._marks.append(time.perf_counter())

    def seconds(self, before: float = 0.0) -> Seconds:
        """Return the seconds of loading, of training, and of the whole run so far."""
        now = time.perf_counter()
        began, loaded, trained = [*self._marks, now, now][:3]
        return {
            "load": round(loaded - began, 3),
            "train": round(before + trained - loaded, 3),
            "total": round(before + now - began, 3),
        }


class RecordWriter(Callback):
    """Writes the record of a run from its first epoch on, so that a run that is stopped leaves one, too.

    Attributes:
        path: of the record; by default beside the checkpoint.
    """

    path: Path

    def __init__(self, log: EpochLog) -> None:
        self._log, self._clock = log, Clock()

    def on_train_begin(self, trainer: Trainer) -> None:
        """Note the entries that will not change, and the time."""
        self._facts = _facts(trainer)
        if not hasattr(self, "path"):
            self.path = record_path(trainer)
        self._clock.loaded()

    def on_epoch_end(self, trainer: Trainer, epoch: int, loss: float | tuple[float, ...] | None) -> None:
        """Write the epoch's loss."""
        self._write(trainer)

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Write the epoch's validation."""
        self._write(trainer)

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Note the time."""
        self._clock.trained()

    def on_test_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """Write the record to its end."""
        self._write(trainer, metrics)

    def _write(self, trainer: Trainer, test: Metrics | None = None) -> None:
        if rank_of(trainer.config) == 0:
            record = self.record(trainer, test)
            if test is None:
                record["unfinished"] = True
            write_json(self.path, record)

    def record(self, trainer: Trainer, test: Metrics | None) -> RunRecord:
        """Return the record of the run as it is now."""
        ours = trainer if isinstance(trainer, BERT4RecTrainer) else None
        now = {
            "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seconds": self._clock.seconds(self._log.before),
            "peak_memory_mb": round(peak_memory_mb(), 1),
            "peak_gpu_memory_mb": _peak_gpu_memory_mb(),
            "best_epoch": self._log.best_epoch if ours is None or ours.best_epoch < 0 else ours.best_epoch,
            "best_valid_score": finite(trainer.best_valid_score),
            "best_valid_result": finite_values(trainer.best_valid_result),
            "test_result": finite_values(test),
            "epochs": self._log.epochs,
        }
        record = cast(RunRecord, {**self._facts, **now})
        if ours is None:
            return record
        if ours.checkpoints.warm_start is not None:
            record["warm_start"] = ours.checkpoints.warm_start
        if ours.model.seen_bias is not None:
            bias = float(ours.model.seen_bias.detach())
            record["learnt"] = {"seen_bias": round(bias, 4) or bias}  # its sign decides about recommendations
        if ours.model.memory is not None:
            entries = ours.model.memory.transitions.nnz
            record["memory"] = {"weight": ours.model.memory.weight, "entries": entries}
        return record


def _peak_gpu_memory_mb() -> float | None:
    return round(torch.cuda.max_memory_allocated() / 2**20, 1) if torch.cuda.is_available() else None


def in_json(value: object) -> Any:
    """Return a plain value as JSON can hold it: numbers that are not finite are texts."""
    if isinstance(value, dict):
        return {key: in_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Write a record, whole or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False), encoding="utf-8")
