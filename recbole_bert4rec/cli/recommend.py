"""``recommend``: the next items of anybody, from a checkpoint and a file of histories."""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.cli.trained import (
    add_checkpoint,
    add_filter,
    add_input,
    answer_users,
    filter_viewed,
    items_of,
    open_model,
    write_or_print,
)
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.recommend.bulk import check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add_checkpoint(parser)
    add_input(parser, "histories to recommend to (default: those in the checkpoint)")
    add("--output", required=True, metavar="FILE", help="table of user, item, rank and score (.csv or .parquet)")
    add("--k", type=int, default=10, help="items a user (default: %(default)s)")
    add_filter(parser, AUTO)
    add("--items_to_recommend", metavar="FILE", help="text file of the only items to recommend, one a line")
    add("--exclude", metavar="FILE", help="text file of items not to recommend, one a line")
    add("--diversity", type=float, default=0.0, help="from 0 to 1: choose items unlike each other (default: 0)")
    add("--logit_adjustment", type=float, help="rank less by popularity (default: the checkpoint's)")


def execute(options: argparse.Namespace, flags: list[str]) -> None:
    """Recommend.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
    """
    check_output("--output", options.output)
    model = open_model(options, logit_adjustment=options.logit_adjustment)
    how = {
        "k": options.k,
        "filter_viewed": filter_viewed(options),
        "items_to_recommend": items_of("--items_to_recommend", options.items_to_recommend),
        "exclude": items_of("--exclude", options.exclude),
        "diversity": options.diversity,
    }
    if options.filter_viewed == AUTO:
        print(f"filter_viewed is auto: {model.viewed.why}", file=sys.stderr)
    if options.input is None:
        write_or_print(model.recommend(**how), options.output)
        return
    answer_users(options, model, lambda histories: model.recommend(histories, **how), how=how)


def kept(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "finished parts are kept, the same command does the rest"
