"""A search for hyper-parameters from beginning to end: selection on validation, the winner tested once."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from filelock import FileLock, Timeout
from recbole.config import Config
from tabulate import tabulate

from recbole_bert4rec.errors import UserError, nearest
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.inputs import check_model, resolve_inputs
from recbole_bert4rec.tuning.cluster import Resources, checkpoint_of, run_on_ray, scheduler_of
from recbole_bert4rec.tuning.local import LocalWorker
from recbole_bert4rec.tuning.objective import Task, changes_dataset, packed_data, run_trial, test_result
from recbole_bert4rec.tuning.progress import Display, said
from recbole_bert4rec.tuning.report import write_report
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.space import Space, read_space
from recbole_bert4rec.tuning.study import FAILED, STOPPED, Study, Trial

TOOLS = ("Hyperopt", "Ray")
_TAKEN = (".jsonl", ".pth", ".html", ".png", ".yaml", ".lock")
"""Endings of what is written beside the output file."""


@dataclass(frozen=True)
class Request:
    """What to search and how; see ``python run_hyper.py --help``.

    Attributes:
        output: RecBole's result file; study, winner and weights get names beside it.
        display: HTML page of plots.
        max_trials: of random and bayes; None for all combinations.
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

    def beside(self, ending: str) -> Path:
        """A file named after the output."""
        return self.output.with_name(f"{self.output.stem}{ending}")


