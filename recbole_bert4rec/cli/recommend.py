"""``recommend``: the next items of anybody, from a checkpoint and a file of histories."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.cli.engine import add_engine, check_engine
from recbole_bert4rec.cli.trained import (
    add_adjustment,
    add_checkpoint,
    add_filter,
    add_input,
    dates_given,
    filter_viewed,
    items_of,
    load_here,
    nothing_written,
    open_input,
    open_model,
    write_or_print,
)
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import TABLES, check_output, refuse_same

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.bulk import Count
    from recbole_bert4rec.recommend.recommender import Recommender


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add_checkpoint(parser)
    add_input(parser, "histories to recommend to (default: those in the checkpoint)")
    text = "table of user, item, rank, score (.csv or .parquet)"
    add("--output", required=True, metavar="FILE", help=text)
    purpose = "answer the users of --input in actors of Ray Data, each with a model of its own"
    add_engine(parser, purpose, "actors; the checkpoint lies where all machines find it")
    add("--k", type=int, default=10, help="items a user (default: %(default)s)")
    add_filter(parser, AUTO)
    add("--items_to_recommend", metavar="FILE", help="text file of the only items to recommend, one a line")
    add("--exclude", metavar="FILE", help="text file of items not to recommend, one a line")
    add_adjustment(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Recommend."""
    check_output("--output", options.output, TABLES)
    if options.input is not None:
        refuse_same("--output", options.output, "--input", options.input)
    if check_engine(options) and options.input is None:
        raise UserError("--engine=ray answers the users of a file; give --input too")
    model = open_model(options, logit_adjustment=options.logit_adjustment)
    arguments: dict[str, Any] = {
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
    count = _answer_file(options, model, arguments)
    left_out = f"; {count.skipped} interactions are left out: the model does not know their items"
    others = f"; {count.strangers} users have no other ones, and are answered as without a history"
    none = f"; {count.without_row} users have no row: no item is left for them"
    remarks = "".join(
        text
        for text, number in ((left_out, count.skipped), (others, count.strangers), (none, count.without_row))
        if number
    )
    print(f"{count.users} users answered in {options.output}{remarks}", file=sys.stderr)


def _answer_file(options: argparse.Namespace, model: Recommender, arguments: dict[str, Any]) -> Count:
    """Write the recommendations for all users of ``--input``, and count them."""
    from recbole_bert4rec.recommend.bulk import recommend_file

    source = open_input(options, model)
    if options.engine is None:
        return recommend_file(model, source, options.output, arguments)
    from recbole_bert4rec.recommend.on_ray import answer_on_ray

    load_one = partial(
        load_here,
        os.path.abspath(options.checkpoint),
        options.device,
        dates_given(options),
        model=options.model,
        logit_adjustment=options.logit_adjustment,
    )
    with answer_on_ray(load_one, arguments, options.num_workers or 1, options.ray_address) as answer:
        return recommend_file(model, source, options.output, arguments, answer)


left_behind = nothing_written
