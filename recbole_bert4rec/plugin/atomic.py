"""Checks of an atomic .inter file before RecBole reads it, so that a mistake in it gets one clear line."""

from __future__ import annotations

import os
from typing import Any, NoReturn

import pandas as pd
from recbole.config import Config

from recbole_bert4rec.errors import UserError


def check_inter_file(config: Config, folder: str) -> None:
    """Refuse a .inter file without the columns that a sequential model needs, or without rows.

    A missing folder is left to RecBole if it knows where to download the data set from.

    Raises:
        UserError: naming the file, the line and what to write instead.
    """
    if config["benchmark_filename"] is not None or not os.path.isdir(folder):
        return
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        found = ", ".join(sorted(os.listdir(folder))) or "nothing"
        raise UserError(f"{path} does not exist (the folder holds {found}); RecBole reads FOLDER/NAME/NAME.inter")
    header, first_row = _first_lines(config, path)
    columns = dict(_column(path, text) for text in header.split(config["field_separator"]))
    loaded = "*" if config["load_col"] is None else config["load_col"].get("inter", [])
    for option, kind in (("USER_ID_FIELD", "token"), ("ITEM_ID_FIELD", "token"), ("TIME_FIELD", "float")):
        name = config[option]
        if name not in columns:
            raise UserError(
                f"{path}, line 1: no column {name!r} ({option}); the columns are {list(columns)}. "
                f"Rename one or set --{option}=NAME"
            )
        if loaded != "*" and name not in loaded:
            raise UserError(f"load_col: inter must name {name!r} ({option}) too, but names {loaded}")
        if columns[name] != kind:
            raise UserError(
                f"{path}, line 1: column {name!r} must be {name}:{kind}, but is {name}:{columns[name]} "
                f"(columns are separated by {config['field_separator']!r}; --field_separator says otherwise)"
            )
    if not first_row.strip():
        raise UserError(f"{path} has a header but no interactions")


def _first_lines(config: Config, path: str) -> tuple[str, str]:
    """The header and the first row of a file whose every byte can be decoded."""
    try:
        with open(path, encoding=config["encoding"] or "utf-8") as file:
            header, first_row = file.readline().rstrip("\r\n"), file.readline()
            for _ in file:  # to the end, so that every byte is decoded
                pass
    except (UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{path} cannot be decoded ({error}); name its --encoding=..., such as latin-1") from error
    if not header:
        raise UserError(f"{path} is empty; its first line must name the columns, such as {_example(config)!r}")
    return header, first_row


def explain_load_failure(config: Config, folder: str, error: ValueError) -> NoReturn:
    """Find the line that RecBole's reader stumbled over and raise it as a :class:`UserError`."""
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        raise UserError(_missing(config, folder)) from error
    frame = pd.read_csv(path, sep=config["field_separator"], dtype=str, encoding=config["encoding"], engine="python")
    for column in frame:
        name, _, kind = str(column).partition(":")
        if kind != "float":
            continue
        values = frame[column]
        wrong = values[pd.to_numeric(values, errors="coerce").isna() & values.notna()]
        if len(wrong):
            raise UserError(
                f"{path}, line {wrong.index[0] + 2}: column {name!r} must be a number, but is {wrong.iloc[0]!r}"
                f" ({len(wrong)} such lines)"
            ) from error
    raise UserError(f"data set {config['dataset']!r} cannot be read from {folder}: {error}") from error


def _missing(config: Config, folder: str) -> str:
    parent = os.path.dirname(os.path.normpath(folder))
    found = sorted(entry.name for entry in os.scandir(parent) if entry.is_dir()) if os.path.isdir(parent) else []
    beside = f"; {parent} holds {', '.join(found)}" if found else ""
    return (
        f"data set {config['dataset']!r}: folder {folder} does not exist{beside}. Put NAME.inter into "
        f"DATA_PATH/NAME/ and pass --data_path=DATA_PATH"
    )


def _inter_path(config: Config, folder: str) -> str:
    return os.path.join(folder, f"{config['dataset']}.inter")


def _example(config: Config) -> str:
    separator = config["field_separator"]
    return separator.join(
        [f"{config['USER_ID_FIELD']}:token", f"{config['ITEM_ID_FIELD']}:token", f"{config['TIME_FIELD']}:float"]
    )


def _column(path: str, text: str) -> tuple[str, Any]:
    name, separator, kind = text.partition(":")
    if not separator:
        raise UserError(
            f"{path}, line 1: column {text!r} must be written NAME:TYPE with TYPE token, float, token_seq or float_seq"
        )
    return name, kind
