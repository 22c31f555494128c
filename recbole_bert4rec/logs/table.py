"""Converts a log of the user's own, once, beside it: to the atomic file that RecBole reads, or to mapped files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock
from numpy.typing import NDArray
from pyarrow import csv

from recbole_bert4rec.logs.codes import NO_ID, CodedIds, doubts, read_ids
from recbole_bert4rec.logs.conversion import read_record, sorted_folder, write_record
from recbole_bert4rec.logs.facts import facts_of, summary
from recbole_bert4rec.logs.logs import data_set_name, open_log
from recbole_bert4rec.logs.logs import is_table as is_table
from recbole_bert4rec.logs.mapped import is_mapped
from recbole_bert4rec.logs.parquet_log import ParquetLog
from recbole_bert4rec.logs.reading import Log, Reading
from recbole_bert4rec.logs.sorting import sort_log
from recbole_bert4rec.logs.times import MISSING_TEXTS, TimeColumn, check_timezone, read_as
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.errors import UserError, short, short_list, why
from recbole_bert4rec.system.files import atomic_write, digest_of, keep_folder

LARGE = 20_000_000
"""A Parquet log of more rows is sorted on the disk; ML-20M has as many."""
_SORTED_FORMAT = "sorted 2"
"""Format of conversions of such logs."""
_FORMAT = 4
"""Format of other conversions: 1 kept the order of the log, 2 wrote rows without ids."""
_MOST_LINES = 1000
"""Lines that ``conversion.json`` names of the rows that are left out for one reason."""
_MANY_TIES = 0.5
"""Share of rows with their user's previous time above which that is doubted."""
_AT_ONCE = 1 << 20
"""Rows that are written at once."""


