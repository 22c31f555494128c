"""Several models side by side: the same data and rules, several seeds, every run kept and none repeated."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from filelock import FileLock, Timeout

from recbole_bert4rec.apps.budget import NO_END
from recbole_bert4rec.apps.contest import Contest, reference_config
from recbole_bert4rec.apps.processes import FailedError, in_own_process
from recbole_bert4rec.apps.progress import Display
from recbole_bert4rec.apps.record import environment, write_json
from recbole_bert4rec.apps.rows import prove
from recbole_bert4rec.apps.run import check_model, explained, resolved, run
from recbole_bert4rec.compat import quieten
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import written_whole
from recbole_bert4rec.plugin.checkpoint import is_plain
from recbole_bert4rec.report.comparison import write_comparison

_ELSEWHERE = {"checkpoint_dir", "data_path", "show_progress", "state", "gpu_id", "local_rank", "wandb_project"}
"""Options that change nothing about a result."""


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
        check_model(model)
    if len(set(contest.models)) != len(contest.models):
        raise UserError(f"--model={','.join(contest.models)} names a model twice")
    folder.mkdir(parents=True, exist_ok=True)
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
    _, dataset, files = resolved("several", contest.dataset, list(contest.config_files), {}, None, temporary)
    contest = replace(contest, dataset=dataset, config_files=tuple(files))
    for model in contest.models:
        explained(lambda model=model: contest.config(model, {}), f"the configuration of {model}")  # type: ignore[misc]
    metric = reference_config(contest)["valid_metric"].lower()
    print(f"proving that {len(contest.models)} models are evaluated on the same rows of {dataset}", flush=True)
    try:
        about = in_own_process(prove, contest, log=folder / "rows.log")
    except FailedError as error:
        raise UserError(f"{error} (more in {folder / 'rows.log'})") from error
    with written_whole(folder / "rows.parquet") as file:
        about.pop("rows").to_parquet(file, index=False)
    runs = [(model, seed) for seed in contest.seeds for model in contest.models]
    write_json(folder / "comparison.json", {**_said(contest, about), "runs": [_name(*pair) for pair in runs]})
    display = Display(runs, contest.budget, metric)
    failed = _run_all(contest, about, folder, runs, display)
    done = [_name(*pair) for pair in runs if _name(*pair) not in failed]
    if not done:
        raise UserError("every run failed: " + "; ".join(sorted(set(failed.values()))))
    written = write_comparison(folder, done, failed)
    print("\n".join(f"  {what:<10}{path}" for what, path in written.items()))
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} runs failed; the same command tries them again")
    return written


def _said(contest: Contest, about: dict[str, Any]) -> dict[str, Any]:
    """What the report says about all runs."""
    facts = {key: about[key] for key in ("dropped", "users", "items", "interactions", "fingerprint", "rules")}
    return {
        "models": list(contest.models),
        "dataset": contest.dataset,
        "seeds": list(contest.seeds),
        "budget": contest.budget,
        "command": _command(),
        **facts,
    }


def _command() -> str:
    """What was typed, without this machine's folders."""
    _, program, *arguments = sys.orig_argv
    return shlex.join(["python", Path(program).name, *arguments])


def _name(model: str, seed: int) -> str:
    return f"{model}-{seed}"


def _run_all(
    contest: Contest, about: dict[str, Any], folder: Path, runs: list[tuple[str, int]], display: Display
) -> dict[str, str]:
    """Run what is missing; the reasons of the runs that failed, by name."""
    failed = {}
    records = folder / "runs"
    records.mkdir(exist_ok=True)
    try:
        for model, seed in runs:
            name = _name(model, seed)
            rules = {**about["rules"], "seed": seed, **_unending(contest)}
            identity = _identity(contest, model, rules, about["fingerprint"])
            kept = _finished(records / f"{name}.json", identity)
            if kept is not None:
                display.end(model, seed, kept, new=False)
                continue
            display.begin(model, seed)
            place = folder / "checkpoints" / name
            shutil.rmtree(place, ignore_errors=True)
            try:
                log = records / f"{name}.log"
                record = in_own_process(
                    _contend, contest, model, rules, str(records / name), str(place), log=log, news=display.epoch,
                    tick=display.tick,
                )  # fmt: skip
            except FailedError as error:
                failed[name] = f"{error} (log: {log})"
                display.fail(model, seed, failed[name])
                continue
            write_json(records / f"{name}.json", {**record, "identity": identity})
            display.end(model, seed, record, new=True)
    finally:
        display.close()
    return failed


def _unending(contest: Contest) -> dict[str, Any]:
    """Where time alone ends a training, no epochs and no early stopping do, unless they are asked for."""
    if contest.budget is None:
        return {}
    given = {flag[2:].split("=", 1)[0] for flag in contest.flags}
    return {name: NO_END for name in ("epochs", "stopping_step") if name not in given}


def _identity(contest: Contest, model: str, rules: dict[str, Any], fingerprint: str) -> str:
    """A digest of all that a run's result depends on; threads and machine apart."""
    options = contest.config(model, rules).final_config_dict
    plain = {key: value for key, value in sorted(options.items()) if key not in _ELSEWHERE and is_plain(value)}
    versions = {name: environment()["versions"].get(name) for name in ("recbole_bert4rec", "recbole", "torch")}
    content = [model, plain, contest.budget, fingerprint, versions]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def _finished(path: Path, identity: str) -> dict[str, Any] | None:
    """The record of a run that need not be repeated."""
    if not path.is_file() or not path.with_suffix(".parquet").is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return record if record.get("identity") == identity else None


def _contend(contest: Contest, model: str, rules: dict[str, Any], stem: str, place: str, report: Any) -> dict[str, Any]:
    """One run, in a process of its own."""
    quieten()
    sys.argv = [sys.argv[0], *contest.flags_of({**rules, "checkpoint_dir": place})]
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "rules of the comparison.yaml"  # RecBole evaluates no text of a file
        last.write_text(yaml.safe_dump({**rules, "checkpoint_dir": place}), encoding="utf-8")
        files = [*contest.files_of(model), str(last)]
        result = run(model, contest.dataset, files, budget=contest.budget, ranks=f"{stem}.parquet", report=report)
    record: dict[str, Any] = json.loads(Path(result["record"]).read_text("utf-8"))
    return record
