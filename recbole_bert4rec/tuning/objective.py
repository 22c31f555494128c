"""One trial: train with a setting and select its best epoch on validation; the test data are not touched."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from recbole.config import Config
from recbole.utils import dataset_arguments

from recbole_bert4rec.checkpoints import last_of, read
from recbole_bert4rec.core.fast.denormals import denormals_as_zero
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training import retest
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Experiment, build, read_dataset
from recbole_bert4rec.training.epochs import ProgressReport, Report
from recbole_bert4rec.training.saving import Saver


@dataclass(frozen=True)
class Task:
    """Model, data and options that all trials of a search share.

    Attributes:
        model: as run.py takes it; ``module:Class`` for the user's own.
        dataset: as run.py takes it.
        config_files: as run.py takes them.
        fixed: options for every trial; they win over everything but are refused for searched options.
        folder: base of relative paths.
        threads: of torch in each trial; results depend on it.
        budget: seconds of training and validation of a trial, with any number of epochs; None: no limit.
    """

    model: str
    dataset: str
    config_files: tuple[str | Mapping[str, Any], ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    folder: str = "."
    threads: int = 1
    budget: float | None = None

    def config(self, params: dict[str, Any]) -> Config:
        """Return RecBole's configuration of a trial, without progress bars."""
        options = {"show_progress": False, **params, **self.fixed}
        return PluginConfig(
            self.model, self.dataset, Layers(files=tuple(map(read_options, self.config_files)), options=options)
        )


def changes_dataset(names: list[str]) -> bool:
    """Tell whether one of these options changes how the data are read."""
    return bool(set(names) & {*dataset_arguments, "data_path", "dataset", "load_col", "eval_args"})


def packed_data(task: Task) -> bytes:
    """Read the data set, which is not split yet, once for all trials; :func:`run_trial` unpacks a copy."""
    with _worker_context(task):
        return pickle.dumps(read_dataset(task.config({})))


def run_trial(
    task: Task, params: dict[str, Any], data: bytes | None, checkpoint: str | None, report: Report
) -> dict[str, Any]:
    """Train with one setting, or resume its training."""
    began = time.perf_counter()
    with _worker_context(task):
        log = ProgressReport(report)
        limits = [] if task.budget is None else [Budget(task.budget)]
        saver = Saver()
        experiment = _build(task, params, data, log, *limits, *([] if checkpoint is None else [saver]))
        trainer = experiment.trainer
        if checkpoint is not None:
            trainer.saved_model_file = checkpoint
            state = _begun(checkpoint, params)
            if state is not None and isinstance(trainer, BERT4RecTrainer):
                trainer.resume_checkpoint(last_of(checkpoint), state)
        loaders = experiment.data
        score, valid = saver.fit(trainer, loaders.train, loaders.valid, verbose=False, saved=checkpoint is not None)
        best = log.best()
        if valid is not None:  # with the memory, which no epoch has
            best |= {"best": score, "valid": dict(valid)}
    return {
        "score": best["best"],
        "valid": best["valid"],
        "best_epoch": best["best_epoch"],
        "epochs": len(log.epochs),
        "seconds": round(time.perf_counter() - began, 2),
    }


def _begun(checkpoint: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the state of an unfinished training of the same setting, if there is one."""
    try:
        state = read(last_of(checkpoint))
    except UserError:  # there is none, or it is damaged
        return None
    return state if all(state["config"].get(name) == value for name, value in params.items()) else None


def test_result(task: Task, params: dict[str, Any], checkpoint: str) -> dict[str, float]:
    """Return the test metrics of a trained setting; for the winner, once."""
    with _worker_context(task):
        return retest.test_result(_build(task, params, None), checkpoint)


def _build(task: Task, params: dict[str, Any], data: bytes | None, *callbacks: Callback) -> Experiment:
    config = task.config(params)
    dataset = None
    if data is not None:
        dataset = pickle.loads(data)  # noqa: S301  made by packed_data in this run
        dataset.config = config
    return build(config, callbacks, dataset)


@contextmanager
def _worker_context(task: Task) -> Iterator[None]:
    """Use the folder and threads of the search; Ray gives a worker others."""
    folder, threads = os.getcwd(), torch.get_num_threads()
    suppress_dependency_warnings()
    os.chdir(task.folder)
    torch.set_num_threads(task.threads)
    try:
        with in_program(), denormals_as_zero():
            yield
    finally:
        os.chdir(folder)
        torch.set_num_threads(threads)
