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
from recbole_bert4rec.system.environment import is_one_of_several, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, requested
from recbole_bert4rec.system.ray_cluster import check_workers, start_ray
from recbole_bert4rec.training.inputs import configure, opened_checkpoint, refuse_other_models, user_layers
from recbole_bert4rec.training.processes import run_rank
from recbole_bert4rec.training.run import run

_LOSSES = 3
"""How often all workers begin again."""


class _Trainer(TorchTrainer):
    """Ray's trainer, but that Ctrl-C ends it as any command; Ray exits with code 1 and without a word."""

    def _register_sigint_handler(self, controller: Any) -> None:
        """Keep the handler that is there."""


@in_program()
def run_on_ray(arguments: Mapping[str, Any], workers: int, address: str | None) -> None:
    """Run in workers of Ray Train, on GPUs if the cluster has one for each, with the arguments of :func:`run`.

    The current folder, data set and ``checkpoint_dir`` must be folders that all machines see under the same name.
    """
    model, dataset = arguments["model"], arguments["dataset"]
    layers = user_layers(arguments["options"], arguments["config_files"], arguments["flags"])
    opened = opened_checkpoint(arguments["resume"], model, dataset, layers)
    config = configure(model, dataset, layers, opened)
    refuse_other_models("--engine=ray", config["model"])  # the training of other models cannot go on
    name = name_of_this_process(f"{config['model']}-{get_local_time()}")
    checkpoint = best_of(opened.path) if opened else os.path.join(config["checkpoint_dir"], f"{name}.pth")
    arguments = {**arguments, "resume": opened and opened.path, "checkpoint": checkpoint}

    def left_behind() -> str:
        last = last_of(checkpoint)
        return f"the same command with --resume={last} goes on" if os.path.isfile(last) else "nothing is saved yet"

    start_ray(address, _show)
    try:
        on_gpu = check_workers(workers)
        # on stdout Ray says that a worker was lost
        with tempfile.TemporaryDirectory(dir=".", prefix=".ray-") as folder, redirect_stdout(io.StringIO()):
            scratch = Path(folder).resolve()
            failures, quiet = FailureConfig(max_failures=_LOSSES), LoggingConfig("CRITICAL")
            trainer = _Trainer(
                _work,
                train_loop_config={"arguments": arguments, "folder": os.getcwd(), "scratch": scratch},
                torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
                scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu),
                # what mypy sees is the older of Ray's two classes
                run_config=RunConfig("run", str(scratch), failure_config=failures, logging_config=quiet),  # type: ignore[call-arg]
            )
            try:
                trainer.fit()
            except TrainingFailedError as error:
                reason = str(error).strip().splitlines()[-1].split(". ")[0]
                lost = f"workers were lost {_LOSSES + 1} times, at last by {reason}; {left_behind()}"
                raise UserError(lost) from error
            if (scratch / "mistake").exists():
                raise UserError((scratch / "mistake").read_text("utf-8"))
            time.sleep(1)  # which the last lines of a worker take to the screen
    except KeyboardInterrupt as stop:  # in Ray's code an `Interrupted` becomes its parent
        raise Interrupted(requested() or signal.SIGINT, left_behind()) from stop
    finally:
        ray.shutdown()


def _show(output: Mapping[str, Any]) -> None:
    """Show what workers say; Ray's own actors say much that is no concern of the user's."""
    if output["actor_name"] == "RayTrainWorker" and output["is_err"]:
        sys.stderr.write("".join(f"{line}\n" for line in output["lines"]))


def _work(about: Mapping[str, Any]) -> None:
    """Run one worker."""
    arguments, begun, mistake = about["arguments"], about["scratch"] / "begun", about["scratch"] / "mistake"
    if mistake.exists():  # to begin again does not mend it
        return
    suppress_dependency_warnings()
    os.chdir(about["folder"])
    logging.getLogger().handlers.clear()  # those of Ray, which would say everything once more
    if ray.train.get_context().get_world_rank() == 0:  # whose checkpoint all go on from
        last = last_of(arguments["checkpoint"])
        if begun.exists():
            sys.stderr.write("warning: a worker was lost; all begin again with the last checkpoint, if there is one\n")
            arguments = {**arguments, "resume": last if os.path.isfile(last) else arguments["resume"]}
        begun.touch()
    try:
        run_rank(arguments) if is_one_of_several() else run(**arguments)
    except UserError as error:
        mistake.write_text(str(error), "utf-8")
        raise  # so that others, which wait for this worker, end
