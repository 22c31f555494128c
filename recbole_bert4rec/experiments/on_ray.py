"""Trials side by side with Ray Tune, on this machine or a cluster; a scheduler may stop hopeless ones early."""

from __future__ import annotations

import logging
import math
import os
import tempfile
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ray
from filelock import FileLock
from ray import tune
from ray.tune import schedulers
from ray.tune.experiment import Trial
from ray.tune.search.hyperopt import HyperOptSearch

from recbole_bert4rec.experiments.space import Space, hyperopt_space, key_of, of_draws
from recbole_bert4rec.system.errors import short
from recbole_bert4rec.system.ray_cluster import check_room, start_ray
from recbole_bert4rec.training.record import read_record, write_json

SettingOf = Callable[[dict[str, Any]], dict[str, Any]]
"""Returns the setting that a proposal of Ray's stands for."""


def search(
    attempt: Callable[..., dict[str, Any]],
    trials: Any,
    space: Space,
    settings: list[dict[str, Any]] | None,
    seed: int,
    scheduler: schedulers.TrialScheduler,
    resources: dict[str, float],
    max_concurrent: int | None,
    address: str | None,
) -> None:
    """Run the settings side by side, or those that hyperopt proposes where there are none."""
    # a signal is the program's
    for name in ("DISABLE_AUTO_CALLBACK_LOGGERS", "MAX_PENDING_TRIALS_PG", "DISABLE_SIGINT_HANDLER"):
        os.environ[f"TUNE_{name}"] = "1"
    start_ray(address)
    for name in ("ray.tune", "ray.air"):  # which show the traceback of a trial that failed
        logging.getLogger(name).setLevel(logging.CRITICAL)
    check_room("a trial", {name.upper(): count for name, count in resources.items()})
    proposed: dict[str, Any] = {"param_space": {"number": tune.grid_search([*range(len(settings or ()))])}}
    config: dict[str, Any] = {"scheduler": scheduler, "max_concurrent_trials": max_concurrent, "reuse_actors": True}
    if settings is None:
        mode = "max" if trials.sign < 0 else "min"
        config["search_alg"] = HyperOptSearch(hyperopt_space(space), "best", mode, random_state_seed=seed)
        config["num_samples"], proposed = trials.total, {}
    setting_of = partial(of_draws, space) if settings is None else partial(_setting_of_number, settings)
    fixed = {"attempt": attempt, "setting_of": setting_of, "sign": trials.sign, "cwd": os.getcwd()}
    trainable = tune.with_parameters(_trainable, folder=trials.folder, **fixed)
    trials.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tune.Tuner(
                tune.with_resources(trainable, resources),
                tune_config=tune.TuneConfig(**config),
                run_config=tune.RunConfig("trials", scratch, verbose=0, callbacks=[_EndedTrials(trials, setting_of)]),
                **proposed,
            ).fit()
        finally:
            ray.shutdown()
    for trial in trials.ended.values():
        if trial.get("stopped"):  # its process may have written once more before it was ended
            _marked_if_stopped(trials.weights_of(trial).with_suffix(".json"))
    trials.remove_weights()
    for lock in trials.folder.glob("*.lock"):
        lock.unlink()


def scheduler_of(name: str, epochs: int, bigger: bool) -> schedulers.TrialScheduler:
    """Return Ray's scheduler by our name; it decides by the best validation score so far."""
    judged: dict[str, Any] = {"metric": "best", "mode": "max" if bigger else "min", "time_attr": "epoch"}
    grace = max(1, epochs // 10)
    if name == "asha":
        return schedulers.ASHAScheduler(**judged, max_t=epochs + 1, grace_period=grace, reduction_factor=3)
    if name == "median":
        never: dict[str, Any] = {"min_time_slice": math.inf}  # to pause a trial: it would begin anew
        return schedulers.MedianStoppingRule(**judged, grace_period=grace, min_samples_required=3, **never)
    return schedulers.FIFOScheduler()


def _setting_of_number(settings: list[dict[str, Any]], proposal: dict[str, Any]) -> dict[str, Any]:
    return settings[proposal["number"]]


def _trainable(
    proposal: dict[str, Any], attempt: Any, setting_of: SettingOf, folder: Path, sign: float, cwd: str
) -> None:
    """Run one setting from a Ray worker; Ray hears of each epoch, of those that an earlier search trained, too."""
    os.chdir(cwd)  # which Ray changes
    setting, reported, best = setting_of(proposal), 0, math.inf

    def report(record: dict[str, Any]) -> None:
        """Report the epochs that are new; it raises SystemExit if the scheduler stops the trial."""
        nonlocal reported, best
        path = str(folder / Path(record["checkpoint"]).with_suffix(".json").name)
        rows = [row for row in record["epochs"] if row.get("valid_score") is not None]
        for row in rows[reported:]:
            reported, best = reported + 1, min(best, sign * row["valid_score"])
            tune.report({"best": sign * best, "epoch": row["epoch"] + 1, "record": path})
        if "unfinished" not in record and record["best_valid_score"] != sign * best:  # a memory, which no epoch has
            tune.report({"best": record["best_valid_score"], "epoch": len(record["epochs"]), "record": path})

    gpus = ",".join(map(str, ray.get_gpu_ids()))  # RecBole would take the first GPU of the machine for all trials
    with FileLock(folder / f"{zlib.crc32(key_of(setting).encode()):08x}.lock"):  # hyperopt may propose one twice
        record = attempt(setting, report, gpu_id=gpus)
    if "reason" in record:
        tune.report({"best": sign * math.inf, "epoch": 0, "reason": record["reason"]})
    else:
        report(record)


class _EndedTrials(tune.Callback):
    """Passes the events of Ray's trials on to the trials of the search."""

    def __init__(self, trials: Any, setting_of: SettingOf) -> None:
        self._trials, self._setting_of = trials, setting_of

    def __getstate__(self) -> dict[str, Any]:
        """Be stored as nothing: Ray would restore a search by it, which the records do."""
        return {}

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Keep a trial that has ended or was stopped."""
        if "reason" in trial.last_result:
            self._end(trials, trial, {"reason": trial.last_result["reason"]})
        else:
            self._end(trials, trial, _marked_if_stopped(trial.last_result["record"]))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Keep a trial whose worker was ended."""
        self._end(trials, trial, {"reason": f"its worker of Ray was ended: {short(str(trial.get_pickled_error()))}"})

    def _end(self, trials: list[Trial], trial: Trial, record: dict[str, Any]) -> None:
        setting = self._setting_of(trial.config)
        if key_of(setting) not in self._trials.ended:
            self._trials.end(setting, record, trials.index(trial))


def _marked_if_stopped(path: str | Path) -> dict[str, Any]:
    """Return the record of a trial; one that a scheduler has stopped says so from now on, and is not run again."""
    record = read_record(path)
    if record.pop("unfinished", False):
        record["stopped"] = True
        write_json(path, record)
    return record
