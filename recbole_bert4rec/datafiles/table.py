"""Converts a CSV or Parquet log to the atomic file that RecBole reads, once, beside the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from recbole_bert4rec.datafiles.reader import MISSING
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ENDINGS = (*_SEPARATORS, ".parquet")
_MARK = "made_from.json"


def is_table(dataset: str) -> bool:
    """Return whether the name of a data set is the path of a log."""
    return Path(dataset).suffix.lower() in _ENDINGS


def atomic_file(log: str, user: str, item: str, time: str) -> Path:
    """Write ``FOLDER/NAME/NAME.inter`` for the log ``FOLDER/NAME.csv``.

    The file is written again only if the log or the columns have changed.

    Args:
        log: a .csv, .tsv or .parquet file with a header.
        user: column of user ids.
        item: column of item ids.
        time: column of times: numbers, or dates (ISO 8601, UTC if no zone is given), which become Unix seconds.

    Returns:
        The atomic file with these three columns. Its rows are in the order of time; equal times keep the log's order.

    Raises:
        UserError: the log cannot be read, lacks a column or holds values that cannot be used; or there is an atomic
            file that was not made from it.
    """
    source = Path(log).resolve()
    if not source.is_file():
        raise UserError(f"--dataset={log}: no such file")
    target = source.parent / source.stem / f"{source.stem}.inter"
    status = source.stat()
    made_from = {"log": source.name, "bytes": status.st_size, "changed": status.st_mtime, "columns": [user, item, time]}
    made_from["format"] = 2  # 1 kept the order of the log
    mark = target.with_name(_MARK)
    if target.is_file():
        if not mark.is_file():
            raise UserError(
                f"{target} exists and was not made from {log}; use it with --dataset={source.stem} "
                f"--data_path={source.parent}, or move it away"
            )
        if json.loads(mark.read_text("utf-8")) == made_from:
            return target
    table = _read(source, [user, item, time])
    ids = [_tokens(source, table, column) for column in (user, item)]
    seconds = _seconds(source, table[time].to_pandas().rename(time)).to_numpy()
    columns = pa.table([*ids, pa.array(seconds)], names=["user", "item", "time"])
    if (seconds[1:] < seconds[:-1]).any():
        columns = columns.take(np.argsort(seconds, kind="stable"))
    if not mark.is_file():
        _write_mark(mark, {})  # an unfinished file is then known to be ours, and the next run replaces it
    with atomic_write(target) as temporary, open(temporary, "wb") as file:
        file.write(f"{user}:token\t{item}:token\t{time}:float\n".encode())
        quoted = any(_any_holds(column, '"') for column in ids)
        style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="needed" if quoted else "none")
        csv.write_csv(columns, file, style)
    _write_mark(mark, made_from)
    return target


def _write_mark(mark: Path, made_from: dict[str, Any]) -> None:
    with atomic_write(mark) as temporary:
        temporary.write_text(json.dumps(made_from), encoding="utf-8")


def _read(source: Path, columns: list[str]) -> pa.Table:
    separator = _SEPARATORS.get(source.suffix.lower())
    if not source.stat().st_size:
        raise UserError(f"{source} is empty; its first line must name the columns")
    try:
        if separator is None:
            _check_columns(source, columns, parquet.read_schema(source).names)
            table = parquet.read_table(source, columns=columns)
        else:
            parse = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
            with csv.open_csv(source, parse_options=parse) as file:
                _check_columns(source, columns, file.schema.names)
            text = csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), include_columns=columns)
            table = csv.read_csv(source, parse_options=parse, convert_options=text)
    except (pa.ArrowException, OSError) as error:
        encoding = "; save it as UTF-8" if "UTF8" in str(error) else ""
        raise UserError(f"{source} cannot be read: {' '.join(str(error).split())}{encoding}") from error
    if not len(table):
        raise UserError(f"{source} has a header but no rows")
    return table


def _tokens(source: Path, table: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """Return a column of ids as text.

    pandas makes floats of whole numbers if some are missing; they become whole numbers again.

    Raises:
        UserError: the values cannot be ids.
    """
    column = table[name]
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if pc.all(pc.is_null(column)).as_py():
        raise UserError(f"{source}: all values of {name!r} are missing; it cannot be a column of ids")
    if pa.types.is_floating(column.type) and not pc.any(pc.not_equal(column, pc.floor(column))).as_py():
        column = column.cast(pa.int64(), safe=False) if pc.max(pc.abs(column)).as_py() < 2**53 else column
    try:
        column = column.cast(pa.string())
    except pa.ArrowException as error:
        raise UserError(f"{source}: values of {name!r} have type {column.type} and cannot be ids: {error}") from error
    if pc.all(pc.is_in(column, pa.array([*MISSING, None], pa.string()))).as_py():
        raise UserError(f"{source}: all values of {name!r} are missing; it cannot be a column of ids")
    if any(_any_holds(column, sign) for sign in "\t\r\n"):
        raise UserError(f"{source}: some values of {name!r} hold a tab or a line break")
    return column


def _any_holds(column: pa.ChunkedArray[Any], sign: str) -> bool:
    return bool(pc.any(pc.match_substring(column, sign)).as_py())


def _check_columns(source: Path, wanted: list[str], there: list[Any]) -> None:
    if len(set(wanted)) < len(wanted):
        raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {wanted}")
    for option, column in zip(("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD"), wanted, strict=True):
        if column not in there and len(there) == 1 and any(sign in there[0] for sign in ";\t|"):
            raise UserError(
                f"{source} has one column, {there[0]!r}; a .csv separates columns by commas, a .tsv by tabs"
            )
        if column not in there:
            raise UserError(
                f"{source} has no column {column!r}; its columns are {there}; name yours with --{option}=NAME"
            )
        if ":" in column or "\t" in column:
            raise UserError(f"{source}: the name of column {column!r} ({option}) must hold neither ':' nor a tab")


def _seconds(source: Path, times: pd.Series) -> pd.Series:
    """Return times as numbers; dates become Unix seconds.

    Raises:
        UserError: a time is missing, infinite, or neither a number nor a date.
    """
    if pd.api.types.infer_dtype(times, skipna=True) == "boolean":
        raise UserError(f"{source}: {times.name!r} holds true and false; times must be numbers or dates")
    missing = times.index[times.isna() | times.isin(["", "NaN", "nan", "NA", "null", "NULL", "None"])]
    if len(missing):
        raise UserError(
            f"{source}: {times.name!r} is missing in {len(missing)} of {len(times)} rows, first in row "
            f"{missing[0] + 1}; an interaction without a time has no place in a sequence: leave these rows out"
        )
    if pd.api.types.is_datetime64_any_dtype(times):
        numbers = pd.Series(np.nan, times.index)
    else:
        numbers = pd.to_numeric(times, errors="coerce")
    if numbers.notna().all():
        if not np.isfinite(numbers).all():
            raise UserError(f"{source}: {int((~np.isfinite(numbers)).sum())} values of {times.name!r} are infinite")
        return numbers
    dates = pd.to_datetime(times, utc=True, errors="coerce", format="ISO8601")
    wrong = times[dates.isna() & numbers.isna()]
    if not len(wrong) and dates.isna().any():
        wrong = times[dates.isna()]  # numbers among dates
    if len(wrong):
        raise UserError(
            f"{source}: {times.name!r} must hold numbers only or ISO 8601 dates only, but {len(wrong)} of {len(times)} "
            f"values do not fit; the first is {wrong.iloc[0]!r} in row {wrong.index[0] + 1}"
        )
    return (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
