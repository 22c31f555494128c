"""Several models, or variants of one, on equal terms: the same rows and rules, several seeds, every run kept."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pandas as pd
from recbole.utils import ModelType
from tqdm.auto import tqdm

from recbole_bert4rec.experiments.equal_rows import Contestant, check_equal_rows, config_of, shared_rules, under_rules
from recbole_bert4rec.experiments.results import read_results
from recbole_bert4rec.experiments.store import how_far, run_once
from recbole_bert4rec.logs.atomic import check_not_mapped
from recbole_bert4rec.logs.conversion import folder_read
from recbole_bert4rec.options.kinds import is_number
from recbole_bert4rec.options.table import DECIDED_BY_COMPARISON, SINGLE_RUN
from recbole_bert4rec.options.user_models import chosen, class_name, importable, known_as, named_in_file
from recbole_bert4rec.plugin.config import Layers, plain_value, without_effect
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.recommend.bulk import write_tables
from recbole_bert4rec.system.constants import MODEL_NAME, SHORT
from recbole_bert4rec.system.environment import find_config, need, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError, short
from recbole_bert4rec.system.files import locked
from recbole_bert4rec.system.processes import FailedError, in_own_process
from recbole_bert4rec.system.yaml_files import read_yaml
from recbole_bert4rec.training.budget import NO_END
from recbole_bert4rec.training.inputs import OptionFile, refuse_unknown_model, resolve, user_layers
from recbole_bert4rec.training.record import counted, write_json
from recbole_bert4rec.training.screen import no_bars, say, shown


class ComparisonResult(NamedTuple):
    """Results of a comparison.

    Attributes:
        runs: a row for each model and seed: its cost, and its validation and test metrics; as in runs.csv.
        files: the reports, by their kind.
        records: of the runs, by model or variant.
    """

    runs: pd.DataFrame
    files: dict[str, Path]
    records: Mapping[str, list[dict[str, Any]]]


def compare(
    models: Sequence[str | type] | str,
    dataset: str | None = None,
    options: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] = 3,
    budget: float | None = None,
    variants: Mapping[str, Mapping[str, Any]] | str | None = None,
    protocols: Sequence[str] | None = None,
    folder: str | Path | None = None,
    *,
    config_files: Sequence[OptionFile] = (),
    screen: str = SHORT,
) -> ComparisonResult:
    """Train, select and test every model, or every variant of one model, with every seed, and report.

    Args:
        models: RecBole's names, classes of one's own or their ``module:Class``; the first is compared with each of the
            others. Of ``variants``, the one model that is varied; a variant may name another ``model``.
        dataset: RecBole's name of the data set, or the path of a log. Default: ml-100k.
        options: for all models; they win over the files.
        seeds: of each model's runs, or how many: they count up from the option ``seed``.
        budget: seconds of training and validation for each run; None: each model's own early stopping.
        variants: options of each variant by its name, which win over all others but the shared rules; or a YAML file
            (a name of properties/study) that has them as ``variants``, and perhaps as ``axis`` the option that tells
            them apart by numbers. Without any, models are compared.
        protocols: YAML files of further protocols under which each run's selected weights are tested.
        folder: for records, ranks, weights and reports. Runs in it that were made with the same options on the same
            data are not made again. Default: compare-DATASET, or STUDY-DATASET.
        config_files: YAML files for all models, or what is in them; one with a line ``model: NAME`` is for that model.
        screen: ``short`` shows a line a run and a table; ``quiet``, warnings only.

    Raises:
        UserError: a mistake in options or data; matplotlib is not installed; or a run failed (the others are reported
            all the same).
    """
    need("a comparison", "jinja2", "matplotlib")
    suppress_dependency_warnings()
    with in_program(), shown(screen, sys.stdout), patch.dict(os.environ):  # RecBole hides GPUs
        layers = user_layers(options, config_files, {})
        named = [models] if isinstance(models, (str, type)) else [*models]
        if not named:
            raise UserError("a comparison needs a model; name one or more")
        known_as(named[0])  # a variant may name it
        of_variants, axis, study = read_variants(variants)
        contestants = contestants_of(named, of_variants, layers)
        reference = _arguments(MODEL_NAME, {}, layers)
        _, name, resolved = resolve("several", dataset, layers)
        for contestant in (reference, *contestants.values()):
            contestant["config_files"].insert(0, resolved.of_log)
        config = config_of(reference, name, {})
        shared_rules(config, few=False)  # refuses what all models cannot follow
        check_options(contestants, of_variants, name)
        check_not_mapped(config, folder_read(config["data_path"], config["conversion"]), "a comparison or a study")
        numbers = [*(range(config["seed"], config["seed"] + seeds) if isinstance(seeds, int) else map(int, seeds))]
        about = {
            "models": [*contestants],
            "variants": of_variants,
            "varied": axis,
            "axis": axis and {label: options.get(axis) for label, options in of_variants.items()},
            "dataset": name,
            "seeds": numbers,
            "budget": budget,
            "command": shlex.join(["python", *sys.orig_argv[1:]]),
        }
        if not numbers or len({*numbers}) < len(numbers):
            raise UserError(f"--seeds={seeds} must be at least 1, or different seeds")
        target = Path(folder or f"{study}-{name}")
        with locked(target / ".lock", "comparison", "--output_dir", target):
            return _compare(reference, contestants, about, protocols or (), target, screen)


def read_variants(
    variants: Mapping[str, Mapping[str, Any]] | str | None,
) -> tuple[dict[str, dict[str, Any]], str | None, str]:
    """Return the options of each variant, the axis, and how the folder's name begins."""
    if variants is None:
        return {}, None, "compare"
    name, study = "variants", "study"
    given: Mapping[str, Any] = {"variants": variants}
    if isinstance(variants, str):
        name, study, given = f"study {variants}", Path(variants).stem, read_yaml(find_config(variants, "study"))
    by_name: Any = given.get("variants")
    axis = given.get("axis")
    is_mapping = isinstance(by_name, Mapping) and all(isinstance(options, Mapping) for options in by_name.values())
    if not is_mapping or not by_name or given.keys() - {"variants", "axis"}:
        raise UserError(
            f"{name} must have `variants`, lines of `name: {{option: value}}`, and perhaps `axis`, but has "
            f"{short(dict(given))}"
        )
    named: dict[str, dict[str, Any]] = {}
    for variant, of_variant in by_name.items():
        options = {str(option): plain_value(value) for option, value in of_variant.items()}
        named[" ".join(str(variant).split())] = options
        if decided := [option for option in options if option in (*SINGLE_RUN, *DECIDED_BY_COMPARISON)]:
            raise UserError(
                f"{name}: variant {variant!r} sets {decided}, but all variants are evaluated alike, in runs of one "
                "kind; give such options for all, on the command line or in --config_files"
            )
        named_in_file(str(options.get("model", MODEL_NAME)), f"{name}: variant {variant!r}")
        if axis is not None and not is_number(options.get(str(axis))):
            raise UserError(f"{name}: `axis` is {short(axis)}, but variant {variant!r} gives it no number")
    return named, axis, study


