"""One JSON record a run: configuration, versions, machine, losses and validation by epoch and second, results."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from recbole.config import Config
from recbole.trainer import Trainer

from recbole_bert4rec.files import written_whole
from recbole_bert4rec.plugin.checkpoint import is_plain

_PACKAGES = ("recbole_bert4rec", "recbole", "torch", "numpy", "pandas", "scipy", "ray", "hyperopt")


class EpochLog:
    """Listens to a RecBole trainer, of whatever model, and keeps what each epoch gave.

    Attributes:
        epochs: one dictionary an epoch: epoch, train_loss (sum over batches), train_seconds, at_second
            (since training began, validation included) and, where the epoch was validated, valid and valid_seconds.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.epochs: list[dict[str, Any]] = []
        self._began: float | None = None
        self._train, self._valid = trainer._train_epoch, trainer._valid_epoch
        trainer._train_epoch, trainer._valid_epoch = self._train_epoch, self._valid_epoch

    def _train_epoch(self, train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        self._began = begin if self._began is None else self._began
        loss = self._train(train_data, epoch_idx, *args, **kwargs)
        now = time.perf_counter()
        total = sum(loss) if isinstance(loss, tuple) else loss
        seconds = {"train_seconds": round(now - begin, 3), "at_second": round(now - self._began, 3)}
        self.epochs.append({"epoch": epoch_idx, "train_loss": float(total or 0.0), **seconds})
        return loss

    def _valid_epoch(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        score, result = self._valid(*args, **kwargs)
        now = time.perf_counter()
        if self.epochs and self._began is not None:
            values = {name: float(value) for name, value in result.items()}
            seconds = {"valid_seconds": round(now - begin, 3), "at_second": round(now - self._began, 3)}
            self.epochs[-1].update(valid=values, valid_score=float(score), **seconds)
        return score, result

    def best_epoch(self, bigger: bool) -> int | None:
        """The epoch whose weights RecBole kept: the last among the best by validation score."""
        sign = 1 if bigger else -1
        scored = [(sign * row["valid_score"], row["epoch"]) for row in self.epochs if "valid_score" in row]
        return max(scored)[1] if scored else None


def peak_memory_mb() -> float:
    """The most memory that this process has held so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def environment() -> dict[str, Any]:
    """Versions of what was used and the machine it ran on."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    machine = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    return {"versions": versions, "machine": machine}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def plain_values(config: Config) -> dict[str, Any]:
    """The final configuration, as far as it is numbers, words, lists and dictionaries."""
    return {key: value for key, value in sorted(config.final_config_dict.items()) if is_plain(value)}


def write_json(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a record, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
