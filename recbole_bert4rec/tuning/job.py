"""The trials of a search that are still to run, and a process that runs them one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recbole_bert4rec.system.processes import DiedError, FailedError, Worker
from recbole_bert4rec.training.epochs import Report
from recbole_bert4rec.tuning.objective import Task, run_trial
from recbole_bert4rec.tuning.progress import SearchProgress
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.trials import FAILED, Trial

_ATTEMPTS = 2
"""A trial whose process was killed is tried once more."""


@dataclass(frozen=True)
class Resources:
    """Resources of the trials.

    Attributes:
        cpus, gpus: of one trial; a share of a GPU is possible.
        max_concurrent: trials at once; None for as many as fit.
        address: of a running cluster; None to start Ray here, for this machine alone.
    """

    cpus: int = 1
    gpus: float = 0.0
    max_concurrent: int | None = None
    address: str | None = None


@dataclass(frozen=True)
class Job:
    """The trials of a search that are still to be run.

    Attributes:
        task: common to all trials.
        search: proposes settings and learns their scores.
        data: of :func:`~recbole_bert4rec.tuning.objective.packed_data`; None if each trial reads the files.
        folder: for the weights of the trials.
        keep: called with every ended trial.
        progress: shows the running trials.
    """

    task: Task
    search: Search
    data: bytes | None
    folder: Path
    keep: Callable[[Trial], None]
    progress: SearchProgress


def checkpoint_of(folder: Path, number: int) -> str:
    """Return the file for the weights of a trial's best epoch."""
    return str(folder / f"trial-{number}.pth")


def run_serially(job: Job) -> None:
    """Run the proposed trials one after the other in another process: a crash ends only one of them."""
    with Worker() as worker:
        while (proposal := job.search.ask()) is not None:
            number, params = proposal
            job.progress.begin(number, params)
            report = partial(job.progress.epoch, number)
            result = _attempt(worker, report, job.task, params, job.data, checkpoint_of(job.folder, number))
            score = result.get("score")
            failed = {"status": FAILED, "reason": result.get("reason", "it ended without a validation score")}
            job.keep(Trial(number, params, **(result if score is not None else failed)))
            job.search.tell(params, score)


def _attempt(worker: Worker, report: Report, *arguments: object) -> dict[str, Any]:
    """Return the trial's result, or ``{"reason": ...}`` if it failed."""
    for _ in range(_ATTEMPTS):
        try:
            result: dict[str, Any] = worker.run(run_trial, *arguments, news=report)
            return result
        except DiedError as error:
            reason = f"{error} ({_ATTEMPTS} times)"
        except FailedError as error:
            return {"reason": str(error)}
    return {"reason": reason}
