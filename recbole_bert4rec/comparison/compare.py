"""Several models side by side: the same data and rules, several seeds, every run kept and none repeated."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from recbole.utils import ModelType

from recbole_bert4rec.checkpoints import is_plain, last_of
from recbole_bert4rec.comparison.comparison import Comparison, reference_config
from recbole_bert4rec.comparison.progress import RunProgress
from recbole_bert4rec.comparison.report import write_comparison
from recbole_bert4rec.comparison.results import read_results, read_run
from recbole_bert4rec.comparison.rows import check_equal_rows
from recbole_bert4rec.logs.atomic import check_not_mapped
from recbole_bert4rec.logs.conversion import folder_read
from recbole_bert4rec.logs.items import digests
from recbole_bert4rec.options.table import WITHOUT_EFFECT
from recbole_bert4rec.options.user_models import class_name, digest_of_code
from recbole_bert4rec.plugin.config import without_effect
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system.constants import SHORT
from recbole_bert4rec.system.environment import environment, need, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write, locked
from recbole_bert4rec.system.processes import FailedError, in_own_process
from recbole_bert4rec.system.scoped import restored_environment
from recbole_bert4rec.system.yaml_files import read_yaml
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.epochs import ProgressReport, Report
from recbole_bert4rec.training.inputs import refuse_unknown_model, resolve_inputs
from recbole_bert4rec.training.logs import no_bars, say, shown
from recbole_bert4rec.training.newest import runs_in
from recbole_bert4rec.training.record import write_json
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import run


@dataclass(frozen=True)
class ComparisonResult:
    """Results of a comparison.

    Attributes:
        runs: a row for each model and seed: its cost, and its validation and test metrics; as in runs.csv.
        files: the reports, by their kind.
        records: of the runs, by model or variant.
    """

    runs: pd.DataFrame
    files: dict[str, Path]
    records: Mapping[str, list[dict[str, Any]]]


def compare(comparison: Comparison, folder: Path, screen: str = SHORT) -> ComparisonResult:
    """Train, select and test every model with every seed, and report.

    Args:
        comparison: the models, and the options that their runs share.
        folder: for records, ranks, checkpoints and reports. Runs in it that were made with the same options on the
            same data are not repeated.
        screen: ``short`` shows a line a run and a table; ``quiet``, warnings only.

    Raises:
        UserError: a mistake in options or data; matplotlib is not installed; or a run failed (the others are reported
            all the same).
    """
    need("a comparison", "matplotlib")
    for model in comparison.models:
        refuse_unknown_model(class_name(comparison.model_of(model)))
    with (
        in_program(),
        shown(screen, sys.stdout),
        locked(folder / ".lock", "comparison", "--output_dir", folder),
        restored_environment(),  # RecBole hides GPUs
    ):
        return _compare(comparison, folder, screen)


def _compare(comparison: Comparison, folder: Path, screen: str) -> ComparisonResult:
    asked = RunRequest("several", comparison.dataset, comparison.config_files, comparison.options)
    _, dataset, layers = resolve_inputs(asked)
    comparison = replace(comparison, dataset=dataset, config_files=(layers.of_log, *layers.files))
    _check_options(comparison)
    reference = reference_config(comparison)
    metric = reference["valid_metric"].lower()
    read = folder_read(reference["data_path"], reference["conversion"])
    check_not_mapped(reference, read, "a comparison or a study")
    say(
        f"proving that {len(comparison.models)} models are evaluated on the same rows of {dataset}\n"
        f"logs: {folder / 'rows.log'}, then {folder / 'runs'}"
    )
    try:
        about = in_own_process(check_equal_rows, comparison, log=folder / "rows.log")
    except FailedError as error:
        raise UserError(f"{error} (more in {folder / 'rows.log'})") from error
    rows: pd.DataFrame = about.pop("rows")
    with atomic_write(folder / "rows.parquet") as file:
        rows.to_parquet(file, index=False)
    runs = [_Run.of(comparison, about, model, seed) for seed in comparison.seeds for model in comparison.models]
    write_json(folder / "comparison.json", {**_metadata(comparison, about), "runs": [run.name for run in runs]})
    kinds = {name: comparison.model_of(name) for name in comparison.models}
    progress = RunProgress([(run.model, run.seed) for run in runs], kinds, comparison.budget, metric, no_bars(screen))
    failed = _run_all(comparison, folder, runs, rows["user"], progress)
    done = [run.name for run in runs if run.name not in failed]
    if not done:
        raise UserError("every run failed: " + "; ".join(sorted(set(failed.values()))))
    results = read_results(folder, done, failed)
    written = write_comparison(folder, results)
    say("\n".join(f"  {kind:<10}{path}" for kind, path in written.items()))
    if failed:
        reason = sorted(set(failed.values()))[0]
        raise UserError(f"{len(failed)} of {len(runs)} runs failed; the same command tries them again ({reason})")
    return ComparisonResult(results.table(), written, results.records)


def _check_options(comparison: Comparison) -> None:
    """Refuse models that cannot rank, and options with mistakes; all of them at once.

    An option that only some of the models know is named once.
    """
    mistakes: list[str] = []
    ignored: dict[str, list[str]] = {}
    for model in comparison.models:
        try:
            config = translate_errors(partial(comparison.config, model, {}), f"the configuration of {model}")
        except UserError as error:
            mistakes.append(f"{model}: {error}" if comparison.study.variants else str(error))
            continue
        variant_options = comparison.variant_options(model)
        mistakes += [f"{model}: `{name}` {why}" for name, why in without_effect(config, variant_options).items()]
        for name in without_effect(config).keys() - variant_options.keys():
            ignored.setdefault(name, []).append(model)
        if config["MODEL_TYPE"] not in (ModelType.SEQUENTIAL, ModelType.GENERAL, ModelType.TRADITIONAL):
            mistakes.append(
                f"{model} predicts clicks or needs a knowledge graph; it cannot be compared by ranking items"
            )
    if mistakes:
        raise UserError("\n".join(dict.fromkeys(mistakes)))
    for name, models in sorted(ignored.items()):
        say(f"note: option `{name}` has no effect on {', '.join(models)}")


def _metadata(comparison: Comparison, about: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of the report that hold for all runs."""
    facts = {key: about[key] for key in ("dropped", "users", "items", "interactions", "fingerprint", "parts", "rules")}
    axis = comparison.study.axis
    return {
        "models": list(comparison.models),
        "varied": axis,
        "variants": {name: dict(options) for name, options in comparison.study.variants.items()},
        "axis": axis and {name: comparison.variant_options(name).get(axis) for name in comparison.models},
        "dataset": comparison.dataset,
        "seeds": list(comparison.seeds),
        "budget": comparison.budget,
        "command": _command(),
        **facts,
    }


