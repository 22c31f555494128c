"""One run in workers of Ray Train; if one is lost, all begin again with the last checkpoint."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import ray
from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer
from recbole.utils import get_local_time

from recbole_bert4rec.checkpoints import best_of, last_of
from recbole_bert4rec.plugin.distributed import name_of_this_process
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.system.ray_cluster import check_workers, start_ray
from recbole_bert4rec.training.inputs import configure, opened_checkpoint, refuse_other_models, user_layers
from recbole_bert4rec.training.processes import is_one_of_several, run_rank
from recbole_bert4rec.training.run import run

_LOSSES = 3
"""How often all workers begin again."""
_LAST_LINES = 1.0
"""Seconds that the last lines of a worker take to the screen."""


@in_program()
def run_on_ray(arguments: Mapping[str, Any], workers: int, address: str | None) -> None:
    """Run in workers of Ray Train, on GPUs if the cluster has one for each, with the arguments of :func:`run`.

    Data set and ``checkpoint_dir`` must be folders that all machines see under the same name.
    """
    model, dataset = arguments["model"], arguments["dataset"]
    layers = user_layers(*(arguments[name] for name in ("options", "config_files", "flags")))
    opened = opened_checkpoint(arguments["resume"], model, dataset, layers)
    config = configure(model, dataset, layers, opened)
    refuse_other_models("--engine=ray", config["model"])  # the training of other models cannot go on
    name = name_of_this_process(f"{config['model']}-{get_local_time()}")
    checkpoint = best_of(opened.path) if opened else os.path.join(config["checkpoint_dir"], f"{name}.pth")
    arguments = {**arguments, "resume": opened and opened.path, "checkpoint": checkpoint}
    start_ray(address, _show)
    try:
        on_gpu = check_workers(workers)
        # on stdout Ray says that a worker was lost
        with tempfile.TemporaryDirectory(dir=".", prefix=".ray-") as scratch, redirect_stdout(io.StringIO()):
            _fit(arguments, workers, on_gpu, Path(scratch).resolve())
            time.sleep(_LAST_LINES)
            if not Path(scratch, "over").exists():
                raise Interrupted(signal.SIGINT)  # Ray took the signal and ended the run
    except Interrupted as stop:
        stop.left_behind = _left_behind(checkpoint)
        raise
    finally:
        ray.shutdown()


def _fit(arguments: Mapping[str, Any], workers: int, on_gpu: bool, scratch: Path) -> None:
    """Let Ray run the workers, and run them again if one is lost."""
    try:
        TorchTrainer(
            _work,
            train_loop_config={"arguments": arguments, "folder": os.getcwd(), "scratch": scratch},
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu),
            run_config=RunConfig(
                name="run",
                storage_path=str(scratch),
                failure_config=FailureConfig(max_failures=_LOSSES),
                logging_config=LoggingConfig("CRITICAL"),  # it says at length that a worker was lost
            ),
        ).fit()
    except TrainingFailedError as error:
        mistake = scratch / "mistake"
        if mistake.exists():
            raise UserError(mistake.read_text("utf-8")) from error
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"workers were lost {_LOSSES + 1} times, at last by {reason}; {_left_behind(arguments['checkpoint'])}"
        ) from error


def _show(output: Mapping[str, Any]) -> None:
    """Show what workers say; Ray's own actors say much that is no concern of the user's."""
    if output["actor_name"] == "RayTrainWorker" and output["is_err"]:
        sys.stderr.write("".join(f"{line}\n" for line in output["lines"]))


def _left_behind(checkpoint: str) -> str:
    """Say how to go on."""
    last = last_of(checkpoint)
    return f"the same command with --resume={last} goes on" if os.path.isfile(last) else "nothing is saved yet"


def _work(about: dict[str, Any]) -> None:
    """Run one worker."""
    suppress_dependency_warnings()
    os.chdir(about["folder"])
    logging.getLogger().handlers.clear()  # those of Ray, which would say everything once more
    arguments = about["arguments"]
    begun, over, mistake = (about["scratch"] / name for name in ("begun", "over", "mistake"))
    if ray.train.get_context().get_world_rank() == 0:  # whose checkpoint all go on from
        files = (last_of(arguments["checkpoint"]), arguments["checkpoint"])
        if begun.exists() and not mistake.exists():
            saved = next(filter(os.path.isfile, files), arguments["resume"])
            sys.stderr.write(
                f"warning: a worker was lost; the run {f'goes on from {saved}' if saved else 'begins anew'}\n"
            )
            arguments = {**arguments, "resume": saved}
        begun.touch()
    try:
        if mistake.exists():
            raise UserError(mistake.read_text("utf-8"))  # to begin again does not mend it
        run_rank(arguments) if is_one_of_several() else run(**arguments)
        over.touch()
    except UserError as error:
        mistake.write_text(str(error), "utf-8")
        raise
