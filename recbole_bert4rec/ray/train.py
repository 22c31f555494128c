"""One run in workers of Ray Train; where one is lost, all go on from the last checkpoint."""

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
    from ray.train import FailureConfig, RunConfig, ScalingConfig  # type: ignore[attr-defined]  # Ray 2.6's types
except ImportError:  # Ray 2.6
    from ray.air import FailureConfig, RunConfig, ScalingConfig

from recbole_bert4rec.checkpoints.checkpoint import best_of, last_of
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.patches.registry import in_program
from recbole_bert4rec.ray.cluster import check_workers, start_ray
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.training.callbacks import Callback, Metrics, Observed
from recbole_bert4rec.training.inputs import check_ours, configure
from recbole_bert4rec.training.processes import Place, run_rank
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import resolved, run

_ATTEMPTS = 3
"""How often workers may be lost without an epoch in between."""
_PAUSE = 0.2
"""Seconds between two looks at the board."""


class _Board:
    """What the first worker and the program that was started tell each other; an actor beside that program."""

    def __init__(self) -> None:
        self.checkpoint: str | None = None
        self.mistake: str | None = None
        self.finished = False
        self._begun, self._attempts = False, 0
        self._text = ""

    def begin(self) -> bool:
        """Count an attempt, and refuse where too many came to nothing; return whether it is not the first."""
        again, self._begun = self._begun, True
        self._attempts += 1
        if self._attempts > _ATTEMPTS and self.mistake is None:
            lost, kept = f"workers were lost {_ATTEMPTS} times within one epoch", self.kept()
            self.mistake = f"{lost}; {kept}" if kept else lost
        return again

    def state(self) -> tuple[str | None, str | None]:
        """Return the mistake that ends the run, and the checkpoint to go on from, if any."""
        return self.mistake, self.checkpoint

    def kept(self) -> str:
        """Say how the run goes on; nothing where no checkpoint was written."""
        there = self.checkpoint is not None and Path(self.checkpoint).exists()
        return f"the same command with --resume={self.checkpoint} goes on" if there else ""

    def note(self, checkpoint: str) -> None:
        """Keep where the run goes on, once that file is there."""
        self.checkpoint = checkpoint

    def progress(self) -> None:
        """Keep that an epoch is over since workers were last lost."""
        self._attempts = 0

    def fail(self, mistake: str) -> None:
        """Keep what the user can mend."""
        self.mistake = mistake

    def end(self) -> None:
        """Keep that all is done."""
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


class _Noted(Callback):
    """Tells the board where the run goes on, should this worker be lost."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def on_train_begin(self, trainer: Observed) -> None:
        """Name the checkpoint before it is written, for a worker may be lost right after that."""
        if rank_of(trainer.config) == 0:
            ray.get(self._board.note.remote(str(Path(last_of(trainer.saved_model_file)).resolve())))

    def on_selection_end(self, trainer: Observed, epoch: int, score: float) -> None:
        """An epoch is over."""
        self._progress(trainer)

    def on_train_end(self, trainer: Observed, best_score: float, best_metrics: Metrics | None) -> None:
        """All epochs are over."""
        self._progress(trainer)

    def _progress(self, trainer: Observed) -> None:
        if rank_of(trainer.config) == 0:
            ray.get(self._board.progress.remote())


class _Screen:
    """A stream whose text the board keeps."""

    def __init__(self, board: Any) -> None:
        self._board = board

    def write(self, text: str) -> int:
        self._board.write.remote(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is kept here."""

    def isatty(self) -> bool:
        """Say that it is no terminal."""
        return False


@in_program()
def run_on_ray(request: RunRequest, workers: int, address: str | None) -> None:
    """Run in workers of Ray Train, on GPUs where the cluster has one for each.

    Data set and ``checkpoint_dir`` must be folders that all machines see under the same name. A worker that is lost
    ends no run: all begin again with the last checkpoint.

    Args:
        request: what to run, of this package's models.
        workers: number of processes that train together.
        address: of a running cluster; None to start Ray here, for this machine alone.

    Raises:
        UserError: something that the caller can mend; there is no such cluster, or it has no room.
    """
    check_ours("--engine=ray", configure(resolved(request))["model"])  # the training of other models cannot go on
    start_ray(address)
    for name in ("ray", "ray.tune", "ray.train"):  # which say at length that a worker was lost
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        on_gpu = check_workers(workers)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        board = cast(Any, ray.remote)(num_cpus=0, scheduling_strategy=here)(_Board).remote()
        given = {"request": request, "board": board, "argv": sys.argv, "folder": os.getcwd()}
        with tempfile.TemporaryDirectory(dir=".", prefix=".ray-") as scratch, _shown(board):
            _fit(given, workers, on_gpu, str(Path(scratch).resolve()))
        mistake, _ = ray.get(board.state.remote())
        if mistake is not None:
            raise UserError(mistake)
        if not ray.get(board.is_finished.remote()):
            raise Interrupted(signal.SIGINT, ray.get(board.kept.remote()))  # Ray took the signal and ended the run
    finally:
        ray.shutdown()


def _fit(given: dict[str, Any], workers: int, on_gpu: bool, scratch: str) -> None:
    old = ray.__version__.startswith("2.6.")
    of_trainer: dict[str, Any] = {"trainer_resources": {"CPU": 0}} if old else {}
    of_run: dict[str, Any] = {"verbose": 0} if old else {}
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):  # on which Ray says that all is done
        warnings.simplefilter("ignore")
        TorchTrainer(
            _work,
            train_loop_config=given,
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu, **of_trainer),
            run_config=RunConfig(
                name="run", storage_path=scratch, failure_config=FailureConfig(max_failures=-1), **of_run
            ),
        ).fit()


def _work(given: dict[str, Any]) -> None:
    """Do one worker's part."""
    board, request = given["board"], cast(RunRequest, given["request"])
    suppress_dependency_warnings()
    os.chdir(given["folder"])
    sys.argv = given["argv"]  # RecBole's Config reads options from there
    logging.getLogger().handlers.clear()  # those of Ray, which would say everything once more
    place = Place.of_environment()
    first = place is None or place.rank == 0
    mistake, checkpoint = _begun(board, first)
    if mistake is not None:
        return
    request = replace(request, callbacks=(*request.callbacks, _Noted(board)))
    if checkpoint is not None:
        request = replace(request, resume=checkpoint)
    with redirect_stderr(cast(Any, _Screen(board))):
        try:
            if place is None:
                run(request)
            else:
                run_rank(request, place)
        except UserError as error:
            ray.get(board.fail.remote(str(error)))
            raise
    if first:
        ray.get(board.end.remote())


def _begun(board: Any, first: bool) -> tuple[str | None, str | None]:
    """Count that the workers begin; return, the same to all, the mistake that ends the run, and where it goes on."""
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
    """Write to the screen what the board has, as long as the block lasts."""
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
