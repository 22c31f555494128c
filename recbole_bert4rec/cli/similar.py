"""``similar``: the items whose vectors are closest to an item's."""

from __future__ import annotations

import argparse

from recbole_bert4rec.cli.trained import add_checkpoint, items_of, nothing_written, open_model, write_or_print
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import TABLES, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add = parser.add_argument
    add("--item", metavar="ID", action="append", help="an item; the flag may be given several times")
    add("--items", metavar="FILE", help="text file of items, one a line (default: all)")
    add("--k", type=int, default=10, help="similar items of each (default: %(default)s)")
    add("--output", metavar="FILE", help="table of .csv or .parquet (default: print it)")


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """List similar items."""
    if options.item and options.items:
        raise UserError("--item and --items do not go together")
    if options.output is not None:
        check_output("--output", options.output, TABLES)
    model = open_model(options)
    items = options.item or items_of("--items", options.items, model)
    write_or_print(model.similar_items(model.items if items is None else items, options.k), options.output)


left_behind = nothing_written
