"""The interactions of a log, coded, counted and sorted by time; they are written as an atomic file, or to be mapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from recbole_bert4rec.logs.ids import PADDING_ID, Ids, check_ids, code_ids, doubts
from recbole_bert4rec.logs.mapped import COUNTS, ITEM_TOKENS, ITEMS, OFFSETS, TIMES, USER_TOKENS
from recbole_bert4rec.logs.read import Connection, Log, ask, batches, fetch
from recbole_bert4rec.logs.times import MISSING_TEXTS, TimeColumn, Times, said, unit_of
from recbole_bert4rec.system.errors import UserError, short

_MOST_LINES = 1000
"""Lines that ``conversion.json`` names of the rows that are left out for one reason."""
_MANY_TIES = 0.5
"""Share of rows with their user's previous time above which that is doubted."""
_AT_ONCE = 1 << 20
"""Rows that are written at once."""
_TOKENS_AT_ONCE = 1 << 16


class _Counts(NamedTuple):
    """What was counted of the interactions, user after user.

    Attributes:
        of_user, of_item: interactions by code. *Shape:* (users,), (items,)
        repeats: interactions with an item that the user had.
        doubles: places, in the order of time, of interactions whose user, item and time an earlier one has.
        ties: interactions with the time of their user's previous one.
    """

    of_user: NDArray[np.int64]
    of_item: NDArray[np.int64]
    repeats: int
    doubles: NDArray[np.int64]
    ties: int


