"""One run in workers of Ray Train; if one is lost, all resume from the last checkpoint."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import ray
import torch
from ray.exceptions import RayError
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

try:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
except ImportError:  # Ray 2.6
    from ray.air import FailureConfig, RunConfig, ScalingConfig

from recbole.trainer import Trainer

from recbole_bert4rec.checkpoints import best_of, last_of
from recbole_bert4rec.plugin.callbacks import Callback, Metrics
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system.ray_cluster import check_workers, start_ray
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.training.inputs import configure, refuse_other_models
from recbole_bert4rec.training.processes import TrainingProcess, run_rank
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import resolved, run

_ATTEMPTS = 3
"""How often workers may be lost without an epoch in between."""
_PAUSE = 0.2
"""Seconds between two looks at the board."""


class _Board:
    """Messages between the first worker and the started program; an actor on that program's machine."""

    def __init__(self) -> None:
        self.checkpoint: str | None = None
        self.mistake: str | None = None
        self.finished = False
        self._begun, self._attempts = False, 0
        self._text = ""

    def begin(self) -> bool:
        """Count an attempt, and refuse it if too many failed; return whether it is not the first."""
        again, self._begun = self._begun, True
        self._attempts += 1
        if self._attempts > _ATTEMPTS and self.mistake is None:
            lost, saved = f"workers were lost {_ATTEMPTS} times within one epoch", self.left_behind()
            self.mistake = f"{lost}; {saved}" if saved else lost
        return again

    def state(self) -> tuple[str | None, str | None]:
        """Return the mistake that ends the run, and the checkpoint to resume, if any."""
        return self.mistake, self.checkpoint

    def left_behind(self) -> str:
        """Say how to resume the run; nothing if no checkpoint was written."""
        exists = self.checkpoint is not None and Path(self.checkpoint).exists()
        return f"the same command with --resume={self.checkpoint} goes on" if exists else ""

    def note(self, checkpoint: str) -> None:
        """Keep the name of the checkpoint to resume, once that file is written."""
        self.checkpoint = checkpoint

    def progress(self) -> None:
        """Note that an epoch has ended since workers were last lost."""
        self._attempts = 0

    def fail(self, mistake: str) -> None:
        """Keep a mistake that the user can mend."""
        self.mistake = mistake

    def end(self) -> None:
        """Note that all is done."""
        self.finished = True

    def is_finished(self) -> bool:
        """Tell whether all is done."""
        return self.finished

    def write(self, text: str) -> None:
        """Keep text for the screen."""
        self._text += text

    def take(self) -> str:
        """Return the text since the last call."""
        text, self._text = self._text, ""
        return text