def tune(request: Request) -> dict[str, Any]:
    """Search, and test the winner.

    Returns:
        best_params, best_valid_score, best_valid_result, test_result, and the trials as dictionaries.

    Raises:
        UserError: a mistake in space, options or files; or every trial failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        task = request.task
        if "," in task.model:
            raise UserError(f"--model={task.model}: one model is tuned at a time")
        check_model(task.model)
        model, dataset, files = resolve_inputs(task.model, task.dataset, list(task.config_files), {}, None, folder)
        return _search(replace(request, task=replace(task, model=model, dataset=dataset, config_files=tuple(files))))


def _search(request: Request) -> dict[str, Any]:
    if request.output.suffix in _TAKEN or request.output.is_dir():
        raise UserError(f"--output_file={request.output} must be a file that does not end in {' or '.join(_TAKEN)}")
    space = read_space(request.params_file)
    names = [parameter.name for parameter in space.parameters]
    with mock.patch.dict(os.environ):  # RecBole hides GPUs from the whole process, and so from Ray
        return _held(request, space, _checked(request.task, names), changes_dataset(names))


def _held(request: Request, space: Space, config: Config, anew: bool) -> dict[str, Any]:
    """The search, while no other can write to the same files."""
    folder = request.beside(".trials").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"another search is writing {request.output}; write elsewhere by --output_file") from error
    try:
        return _searched(request, space, config, anew, folder)
    finally:
        lock.release()
        if not list(folder.glob("*.pth")):  # the best weights so far stay for --resume
            shutil.rmtree(folder)


def _searched(request: Request, space: Space, config: Config, anew: bool, folder: Path) -> dict[str, Any]:
    search = Search(space, request.algorithm, request.max_trials, config["seed"], config["valid_metric_bigger"])
    study = Study(request.beside(".jsonl"), _about(request, config, space), request.resume)
    search.go_on([(trial.number, trial.params, trial.score) for trial in study.trials])
    data = None
    if not anew:
        data = translate_errors(lambda: packed_data(request.task), f"data set {request.task.dataset!r}")
    print(
        f"{search.total} trials of {config['model']} on {config['dataset']}, judged by validation "
        f"{config['valid_metric']}; {len(study.trials)} are done; each is written to {study.path}",
        flush=True,
    )
    for parameter in space.parameters:
        if parameter.kind == "loguniform" and all(0 <= bound <= 1 for bound in parameter.values):
            low, high = map(math.exp, parameter.values)
            print(
                f"note: `{parameter.name} loguniform` draws from {low:.4g} to {high:.4g}: the bounds are exponents, "
                "as RecBole's; loguniform10 takes the numbers themselves",
                flush=True,
            )
    _run(request, config, search, study, data, folder)
    return _conclude(request, study, config, folder)


def _run(request: Request, config: Config, search: Search, study: Study, data: bytes | None, folder: Path) -> None:
    """Run the trials that are missing; weights of the best stay in ``folder``."""
    display = Display(study, search.total, config["valid_metric"])

    def keep(trial: Trial) -> None:
        study.add(trial)
        request.beside(".pth").unlink(missing_ok=True)  # an earlier winner's
        _keep_best_weights(folder, study)
        display.end(trial)

    try:
        if request.tool == "Ray":
            judged = scheduler_of(request.scheduler, config["epochs"], config["valid_metric_bigger"])
            run_on_ray(request.task, search, data, folder, request.resources, judged, keep, display)
        else:
            _run_here(request.task, search, data, folder, keep, display)
    finally:
        display.close()


def _checked(task: Task, names: list[str]) -> Config:
    """The configuration that all trials share, or what would make all of them fail."""
    given = {flag[2:].split("=", 1)[0] for flag in task.flags}
    for name in names:
        if name in given:
            raise UserError(f"`{name}` is in the parameter file and on the command line; leave one of them out")
    config = translate_errors(lambda: task.config({}), "the configuration")
    unknown = [name for name in names if name not in config]
    if unknown:
        known = {*config.internal_config_dict}.union(*config.parameters.values())
        near = {name: nearest(name, known) for name in unknown}
        hints = [f"`{name}`" + (f" (did you mean `{near[name]}`?)" if near[name] else "") for name in unknown]
        raise UserError(f"the parameter file names {', '.join(hints)}, which {task.model} has no option for")
    if config["refit"]:
        raise UserError("`refit` is for a single run; leave it out of a search")
    if config["eval_step"] <= 0:
        raise UserError("`eval_step` must be at least 1: trials are judged on validation")
    return config


def _about(request: Request, config: Config, space: Any) -> dict[str, Any]:
    """What the trials of a study share; --resume compares it."""
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
        "space": {parameter.name: [parameter.kind, *parameter.values] for parameter in space.parameters},
        "options": {name: str(value) for name, value in sorted(_given(config).items()) if name not in searched},
    }


def _given(config: Config) -> dict[str, Any]:
    """Options that files, command line or search have given; the progress bar is ours."""
    return {name: value for name, value in config.external_config_dict.items() if name != "show_progress"}


def _run_here(task: Task, search: Search, data: bytes | None, folder: Path, keep: Any, display: Display) -> None:
    worker = LocalWorker(task, data)
    try:
        while (proposal := search.ask()) is not None:
            number, params = proposal
            display.begin(number, params)
            result = worker.run(params, checkpoint_of(folder, number), partial(display.epoch, number))
            score = result.get("score")
            failed = {"status": FAILED, "reason": result.get("reason", "it ended without a validation score")}
            keep(Trial(number, params, **(result if score is not None else failed)))
            search.tell(params, score)
    finally:
        worker.close()


def _keep_best_weights(folder: Path, study: Study) -> None:
    """Of the trials that ended, only the best keeps its weights."""
    best = study.best
    for trial in study.trials:
        if trial is not best:
            Path(checkpoint_of(folder, trial.number)).unlink(missing_ok=True)


def _conclude(request: Request, study: Study, config: Config, folder: Path) -> dict[str, Any]:
    best = study.best
    if best is None:
        reasons = sorted({trial.reason for trial in study.trials})
        raise UserError("every trial failed: " + "; ".join(reasons or ["there was none"]))
    weights = checkpoint_of(folder, best.number)
    if request.beside(".pth").is_file():  # nothing is new since this was concluded
        shutil.copyfile(request.beside(".pth"), weights)
    if not Path(weights).is_file():
        print("the weights of the best trial are not here; training it again", flush=True)
        run_trial(request.task, best.params, None, weights, lambda news: None)
    tested = test_result(request.task, best.params, weights)
    _write_winner(request, best)
    _write_result_file(request.output, study, best, tested)
    kept = request.beside(".pth")
    os.replace(weights, kept)
    pages = write_report(study.path, request.display or request.beside(".html"))
    print(_summary(study, best, config, tested))
    for what, path in (("trials", study.path), ("results", request.output), ("weights", kept), *pages.items()):
        print(f"  {what:<14}{path}")
    print(
        f"  {'best options':<14}{request.beside('.best.yaml')}   (run.py --config_files={request.beside('.best.yaml')})"
    )
    return {
        "best_params": best.params,
        "best_valid_score": best.score,
        "best_valid_result": best.valid,
        "test_result": tested,
        "trials": [asdict(trial) for trial in study.trials],
    }


def _write_winner(request: Request, best: Trial) -> None:
    """The winner's options as a file for run.py: those of the search's files and flags, and the chosen ones."""
    task = request.task
    content = {"model": task.model, "dataset": task.dataset, **_given(task.config(best.params))}
    content.pop("checkpoint_dir", None)
    with atomic_write(request.beside(".best.yaml")) as temporary:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def _write_result_file(path: Path, study: Study, best: Trial, tested: dict[str, float]) -> None:
    """RecBole's file of results; test metrics stand with the winner alone, for it alone was tested."""

    def line(values: dict[str, float]) -> str:
        return "    ".join(f"{name} : {value}" for name, value in values.items())

    parts = []
    for trial in study.ranking():
        parts.append(f"{said_exactly(trial.params)}\nValid result:\n{line(trial.valid)}\n")
        if trial is best:
            parts.append(f"Test result:\n{line(tested)}\n")
        parts.append("\n")
    parts += [f"{said_exactly(t.params)}\nfailed: {t.reason}\n\n" for t in study.trials if t.status == FAILED]
    with atomic_write(path) as temporary:
        temporary.write_text("".join(parts), encoding="utf-8")


def said_exactly(params: dict[str, Any]) -> str:
    """A setting as RecBole's result file has it."""
    return ", ".join(f"{name}:{value}" for name, value in params.items())


def _summary(study: Study, best: Trial, config: Config, tested: dict[str, float]) -> str:
    metric = config["valid_metric"]
    rows = [
        [place, trial.number, f"{trial.score:.4f}", trial.best_epoch, trial.epochs, f"{trial.seconds:.1f}"]
        + [f"{v:.4g}" if isinstance(v, float) else v for v in trial.params.values()]
        for place, trial in enumerate(study.ranking()[:10], 1)
    ]
    header = ["", "trial", f"valid {metric}", "best epoch", "epochs", "seconds", *best.params]
    stopped, failed = ([trial.status for trial in study.trials].count(status) for status in (STOPPED, FAILED))
    spent = sum(trial.epochs for trial in study.trials)
    test = "    ".join(f"{name} {value:.4f}" for name, value in tested.items())
    return (
        f"\nThe best ten, by validation\n\n{tabulate(rows, header, disable_numparse=True)}\n\n"
        f"{len(study.trials)} trials, of which {stopped} stopped early and {failed} failed; {spent} epochs\n"
        f"  best          {said(best.params)}\n"
        f"  test of best  {test}"
    )