class Events:
    """The table ``events``: the rows of a log that have user, item and time, as codes, in the order of time.

    Attributes:
        rows: of the log.
    """

    def __init__(
        self, connection: Connection, source: Log, columns: list[str], filters: Mapping[str, str], scratch: Path
    ) -> None:
        self._connection, self._source, self._columns = connection, source, columns
        reading = self._reading = source.reading
        self.rows = source.read(connection, columns, scratch)
        self._ids = [self._coded(f"c{n}", columns[n]) for n in (0, 1)]
        self._left_out = self._without_ids()
        further = range(3, len(columns))
        self._more = [self._further(f"c{n}", columns[n], filters.get(columns[n])) for n in further]
        ask(
            connection,
            "CREATE TABLE kept AS SELECT of_c0.code AS user, of_c1.code AS item, log.rowid AS row, "
            + ("log.rowid" if reading.in_order else "c2")
            + " AS time"
            + "".join(f", of_c{n}.code AS m{n}" for n in further)
            + " FROM log JOIN of_c0 ON c0 = of_c0.written JOIN of_c1 ON c1 = of_c1.written"
            + "".join(f" LEFT JOIN of_c{n} ON c{n} = of_c{n}.written" for n in further),
        )
        (self._count,) = self._first("SELECT count(*) FROM kept")
        if not self._count:
            raise UserError(f"{source.path}: no row has both {columns[0]!r} and {columns[1]!r}")
        self._times = (
            Times("time", False, "numbers")
            if reading.in_order
            else TimeColumn(connection, "kept", columns[2], source.where, reading.date_format, reading.timezone).read()
        )
        ask(connection, "DROP TABLE log")
        self._falls, self._rises = self._first(
            "SELECT count_if(number < before), count_if(number > before) FROM "
            f"(SELECT {self._times.sql} AS number, lag({self._times.sql}) OVER (ORDER BY row) AS before FROM kept)"
        )
        ask(
            connection,
            f"CREATE TABLE events AS SELECT * REPLACE ({self._times.sql} AS time) FROM kept ORDER BY time, row",
        )
        ask(connection, "DROP TABLE kept")

    def _first(self, query: str) -> Any:
        """Return the first row of an answer."""
        return ask(self._connection, query)[0]

    def _coded(self, column: str, name: str) -> Ids:
        ids = code_ids(self._connection, column, name, self._source)
        check_ids(ids, name, self._source)
        return ids

    def _without_ids(self) -> dict[str, Any]:
        """Return how many rows lack each id, and the lines of the first; a row that lacks both counts for the user."""
        left_out = {}
        for position, rows in enumerate(
            (
                "FROM log ANTI JOIN of_c0 ON c0 = of_c0.written",
                "FROM log SEMI JOIN of_c0 ON c0 = of_c0.written ANTI JOIN of_c1 ON c1 = of_c1.written",
            )
        ):
            (count,) = self._first(f"SELECT count(*) {rows}")
            if count:
                first = ask(self._connection, f"SELECT log.rowid {rows} ORDER BY 1 LIMIT {_MOST_LINES}")
                lines = self._source.lines([row for (row,) in first])
                left_out[self._columns[position]] = {"rows": count, "lines": lines}
        return left_out

    def _further(self, column: str, name: str, kind: str | None) -> pa.Array[Any]:
        """Return the distinct values of a further column: numbers if all are, else texts; an empty one is missing.

        One by which rows will be filtered is of ``texts`` or ``numbers``, whatever it holds.
        """
        ids = self._coded(column, name)
        if kind == "texts":
            return ids.tokens
        if kind == "numbers":
            return self._numbers(ids, column, name)
        try:
            return ids.tokens.cast(pa.float64())
        except pa.ArrowInvalid:
            return ids.tokens

    def _numbers(self, ids: Ids, column: str, name: str) -> pa.Array[Any]:
        """Return texts as numbers; count the rows that have none."""
        missing = pc.is_in(ids.tokens, pa.array(MISSING_TEXTS))
        numbers = pd.to_numeric(pc.if_else(missing, None, ids.tokens).to_pandas(), errors="coerce").to_numpy(
            dtype=float
        )
        wrong = np.flatnonzero(np.isnan(numbers) & ~missing.to_numpy(zero_copy_only=False))
        if len(wrong):
            row = int(ids.rows[(ids.codes == wrong[0]).argmax()])
            raise UserError(
                f"{self._source.where(row)}: {name!r} must hold numbers to be filtered by, but {len(wrong)} of its "
                f"values are none, such as {short(ids.tokens[int(wrong[0])].as_py())}; a list of texts filters texts"
            )
        codes = ",".join(map(str, np.flatnonzero(np.isnan(numbers)))) or "-1"
        (gaps,) = self._first(
            f"SELECT count(*) FROM log LEFT JOIN of_{column} ON {column} = written "
            f"WHERE code IS NULL OR code IN ({codes})"
        )
        self._source.doubts += [f"{gaps:,} rows have no {name!r}"] if gaps else []
        return pa.array(numbers, from_pandas=True)

    def write_atomic(self, path: Path) -> dict[str, Any]:
        """Write the atomic file, in the log's encoding, as RecBole reads it; return what is known of the log."""
        counts = self._counted(False, [len(ids.tokens) for ids in self._ids], lambda *_: None)
        texts = [ids.tokens for ids in self._ids]
        texts += [values for values in self._more if pa.types.is_string(values.type)]
        quoted = any(pc.any(pc.match_substring(values, '"')).as_py() for values in texts)
        style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="needed" if quoted else "none")
        encoding, begin = self._reading.encoding or "utf-8", 0
        try:
            with path.open("w", encoding=encoding, newline="") as file:
                file.write(self._header())
                for batch in batches(self._connection, "SELECT * EXCLUDE row FROM events", _AT_ONCE):
                    lines = pa.BufferOutputStream()
                    csv.write_csv(self._with_texts(batch, begin, counts.doubles), lines, style)
                    file.write(lines.getvalue().to_pybytes().decode())
                    begin += len(batch)
        except UnicodeEncodeError as error:
            wrong = error.object[error.start : error.end]
            raise UserError(f"--encoding={encoding} has no {wrong!r}, which the log holds; leave it out") from error
        return self._record(counts)

    def _header(self) -> str:
        """Return the first line of the atomic file."""
        kinds = ["token", "token", "float"]
        kinds += ["token" if pa.types.is_string(values.type) else "float" for values in self._more]
        return "\t".join(f"{name}:{kind}" for name, kind in zip(self._columns, kinds, strict=True)) + "\n"

    def _with_texts(self, batch: pa.RecordBatch, begin: int, doubles: NDArray[np.int64]) -> pa.Table:
        """Return interactions with their ids, without doubles where they are not wanted."""
        kept = np.ones(len(batch), dtype=bool)
        if self._reading.drop_duplicates:
            first, last = np.searchsorted(doubles, (begin, begin + len(batch)))
            kept[doubles[first:last] - begin] = False
        user, item, time, *more = batch.filter(pa.array(kept)).columns
        ids = [coded.tokens.take(codes) for coded, codes in zip(self._ids, (user, item), strict=True)]
        further = [values.take(codes) for values, codes in zip(self._more, more, strict=True)]
        return pa.table([*ids, time, *further], names=self._columns)

    def write_sorted(self, folder: Path) -> dict[str, Any]:
        """Write the files of a MappedLog; return what is known of the log.

        Users and items have the numbers that RecBole gives them if it reads the same log as an atomic file in the
        order of time: by their first interaction.
        """
        folder.mkdir()
        sizes = []
        for side, ids, name in zip(("user", "item"), self._ids, (USER_TOKENS, ITEM_TOKENS), strict=True):
            ask(
                self._connection,
                f"CREATE TABLE {side}s AS SELECT code, row_number() OVER (ORDER BY first) AS number "
                f"FROM (SELECT {side} AS code, min(rowid) AS first FROM events GROUP BY 1)",
            )
            order = fetch(self._connection, f"SELECT code FROM {side}s ORDER BY number")["code"]
            _write_tokens(ids.tokens.take(order.combine_chunks()), folder / name)
            sizes.append(len(order) + 1)
        with (folder / ITEMS).open("wb") as items, (folder / TIMES).open("wb") as times:

            def write(_: Any, of_items: NDArray[np.int32], of_times: NDArray[Any]) -> None:
                of_items.astype("<i4").tofile(items)
                of_times.astype("<f8").tofile(times)

            counts = self._counted(True, sizes, write)
        np.concatenate([[0], np.cumsum(counts.of_user)]).tofile(folder / OFFSETS)
        counts.of_item.tofile(folder / COUNTS)
        return self._record(counts)

    def _counted(self, numbered: bool, sizes: list[int], take: Callable[..., None]) -> _Counts:
        """Count the interactions, user after user, and give users, items and times of some whole users at a time.

        Users and items are codes, or ``numbered`` as :meth:`write_sorted` does.
        """
        user, item = ("users.number", "items.number") if numbered else ("user", "item")
        tables = " JOIN users ON user = users.code JOIN items ON item = items.code" if numbered else ""
        query = (
            f"SELECT {user}::INTEGER AS u, {item}::INTEGER AS i, time AS t, events.rowid AS place FROM events{tables} "
            "ORDER BY u, place"
        )
        of_user, of_item = (np.zeros(size, dtype=np.int64) for size in sizes)
        repeats = ties = 0
        doubles = []
        for users, items, times, places in _whole_users(batches(self._connection, query, _AT_ONCE)):
            same = (users[1:] == users[:-1]) & (times[1:] == times[:-1])
            ties += int(same.sum())
            double = _doubles(items, same)
            doubles.append(places[double])
            if self._reading.drop_duplicates:
                users, items, times = (values[~double] for values in (users, items, times))
            of_user += np.bincount(users, minlength=len(of_user))
            of_item += np.bincount(items, minlength=len(of_item))
            repeats += len(users) - len(np.unique(users.astype(np.int64) * len(of_item) + items))
            take(users, items, times)
        return _Counts(of_user, of_item, repeats, np.sort(np.concatenate(doubles)), ties)

    def _record(self, counts: _Counts) -> dict[str, Any]:
        """Return what is known of the log."""
        remarks = [doubt for ids, name in zip(self._ids, self._columns, strict=False) for doubt in doubts(ids, name)]
        form = said(self._times, self._count, self._reading)
        ends = self._first("SELECT min(time), max(time) FROM events")
        first, last = (_date(time, ends, self._times.are_dates) for time in ends)
        return {
            "read_as": {**self._source.read_as, self._columns[2]: form},
            "doubts": [*remarks, *self._source.doubts, *self._doubts_of_order(counts.ties)],
            "rows": self.rows,
            "left_out": self._left_out,
            "exact_duplicates": len(counts.doubles),
            "duplicates_left_out": self._reading.drop_duplicates,
            "interactions": int(counts.of_user.sum()),
            "users": int((counts.of_user > 0).sum()),
            "items": int((counts.of_item > 0).sum()),
            "repeats": counts.repeats,
            "first": first,
            "last": last,
        }

    def _doubts_of_order(self, ties: int) -> list[str]:
        """Say how many rows have the time of their user's previous one, if that may reverse histories."""
        if not ties:
            return []
        sentence = (
            f"{ties:,} of {self._count:,} rows have the time of their user's previous one, and keep the log's order"
        )
        if self._falls > 10 * self._rises:
            return [f"{sentence}, which runs from new to old: these are read the wrong way round; sort the log by time"]
        return [sentence] if ties >= _MANY_TIES * (self._count - 1) else []


