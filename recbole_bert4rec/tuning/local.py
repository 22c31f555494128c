"""Trials one after the other in a process of their own: one that crashes or is killed does not take the rest along."""

from __future__ import annotations

from functools import partial
from typing import Any

from recbole_bert4rec.system.workers import DiedError, FailedError, Worker
from recbole_bert4rec.training.epochs import Report
from recbole_bert4rec.tuning.job import Job, checkpoint_of
from recbole_bert4rec.tuning.objective import Task, run_trial
from recbole_bert4rec.tuning.trials import FAILED, Trial

_ATTEMPTS = 2
"""A trial whose process was killed is tried once more."""


def run_here(job: Job) -> None:
    """Run what the search proposes, one trial after the other."""
    with Worker(_trial, job.task, job.data) as worker:
        while (proposal := job.search.ask()) is not None:
            number, params = proposal
            job.progress.begin(number, params)
            report = partial(job.progress.epoch, number)
            result = _attempt(worker, params, checkpoint_of(job.folder, number), report)
            score = result.get("score")
            failed = {"status": FAILED, "reason": result.get("reason", "it ended without a validation score")}
            job.keep(Trial(number, params, **(result if score is not None else failed)))
            job.search.tell(params, score)


def _trial(task: Task, data: bytes | None, params: dict[str, Any], checkpoint: str, report: Report) -> dict[str, Any]:
    return run_trial(task, params, data, checkpoint, report)


def _attempt(worker: Worker, params: dict[str, Any], checkpoint: str, report: Report) -> dict[str, Any]:
    """Return the trial's result, or ``{"reason": ...}`` where it failed."""
    for _ in range(_ATTEMPTS):
        try:
            result: dict[str, Any] = worker.run(params, checkpoint, news=report)
            return result
        except DiedError as error:
            reason = f"{error} ({_ATTEMPTS} times)"
        except FailedError as error:
            return {"reason": str(error)}
    return {"reason": reason}
