"""``compare``: several models, or variants of one, on the same rows; or one model with several seeds."""

from __future__ import annotations

import argparse

from recbole_bert4rec.cli.inputs import add_names, add_protocols, add_screen, models_of, paths_of
from recbole_bert4rec.cli.words import seconds_of


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
    budget = None if options.budget is None else seconds_of(options.budget)
    from recbole_bert4rec.experiments.compare import compare

    compare(
        models_of(options),
        options.dataset,
        flags,
        1 if options.seeds is None else options.seeds,
        budget,
        options.study,
        paths_of(options.protocols),
        options.output_dir,
        config_files=paths_of(options.config_files),
        screen=options.screen,
    )


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "what is finished is kept, the same command does the rest and writes the reports"