def convert(
    log: str,
    user: str,
    item: str,
    time: str,
    reading: Reading | None = None,
    say: Callable[[str], None] | None = None,
    may_be_mapped: bool = True,
    no_bar: bool | None = True,
    more: Sequence[str] = (),
    filters: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write ``FOLDER/NAME/NAME.inter`` for the log ``FOLDER/NAME.csv``, and ``conversion.json`` beside it.

    They are written again only if the log, the columns or the way to read them have changed. Of a Parquet log of more
    than :data:`LARGE` rows the files of a :class:`~recbole_bert4rec.logs.mapped.MappedLog` are written instead, into
    ``FOLDER/NAME/sorted``, where earlier ones stay.
    """
    reading = reading or Reading()
    if reading.timezone is not None:
        check_timezone(reading.timezone)
    source = open_log(log, reading)
    name = data_set_name(source.path)
    folder = source.path.parent / name
    target = folder / f"{name}.inter"
    needed = [user, item] if reading.in_order else [user, item, time]
    kept = source.present([*needed, *more, *filters], [])[len(needed) :]
    columns = [user, item, time, *kept]
    large = isinstance(source, ParquetLog) and source.count() > LARGE
    if large and not may_be_mapped:
        raise UserError(
            f"--dataset={log} has more than {LARGE:,} rows: it is sorted on the disk, where {', '.join(OUR_MODELS)} "
            "read it; other models, comparisons and studies need an atomic file, FOLDER/NAME/NAME.inter, or a .csv file"
        )
    if large and kept:
        raise UserError(
            f"--dataset={log} has more than {LARGE:,} rows: it is sorted on the disk with users, items and times, "
            f"without {short_list(kept)}; filter it before, or write an atomic file"
        )
    format_ = _SORTED_FORMAT if large else _FORMAT
    how = asdict(reading) | {"header": reading.columns, "columns": columns, "filters": dict(filters)}
    made_from = {"format": format_, "files": source.status(), **how}
    existing = read_record(folder)
    if target.is_file() and existing is None:
        raise UserError(
            f"{target} exists and was not made from {log}; use it with --dataset={name} "
            f"--data_path={source.path.parent}, or move it away"
        )
    if existing and existing.get("made_from") == made_from and _is_there(target, existing, large):
        return folder
    record = {
        "log": source.path.name,
        "made_at": datetime.now(UTC).isoformat(sep=" ", timespec="seconds"),
    }
    try:
        if isinstance(source, ParquetLog) and large:
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".sorted.", dir=folder, ignore_cleanup_errors=True) as scratch:
                work = Path(scratch) / "sorted"
                work.mkdir()
                record |= sort_log(source, columns, reading, work, no_bar) | {"made_from": made_from}
                _keep_sorted(work, target, record)
        else:
            interactions = _Interactions(source, columns, reading, filters)
            record |= interactions.record | {"made_from": made_from}
            _write(interactions, target, record, reading.encoding)
    except OSError as error:
        raise UserError(
            f"--dataset={log}: {folder} cannot be written to ({why(error)}); the log is converted "
            "there: make room, or copy the log elsewhere"
        ) from error
    if say is not None:
        say(summary(record) + f"\n  all of this in {folder / 'conversion.json'}")
    return folder


def _is_there(target: Path, record: dict[str, Any], large: bool) -> bool:
    """Tell whether the files are there that ``conversion.json`` tells of."""
    return is_mapped(sorted_folder(target.parent, record.get("digest"))) if large else target.is_file()


def _keep_sorted(work: Path, target: Path, record: dict[str, Any]) -> None:
    """Let the files of a large log be the conversion, in the place of an atomic file."""
    folder = target.parent
    with FileLock(folder / ".conversion.lock"):
        sorted_files = sorted_folder(folder, record["digest"])
        keep_folder(work, sorted_files)
        write_record(sorted_files, record)
        write_record(folder, record)
        target.unlink(missing_ok=True)


class _Interactions:
    """The rows of a log that have user, item and time, in the order of time.

    Attributes:
        users: codes into their tokens. *Shape:* (T,)
        items: codes into their tokens. *Shape:* (T,)
        times: in rising order. *Shape:* (T,)
        columns: names of the three.
        record: the content of ``conversion.json``.
    """

    def __init__(self, source: Log, columns: list[str], reading: Reading, filters: Mapping[str, str]) -> None:
        self.columns = columns
        table = source.read(columns)
        ids = [read_ids(table[column], column, source.where) for column in columns[:2]]
        self.more = {column: _values(table[column], column, source) for column in columns[3:] if column not in filters}
        for column, kind in filters.items():
            self.more[column] = _filtered(table[column], column, source, kind)
        rows = np.flatnonzero(np.logical_and(*(coded.codes != NO_ID for coded in ids)))
        if not len(rows):
            raise UserError(f"{source.path}: no row has both {columns[0]!r} and {columns[1]!r}")
        kept = table[columns[2]] if len(rows) == len(table) else table[columns[2]].take(rows)
        times = TimeColumn(kept, columns[2], rows, source.where, reading.date_format, reading.timezone).read()
        order = np.argsort(times.values, kind="stable")
        remarks = [doubt for coded, name in zip(ids, columns, strict=False) for doubt in doubts(coded, name)]
        remarks += source.doubts
        self.users, self.items = (coded._replace(codes=coded.codes[rows][order]) for coded in ids)
        self.times = times.values[order]
        doubles, ties = self._doubles()
        remarks += _doubts_of_order(ties, times.values)
        form = read_as(times.form, times.without_zone, len(rows), reading)
        self._rows = rows[order]
        if reading.drop_duplicates:
            self.users, self.items = (coded._replace(codes=coded.codes[~doubles]) for coded in (self.users, self.items))
            self.times, self._rows = self.times[~doubles], self._rows[~doubles]
        self.record = {
            "read_as": {**source.read_as, columns[2]: form},
            "doubts": remarks,
            "rows": len(table),
            "left_out": _left_out(source, columns[:2], ids),
            "exact_duplicates": int(doubles.sum()),
            "duplicates_left_out": reading.drop_duplicates,
            **facts_of(self.users.codes, self.items.codes, self.times, times.are_dates),
        }

    def _doubles(self) -> tuple[NDArray[np.bool_], int]:
        """Mark interactions whose user, item and time an earlier one has; count those with user and time of one."""
        order = np.lexsort((self.items.codes, self.users.codes, self.times))  # stable, so the log's first comes first
        same = np.ones(len(order) - 1, dtype=bool)
        for values in (self.users.codes, self.times):
            same &= values[order[1:]] == values[order[:-1]]
        ties = int(same.sum())
        same &= self.items.codes[order[1:]] == self.items.codes[order[:-1]]
        doubles = np.zeros(len(order), dtype=bool)
        doubles[order[1:]] = same
        return doubles, ties

    def write(self, path: Path) -> None:
        """Write the atomic file, in UTF-8."""
        user, item, time, *_ = self.columns
        texts = [ids.tokens for ids in (self.users, self.items)]
        texts += [values for values in self.more.values() if pa.types.is_string(values.type)]
        quoted = any(pc.any(pc.match_substring(values, '"')).as_py() for values in texts)
        more = [
            f"\t{name}:{'token' if pa.types.is_string(column.type) else 'float'}" for name, column in self.more.items()
        ]
        style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="needed" if quoted else "none")
        with path.open("wb") as file:
            file.write(f"{user}:token\t{item}:token\t{time}:float{''.join(more)}\n".encode())
            for begin in range(0, len(self.times), _AT_ONCE):
                part = slice(begin, begin + _AT_ONCE)
                ids = [coded.tokens.take(coded.codes[part]) for coded in (self.users, self.items)]
                kept = [values.take(self._rows[part]) for values in self.more.values()]
                csv.write_csv(pa.table([*ids, pa.array(self.times[part]), *kept], names=self.columns), file, style)


def _values(column: pa.ChunkedArray[Any], name: str, source: Log) -> pa.Array[Any]:
    """Return a further column: numbers if all values are, else texts; an empty one is missing."""
    texts = read_ids(column, name, source.where)
    try:
        values: pa.Array[Any] = texts.tokens.cast(pa.float64())
    except pa.ArrowInvalid:
        values = texts.tokens
    return _of_rows(values, texts)


def _filtered(column: pa.ChunkedArray[Any], name: str, source: Log, kind: str) -> pa.Array[Any]:
    """Return a column by which rows will be filtered, of ``texts`` or ``numbers``; doubts are added to the log's."""
    ids = read_ids(column, name, source.where)
    values = ids.tokens
    if kind == "numbers":
        missing = pc.is_in(values, pa.array(MISSING_TEXTS))
        numbers = pd.to_numeric(pc.if_else(missing, None, values).to_pandas(), errors="coerce").to_numpy(dtype=float)
        wrong = np.flatnonzero(np.isnan(numbers) & ~missing.to_numpy(zero_copy_only=False))
        if len(wrong):
            row = int((ids.codes == wrong[0]).argmax())
            raise UserError(
                f"{source.where(row)}: {name!r} must hold numbers to be filtered by, but {len(wrong)} of its values "
                f"are none, such as {short(values[int(wrong[0])].as_py())}; a list of texts filters texts"
            )
        values = pa.array(numbers, from_pandas=True)
        gaps = int(np.append(np.isnan(numbers), True)[ids.codes].sum())
        source.doubts += [f"{gaps:,} rows have no {name!r}"] if gaps else []
    return _of_rows(values, ids)


def _of_rows(values: pa.Array[Any], ids: CodedIds) -> pa.Array[Any]:
    """Return the value of each row, given that of each distinct text; missing if there is no text."""
    codes: Any = pa.array(ids.codes, mask=ids.codes == NO_ID)
    return values.take(codes)


def _doubts_of_order(ties: int, times: NDArray[Any]) -> list[str]:
    """Say how many rows have the time of their user's previous one, if that may reverse histories.

    *Shape:* times (T,)
    """
    if not ties:
        return []
    falls, rises = int((times[1:] < times[:-1]).sum()), int((times[1:] > times[:-1]).sum())
    sentence = f"{ties:,} of {len(times):,} rows have the time of their user's previous one, and keep the log's order"
    if falls > 10 * rises:
        return [f"{sentence}, which runs from new to old: these are read the wrong way round; sort the log by time"]
    return [sentence] if ties >= _MANY_TIES * (len(times) - 1) else []


def _left_out(source: Log, columns: list[str], ids: list[CodedIds]) -> dict[str, Any]:
    """Return how many rows lack each id, and the lines of the first ones; a row that lacks both counts for the user."""
    left_out, before = {}, np.zeros(len(ids[0].codes), dtype=bool)
    for column, coded in zip(columns, ids, strict=True):
        rows = np.flatnonzero((coded.codes == NO_ID) & ~before)
        before[rows] = True
        if len(rows):
            left_out[column] = {"rows": len(rows), "lines": source.lines(rows[:_MOST_LINES].tolist())}
    return left_out


def _write(interactions: _Interactions, target: Path, record: dict[str, Any], encoding: str | None) -> None:
    """Put the atomic file in the place of the earlier one; other processes wait meanwhile."""
    folder = target.parent
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".conversion.lock"):
        if read_record(folder) is None:
            write_record(folder, {})  # an unfinished file is then known to be ours, and the next run replaces it
        with atomic_write(target) as temporary:
            interactions.write(temporary)
            if encoding is not None:  # RecBole reads its files in the same encoding
                _recode(temporary, encoding)
            record["digest"] = digest_of(temporary)[:16]
        write_record(folder, record)


def _recode(path: Path, encoding: str) -> None:
    """Rewrite a text of UTF-8 in another encoding."""
    try:
        with (
            atomic_write(path) as temporary,
            path.open(encoding="utf-8", newline="") as source,
            temporary.open("w", encoding=encoding, newline="") as target,
        ):
            shutil.copyfileobj(source, target)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise UserError(f"--encoding={encoding} has no {wrong!r}, which the log holds; leave the option out") from error
