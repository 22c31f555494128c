"""``compare``: several models, or variants of one, on the same rows; or one model with several seeds."""

from __future__ import annotations

import argparse

from recbole_bert4rec.cli.flags import (
    Commands,
    Parser,
    add_command,
    flags_for,
    models_of,
    of_several_runs,
    of_training,
)

LEFT_BEHIND = "what is finished is kept, the same command does the rest and writes the reports"


def add_to(commands: Commands[Parser]) -> None:
    """Add the command."""
    purpose = "compare models, or variants of one, on the same rows"
    parents = of_training(), of_several_runs()
    parser = add_command(commands, "compare", purpose, *parents, execute=execute, left_behind=LEFT_BEHIND)
    text = "YAML file of variants to compare, or a name of properties/study"
    parser.add_argument("--study", dest="variants", metavar="FILE", help=text)


def execute(arguments: argparse.Namespace) -> None:
    """Compare models, or the variants of a study."""
    models = models_of(arguments)
    from recbole_bert4rec.experiments.compare import compare

    seeds = 1 if arguments.seeds is None else arguments.seeds
    compare(**flags_for(compare, arguments, models=models, seeds=seeds))
