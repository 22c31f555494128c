"""One trial: train with a setting and select its best epoch on validation; the test data are not touched."""

from __future__ import annotations

import ast
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import dataset_arguments, get_model, get_trainer, init_seed

from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.training.record import EpochLog, Report


@dataclass(frozen=True)
class Task:
    """What all trials of a search share.

    Attributes:
        model, dataset, config_files: as run.py takes them.
        flags: ``--key=value`` of the command line; they win over everything but are refused for searched options.
        fixed: options for every trial.
        folder: where relative paths begin.
        threads: of torch in each trial; results depend on it.
    """

    model: str
    dataset: str
    config_files: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    fixed: dict[str, Any] = field(default_factory=dict)
    folder: str = "."
    threads: int = 1

    def config(self, params: dict[str, Any]) -> Config:
        """RecBole's configuration of a trial; quiet, and without progress bars.

        Raises:
            UserError: the options have mistakes.
        """
        options = {**self.fixed, **{name: _plain(value) for name, value in params.items()}, "show_progress": False}
        with (
            mock.patch.object(sys, "argv", [sys.argv[0], *self.flags]),  # RecBole reads --key=value from here
            mock.patch.object(Config, "_load_variable_config_dict", lambda _, given: given),  # it would eval texts
        ):
            return Config(self.model, self.dataset, list(self.config_files) or None, options)


def _plain(value: Any) -> Any:
    """A text such as ``[64, 64]`` as the list that it means, as RecBole's parameter files have it; without eval."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {"true": True, "false": False}.get(value.lower(), value)


def reads_data_anew(names: list[str]) -> bool:
    """Whether one of these options changes how the data are read."""
    return bool(set(names) & {*dataset_arguments, "data_path", "dataset", "load_col", "eval_args"})


def packed_data(task: Task) -> bytes:
    """The data set before it is split, read once for all trials; :func:`run_trial` unpacks a copy of its own."""
    with _at_home(task):
        return pickle.dumps(create_dataset(task.config({})))


def run_trial(
    task: Task, params: dict[str, Any], data: bytes | None, checkpoint: str | None, report: Report
) -> dict[str, Any]:
    """Train with one setting.

    Args:
        data: of :func:`packed_data`; None to read the files.
        checkpoint: file for the weights of the best epoch.
        report: called after every validation; may raise to end the trial.

    Returns:
        score, valid, best_epoch, epochs and seconds.

    Raises:
        UserError: the setting is not possible.
        ValueError: the loss became NaN.
    """
    began = time.perf_counter()
    with _at_home(task):
        trainer, loaders = _prepare(task, params, data)
        trainer.saved_model_file = checkpoint
        log = EpochLog(trainer, [])
        told = log.after_validation(report)
        trainer.fit(loaders[0], loaders[1], verbose=False, saved=checkpoint is not None, callback_fn=told)
        best = log.best()
    return {
        "score": best["best"],
        "valid": best["valid"],
        "best_epoch": best["best_epoch"],
        "epochs": len(log.epochs),
        "seconds": round(time.perf_counter() - began, 2),
    }


def test_result(task: Task, params: dict[str, Any], checkpoint: str) -> dict[str, float]:
    """The test metrics of a trained setting; for the winner, once."""
    with _at_home(task):
        trainer, loaders = _prepare(task, params, None)
        trainer.eval_collector.data_collect(loaders[0])  # as trainer.fit does
        result = trainer.evaluate(loaders[2], load_best_model=True, model_file=checkpoint)
    return {name: float(value) for name, value in result.items()}


def _prepare(task: Task, params: dict[str, Any], data: bytes | None) -> tuple[Any, tuple[Any, ...]]:
    config = task.config(params)
    init_seed(config["seed"], config["reproducibility"])
    if data is None:
        dataset = create_dataset(config)
    else:
        dataset = pickle.loads(data)  # noqa: S301  made by packed_data in this run
        dataset.config = config
    loaders = data_preparation(config, dataset)
    init_seed(config["seed"], config["reproducibility"])
    model = get_model(config["model"])(config, loaders[0]._dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    return trainer, loaders


@contextmanager
def _at_home(task: Task) -> Iterator[None]:
    """Relative paths and threads as the search has them; Ray gives a worker its own."""
    folder, threads = os.getcwd(), torch.get_num_threads()
    suppress_dependency_warnings()
    os.chdir(task.folder)
    torch.set_num_threads(task.threads)
    try:
        yield
    finally:
        os.chdir(folder)
        torch.set_num_threads(threads)
