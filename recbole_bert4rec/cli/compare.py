"""``compare``: several models, or variants of one, on the same rows; or one model with several seeds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.cli.inputs import (
    add_names,
    add_protocols,
    add_screen,
    config_files,
    models_of,
    named_in_files,
    protocols,
)
from recbole_bert4rec.cli.words import seconds_of
from recbole_bert4rec.system.constants import DEFAULT_NAMES
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    from recbole_bert4rec.comparison.study import Study

_SEED = 2020
"""RecBole's default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_names(parser, "; several are separated by commas, and the first is compared with each other one")
    parser.add_argument(
        "--study", metavar="FILE", help="YAML file of variants to compare, or a name of properties/study"
    )
    add_comparison(parser)
    add_screen(parser)


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add the flags that all comparisons have."""
    group = parser.add_argument_group("how long, how often, tested how")
    add = group.add_argument
    add("--seeds", type=int, help="runs of each model, with seeds that count up from `seed`; the runs are compared")
    add("--budget", help="time of training and validation, such as 10m, in place of early stopping")
    add_protocols(group)
    add("--output_dir", help="folder of a comparison (default: compare-DATASET) or study (STUDY-DATASET)")


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Compare models, or the variants of a study."""
    if options.study is None:
        compare_named(options, flags, models_of(options))
        return
    from recbole_bert4rec.comparison.study import read_study

    base, *others = models_of(options)
    if others:
        raise UserError(f"a study varies one model, but --model is {options.model}")
    study = read_study(find_config(options.study, "study"), base)
    compare_named(options, flags, list(study.variants), study, Path(options.study).stem)


def compare_named(
    options: argparse.Namespace,
    flags: dict[str, str],
    names: list[str],
    study: Study | None = None,
    kind: str = "compare",
) -> None:
    """Compare the named models or variants."""
    count, first = (1 if options.seeds is None else options.seeds), _first_seed(options, flags)
    if count < 1:
        raise UserError(f"--seeds={count} must be at least 1")
    dataset = options.dataset or named_in_files(options).get("dataset") or DEFAULT_NAMES["dataset"]
    budget = None if options.budget is None else seconds_of(options.budget)
    also_test = protocols(options)
    from recbole_bert4rec.comparison.compare import compare
    from recbole_bert4rec.comparison.comparison import Comparison
    from recbole_bert4rec.comparison.study import Study
    from recbole_bert4rec.logs.formats import data_set_name, is_table

    comparison = Comparison(
        models=tuple(names),
        dataset=dataset,
        config_files=config_files(options),
        options=flags,
        seeds=tuple(range(first, first + count)),
        budget=budget,
        also_test=also_test,
        study=study or Study(),
    )
    name = data_set_name(dataset) if is_table(dataset) else dataset
    compare(comparison, Path(options.output_dir or f"{kind}-{name}"), options.screen)


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "what is finished is kept, the same command does the rest and writes the reports"


def _first_seed(options: argparse.Namespace, flags: dict[str, str]) -> int:
    """Return the seed that the options name, or RecBole's."""
    seed = flags.get("seed", named_in_files(options).get("seed", _SEED))
    try:
        return int(seed)
    except (TypeError, ValueError):
        raise UserError(f"--seed={seed} must be a whole number") from None