def _command() -> str:
    """Return the command that the user typed."""
    words = sys.orig_argv[1:]
    begin = next((n for n, word in enumerate(words) if word == "-m" or word.endswith(".py")), None)
    if begin is None:
        return shlex.join([Path(words[0]).name, *words[1:]])
    program = words[begin] if words[begin] == "-m" else Path(words[begin]).name
    return shlex.join(["python", program, *words[begin + 1 :]])


@dataclass(frozen=True)
class _Run:
    """One model with one seed; its name holds a digest of all that the result depends on but threads and machine."""

    model: str
    seed: int
    rules: dict[str, Any]
    name: str

    @classmethod
    def of(cls, comparison: Comparison, about: dict[str, Any], model: str, seed: int) -> _Run:
        rules = comparison.rules_of(model, about["rules"], seed)
        config = comparison.config(model, rules)
        options = config.final_config_dict
        idle = WITHOUT_EFFECT | without_effect(config, options).keys()
        plain = {key: value for key, value in sorted(options.items()) if key not in idle and is_plain(value)}
        installed = environment()["versions"]
        versions = {name: installed.get(name) for name in ("recbole_bert4rec", "recbole", "torch")}
        study = [model] if comparison.study.variants else []  # a variant with a new name is another variant
        also: list[object] = [*map(read_yaml, comparison.also_test)]
        also += digests(options.get("item_vectors"))
        code = digest_of_code(config.model_class)
        parts = [*study, plain, comparison.budget, *also, about["fingerprint"], versions, *([code] if code else [])]
        content = json.dumps(parts, sort_keys=True, default=str)
        readable = re.sub(r"[^\w.=+-]+", "-", model)
        return cls(model, seed, rules, f"{readable}-{seed}-{hashlib.sha256(content.encode()).hexdigest()[:8]}")


def _run_all(
    comparison: Comparison, folder: Path, runs: list[_Run], users: pd.Series, progress: RunProgress
) -> dict[str, str]:
    """Make the missing runs; return the reasons of the runs that failed, by name."""
    failed = {}
    records = folder / "runs"
    records.mkdir(exist_ok=True)
    try:
        kept = {run.name: _finished(records, run.name, users) for run in runs}
        for run in runs:
            if (record := kept[run.name]) is not None:
                progress.end(run.model, run.seed, record, new=False)
        for run in runs:
            if kept[run.name] is not None:
                continue
            progress.begin(run.model, run.seed)
            checkpoints = folder / "checkpoints" / run.name
            begun = next((run.path for run in runs_in(checkpoints)), None)
            if begun is None:
                shutil.rmtree(checkpoints, ignore_errors=True)
            arguments = (comparison, run, str(records / run.name), str(checkpoints), begun)
            log = records / f"{run.name}.log"
            try:
                record = in_own_process(_run_in_process, *arguments, log=log, news=progress.epoch, tick=progress.tick)
            except FailedError as error:
                failed[run.name] = f"{error} (log: {log})"
                progress.fail(run.model, run.seed, failed[run.name])
                continue
            write_json(records / f"{run.name}.json", record)
            Path(last_of(record["checkpoint"])).unlink(missing_ok=True)
            progress.end(run.model, run.seed, record, new=True)
    finally:
        progress.close()
    return failed


def _finished(records: Path, name: str, users: pd.Series) -> dict[str, Any] | None:
    """Return the record of a run that need not be repeated; a damaged one is repeated."""
    if not (records / f"{name}.json").is_file() or not (records / f"{name}.parquet").is_file():
        return None
    try:
        return read_run(records, name, users)[0]
    except (OSError, ValueError, KeyError) as error:
        say(f"{name} is run again: {type(error).__name__}: {error}")
        return None


def _run_in_process(
    comparison: Comparison, planned: _Run, stem: str, checkpoint_dir: str, begun: str | None, report: Report
) -> dict[str, Any]:
    """Train, select and test one model with one seed, or resume it; called in its own process."""
    suppress_dependency_warnings()
    rules = {**planned.rules, "checkpoint_dir": checkpoint_dir}
    result = run(
        model=comparison.model_of(planned.model),
        dataset=comparison.dataset,
        config_files=[*comparison.files_of(planned.model), rules],  # texts of options are read as values
        options=comparison.options_beside(planned.model, rules),
        flags={},
        budget=comparison.budget,
        also_test=comparison.also_test,
        ranks=f"{stem}.parquet",
        resume=begun,
        callbacks=[ProgressReport(report)],
    )
    record: dict[str, Any] = {**result.record, "contestant": planned.model}
    if record["best_epoch"] is None:
        raise UserError(f"{planned.model} ended without a validation, by which it could be selected")
    return record