def contestants_of(
    models: Sequence[str | type], variants: Mapping[str, Mapping[str, Any]], layers: Layers
) -> dict[str, dict[str, Any]]:
    """Return the arguments of the runs of each model, or of each variant of one model, by its name."""
    if variants:
        if len(models) > 1:
            raise UserError(f"a study varies one model, not --model={','.join(map(class_name, models))}")
        return {label: _arguments(chosen(one.get("model", models[0])), one, layers) for label, one in variants.items()}
    names = [known_as(model) for model in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--model={','.join(names)} names the model {twice[0]} twice")
    return {name: _arguments(model, {}, layers) for name, model in zip(names, models, strict=True)}


def _arguments(model: str | type, variant: Mapping[str, Any], layers: Layers) -> dict[str, Any]:
    """Return the arguments of a model's runs: files that name no model, several, or it; a variant's options win."""
    refuse_unknown_model(known_as(model))
    files = []
    for options in layers.files:
        named = options.get("model", "")
        if not named or "," in str(named) or class_name(str(named)) == class_name(model):
            files.append(options)
    options = {name: value for name, value in layers.options.items() if name not in variant}
    return {"model": importable(model), "config_files": [*files, variant], "options": options}


def _compare(
    reference: Contestant,
    contestants: Mapping[str, Contestant],
    about: dict[str, Any],
    protocols: Sequence[str],
    folder: Path,
    screen: str,
) -> ComparisonResult:
    """Prove that the rows are equal, make all runs, and report on them."""
    from recbole_bert4rec.experiments.report import table_for_screen, write_report  # which needs matplotlib

    dataset: str = about["dataset"]
    say(
        f"proving that {len(contestants)} models are evaluated on the same rows of {dataset}\n"
        f"logs: {folder / 'rows.log'}, then {folder / 'runs'}"
    )
    try:
        facts = in_own_process(check_equal_rows, reference, contestants, dataset, log=folder / "rows.log")
    except FailedError as error:
        raise UserError(f"{error} (more in {folder / 'rows.log'})") from error
    write_tables([facts.pop("rows")], str(folder / "rows.parquet"))
    records, failed = _run_all(contestants, about | facts, protocols, folder / "runs", no_bars(screen))
    if not records:
        raise UserError("every run failed: " + "; ".join(sorted(set(failed.values()))))
    runs = {label: [Path(record["checkpoint"]).stem for record in records.get(label, [])] for label in contestants}
    write_json(folder / "comparison.json", {**about, **facts, "runs": runs, "failed": failed})
    results = read_results(folder)
    written = write_report(folder, results)
    say("\n".join([f"\n{table_for_screen(results)}\n", *(f"  {kind:<10}{path}" for kind, path in written.items())]))
    if failed:
        reason = sorted(set(failed.values()))[0]
        raise UserError(
            f"{len(failed)} of {len(contestants) * len(about['seeds'])} runs failed; the same command tries them again "
            f"({reason})"
        )
    return ComparisonResult(results.table(), written, results.records)


def check_options(
    contestants: Mapping[str, Contestant], variants: Mapping[str, Mapping[str, Any]], dataset: str
) -> None:
    """Refuse models that cannot rank, and options with mistakes; name once an option that only some models know."""
    ignored: dict[str, list[str]] = {}
    for label, contestant in contestants.items():
        try:
            config = config_of(contestant, dataset, {})
        except UserError as error:
            raise UserError(f"{label}: {error}") from error
        if useless := without_effect(config, variants.get(label, ())):
            raise UserError("\n".join(f"{label}: `{name}` {why}" for name, why in useless.items()))
        if config["MODEL_TYPE"] not in (ModelType.SEQUENTIAL, ModelType.GENERAL, ModelType.TRADITIONAL):
            raise UserError(
                f"{label} predicts clicks or needs a knowledge graph; it cannot be compared by ranking items"
            )
        for name in without_effect(config):
            ignored.setdefault(name, []).append(label)
    for name, labels in sorted(ignored.items()):
        say(f"note: option `{name}` has no effect on {', '.join(labels)}")


def _run_all(
    contestants: Mapping[str, Contestant],
    about: Mapping[str, Any],
    protocols: Sequence[str],
    folder: Path,
    disable: bool | None,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Make the runs that are missing; return the records by model, and the reasons of the runs that failed."""
    records: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    metric = about["rules"]["valid_metric"].lower()
    planned = [(label, seed) for seed in about["seeds"] for label in contestants]
    with tqdm(planned, desc="runs", ncols=100, disable=disable) as bar:
        for number, (label, seed) in enumerate(bar, 1):
            name = f"{label}, seed {seed}"
            watched: list[str] = []

            def watch(record: dict[str, Any], name: str = name, seen: list[str] = watched) -> None:
                seen.append(f"{name}: {how_far(record, metric)}")
                bar.set_postfix_str(seen[-1])

            endless = {} if about["budget"] is None else _endless(contestants[label])
            given = under_rules(contestants[label], {**about["rules"], **endless})
            how = {"budget": about["budget"], "protocols": protocols, "data": about["fingerprint"]}
            text = f"[{number}/{len(planned)}] {name}"
            try:
                record = run_once(folder, dataset=about["dataset"], seed=seed, label=label, watch=watch, **how, **given)
            except FailedError as error:
                failed[name] = str(error)
                say(f"{text} failed: {error}")
                continue
            records.setdefault(label, []).append(record)
            valid, test = (record[f"{phase}_result"].get(metric) for phase in ("best_valid", "test"))
            spent = f"{counted(len(record['epochs']))}, {record['seconds']['train']:.1f} s"
            say(f"{text}: {metric} valid {valid:.4f}, test {test:.4f}; {spent if watched else 'kept from before'}")
    return records, failed


def _endless(contestant: Contestant) -> dict[str, int]:
    """Return the options with which time alone ends a training, but for those that the user gave."""
    given = {*contestant["options"]}.union(*contestant["config_files"])
    return dict.fromkeys({"epochs", "stopping_step"} - given, NO_END)
