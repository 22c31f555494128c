"""Checks of an atomic .inter file before RecBole reads it, so that a mistake in it gets one clear line."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO

import pandas as pd
from recbole.config import Config
from recbole.data.dataset import Dataset
from torch import Tensor

from recbole_bert4rec.errors import UserError, nearest

_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


def check_inter_file(config: Config, folder: str) -> None:
    """Refuse a .inter file without the columns that a sequential model needs, or without rows.

    A missing folder is left to RecBole if it knows where to download the data set from.

    Raises:
        UserError: naming the file, the line and what to write instead.
    """
    if not os.path.isdir(folder):
        return
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        found = ", ".join(sorted(os.listdir(folder))) or "nothing"
        raise UserError(f"{path} does not exist (the folder holds {found}); RecBole reads FOLDER/NAME/NAME.inter")
    header, first_row = _first_lines(config, path)
    named = [_column(path, text) for text in header.split(config["field_separator"])]
    columns = dict(named)
    if len(columns) < len(named):
        raise UserError(f"{path}, line 1: a column is named twice: {[name for name, _ in named]}")
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
    """The header and the first row."""
    try:
        with _open(path, config["encoding"]) as file:
            header, first_row = file.readline().rstrip("\r\n"), file.readline()
    except (UnicodeDecodeError, LookupError) as error:
        raise _undecodable(path, error) from error
    except _DAMAGED as error:
        raise _damaged(path, error) from error
    if header.startswith("\ufeff"):
        raise UserError(f"{path} begins with a byte order mark; save it without one or pass --encoding=utf-8-sig")
    if not header:
        raise UserError(f"{path} is empty; its first line must name the columns, such as {_example(config)!r}")
    return header, first_row


def _open(path: str, encoding: str | None) -> TextIO:
    opener = gzip.open if path.endswith(".gz") else open
    return opener(path, "rt", encoding=encoding or "utf-8")


def _undecodable(path: str, error: Exception) -> UserError:
    return UserError(f"{path} cannot be decoded ({error}); name its --encoding=..., such as latin-1")


def _damaged(path: str, error: Exception) -> UserError:
    return UserError(f"{path} is damaged ({error}); fetch or pack it again")


def load_packed(original: Callable[..., None], self: Dataset, token: str, folder: str) -> None:
    """RecBole's ``_load_inter_feat``, of whatever model: where there is no NAME.inter, NAME.inter.gz will do.

    Raises:
        UserError: the archive is damaged.
    """
    packed, plain = Path(folder) / f"{token}.inter.gz", Path(folder) / f"{token}.inter"
    if self.benchmark_filename_list is not None or plain.is_file() or not packed.is_file():
        return original(self, token, folder)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            with gzip.open(packed) as source, open(Path(temporary) / plain.name, "wb") as target:
                shutil.copyfileobj(source, target)
        except _DAMAGED as error:
            raise _damaged(str(packed), error) from error
        try:
            original(self, token, temporary)
        except UserError as error:
            raise UserError(str(error).replace(str(Path(temporary) / plain.name), str(packed))) from error
    return None


def check_times(times: Tensor, column: str) -> None:
    """Raise where ``time_bias``, which counts the time between in powers of two of the unit, would see nothing.

    Raises:
        UserError: a time is not finite, or all lie within 1.
    """
    first, last = times.min().item(), times.max().item()
    if not math.isfinite(last - first) or last - first <= 1:
        raise UserError(
            f"`time_bias` needs times in seconds or finer, but {column} lies between {first:g} and {last:g}; "
            "leave the option out, or mend the file"
        )


def explain_load_failure(config: Config, folder: str, error: ValueError) -> NoReturn:
    """Find the line that the reader stumbled over and raise it as a :class:`UserError`."""
    path = _inter_path(config, folder)
    if not os.path.isfile(path):
        raise UserError(_missing(config, folder)) from error
    try:
        with _open(path, config["encoding"]) as file:
            for _ in file:  # to the end, so that every byte is decoded
                pass
    except (UnicodeDecodeError, LookupError) as failure:
        raise _undecodable(path, failure) from error
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


def check_benchmark_files(config: Config, folder: str) -> None:
    """Refuse files of ``benchmark_filename`` that do not bring each row's history.

    Raises:
        UserError: naming the file and what it lacks.
    """
    history = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
    names = config["benchmark_filename"]
    if not isinstance(names, list) or len(names) != 3:
        raise UserError(f"benchmark_filename must name three files (train, valid, test), but is {names!r}")
    for name in names:
        path = os.path.join(folder, f"{config['dataset']}.{name}.inter")
        if not os.path.isfile(path):
            raise UserError(f"{path} does not exist (benchmark_filename: {names})")
        header, _ = _first_lines(config, path)
        columns = dict(_column(path, text) for text in header.split(config["field_separator"]))
        wanted = {config["USER_ID_FIELD"]: "token", config["ITEM_ID_FIELD"]: "token", history: "token_seq"}
        for column, kind in wanted.items():
            if columns.get(column) != kind:
                raise UserError(f"{path}, line 1: benchmark files need a column {column}:{kind}; it has {header!r}")
    if config["candidates"] == "paper":
        raise UserError(
            "candidates: paper leaves out all of a user's items, which benchmark files do not hold; use recbole"
        )
    if history not in (config["alias_of_item_id"] or []):
        raise UserError(f"benchmark files need alias_of_item_id: [{history}], so that both columns name the same items")


def _missing(config: Config, folder: str) -> str:
    parent = os.path.dirname(os.path.normpath(folder))
    found = sorted(entry.name for entry in os.scandir(parent) if entry.is_dir()) if os.path.isdir(parent) else []
    near = nearest(config["dataset"], [*found, "ml-100k"])
    beside = f"; {parent} holds {', '.join(found)}" if found else ""
    beside += f"; did you mean --dataset={near}?" if near else ""
    return (
        f"data set {config['dataset']!r}: folder {folder} does not exist{beside}. Put NAME.inter into "
        f"DATA_PATH/NAME/ and pass --data_path=DATA_PATH"
    )


def _inter_path(config: Config, folder: str) -> str:
    path = os.path.join(folder, f"{config['dataset']}.inter")
    return path if os.path.isfile(path) or not os.path.isfile(f"{path}.gz") else f"{path}.gz"


def _example(config: Config) -> str:
    separator: str = config["field_separator"]
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
