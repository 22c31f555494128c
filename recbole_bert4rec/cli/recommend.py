"""``recommend``: the next items of anybody, from a checkpoint and a file of histories."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from recbole_bert4rec.cli.trained import (
    add_adjustment,
    add_checkpoint,
    add_filter,
    add_input,
    add_output,
    answer_users,
    check_output,
    filter_viewed,
    items_of,
    open_model,
    parts_kept,
    write_or_print,
)
from recbole_bert4rec.options.kinds import AUTO


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add_checkpoint(parser)
    add_input(parser, "histories to recommend to (default: those in the checkpoint)")
    add_output(parser, "user, item, rank and score")
    add("--k", type=int, default=10, help="items a user (default: %(default)s)")
    add_filter(parser, AUTO)
    add("--items_to_recommend", metavar="FILE", help="text file of the only items to recommend, one a line")
    add("--exclude", metavar="FILE", help="text file of items not to recommend, one a line")
    add_adjustment(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Recommend.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
    """
    check_output(options)
    load_arguments = {"logit_adjustment": options.logit_adjustment}
    model = open_model(options, **load_arguments)  # first: its message about exported folders needs no torch
    from recbole_bert4rec.recommend.recommender import Recommender

    arguments = {
        "k": options.k,
        "filter_viewed": filter_viewed(options),
        "items_to_recommend": items_of("--items_to_recommend", options.items_to_recommend, model),
        "exclude": items_of("--exclude", options.exclude, model),
    }
    if options.filter_viewed == AUTO:
        print(f"filter_viewed is auto: {model.viewed.why}", file=sys.stderr)
    if options.input is None:
        table = model.recommend(**arguments)
        write_or_print(table, options.output)
        print(f"{table[model.fields[0]].nunique()} users answered in {options.output}", file=sys.stderr)
        return
    answer_users(options, model, partial(Recommender.recommend, **arguments), {"how": arguments}, **load_arguments)


left_behind = parts_kept
