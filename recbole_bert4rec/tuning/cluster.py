"""Trials side by side with Ray Tune, on this machine or a cluster; a scheduler may stop the hopeless early."""

from __future__ import annotations

import logging
import os
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray import air, tune
from ray.air import session
from ray.tune import schedulers
from ray.tune.search import FINISHED as NO_MORE
from ray.tune.search import Searcher

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.tuning import study
from recbole_bert4rec.tuning.local import reason_of
from recbole_bert4rec.tuning.objective import Task, run_trial
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.study import Trial

SCHEDULERS = ("none", "asha", "median")


@dataclass(frozen=True)
class Resources:
    """What trials may take.

    Attributes:
        cpus, gpus: of one trial; a share of a GPU is possible.
        max_concurrent: trials at once; None for as many as there is room for.
        address: of a running cluster; None to start Ray here, for this machine alone.
    """

    cpus: int = 1
    gpus: float = 0.0
    max_concurrent: int | None = None
    address: str | None = None


class _Proposals(Searcher):
    """A :class:`Search` as Ray asks for it."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.search = search
        self.settings: dict[str, tuple[int, dict[str, Any]]] = {}

    def suggest(self, trial_id: str) -> Any:
        proposal = self.search.ask()
        if proposal is None:
            return NO_MORE
        self.settings[trial_id] = proposal
        return {"number": proposal[0], "params": proposal[1]}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        _, params = self.settings[trial_id]
        self.search.tell(params, None if error or not result else result.get("best"))

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the study's own file is what a search goes on from."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing, as :meth:`save`."""


class _Watch(tune.Callback):
    """Hands what happens to trials on to the study and the display."""

    def __init__(self, proposals: _Proposals, keep: Any, display: Any) -> None:
        self.proposals, self.keep, self.display = proposals, keep, display

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.display.begin(*self.proposals.settings[trial.trial_id])

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
        if "epochs" in result:
            self.display.epoch(self.proposals.settings[trial.trial_id][0], result)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        number, params = self.proposals.settings[trial.trial_id]
        news = trial.last_result or {}
        if news.get("reason") or news.get("best") is None:
            why = news.get("reason") or "it ended without a validation score"
            self.keep(Trial(number, params, study.FAILED, reason=why, seconds=_seconds(news)))
            return
        status = study.FINISHED if news.get("over") else study.STOPPED
        scores = {"score": news["best"], "valid": news["valid"], "best_epoch": news["best_epoch"]}
        self.keep(Trial(number, params, status, **scores, epochs=news["epoch"], seconds=_seconds(news)))

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        number, params = self.proposals.settings[trial.trial_id]
        lines = [line for line in str(trial.get_error() or "").splitlines() if line.strip()]
        self.keep(Trial(number, params, study.FAILED, reason=f"its worker ended: {lines[-1] if lines else 'unknown'}"))


def _seconds(news: dict[str, Any]) -> float:
    return round(float(news.get("time_total_s", 0.0)), 2)


def _trainable(setting: dict[str, Any], task: Task, folder: str, data: bytes | None) -> None:
    """What a Ray worker runs; a setting that fails ends this trial alone, and Ray tries a killed one again."""
    number, params = setting["number"], setting["params"]
    gpus = ",".join(map(str, ray.get_gpu_ids()))  # RecBole would take the first GPU of the machine for all trials
    task = replace(task, fixed={**task.fixed, "gpu_id": gpus})
    latest: dict[str, Any] = {}

    def report(news: dict[str, Any]) -> None:
        latest.update(news)
        session.report(news)

    try:
        run_trial(task, params, data, checkpoint_of(folder, number), report)
    except Exception as error:
        latest["reason"] = reason_of(error)
    session.report({**latest, "over": True})


def checkpoint_of(folder: str | Path, number: int) -> str:
    """Where a trial keeps the weights of its best epoch."""
    return str(Path(folder) / f"trial-{number}.pth")


def _scheduler(name: str, epochs: int, bigger: bool) -> Any:
    """Ray's scheduler by our name; decisions are made on the best validation score so far."""
    judged = {"metric": "best", "mode": "max" if bigger else "min", "time_attr": "epoch"}
    grace = max(1, epochs // 10)
    if name == "asha":
        return schedulers.ASHAScheduler(**judged, max_t=epochs + 1, grace_period=grace, reduction_factor=3)
    if name == "median":
        return schedulers.MedianStoppingRule(**judged, grace_period=grace, min_samples_required=3)
    return schedulers.FIFOScheduler()


def start_ray(resources: Resources) -> None:
    """Join a cluster, or start Ray for this machine alone: on the loopback address and without its dashboard.

    Raises:
        UserError: there is no cluster at the address.
    """
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ["TUNE_DISABLE_STRICT_METRIC_CHECKING"] = "1"  # a trial that failed has no score
    os.environ.setdefault("TUNE_MAX_PENDING_TRIALS_PG", "1")
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}
    if resources.address is None:
        ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        return
    try:
        ray.init(address=resources.address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise UserError(
            f"--ray_address={resources.address}: {' '.join(str(error).split())}; leave it out to start Ray here"
        ) from error


def run_on_ray(
    task: Task,
    search: Search,
    data: bytes | None,
    folder: Path,
    resources: Resources,
    scheduler: str,
    epochs: int,
    keep: Any,
    display: Any,
) -> None:
    """Run what the search proposes.

    Args:
        data: of :func:`~recbole_bert4rec.tuning.objective.packed_data`; goes once to each node.
        folder: for the weights of the trials.
        keep: called with every :class:`Trial` that ends.
        display: see :class:`~recbole_bert4rec.tuning.progress.Display`.
    """
    start_ray(resources)
    room = ray.cluster_resources()
    for name, wanted in (("CPU", resources.cpus), ("GPU", resources.gpus)):
        if wanted > room.get(name, 0):
            ray.shutdown()
            raise UserError(f"a trial needs {wanted:g} {name}s, but there are {room.get(name, 0):g}")
    proposals = _Proposals(search)
    trainable = tune.with_parameters(_trainable, task=task, folder=str(folder), data=data)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tune.Tuner(
                tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
                tune_config=tune.TuneConfig(
                    search_alg=proposals,
                    scheduler=_scheduler(scheduler, epochs, search.sign < 0),
                    num_samples=max(1, search.total - search.told),
                    max_concurrent_trials=resources.max_concurrent,
                    chdir_to_trial_dir=False,
                    reuse_actors=False,
                ),
                run_config=air.RunConfig(
                    name="trials",
                    storage_path=scratch,
                    verbose=0,
                    failure_config=air.FailureConfig(max_failures=1),
                    callbacks=[_Watch(proposals, keep, display)],
                ),
            ).fit()
        finally:
            ray.shutdown()
