"""Several models side by side: the same data and rules, several seeds, every run kept and none repeated."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from filelock import FileLock, Timeout
from recbole.utils import ModelType

from recbole_bert4rec.comparison.contest import Contest, reference_config
from recbole_bert4rec.comparison.progress import Display
from recbole_bert4rec.comparison.report import write_comparison
from recbole_bert4rec.comparison.rows import prove
from recbole_bert4rec.environment import environment, suppress_dependency_warnings
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.options.table import WITHOUT_EFFECT
from recbole_bert4rec.plugin.checkpoint import is_plain
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.epochs import ProgressReport
from recbole_bert4rec.training.inputs import check_model, resolve_inputs
from recbole_bert4rec.training.record import write_json
from recbole_bert4rec.training.run import run
from recbole_bert4rec.workers import FailedError, in_own_process


def compare(contest: Contest, folder: Path) -> dict[str, Path]:
    """Train, select and test every model with every seed, and report.

    Args:
        folder: for records, ranks, checkpoints and reports; runs in it that were made with the same options on the
            same data are not repeated.

    Returns:
        What was written, by name.

    Raises:
        UserError: a mistake in options or data; or a run failed (the others are reported all the same).
    """
    for model in contest.models:
        check_model(contest.model_of(model))
    if len(set(contest.models)) != len(contest.models):
        raise UserError(f"--model={','.join(contest.models)} names a model twice")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".lock").touch()
    except OSError as error:
        raise UserError(f"--output_dir={folder} is no folder that can be written to: {error.strerror}") from error
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"another comparison is writing {folder}; write elsewhere by --output_dir") from error
    try:
        with tempfile.TemporaryDirectory() as temporary, mock.patch.dict(os.environ):  # RecBole hides GPUs
            return _compare(contest, folder, temporary)
    finally:
        lock.release()


def _compare(contest: Contest, folder: Path, temporary: str) -> dict[str, Path]:
    _, dataset, files = resolve_inputs("several", contest.dataset, list(contest.config_files), {}, None, temporary)
    contest = replace(contest, dataset=dataset, config_files=tuple(files), study=contest.study.written(temporary))
    _check_options(contest)
    metric = reference_config(contest)["valid_metric"].lower()
    print(f"proving that {len(contest.models)} models are evaluated on the same rows of {dataset}", flush=True)
    print(f"logs: {folder / 'rows.log'}, then {folder / 'runs'}", flush=True)
    try:
        about = in_own_process(prove, contest, log=folder / "rows.log")
    except FailedError as error:
        raise UserError(f"{error} (more in {folder / 'rows.log'})") from error
    with atomic_write(folder / "rows.parquet") as file:
        about.pop("rows").to_parquet(file, index=False)
    runs = [_Run.of(contest, about, model, seed) for seed in contest.seeds for model in contest.models]
    write_json(folder / "comparison.json", {**_said(contest, about), "runs": [run.name for run in runs]})
    kinds = {name: contest.model_of(name) for name in contest.models}
    display = Display([(run.model, run.seed) for run in runs], kinds, contest.budget, metric)
    failed = _run_all(contest, folder, runs, display)
    done = [run.name for run in runs if run.name not in failed]
    if not done:
        raise UserError("every run failed: " + "; ".join(sorted(set(failed.values()))))
    written = write_comparison(folder, done, failed)
    print("\n".join(f"  {what:<10}{path}" for what, path in written.items()))
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} runs failed; the same command tries them again")
    return written


def _check_options(contest: Contest) -> None:
    """Raise where the options of some model have mistakes, or it cannot rank; all of them at once."""
    mistakes = []
    for model in contest.models:
        try:
            config = translate_errors(partial(contest.config, model, {}), f"the configuration of {model}")
        except UserError as error:
            mistakes.append(f"{model}: {error}" if contest.study.variants else str(error))
            continue
        if config["MODEL_TYPE"] not in (ModelType.SEQUENTIAL, ModelType.GENERAL, ModelType.TRADITIONAL):
            mistakes.append(
                f"{model} predicts clicks or needs a knowledge graph; it cannot be compared by ranking items"
            )
    if mistakes:
        raise UserError("\n".join(dict.fromkeys(mistakes)))


def _said(contest: Contest, about: dict[str, Any]) -> dict[str, Any]:
    """What the report says about all runs."""
    facts = {key: about[key] for key in ("dropped", "users", "items", "interactions", "fingerprint", "rules")}
    axis = contest.study.axis
    return {
        "models": list(contest.models),
        "varied": axis,
        "variants": {name: dict(own) for name, own in contest.study.variants.items()},
        "axis": axis and {name: contest.own_options(name).get(axis) for name in contest.models},
        "dataset": contest.dataset,
        "seeds": list(contest.seeds),
        "budget": contest.budget,
        "command": _command(),
        **facts,
    }


def _command() -> str:
    """What was typed."""
    words = sys.orig_argv[1:]
    begin = next((n for n, word in enumerate(words) if word == "-m" or word.endswith(".py")), 0)
    return shlex.join(
        ["python", words[begin] if words[begin] == "-m" else Path(words[begin]).name, *words[begin + 1 :]]
    )


@dataclass(frozen=True)
class _Run:
    """One model with one seed; the name holds a digest of all that its result depends on, threads and machine apart."""

    model: str
    seed: int
    rules: dict[str, Any]
    name: str

    @classmethod
    def of(cls, contest: Contest, about: dict[str, Any], model: str, seed: int) -> _Run:
        rules = contest.rules_of(model, about["rules"], seed)
        options = contest.config(model, rules).final_config_dict
        plain = {key: value for key, value in sorted(options.items()) if key not in WITHOUT_EFFECT and is_plain(value)}
        installed = environment()["versions"]
        versions = {name: installed.get(name) for name in ("recbole_bert4rec", "recbole", "torch")}
        study = [model] if contest.study.variants else []  # a variant that is named anew is another contestant
        content = json.dumps(
            [*study, plain, contest.budget, about["fingerprint"], versions], sort_keys=True, default=str
        )
        readable = re.sub(r"[^\w.=+-]+", "-", model)
        return cls(model, seed, rules, f"{readable}-{seed}-{hashlib.sha256(content.encode()).hexdigest()[:8]}")


def _run_all(contest: Contest, folder: Path, runs: list[_Run], display: Display) -> dict[str, str]:
    """Run what is missing; the reasons of the runs that failed, by name."""
    failed = {}
    records = folder / "runs"
    records.mkdir(exist_ok=True)
    try:
        kept = {one.name: _finished(records / f"{one.name}.json") for one in runs}
        for one in runs:
            if (record := kept[one.name]) is not None:
                display.end(one.model, one.seed, record, new=False)
        for one in runs:
            if kept[one.name] is not None:
                continue
            display.begin(one.model, one.seed)
            place = folder / "checkpoints" / one.name
            shutil.rmtree(place, ignore_errors=True)
            log = records / f"{one.name}.log"
            arguments = (contest, one, str(records / one.name), str(place))
            try:
                record = in_own_process(_contend, *arguments, log=log, news=display.epoch, tick=display.tick)
            except FailedError as error:
                failed[one.name] = f"{error} (log: {log})"
                display.fail(one.model, one.seed, failed[one.name])
                continue
            write_json(records / f"{one.name}.json", record)
            display.end(one.model, one.seed, record, new=True)
    finally:
        display.close()
    return failed


def _finished(path: Path) -> dict[str, Any] | None:
    """The record of a run that need not be repeated."""
    if not path.is_file() or not path.with_suffix(".parquet").is_file():
        return None
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError:
        return None
    return record


def _contend(contest: Contest, one: _Run, stem: str, place: str, report: Any) -> dict[str, Any]:
    """One run, in a process of its own."""
    suppress_dependency_warnings()
    rules = {**one.rules, "checkpoint_dir": place}
    sys.argv = [sys.argv[0], *contest.flags_of(one.model, rules)]
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "rules of the comparison.yaml"  # RecBole evaluates no text of a file
        last.write_text(yaml.safe_dump(rules), encoding="utf-8")
        files = [*contest.files_of(one.model), str(last)]
        result = run(
            model=contest.model_of(one.model),
            dataset=contest.dataset,
            config_files=files,
            budget=contest.budget,
            ranks=f"{stem}.parquet",
            callbacks=[ProgressReport(report)],
        )
    record: dict[str, Any] = {**result.record, "contestant": one.model}
    if record["best_epoch"] is None:
        raise UserError(f"{one.model} ended without a validation, by which it could be selected")
    return record
