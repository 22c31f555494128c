"""A search for hyper-parameters from beginning to end: selection on validation, the winner tested once."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from logging import getLogger
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from recbole.config import Config
from tabulate import tabulate

from recbole_bert4rec.checkpoints import last_of, without_places
from recbole_bert4rec.logs.items import digests
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.kinds import is_number
from recbole_bert4rec.options.user_models import class_name, digest_of_code, importable
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system.constants import FOR_THE_USER, SHORT
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError, nearest
from recbole_bert4rec.system.files import atomic_write, locked
from recbole_bert4rec.system.scoped import restored_environment
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.inputs import refuse_unknown_model, resolve_inputs
from recbole_bert4rec.training.logs import no_bars, say, shown
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.tuning.job import Job, Resources, checkpoint_of, run_serially
from recbole_bert4rec.tuning.objective import Task, changes_dataset, packed_data, run_trial, test_result
from recbole_bert4rec.tuning.progress import SearchProgress, format_params
from recbole_bert4rec.tuning.report import write_report
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.space import Space, read_space
from recbole_bert4rec.tuning.trials import FAILED, STOPPED, Trial, TrialLog

_TAKEN = (".jsonl", ".pth", ".html", ".yaml", ".lock")
"""Endings of the files written beside the output file."""
_AT_MOST_1 = {"dropout", "prob", "rate", "ratio", "share"}
"""Words in the names of options that are seldom above 1."""


@dataclass(frozen=True)
class SearchRequest:
    """The space, the way to search it, and the files; flags of ``python run_hyper.py --help`` say the same.

    Attributes:
        task: model, data set and options of all trials.
        params_file: the space, as :func:`~recbole_bert4rec.tuning.space.read_space` takes it.
        output: RecBole's file of results. Trials, winner, weights and plots get names beside it.
        display: HTML page of plots. Default: beside ``output``.
        tool: ``Hyperopt`` runs one trial after the other, ``Ray`` side by side.
        algorithm: ``exhaustive``, ``random`` or ``bayes``.
        max_trials: of ``random`` and ``bayes``. Default: all combinations.
        scheduler: with Ray: ``none``, ``asha`` or ``median``, which stop hopeless trials early.
        resume: whether to continue the search in ``output``.
        resources: with Ray: CPUs and GPUs of a trial.
        screen: ``short`` shows a line a trial; ``quiet``, warnings only.
    """

    task: Task
    params_file: str
    output: Path = Path("hyper.result")
    display: Path | None = None
    tool: str = "Hyperopt"
    algorithm: str = "exhaustive"
    max_trials: int | None = None
    scheduler: str = "none"
    resume: bool = False
    resources: Resources = field(default_factory=Resources)
    screen: str = SHORT

    def beside(self, ending: str) -> Path:
        """Return the file with another ending beside the output."""
        return self.output.with_name(f"{self.output.stem}{ending}")


@dataclass(frozen=True)
class SearchResult:
    """Results of a search.

    Attributes:
        best: the trial with the best validation score.
        test_result: metrics of ``best`` on the test data, by name; no other trial was tested.
        trials: all trials in the order in which they ended.
        files: the written files, by their kind.
    """

    best: Trial
    test_result: dict[str, float]
    trials: list[Trial]
    files: dict[str, Path]


def tune(request: SearchRequest) -> SearchResult:
    """Search, and test the winner.

    Raises:
        UserError: a mistake in space, options or files; Ray is asked for and cannot be imported; or every trial failed.
    """
    if request.tool == "Ray":
        _ray_tune()
    with in_program(), shown(request.screen, sys.stdout):
        task = request.task
        if "," in str(task.model):
            raise UserError(f"--model={task.model}: one model is tuned at a time")
        model = importable(task.model)
        refuse_unknown_model(class_name(model))
        _, dataset, layers = resolve_inputs(RunRequest(model, task.dataset, task.config_files, task.fixed))
        files = (layers.of_log, *layers.files)
        return _search(replace(request, task=replace(task, model=model, dataset=dataset, config_files=files)))


def _search(request: SearchRequest) -> SearchResult:
    if request.output.suffix in _TAKEN or request.output.is_dir():
        raise UserError(f"--output_file={request.output} must be a file that does not end in {' or '.join(_TAKEN)}")
    with restored_environment():  # RecBole hides GPUs from the whole process, and so from Ray
        config = _checked(request.task)
        space = read_space(request.params_file, partial(_why_not, request.task, config))
        return _with_lock(request, space, config)


def _with_lock(request: SearchRequest, space: Space, config: Config) -> SearchResult:
    """Search while no other search can write to the same files."""
    folder = request.beside(".trials").resolve()
    with locked(folder / "lock", "search", "--output_file", request.output):
        try:
            log = _run_search(request, space, config, folder)
            return _finish(request, log, config, folder)
        finally:
            if not list(folder.glob("*.pth")):  # the best weights so far stay for --resume
                shutil.rmtree(folder)


def _run_search(request: SearchRequest, space: Space, config: Config, folder: Path) -> TrialLog:
    """Run the missing trials; weights of the best stay in ``folder``."""
    search = Search(space, request.algorithm, request.max_trials, config["seed"], config["valid_metric_bigger"])
    log = TrialLog(request.beside(".jsonl"), _metadata(request, config, space), request.resume)
    search.go_on([(trial.number, trial.params, trial.score) for trial in log.trials])
    if not request.resume:
        for weights in folder.glob("*.pth"):
            weights.unlink()  # an earlier search's, whose list of trials is gone
    data = None
    if not changes_dataset([parameter.name for parameter in space.parameters]):
        data = translate_errors(lambda: packed_data(request.task), f"data set {request.task.dataset!r}")
    say(
        f"{search.total} trials of {config['model']} on {config['dataset']}, judged by validation "
        f"{config['valid_metric']}; {len(log.trials)} are done; each is written to {log.path}"
    )
    _say_ranges(space)
    progress = SearchProgress(log, search.total, config["valid_metric"], no_bars(request.screen))

    def keep(trial: Trial) -> None:
        log.add(trial)
        request.beside(".pth").unlink(missing_ok=True)  # an earlier winner's
        _keep_best_weights(folder, log)
        progress.end(trial)

    job = Job(request.task, search, data, folder, keep, progress)
    try:
        if request.tool == "Ray":
            engine = _ray_tune()
            scheduler = engine.scheduler_of(request.scheduler, most_epochs(config), config["valid_metric_bigger"])
            engine.run_on_ray(job, request.resources, scheduler)
        else:
            run_serially(job)
    finally:
        progress.close()
    return log


def _ray_tune() -> ModuleType:
    """Import the part for Ray by its name: searches without it must not need Ray."""
    need("--tool=Ray", "ray")
    try:
        return importlib.import_module("recbole_bert4rec.ray.tune")
    except Exception as error:  # a library that does not fit may raise anything
        raise UserError(
            f"--tool=Ray: Ray {metadata.version('ray')} does not work here ({type(error).__name__}: {error}); "
            "pip install --upgrade 'ray[tune]'"
        ) from error


def _say_ranges(space: Space) -> None:
    """Say what is searched, and where a rate or a share can be above 1."""
    say("\n".join(["searched", *(f"  {parameter}" for parameter in space.parameters)]))
    for parameter in space.parameters:
        values = parameter.values if parameter.kind == "choice" else parameter.bounds
        highest = max((value for value in values if is_number(value)), default=0)
        if highest > 1 and _AT_MOST_1 & {*parameter.name.split("_")}:
            hint = "; bounds of loguniform are exponents of e, as RecBole's: loguniform10 takes the numbers themselves"
            getLogger(FOR_THE_USER).warning(
                f"`{parameter.name}` can become {highest:.7g}, and rates and shares are hardly ever above 1"
                + (hint if parameter.kind == "loguniform" else "")
            )


def _why_not(task: Task, config: Config, name: str) -> str | None:
    """Say why an option cannot be searched; None if it can."""
    if name in task.fixed:
        return f"`{name}` is in the parameter file and on the command line; leave one of them out"
    if name in config:
        return None
    near = nearest(name, {*config.internal_config_dict}.union(*config.parameters.values()))
    return f"{task.model} has no option `{name}`" + (f" (did you mean `{near}`?)" if near else "")


def _checked(task: Task) -> Config:
    """Return the configuration that all trials share; refuse mistakes that would make all of them fail."""
    config = translate_errors(lambda: task.config({}), "the configuration")
    for name in ("refit", "warm_start"):
        if config[name]:
            raise UserError(f"`{name}` is for a single run; leave it out of a search")
    if config["eval_step"] <= 0:
        raise UserError("`eval_step` must be at least 1: trials are judged on validation")
    return config


def _metadata(request: SearchRequest, config: Config, space: Space) -> dict[str, Any]:
    """Return all that the trials of a search depend on; --resume compares it."""
    task = request.task
    searched = {parameter.name for parameter in space.parameters}
    return {
        "model": config["model"],
        "dataset": config["dataset"],
        "metric": config["valid_metric"],
        "bigger": config["valid_metric_bigger"],
        "seed": config["seed"],
        "epochs": config["epochs"],
        "algorithm": request.algorithm,
        "threads": task.threads,
        "budget": task.budget,
        "space": {parameter.name: [parameter.kind, *parameter.values] for parameter in space.parameters},
        "code": digest_of_code(config.model_class),
        "vectors": digests(config["item_vectors"]),
        "options": {name: str(value) for name, value in sorted(_user_options(config).items()) if name not in searched},
    }


def _user_options(config: Config) -> dict[str, Any]:
    """Return the options of files, command line or search, without the progress bar, which is ours."""
    return {name: value for name, value in config.external_config_dict.items() if name != "show_progress"}


def _keep_best_weights(folder: Path, log: TrialLog) -> None:
    """Remove the weights of all ended trials but the best, and the files to resume them."""
    best = log.best
    for trial in log.trials:
        weights = checkpoint_of(folder, trial.number)
        Path(last_of(weights)).unlink(missing_ok=True)
        if trial is not best:
            Path(weights).unlink(missing_ok=True)


def _finish(request: SearchRequest, log: TrialLog, config: Config, folder: Path) -> SearchResult:
    """Test the winner, write the results, and sum them up."""
    best = log.best
    if best is None:
        reasons = sorted({trial.reason for trial in log.trials})
        raise UserError("every trial failed: " + "; ".join(reasons or ["there was none"]))
    weights = checkpoint_of(folder, best.number)
    if request.beside(".pth").is_file():  # the winner is tested already; no trial has ended since
        shutil.copyfile(request.beside(".pth"), weights)
    if not Path(weights).is_file():
        say("the weights of the best trial are not here; training it again")
        run_trial(request.task, best.params, None, weights, lambda news: None)
        _keep_best_weights(folder, log)
    tested = test_result(request.task, best.params, weights)
    _write_winner(request, best)
    _write_result_file(request.output, log, best, tested)
    os.replace(weights, request.beside(".pth"))
    files = {"trials": log.path, "results": request.output, "weights": request.beside(".pth")}
    files |= {"plots": request.display or request.beside(".html"), "best options": request.beside(".best.yaml")}
    write_report(log.path, files["plots"])
    say(_summary(log, best, config, tested))
    model_flag = f" --model={request.task.model}" if ":" in request.task.model else ""  # which no file imports
    lines = [
        f"  {kind:<14}{path}" + (f"   (run.py --config_files={path}{model_flag})" if kind == "best options" else "")
        for kind, path in files.items()
    ]
    say("\n".join(lines))
    return SearchResult(best, tested, list(log.trials), files)


def _write_winner(request: SearchRequest, best: Trial) -> None:
    """Write the options of the search and the winner as a file for run.py."""
    task = request.task
    content = {"model": task.model, "dataset": task.dataset, **without_places(_user_options(task.config(best.params)))}
    with atomic_write(request.beside(".best.yaml")) as temporary:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _write_result_file(path: Path, log: TrialLog, best: Trial, tested: dict[str, float]) -> None:
    """Write RecBole's file of results; only the winner has test metrics, since only it was tested."""

    def line(values: dict[str, float]) -> str:
        return "    ".join(f"{name} : {value}" for name, value in values.items())

    parts = []
    for trial in log.ranking():
        parts.append(f"{_line_of_params(trial.params)}\nValid result:\n{line(trial.valid)}\n")
        if trial is best:
            parts.append(f"Test result:\n{line(tested)}\n")
        parts.append("\n")
    parts += [f"{_line_of_params(t.params)}\nfailed: {t.reason}\n\n" for t in log.trials if t.status == FAILED]
    with atomic_write(path) as temporary:
        temporary.write_text("".join(parts), encoding="utf-8")


