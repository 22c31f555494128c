"""Trials side by side with Ray Tune, on this machine or a cluster; a scheduler may stop hopeless ones early."""

from __future__ import annotations

import math
import os
import signal
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.air import session
from ray.tune import schedulers
from ray.tune.search import Searcher

try:
    from ray.tune import FailureConfig, RunConfig
except ImportError:  # Ray 2.6
    from ray.air import FailureConfig, RunConfig  # type: ignore[assignment]

from recbole_bert4rec.system.ray_cluster import check_room, start_ray
from recbole_bert4rec.system.errors import reason_of
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.training.epochs import EpochReport
from recbole_bert4rec.tuning.job import Job, Resources, checkpoint_of
from recbole_bert4rec.tuning.objective import Task, run_trial
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.trials import FAILED, FINISHED, STOPPED, Trial

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController
    from ray.tune.experiment import Trial as RayTrial


class _Unpickled:
    """Pickles as nothing: Ray would store it to restore a search, which our log of trials does."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Proposals(_Unpickled, Searcher):
    """A :class:`Search` as Ray asks for it."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.search = search
        self.settings: dict[str, tuple[int, dict[str, Any]]] = {}

    def suggest(self, trial_id: str) -> Any:
        proposal = self.search.ask()
        if proposal is None:
            return Searcher.FINISHED
        self.settings[trial_id] = proposal
        return {"number": proposal[0], "params": proposal[1]}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        _, params = self.settings[trial_id]
        self.search.tell(params, None if error or not result or result.get("reason") else result.get("best"))

    def save(self, checkpoint_path: str) -> None:
        """Do nothing: a search goes on from its log of trials."""

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing, as :meth:`save`."""


class _TrialCallbacks(_Unpickled, tune.Callback):
    """Passes the events of trials on to the log of trials and to the user."""

    def __init__(self, proposals: _Proposals, job: Job) -> None:
        self.proposals, self.keep, self.progress = proposals, job.keep, job.progress

    def on_trial_start(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: object) -> None:
        self.progress.begin(*self.proposals.settings[trial.trial_id])

    def on_trial_result(
        self, iteration: int, trials: list[RayTrial], trial: RayTrial, result: dict[str, Any], **info: object
    ) -> None:
        if "epochs" in result:
            self.progress.epoch(self.proposals.settings[trial.trial_id][0], result)

    def on_trial_complete(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: object) -> None:
        number, params = self.proposals.settings[trial.trial_id]
        news = trial.last_result or {}
        if news.get("reason") or news.get("best") is None:
            why = news.get("reason") or "it ended without a validation score"
            self.keep(Trial(number, params, FAILED, reason=why, seconds=_seconds(news)))
            return
        status = FINISHED if news.get("over") else STOPPED
        scores = {"score": news["best"], "valid": news["valid"], "best_epoch": news["best_epoch"]}
        self.keep(Trial(number, params, status, **scores, epochs=news["epoch"], seconds=_seconds(news)))

    def on_trial_error(self, iteration: int, trials: list[RayTrial], trial: RayTrial, **info: object) -> None:
        number, params = self.proposals.settings[trial.trial_id]
        self.keep(Trial(number, params, FAILED, reason=f"its worker was ended twice{_last_words(trial)}"))


def _last_words(trial: RayTrial) -> str:
    """Return Ray's last line about the first of a trial's two failures."""
    file = Path(trial.error_file) if trial.error_file else None
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()] if file and file.is_file() else []
    return f": {lines[-1]}" if lines else ""


def _seconds(news: dict[str, Any]) -> float:
    return round(float(news.get("time_total_s", 0.0)), 2)


def _trainable(setting: dict[str, Any], task: Task, folder: str, data: bytes | None) -> None:
    """Run one trial in a Ray worker; an error ends only this trial, and Ray tries a killed one again."""
    number, params = setting["number"], setting["params"]
    gpus = ",".join(map(str, ray.get_gpu_ids()))  # RecBole would take the first GPU of the machine for all trials
    task = replace(task, fixed={**task.fixed, "gpu_id": gpus})
    latest: dict[str, Any] = {}

    def report(news: EpochReport) -> None:
        latest.update({name: value for name, value in news.items() if value is not None})  # no score: NaN
        session.report(latest)

    try:
        trial = run_trial(task, params, data, checkpoint_of(Path(folder), number), report)
        if trial["score"] is not None:
            latest |= {"best": trial["score"], "valid": trial["valid"]}
    except Exception as error:
        latest["reason"] = reason_of(error)
    session.report({**latest, "over": True})


class _Median(schedulers.MedianStoppingRule):
    """Ray's rule, without the last report of a trial that failed, which has no validation."""

    def on_trial_complete(self, tune_controller: TuneController, trial: RayTrial, result: dict[str, Any]) -> None:
        if "epoch" in result and "best" in result:
            super().on_trial_complete(tune_controller, trial, result)


def scheduler_of(name: str, epochs: int, bigger: bool) -> schedulers.TrialScheduler:
    """Return Ray's scheduler by our name; it decides by the best validation score so far."""
    judged: dict[str, Any] = {"metric": "best", "mode": "max" if bigger else "min", "time_attr": "epoch"}
    grace = max(1, epochs // 10)
    if name == "asha":
        return schedulers.ASHAScheduler(**judged, max_t=epochs + 1, grace_period=grace, reduction_factor=3)
    if name == "median":
        never: dict[str, Any] = {"min_time_slice": math.inf}  # to pause a trial: it would begin anew
        return _Median(**judged, grace_period=grace, min_samples_required=3, **never)
    return schedulers.FIFOScheduler()


def run_on_ray(job: Job, resources: Resources, scheduler: schedulers.TrialScheduler) -> None:
    """Run the proposed trials side by side; the data go once to each node."""
    search = job.search
    if search.n_told >= search.total:
        return
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # a trial that failed has no score
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1")
    start_ray(resources.address)
    check_room("a trial", {"CPU": resources.cpus, "GPU": resources.gpus})
    proposals = _Proposals(search)
    trainable = tune.with_parameters(_trainable, task=job.task, folder=str(job.folder), data=job.data)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tune.Tuner(
                tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
                tune_config=tune.TuneConfig(
                    search_alg=proposals,
                    scheduler=scheduler,
                    num_samples=search.total - search.n_told,
                    max_concurrent_trials=resources.max_concurrent,
                    reuse_actors=True,
                ),
                run_config=RunConfig(
                    name="trials",
                    storage_path=scratch,
                    verbose=0,
                    failure_config=FailureConfig(max_failures=1),
                    callbacks=[_TrialCallbacks(proposals, job)],
                ),
            ).fit()
            if search.n_told < search.total:
                raise Interrupted(signal.SIGINT)  # Ray took the signal and ended the search
        finally:
            ray.shutdown()