class _BoardNotes(Callback):
    """Tells the board which checkpoint to resume if this worker is lost."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def on_train_begin(self, trainer: Trainer) -> None:
        """Name the checkpoint before it is written: a worker may be lost right after that."""
        if rank_of(trainer.config) == 0:
            ray.get(self._board.note.remote(str(Path(last_of(trainer.saved_model_file)).resolve())))

    def on_selection_end(self, trainer: Trainer, epoch: int, score: float) -> None:
        """Report the end of an epoch."""
        self._progress(trainer)

    def on_train_end(self, trainer: Trainer, best_score: float, best_metrics: Metrics | None) -> None:
        """Report the end of all epochs."""
        self._progress(trainer)

    def _progress(self, trainer: Trainer) -> None:
        if rank_of(trainer.config) == 0:
            ray.get(self._board.progress.remote())


class _BoardStream:
    """A stream that writes to the board."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def write(self, text: str) -> int:
        self._board.write.remote(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""

    def isatty(self) -> bool:
        """Return False: it is not a terminal."""
        return False


@in_program()
def run_on_ray(request: RunRequest, workers: int, address: str | None) -> None:
    """Run in workers of Ray Train, on GPUs if the cluster has one for each.

    Data set and ``checkpoint_dir`` must be folders that all machines see under the same name. If a worker is
    lost, all begin again with the last checkpoint.
    """
    model = configure(resolved(request))["model"]
    refuse_other_models("--engine=ray", model)  # the training of other models cannot go on
    start_ray(address)
    for name in ("ray", "ray.tune", "ray.train"):  # which say at length that a worker was lost
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        on_gpu = check_workers(workers)
        this_machine = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        board = cast(Any, ray.remote)(num_cpus=0, scheduling_strategy=this_machine)(_Board).remote()
        worker_config = {"request": request, "board": board, "folder": os.getcwd()}
        with tempfile.TemporaryDirectory(dir=".", prefix=".ray-") as scratch, _shown(board):
            _fit(worker_config, workers, on_gpu, str(Path(scratch).resolve()))
        mistake, _ = ray.get(board.state.remote())
        if mistake is not None:
            raise UserError(mistake)
        if not ray.get(board.is_finished.remote()):
            left_behind = ray.get(board.left_behind.remote())
            raise Interrupted(signal.SIGINT, left_behind)  # Ray took the signal and ended the run
    finally:
        ray.shutdown()


def _fit(worker_config: dict[str, Any], workers: int, on_gpu: bool, scratch: str) -> None:
    old = ray.__version__.startswith("2.6.")
    of_trainer: dict[str, Any] = {"trainer_resources": {"CPU": 0}} if old else {}
    of_run: dict[str, Any] = {"verbose": 0} if old else {}
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # on which Ray says that all is done
        warnings.simplefilter("ignore")
        TorchTrainer(
            _work,
            train_loop_config=worker_config,
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu, **of_trainer),
            run_config=RunConfig(
                name="run", storage_path=scratch, failure_config=FailureConfig(max_failures=-1), **of_run
            ),
        ).fit()


def _work(worker_config: dict[str, Any]) -> None:
    """Run one worker."""
    board, request = worker_config["board"], cast(RunRequest, worker_config["request"])
    suppress_dependency_warnings()
    os.chdir(worker_config["folder"])
    logging.getLogger().handlers.clear()  # those of Ray, which would say everything once more
    worker = TrainingProcess.of_environment()
    first = worker is None or worker.rank == 0
    mistake, checkpoint = _begun(board, first)
    if mistake is not None:
        return
    request = replace(request, callbacks=(*request.callbacks, _BoardNotes(board)))
    if checkpoint is not None:
        request = replace(request, resume=checkpoint)
    with redirect_stderr(cast(Any, _BoardStream(board))):
        try:
            if worker is None:
                run(request)
            else:
                run_rank(request, worker)
        except UserError as error:
            ray.get(board.fail.remote(str(error)))
            raise
    if first:
        ray.get(board.end.remote())


def _begun(board: Any, first: bool) -> tuple[str | None, str | None]:
    """Count an attempt; return to all workers the mistake that ends the run, and the checkpoint to resume."""
    state: list[tuple[str | None, str | None]] = [(None, None)]
    if first:
        again = ray.get(board.begin.remote())
        mistake, last = ray.get(board.state.remote())
        kept = [file for file in (last, best_of(last)) if Path(file).exists()] if last else []
        state = [(mistake, kept[0] if kept else None)]
        if again and mistake is None:
            where = f"goes on from {kept[0]}" if kept else "begins anew"
            ray.get(board.write.remote(f"warning: a worker was lost; the run {where}\n"))
    if torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(state)
    return state[0]


@contextmanager
def _shown(board: Any) -> Iterator[None]:
    """Copy the board's text to the screen while the block lasts."""
    over = threading.Event()

    def show() -> None:
        while not over.is_set():
            time.sleep(_PAUSE)
            with suppress(RayError):  # Ray has ended before this program
                sys.stderr.write(ray.get(board.take.remote()))

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(5)
        with suppress(RayError):
            sys.stderr.write(ray.get(board.take.remote()))
