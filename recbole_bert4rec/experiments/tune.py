"""A search for hyper-parameters: settings are proposed, each is one run of the store, the best one is tested once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from hyperopt import STATUS_FAIL, STATUS_OK, fmin, tpe
from hyperopt.exceptions import AllTrialsFailed
from recbole.config import Config
from tqdm.auto import tqdm

from recbole_bert4rec.checkpoints import last_of, without_places
from recbole_bert4rec.experiments.search_report import in_words, write_search
from recbole_bert4rec.experiments.space import (
    Space,
    hyperopt_space,
    key_of,
    of_draws,
    proposals,
    read_space,
    size_at_most,
)
from recbole_bert4rec.experiments.store import Watch, fingerprint, how_far, run_once
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.user_models import Model, importable
from recbole_bert4rec.plugin.config import Layers, PluginConfig, known_to
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.optimizer import denormals_as_zero
from recbole_bert4rec.system.constants import ALGORITHMS, DEFAULT_NAMES, SCHEDULERS, SHORT, TOOLS
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError, nearest
from recbole_bert4rec.system.files import locked
from recbole_bert4rec.system.processes import FailedError, in_own_process
from recbole_bert4rec.training.afterwards import test_weights
from recbole_bert4rec.training.build import load_data, read_dataset
from recbole_bert4rec.training.inputs import check_places, resolve, user_layers
from recbole_bert4rec.training.record import in_json, write_json
from recbole_bert4rec.training.screen import no_bars, say, shown

_TAKEN = (".pth", ".html", ".yaml", ".lock")
"""Endings of the files written beside the output file."""
_DRAWN = 10
"""Trials of random and bayes if nobody says how many; RecBole's number."""
_REPEATED = 100
"""Draws of bayes that may repeat a setting before the search ends."""
Attempt = Callable[..., dict[str, Any]]
"""What makes a trial: ``attempt(setting, watch)`` returns its record."""


@dataclass(frozen=True)
class SearchResult:
    """Results of a search.

    Attributes:
        best: the setting with the best validation score.
        best_valid_result: its validation metrics, by name.
        test_result: its test metrics, by name; no other setting was tested.
        trials: a row for each setting, the best first and those that failed last.
        files: the written files, by their kind.
    """

    best: dict[str, Any]
    best_valid_result: dict[str, float]
    test_result: dict[str, float]
    trials: pd.DataFrame
    files: dict[str, Path]


