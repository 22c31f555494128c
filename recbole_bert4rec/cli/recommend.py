"""``recommend``: the next items of anybody, from a checkpoint and a file of histories."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from recbole_bert4rec.cli.trained import (
    add_checkpoint,
    add_filter,
    add_input,
    filter_viewed,
    open_input,
    open_model,
    what_is_asked,
)
from recbole_bert4rec.datafiles.interactions import write_table
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.recommend.bulk import answer_file, check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add_checkpoint(parser)
    add_input(parser, required=False)
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
        table = model.recommend(**how)
        with atomic_write(options.output) as temporary:
            write_table(table, temporary, Path(options.output).suffix)
        return
    source = open_input(options, model)
    names = dict(zip(source.fields, model.fields, strict=True))
    users = skipped = 0

    def answer(frame: pd.DataFrame) -> pd.DataFrame:
        nonlocal users, skipped
        known = model.read(frame.rename(columns=names), warn=False)
        users, skipped = users + len(known), skipped + known.skipped
        return model.recommend(known, **how)

    answer_file(source, options.output, {**what_is_asked(options), **how}, answer)
    print(f"{users} users; {skipped} interactions with items that the model does not know left out", file=sys.stderr)


def kept(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "finished parts are kept, the same command does the rest"


def items_of(flag: str, path: str | None) -> list[str] | None:
    """Return the lines of a text file of items.

    Raises:
        UserError: it cannot be read.
    """
    if path is None:
        return None
    try:
        return [line for line in Path(path).read_text("utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{flag}={path} cannot be read: {error}") from error
