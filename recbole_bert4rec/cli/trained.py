"""The flags of the commands that ask a trained model: its checkpoint, the columns of a file, where to write."""

from __future__ import annotations

import argparse
import os
from typing import Any

import torch

from recbole_bert4rec.datafiles.interactions import InteractionFile
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.recommend.load import load
from recbole_bert4rec.recommend.recommender import Recommender

_FIELDS = ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
_FILTER = {"True": True, "False": False, AUTO: AUTO}


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which model, and where it computes."""
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="FILE", help="of a run, whose summary names it")
    add("--device", help="where the model computes, such as cpu or cuda:1 (default: a GPU where there is one)")


def add_input(parser: argparse.ArgumentParser, required: bool) -> None:
    """Add the flags that say where the histories are."""
    text = "histories: .csv, .tsv, .inter or .parquet, a row an interaction, or a row a user with a list of items"
    parser.add_argument("--input", required=required, metavar="FILE", help=text)
    for field in _FIELDS:
        parser.add_argument(f"--{field}", metavar="NAME", help="name of a column (default: that of the training)")


def add_filter(parser: argparse.ArgumentParser, default: str | None) -> None:
    """Add the flag about items that a user had."""
    said = "auto, which follows from what the model learnt" if default == AUTO else "as in evaluation"
    choices = [name for name in _FILTER if name != AUTO or default == AUTO]
    text = f"leave out the items of a user's history (default: {said})"
    parser.add_argument("--filter_viewed", choices=choices, default=default, help=text)


def filter_viewed(options: argparse.Namespace) -> Any:
    """Return the value of the flag about items that a user had; None where it was not given."""
    return None if options.filter_viewed is None else _FILTER[options.filter_viewed]


def open_model(options: argparse.Namespace, **more: Any) -> Recommender:
    """Load the model.

    Args:
        options: with the flags of :func:`add_checkpoint`.
        **more: arguments of :func:`load`.

    Raises:
        UserError: there is none, or it cannot compute there.
    """
    try:
        return load(options.checkpoint, options.device, **more)
    except (RuntimeError, AssertionError) as error:
        if options.device is None:
            raise
        raise UserError(f"--device={options.device} cannot be used: {str(error).splitlines()[0]}") from error


def open_input(options: argparse.Namespace, model: Recommender, path: str | None = None) -> InteractionFile:
    """Open the file of histories, or another one with the same columns."""
    return InteractionFile(path or options.input, fields_of(options, model))


def fields_of(options: argparse.Namespace, model: Recommender) -> tuple[str, str, str]:
    """Return the names of the columns."""
    user, item, time = (getattr(options, field) or own for field, own in zip(_FIELDS, model.fields, strict=True))
    return user, item, time


def what_is_asked(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a command's answers depend on besides its input: its flags and the checkpoint's state."""
    status = os.stat(options.checkpoint)
    flags = {name: value for name, value in vars(options).items() if name not in ("output", "device")}
    return {**flags, "size": status.st_size, "changed": status.st_mtime}


def device_kind(model: Recommender) -> torch.device:
    """Return where the model computes."""
    return model.ranker.encoder.output_bias.device