def tune(
    model: Model | None,
    dataset: str | None,
    params_file: str | Path,
    options: Mapping[str, Any] | None = None,
    *,
    config_files: Sequence[str | Mapping[str, Any]] = (),
    output: str | Path = "hyper.result",
    display: str | Path | None = None,
    tool: str = "Hyperopt",
    algorithm: str | None = None,
    max_evals: int | None = None,
    budget: float | None = None,
    scheduler: str = "none",
    cpus: int = 1,
    gpus: float = 0.0,
    max_concurrent: int | None = None,
    ray_address: str | None = None,
    screen: str = SHORT,
) -> SearchResult:
    """Search hyper-parameters: judge each setting on validation, and test the best one once.

    Every trial is a run in the folder OUTPUT.runs. After a kill the same call goes on from there.

    Args:
        model: as :func:`run` takes it.
        dataset: as :func:`run` takes it.
        params_file: the space: lines such as ``n_layers choice [1, 2]``, or YAML.
        options: of all trials, by name; they win over ``config_files``, and are refused for searched options.
        config_files: as :func:`run` takes them.
        output: RecBole's file of results. The best options, the weights and the plots get names beside it.
        display: HTML page of plots. Default: beside ``output``.
        tool: ``Hyperopt`` runs one trial after the other, ``Ray`` side by side.
        algorithm: ``exhaustive``, ``random`` or ``bayes``. Default: exhaustive, or random with ``max_evals``.
        max_evals: trials of random and bayes. Default: 10.
        budget: seconds of training and validation of a trial. None: as many epochs as the options say.
        scheduler: with Ray: ``none``, ``asha`` or ``median``, which stop hopeless trials early.
        cpus: threads of a trial.
        gpus: with Ray: of a trial; a share is possible.
        max_concurrent: with Ray: trials at once. Default: as many as there is room for.
        ray_address: of a running cluster. Default: Ray is started here, for this machine alone.
        screen: ``short`` shows a line a trial; ``quiet``, warnings only.

    Raises:
        UserError: a mistake in space, options or files; or every trial failed.
    """
    output, options = Path(output), {"show_progress": False, **(options or {})}
    of_ray: dict[str, Any] = {"max_concurrent": max_concurrent, "ray_address": ray_address, "gpus_per_trial": gpus}
    wrong = {
        f"--output_file={output} must be a file that does not end in {' or '.join(_TAKEN)}": (
            output.suffix in _TAKEN or output.is_dir()
        ),
        f"--model={model}: one model is tuned at a time": "," in str(model),
        f"--tool={tool} must be one of {', '.join(TOOLS)}": tool not in TOOLS,
        f"--algo={algorithm} must be one of {', '.join(ALGORITHMS)}": algorithm not in (None, *ALGORITHMS),
        f"--scheduler={scheduler} must be one of {', '.join(SCHEDULERS)}": scheduler not in SCHEDULERS,
        f"--max_evals must be at least 1, but is {max_evals}": max_evals is not None and max_evals < 1,
        "--max_evals goes with --algo=random or bayes, not exhaustive": algorithm == "exhaustive" and bool(max_evals),
        f"--gpus_per_trial must be at least 0, but is {gpus:g}": gpus < 0,
        "--gpu_id does not go with --tool=Ray, which shares out the GPUs": tool == "Ray" and "gpu_id" in options,
        "--scheduler needs --tool=Ray": tool != "Ray" and scheduler != SCHEDULERS[0],
        **{f"--{name} needs --tool=Ray": tool != "Ray" and bool(value) for name, value in of_ray.items()},
    }
    if mistakes := [mistake for mistake, is_made in wrong.items() if is_made]:
        raise UserError("; ".join(mistakes))
    suppress_dependency_warnings()
    with (
        in_program(),
        shown(screen, sys.stdout),
        locked(output.with_suffix(".lock"), "search", "--output_file", output),
        patch.dict(os.environ),  # RecBole hides GPUs from the whole process, and so from Ray
    ):
        layers = user_layers(options, config_files, {})
        chosen_model, name, layers = resolve(model, dataset, layers)
        shared: dict[str, Any] = {"model": importable(chosen_model), "dataset": name}
        shared["config_files"] = (layers.of_log, *layers.files)
        config = _checked_config(shared, options)
        seed, metric, bigger = (config[name] for name in ("seed", "valid_metric", "valid_metric_bigger"))
        space = read_space(params_file, partial(_why_not, config, options))
        read_dataset(config)  # which RecBole may have to download, and a mistake in which is every trial's
        algorithm = algorithm or ("exhaustive" if max_evals is None else "random")
        settings = proposals(space, algorithm, max_evals or _DRAWN, seed)
        total = size_at_most(space, max_evals or _DRAWN) if settings is None else len(settings)
        folder, about = output.with_suffix(".runs").resolve(), f"{config['model']} on {name}"
        how = f"{algorithm} search: {total} trials of {about}, judged by validation {metric}; they are kept in {folder}"
        say("\n".join([how, "searched", *(f"  {parameter}" for parameter in space)]))
        of_run = {**shared, "folder": folder, "seed": seed, "budget": budget, "threads": cpus}
        of_run["label"] = config["model"] if scheduler == "none" else f"{config['model']}-{scheduler}"
        attempt = partial(attempt_setting, {**of_run, "data": fingerprint(config)}, options)
        with tqdm(total=total, desc="trials", leave=False, disable=no_bars(screen), ncols=100) as bar:
            trials = Trials(folder, total, metric, bigger, bar)
            if tool == "Ray":
                on_ray = import_module("recbole_bert4rec.experiments.on_ray")  # other searches must not need Ray
                rule, room = on_ray.scheduler_of(scheduler, most_epochs(config), bigger), {"cpu": cpus, "gpu": gpus}
                on_ray.search(attempt, trials, space, settings, seed, rule, room, max_concurrent, ray_address)
            elif settings is None:
                _search_by_bayes(attempt, trials, space, seed)
            else:
                for setting in settings:
                    trials.end(setting, attempt(setting, trials.watch))
        best = _tested_best(trials, attempt, shared, options, cpus)
        named = {
            "dataset": dataset or {**DEFAULT_NAMES, **layers.from_user}["dataset"],
            **_options_of(shared, layers, {**options, **best["setting"]}),
        }
        files = {"results": output, "best options": output.with_suffix(".best.yaml"), "trials": folder}
        files |= {"weights": output.with_suffix(".pth"), "plots": Path(display or output.with_suffix(".html"))}
        table = write_search(trials.ranking, trials.failed, metric, named, files)
        return SearchResult(best["setting"], best["best_valid_result"], best["test_result"], table, files)