def _whole_users(batches: Iterator[pa.RecordBatch]) -> Iterator[list[NDArray[Any]]]:
    """Yield the columns of rows that are sorted by the first one, cut where it changes."""
    waiting: list[NDArray[Any]] | None = None
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        if waiting is not None:
            columns = [np.concatenate(pair) for pair in zip(waiting, columns, strict=True)]
        cut = int(np.searchsorted(columns[0], columns[0][-1]))
        waiting = [column[cut:] for column in columns]
        if cut:
            yield [column[:cut] for column in columns]
    if waiting is not None:
        yield waiting


def _doubles(items: NDArray[Any], same: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark interactions whose item an earlier one of the same user and time has.

    *Shape:* items (R,), same (R - 1,): a row has user and time of the one before -> (R,)
    """
    group = np.concatenate([[0], np.cumsum(~same)])
    among = np.flatnonzero(np.append(same, False) | np.append(False, same))
    double = np.zeros(len(items), dtype=bool)
    order = among[np.lexsort((items[among], group[among]))]
    double[order[1:]] = (group[order[1:]] == group[order[:-1]]) & (items[order[1:]] == items[order[:-1]])
    return double


def _write_tokens(tokens: pa.Array[Any], path: Path) -> None:
    """Write ids by their numbers, padding's first, as numpy keeps texts of one width."""
    lengths: Any = pc.utf8_length(cast(pa.StringArray, tokens))
    width = max(len(PADDING_ID), pc.max(lengths).as_py())
    with path.open("wb") as file:
        np.array([PADDING_ID], dtype=f"<U{width}").tofile(file)
        for begin in range(0, len(tokens), _TOKENS_AT_ONCE):
            np.array(tokens.slice(begin, _TOKENS_AT_ONCE).to_pylist(), dtype=f"<U{width}").tofile(file)


def _date(time: float, ends: tuple[float, float], are_dates: bool) -> str | float:
    """Return a time as a date if all times are plausible Unix times of one unit; else as a number."""
    size = 1 if are_dates else unit_of(*ends)
    if size is None:
        return float(time)
    try:
        return datetime.fromtimestamp(time / size, UTC).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a date of a year that Python does not know
        return float(time)
