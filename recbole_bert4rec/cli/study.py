"""``study``: variants of a model on the same rows, as in the figures and tables of the paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from recbole_bert4rec.cli.compare import add_comparison, compare_named, left_behind
from recbole_bert4rec.cli.inputs import add_names, add_screen, models_of
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config

__all__ = ["add_arguments", "execute", "left_behind"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("study", metavar="FILE", help="YAML file of variants, or a name of properties/study")
    add_names(parser, "; variants may name others")
    add_comparison(parser)
    add_screen(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Compare the variants of a study.

    Args:
        options: the command's own flags.
        flags: options for all variants, by their names.

    Raises:
        UserError: something that the user can mend.
    """
    from recbole_bert4rec.comparison.study import read_study

    base, *others = models_of(options)
    if others:
        raise UserError(f"a study varies one model, but --model is {options.model}")
    study = read_study(find_config(options.study, "study"), base)
    compare_named(options, flags, list(study.variants), study, Path(options.study).stem)