class Trials:
    """The trials of a search that have ended: a line of each on the screen, and the weights of the best one."""

    def __init__(self, folder: Path, total: int, metric: str, bigger: bool, bar: tqdm[Any]) -> None:
        self.folder, self.total, self.metric, self.sign = folder, total, metric, -1.0 if bigger else 1.0
        self._bar = bar
        self.ended: dict[str, dict[str, Any]] = {}

    def watch(self, record: Mapping[str, Any]) -> None:
        """Show how far a running trial is."""
        self._bar.set_postfix_str(how_far(record, self.metric))

    def end(self, setting: dict[str, Any], record: Mapping[str, Any], number: int | None = None) -> None:
        """Keep a setting under its number in the search, with its record or ``{"reason": ...}`` if it failed."""
        trial = {"number": len(self.ended) if number is None else number, "setting": setting, **record}
        self.ended[key_of(setting)] = trial
        best, outcome = self.ranking[:1], f"failed: {record.get('reason')}"
        if "reason" not in record:
            early = " (stopped early)" if record.get("stopped") else ""
            outcome = f"{self.metric} {record['best_valid_score']:.4f} at epoch {record['best_epoch']} of "
            outcome += f"{len(record['epochs'])}{early}, {record['seconds']['total']:.1f} s"
        say(f"[{len(self.ended)}/{self.total}] {outcome}: {in_words(setting)}{' *' if best == [trial] else ''}")
        self._bar.update(1)
        self.remove_weights()

    def remove_weights(self) -> None:
        """Remove the weights of all trials but the best one, and the states of those that were stopped."""
        for weights in map(self.weights_of, self.ranking[1:]):
            weights.unlink(missing_ok=True)
            Path(last_of(weights)).unlink(missing_ok=True)

    def weights_of(self, trial: Mapping[str, Any]) -> Path:
        """Return the file of a trial's weights."""
        return self.folder / Path(trial["checkpoint"]).name

    @property
    def ranking(self) -> list[dict[str, Any]]:
        """The trials with a score, the best first; of equal ones the first in the search."""
        scored = [trial for trial in self.ended.values() if "reason" not in trial]
        return sorted(scored, key=lambda trial: (self.sign * trial["best_valid_score"], trial["number"]))

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The trials without a score."""
        return [trial for trial in self.ended.values() if "reason" in trial]


def attempt_setting(
    of_run: Mapping[str, Any], options: Mapping[str, Any], setting: Mapping[str, Any], watch: Watch, **more: Any
) -> dict[str, Any]:
    """Return the record of a setting's run, or ``{"reason": ...}`` if the run failed."""
    arguments = {**of_run, "seed": setting.get("seed", of_run["seed"]), "options": {**setting, **options, **more}}
    try:
        record = run_once(**arguments, test=False, watch=watch)
    except (FailedError, UserError) as error:  # the second one before a process begins
        return {"reason": " ".join(str(error).split())}
    return {"reason": "its score is not a number"} if record["best_valid_score"] is None else record