def _line_of_params(params: dict[str, Any]) -> str:
    """Return a setting as RecBole's file of results has it."""
    return ", ".join(f"{name}:{value}" for name, value in params.items())


def _summary(log: TrialLog, best: Trial, config: Config, tested: dict[str, float]) -> str:
    metric = config["valid_metric"]
    rows = [
        [rank, trial.number, f"{trial.score:.4f}", trial.best_epoch, trial.epochs, f"{trial.seconds:.1f}"]
        + [f"{v:.4g}" if isinstance(v, float) else v for v in trial.params.values()]
        for rank, trial in enumerate(log.ranking()[:10], 1)
    ]
    header = ["", "trial", f"valid {metric}", "best epoch", "epochs", "seconds", *best.params]
    stopped, failed = ([trial.status for trial in log.trials].count(status) for status in (STOPPED, FAILED))
    spent = sum(trial.epochs for trial in log.trials)
    test = "    ".join(f"{name} {value:.4f}" for name, value in tested.items())
    return (
        f"\nThe best ten, by validation\n\n{tabulate(rows, header, disable_numparse=True)}\n\n"
        f"{len(log.trials)} trials, of which {stopped} stopped early and {failed} failed; {spent} epochs\n"
        f"  best          {format_params(best.params)}\n"
        f"  test of best  {test}"
    )
