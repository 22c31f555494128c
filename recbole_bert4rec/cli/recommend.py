"""``recommend``: the next items of anybody, from a checkpoint and a file of histories."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

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
    reading_of,
    write_or_print,
)
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.recommender import Recommender


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
    add("--diversity", type=float, default=0.0, help="from 0 to 1: choose items unlike each other (default: 0)")
    add("--max_per", metavar="COLUMN:N", help="at most N items a user of each value of a column of --items")
    add("--items", metavar="FILE", help="file with that column: .item, or what --dataset reads")
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
        "diversity": options.diversity,
        **_categories(options, model),
    }
    if options.filter_viewed == AUTO:
        print(f"filter_viewed is auto: {model.viewed.why}", file=sys.stderr)
    if options.input is None:
        table = model.recommend(**arguments)
        write_or_print(table, options.output)
        print(f"{table[model.fields[0]].nunique()} users answered in {options.output}", file=sys.stderr)
        return
    answer_users(options, model, partial(Recommender.recommend, **arguments), {"how": arguments}, **load_arguments)


def _categories(options: argparse.Namespace, model: Recommender) -> dict[str, Any]:
    """Return the arguments of :meth:`Recommender.recommend` for --max_per and --items.

    Raises:
        UserError: one of them is missing or has another form, or the model knows none of the items.
    """
    if options.max_per is None and options.items is None:
        return {}
    column, _, most = (options.max_per or "").rpartition(":")
    if not column or not most.isdecimal() or options.items is None:
        raise UserError("--max_per=COLUMN:N and --items=NAME.item go together, such as --max_per=brand:2")
    from recbole_bert4rec.logs.items import categories_in
    from recbole_bert4rec.logs.reading import Reading

    reading = Reading(encoding=reading_of(options, model).encoding)
    categories = categories_in(options.items, model.fields[1], column, reading)
    model.check_known(f"--items={options.items}", list(categories))
    return {"categories": categories, "max_per": int(most)}


left_behind = parts_kept
