"""From a CSV or Parquet log to the atomic file that RecBole reads: written once, beside the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import written_whole

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_ENDINGS = (*_SEPARATORS, ".parquet")
_MARK = "made_from.json"


def is_table(dataset: str) -> bool:
    """Whether a data set's name is the path of a log."""
    return Path(dataset).suffix.lower() in _ENDINGS


def atomic_file(log: str, user: str, item: str, time: str) -> Path:
    """Write ``FOLDER/NAME/NAME.inter`` for ``FOLDER/NAME.csv``; again only if the log or the columns have changed.

    Args:
        log: a .csv, .tsv or .parquet file with a header.
        user, item, time: its columns. Times are numbers or dates (ISO 8601; UTC where no zone is given), which
            become Unix seconds.

    Returns:
        The atomic file; its columns are the three, user and item as tokens.

    Raises:
        UserError: the log cannot be read, lacks a column, or another atomic file stands in the way.
    """
    source = Path(log).resolve()
    if not source.is_file():
        raise UserError(f"--dataset={log}: there is no such file")
    target = source.parent / source.stem / f"{source.stem}.inter"
    status = source.stat()
    made_from = {"log": source.name, "bytes": status.st_size, "changed": status.st_mtime, "columns": [user, item, time]}
    mark = target.with_name(_MARK)
    if target.is_file():
        if not mark.is_file():
            raise UserError(
                f"{target} is there already and was not made from {log}; use it with --dataset={source.stem} "
                f"--data_path={source.parent}, or move it away"
            )
        if json.loads(mark.read_text("utf-8")) == made_from:
            return target
    frame = _read(source, [user, item, time])
    frame[time] = _seconds(source, frame[time])
    frame.columns = pd.Index([f"{user}:token", f"{item}:token", f"{time}:float"])
    with written_whole(target) as temporary:
        frame.to_csv(temporary, sep="\t", index=False)
    with written_whole(mark) as temporary:
        temporary.write_text(json.dumps(made_from), encoding="utf-8")
    return target


def _read(source: Path, columns: list[str]) -> pd.DataFrame:
    separator = _SEPARATORS.get(source.suffix.lower())
    tokens = dict.fromkeys(columns[:2], str)
    try:
        if separator is None:
            there = list(pd.read_parquet(source).columns)
        else:
            there = list(pd.read_csv(source, sep=separator, nrows=0).columns)
        _check_columns(source, columns, there)
        if separator is None:
            frame = pd.read_parquet(source, columns=columns)
        else:
            frame = pd.read_csv(source, sep=separator, usecols=columns, dtype=tokens)
    except (ValueError, OSError) as error:  # pandas' and pyarrow's own errors are among these
        if isinstance(error, UserError):
            raise
        raise UserError(f"{source} cannot be read: {' '.join(str(error).split())}") from error
    if frame.empty:
        raise UserError(f"{source} has a header but no rows")
    frame = frame[columns].copy()
    for column in columns[:2]:
        if pd.api.types.is_float_dtype(frame[column]):
            frame[column] = frame[column].convert_dtypes()  # whole numbers with holes in between: 7.0 is "7"
        if any(sign in str(value) for value in frame[column].unique() for sign in "\t\r\n"):
            raise UserError(f"{source}: values of {column!r} hold a tab or a line break")
    return frame


def _check_columns(source: Path, wanted: list[str], there: list[Any]) -> None:
    if len(set(wanted)) < len(wanted):
        raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {wanted}")
    for option, column in zip(("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD"), wanted, strict=True):
        if column not in there:
            raise UserError(f"{source} has no column {column!r}, but {there}; name yours with --{option}=...")
        if ":" in column or "\t" in column:
            raise UserError(f"{source}: column {column!r} ({option}) must have neither ':' nor a tab in its name")


def _seconds(source: Path, times: pd.Series) -> pd.Series:
    missing = times.index[times.isna()]
    if len(missing):
        raise UserError(
            f"{source}: {len(missing)} rows have no {times.name!r}, the first is row {missing[0] + 1}; an interaction "
            "without a time has no place in a sequence: leave these rows out"
        )
    if pd.api.types.is_numeric_dtype(times):
        return times
    dates = pd.to_datetime(times, utc=True, errors="coerce", format="ISO8601")
    wrong = times[dates.isna() & times.notna()]
    if len(wrong):
        raise UserError(
            f"{source}: {len(wrong)} values of {times.name!r} are neither numbers nor ISO 8601 dates; the first is "
            f"{wrong.iloc[0]!r} in row {wrong.index[0] + 1}"
        )
    return (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
