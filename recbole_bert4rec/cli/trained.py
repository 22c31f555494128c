"""The flags of the commands that ask a trained model: its checkpoint and the columns of a file."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError, why

if TYPE_CHECKING:
    import pandas as pd

    from recbole_bert4rec.logs.formats import Reading
    from recbole_bert4rec.logs.interactions import InteractionFile
    from recbole_bert4rec.recommend.recommender import Recommender

_QUOTED = re.compile(r'^"(.*)"$')
_HOW = {
    "date_format": "form of its dates",
    "timezone": "time zone of its dates",
    "encoding": "of a text",
    "quote": "sign around values of a text, or none",
    "escape": "sign before a quote that belongs to a value",
    "columns": "names of the columns of a text without a header, with commas",
}
_FILTER = {"True": True, "False": False, AUTO: AUTO}


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the checkpoint and the device."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="FILE", help="of a run, whose summary names it")
    add("--model", metavar="MODULE:CLASS", help="class of a model of your own, which the checkpoint only names")
    add("--device", help="where the model computes, such as cpu or cuda:1 (default: a GPU where there is one)")


def add_adjustment(parser: argparse.ArgumentParser) -> None:
    """Add the flag for ranking by scores that are adjusted for popularity."""
    text = "rank less by popularity, by score - this * log(n + 1) (default: the checkpoint's)"
    parser.add_argument("--logit_adjustment", type=float, help=text)


def add_input(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the flags for the file of histories, whose purpose the help says."""
    text = f"{purpose}: what --dataset reads, or .inter; a row an interaction, or a row a user with a list of items"
    parser.add_argument("--input", metavar="FILE", help=text)
    for field in NAMES_OF_COLUMNS:
        parser.add_argument(f"--{field}", metavar="NAME", help="name of a column (default: that of the training)")
    for name, of_what in _HOW.items():
        parser.add_argument(f"--{name}", help=f"{of_what} (default: that of the training)")
    parser.add_argument("--separator", help="sign between the columns of a text (default: found)")


def add_filter(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Add the flag about items that a user had."""
    default_text = "auto, which follows from what the model learnt" if default == AUTO else "as in evaluation"
    choices = [name for name in _FILTER if name != AUTO or default == AUTO]
    text = f"leave out the items of a user's history (default: {default_text})"
    parser.add_argument("--filter_viewed", choices=choices, default=default, help=text)


def filter_viewed(options: argparse.Namespace) -> Any:
    """Return the value of the flag about items that a user had; None if it is missing."""
    return None if options.filter_viewed is None else _FILTER[options.filter_viewed]


def open_model(options: argparse.Namespace, **more: Any) -> Recommender:
    """Load the model."""
    return load_here(options.checkpoint, options.device, dates_given(options), model=options.model, **more)


def dates_given(options: argparse.Namespace) -> dict[str, str]:
    """Return the values of the flags about dates, by the names of :class:`Dates`."""
    from recbole_bert4rec.logs.times import check_timezone

    form, timezone = getattr(options, "date_format", None), getattr(options, "timezone", None)
    if timezone is not None:
        check_timezone(timezone)
    return {name: value for name, value in (("form", form), ("timezone", timezone)) if value is not None}


def load_here(
    checkpoint: str, device: str | None, dates: Mapping[str, str] = MappingProxyType({}), **more: Any
) -> Recommender:
    """Load the model."""
    if os.path.isdir(checkpoint):
        raise UserError(
            f"--checkpoint={checkpoint} is a folder, and the commands ask checkpoints; in Python load({checkpoint!r}) "
            "asks a model that was exported to one"
        )
    from recbole_bert4rec.recommend.load import load

    try:
        model = load(checkpoint, device, **more)
    except (RuntimeError, AssertionError) as error:
        if device is None:
            raise
        raise UserError(f"--device={device} cannot be used: {str(error).splitlines()[0]}") from error
    model.dates = model.dates._replace(**dates)
    return model


def open_input(options: argparse.Namespace, model: Recommender, path: str | None = None) -> InteractionFile:
    """Open the file of histories, or another one with the same columns."""
    from recbole_bert4rec.logs.interactions import InteractionFile

    columns = zip(NAMES_OF_COLUMNS, model.fields, strict=True)
    user, item, time = (getattr(options, field) or of_training for field, of_training in columns)
    if options.TIME_FIELD is not None and model.config.get("in_order"):
        raise UserError(
            f"--TIME_FIELD={time} has no effect: the model was trained with `in_order`, and takes rows in their order"
        )
    flag = "--input" if path is None else "--targets"
    reading, needs_times = reading_of(options, model), options.TIME_FIELD is not None
    return InteractionFile(path or options.input, (user, item, time), reading, flag, needs_times)


def reading_of(options: argparse.Namespace, model: Recommender) -> Reading:
    """Return how a file is to be read: by the flags, or else like the log of the training."""
    from recbole_bert4rec.logs.formats import Reading, names_with_commas

    stored, encoding = model.config, model.config.get("encoding")
    if str(encoding).lower() in ("utf-8", "utf8"):
        encoding = None  # RecBole's default: that of this file is found
    return Reading(
        options.separator or stored.get("separator"),
        options.encoding or encoding,
        quote=options.quote or stored.get("quote"),
        escape=options.escape or stored.get("escape"),
        columns=options.columns or (stored.get("columns") and names_with_commas(stored.get("columns"))),
        in_order=bool(stored.get("in_order")),
    )


def nothing_written(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind that writes its file at the end."""
    return "nothing was written"


def write_or_print(table: pd.DataFrame, output: str | None) -> None:
    """Write a table to a .csv or .parquet file, or print it."""
    if output is None:
        table.to_csv(sys.stdout, index=False)
        return
    from recbole_bert4rec.recommend.bulk import write_table

    write_table(table, output)


def items_of(flag: str, path: str | None, model: Recommender) -> list[str] | None:
    """List the items of a text file, a line each; spaces and quotes around unknown ones are taken off."""
    if path is None:
        return None
    from recbole_bert4rec.logs.formats import encoding_of

    try:
        content = Path(path).read_bytes()
        lines = [line for line in content.decode(encoding_of(content[:1024])).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{flag}={path} cannot be read: {why(error)}") from error
    known = {*model.items}
    items = [line if line in known else _QUOTED.sub(r"\1", line.strip()).replace('""', '"') for line in lines]
    model.check_known(f"{flag}={path}", items)
    return items