def _search_by_bayes(attempt: Attempt, trials: Trials, space: Space, seed: int) -> None:
    """Let a tree of Parzen estimators propose the settings; one that comes again has its score already."""

    def loss_of(draws: Mapping[str, float]) -> dict[str, Any]:
        setting = of_draws(space, draws)
        if key_of(setting) not in trials.ended:
            trials.end(setting, attempt(setting, trials.watch))
        score = trials.ended[key_of(setting)].get("best_valid_score")
        return {"status": STATUS_FAIL} if score is None else {"status": STATUS_OK, "loss": trials.sign * score}

    with suppress(AllTrialsFailed):  # the reasons are said afterwards
        fmin(
            loss_of,
            hyperopt_space(space),
            algo=tpe.suggest,
            max_evals=trials.total + _REPEATED,
            early_stop_fn=lambda *_: (len(trials.ended) >= trials.total, []),
            rstate=np.random.default_rng(seed),
            return_argmin=False,
            verbose=False,
        )


def _options_of(shared: Mapping[str, Any], layers: Layers, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model and options of a trial for another run, which reads a log of the user's as it then is."""
    of_log = layers.of_log.keys() - layers.from_user.keys()
    given = without_places(_config(shared, options).external_config_dict)
    return {"model": shared["model"], **{name: value for name, value in given.items() if name not in of_log}}


def _config(shared: Mapping[str, Any], options: Mapping[str, Any]) -> Config:
    """Return RecBole's configuration of a trial."""
    layers = Layers(files=shared["config_files"], options=options)
    return PluginConfig(shared["model"], shared["dataset"], layers)


def _checked_config(shared: Mapping[str, Any], options: Mapping[str, Any]) -> Config:
    """Return the configuration that all trials share; refuse what would make all of them fail."""
    config = _config(shared, options)
    if alone := [name for name in ("refit", "warm_start") if config[name]]:
        raise UserError(f"`{alone[0]}` is for a single run; leave it out of a search")
    if config["eval_step"] <= 0:
        raise UserError("`eval_step` must be at least 1: trials are judged on validation")
    check_places(config)
    return config


def _why_not(config: Config, options: Mapping[str, Any], name: str) -> str | None:
    """Say why an option cannot be searched; None if it can."""
    if name in options:
        return f"`{name}` is in the parameter file and on the command line; leave one of them out"
    if name in config:
        return None
    near = nearest(name, known_to(config))
    return f"{config['model']} has no option `{name}`" + (f" (did you mean `{near}`?)" if near else "")


def _tested_best(
    trials: Trials, attempt: Attempt, shared: Mapping[str, Any], options: Mapping[str, Any], threads: int
) -> dict[str, Any]:
    """Return the best trial with its test metrics, which its record keeps."""
    if not trials.ranking:
        raise UserError("every trial failed: " + "; ".join(sorted({trial["reason"] for trial in trials.failed})))
    best = trials.ranking[0]
    weights = trials.weights_of(best)
    if not weights.is_file():
        say("the weights of the best trial are not here; training it again")
        weights.with_suffix(".json").unlink()
        best |= attempt(best["setting"], trials.watch)
    if not best["test_result"]:
        of_trial, log = {**options, **best["setting"]}, trials.folder / "test.log"
        try:
            best["test_result"] = in_own_process(_test, shared, of_trial, weights, threads, log=log)
        except FailedError as error:
            raise UserError(f"the best trial cannot be tested: {error} (log: {log})") from error
        record = {name: value for name, value in best.items() if name not in ("number", "setting")}
        write_json(weights.with_suffix(".json"), record)
    return best


def _test(shared: Mapping[str, Any], options: Mapping[str, Any], weights: Path, threads: int) -> dict[str, Any]:
    """Test weights; called in a process of its own."""
    torch.set_num_threads(threads)
    with in_program(), denormals_as_zero():
        return in_json(test_weights(load_data(_config(shared, options)), weights))
