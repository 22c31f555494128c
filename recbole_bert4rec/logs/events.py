"""The interactions of a log, coded, counted and sorted by time; they are written as an atomic file, or to be mapped."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from recbole_bert4rec.logs.ids import PADDING_ID, Ids, check_ids, code_ids, doubts, join_codes
from recbole_bert4rec.logs.mapped import COUNTS, ITEM_TOKENS, ITEMS, OFFSETS, TIMES, USER_TOKENS
from recbole_bert4rec.logs.read import Connection, Log, ask, batches, fetch
from recbole_bert4rec.logs.times import MISSING_TEXTS, said, unit_of
from recbole_bert4rec.system.errors import UserError, short

_MOST_LINES = 1000
"""Lines that ``conversion.json`` names of the rows that are left out for one reason."""
_MANY_TIES = 0.5
"""Share of rows with their user's previous time above which that is doubted."""
_AT_ONCE = 1 << 20
"""Rows that are written at once."""
_TOKENS_AT_ONCE = 1 << 16


class Events:
    """The table ``events``: the rows of a log that have user, item and time, as codes, in the order of time.

    Of each it tells whether its user had another one at its time (``tie``), with the same item (``double``).

    Attributes:
        rows: of the log.
    """

    def __init__(
        self, connection: Connection, source: Log, columns: list[str], filters: Mapping[str, str], scratch: Path
    ) -> None:
        self._connection, self._source, self._columns = connection, source, columns
        self.rows = source.read(connection, columns, scratch)
        self._ids = [self._coded(f"c{n}", columns[n]) for n in (0, 1)]
        self._tokens = [ids.tokens for ids in self._ids]
        self._left_out = self._without_ids()
        self._more = [self._further(f"c{n}", columns[n], filters.get(columns[n])) for n in range(3, len(columns))]
        self._count, self._times = join_codes(connection, source, columns)
        ask(
            connection,
            f"CREATE TABLE events AS SELECT * REPLACE ({self._times.sql} AS time), lag(kept.time) OVER own = kept.time "
            "AS tie, coalesce(tie AND lag(item) OVER own = item, false) AS double FROM kept WINDOW "
            "own AS (PARTITION BY user ORDER BY kept.time, item, row) ORDER BY kept.time, row",
        )
        ask(connection, "DROP TABLE kept")
        self._wanted = "events WHERE NOT double" if source.reading.drop_duplicates else "events"

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
        for place, missing in enumerate(("of_c0.code IS NULL", "of_c0.code IS NOT NULL AND of_c1.code IS NULL")):
            count, first = self._first(
                f"SELECT count(*), min(log.rowid, {_MOST_LINES}) FROM log LEFT JOIN of_c0 ON c0 = of_c0.written "
                f"LEFT JOIN of_c1 ON c1 = of_c1.written WHERE {missing}"
            )
            if count:
                left_out[self._columns[place]] = {"rows": count, "lines": self._source.lines(first)}
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
                f"{self._source.where(row)}: {name!r} must hold numbers to be filtered by, but holds "
                f"{short(ids.tokens[int(wrong[0])].as_py())}; a list of texts filters texts"
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
        texts = [values for values in self._more if pa.types.is_string(values.type)]
        quoted = any(pc.any(pc.match_substring(values, '"')).as_py() for values in (*self._tokens, *texts))
        style = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="needed" if quoted else "none")
        encoding = self._source.reading.encoding or "utf-8"
        kinds = ["token", "token", "float"]
        kinds += ["token" if pa.types.is_string(values.type) else "float" for values in self._more]
        header = "\t".join(f"{name}:{kind}" for name, kind in zip(self._columns, kinds, strict=True))
        codes = "".join(f", m{n}" for n in range(3, len(self._columns)))
        try:
            with path.open("w", encoding=encoding, newline="") as file:
                file.write(f"{header}\n")
                for batch in batches(self._connection, f"SELECT time, user, item{codes} FROM {self._wanted}", _AT_ONCE):
                    time, *coded = batch.columns
                    user, item, *more = map(pa.Array.take, (*self._tokens, *self._more), coded)
                    lines = pa.BufferOutputStream()
                    csv.write_csv(pa.table([user, item, time, *more], names=self._columns), lines, style)
                    file.write(lines.getvalue().to_pybytes().decode())
        except UnicodeEncodeError as error:
            wrong = error.object[error.start : error.end]
            raise UserError(f"--encoding={encoding} has no {wrong!r}, which the log holds; leave it out") from error
        return self._record()

    def write_sorted(self, folder: Path) -> dict[str, Any]:
        """Write the files of a MappedLog; return what is known of the log.

        Users and items have the numbers that RecBole gives them if it reads the same log as an atomic file in the
        order of time: by their first interaction.
        """
        folder.mkdir()
        counts = {}
        for side, tokens, name in zip(("user", "item"), self._tokens, (USER_TOKENS, ITEM_TOKENS), strict=True):
            ask(
                self._connection,
                f"CREATE TABLE {side}s AS SELECT code, n, row_number() OVER (ORDER BY first)::INTEGER AS number "
                f"FROM (SELECT {side} AS code, count(*) AS n, min(rowid) AS first FROM {self._wanted} GROUP BY 1)",
            )
            numbered = fetch(self._connection, f"SELECT code, n FROM {side}s ORDER BY number").combine_chunks()
            _write_tokens(tokens.take(numbered["code"].combine_chunks()), folder / name)
            counts[side] = np.concatenate([[0], numbered["n"].to_numpy()])
        np.concatenate([[0], np.cumsum(counts["user"])]).tofile(folder / OFFSETS)
        counts["item"].tofile(folder / COUNTS)
        query = (
            f"SELECT items.number, time::DOUBLE FROM (SELECT *, rowid AS place FROM {self._wanted}) "
            "JOIN users ON user = users.code JOIN items ON item = items.code ORDER BY users.number, place"
        )
        with (folder / ITEMS).open("wb") as of_items, (folder / TIMES).open("wb") as of_times:
            for batch in batches(self._connection, query, _AT_ONCE):
                for column, kind, file in zip(batch.columns, ("<i4", "<f8"), (of_items, of_times), strict=True):
                    column.to_numpy(zero_copy_only=False).astype(kind).tofile(file)
        return self._record()

    def _record(self) -> dict[str, Any]:
        """Return what is known of the log."""
        reading = self._source.reading
        doubles, ties, first, last = self._first(
            "SELECT count_if(double), count_if(tie), min(time), max(time) FROM events"
        )
        pairs, users, items = self._first(
            "SELECT count(*), count(DISTINCT user), count(DISTINCT item) FROM (SELECT DISTINCT user, item FROM events)"
        )
        interactions = self._count - (doubles if reading.drop_duplicates else 0)
        remarks = [doubt for ids, name in zip(self._ids, self._columns, strict=False) for doubt in doubts(ids, name)]
        return {
            "read_as": {**self._source.read_as, self._columns[2]: said(self._times, self._count, reading)},
            "doubts": [*remarks, *self._source.doubts, *self._doubts_of_order(ties)],
            "rows": self.rows,
            "left_out": self._left_out,
            "exact_duplicates": doubles,
            "duplicates_left_out": reading.drop_duplicates,
            "interactions": interactions,
            "users": users,
            "items": items,
            "repeats": interactions - pairs,
            **dict(zip(("first", "last"), _period(first, last, self._times.are_dates), strict=True)),
        }

    def _doubts_of_order(self, ties: int) -> list[str]:
        """Say how many rows have the time of their user's previous one, if that may reverse histories."""
        if not ties:
            return []
        falls, rises = self._first(
            "SELECT count_if(time < before), count_if(time > before) FROM "
            "(SELECT time, lag(time) OVER (ORDER BY row) AS before FROM events)"
        )
        sentence = (
            f"{ties:,} of {self._count:,} rows have the time of their user's previous one, and keep the log's order"
        )
        if falls > 10 * rises:
            return [f"{sentence}, which runs from new to old: these are read the wrong way round; sort the log by time"]
        return [sentence] if ties >= _MANY_TIES * (self._count - 1) else []


def _write_tokens(tokens: pa.Array[Any], path: Path) -> None:
    """Write ids by their numbers, padding's first, as numpy keeps texts of one width."""
    lengths: Any = pc.utf8_length(cast(pa.StringArray, tokens))
    width = max(len(PADDING_ID), pc.max(lengths).as_py())
    with path.open("wb") as file:
        np.array([PADDING_ID], dtype=f"<U{width}").tofile(file)
        for begin in range(0, len(tokens), _TOKENS_AT_ONCE):
            np.array(tokens.slice(begin, _TOKENS_AT_ONCE).to_pylist(), dtype=f"<U{width}").tofile(file)


def _period(first: float, last: float, are_dates: bool) -> list[str] | list[float]:
    """Return the ends of a period as dates if all times are plausible Unix times of one unit; else as numbers."""
    size = 1 if are_dates else unit_of(first, last)
    try:
        if size is not None:
            ends = (datetime.fromtimestamp(time / size, UTC) for time in (first, last))
            return [end.isoformat(sep=" ", timespec="seconds") for end in ends]
    except (ValueError, OverflowError, OSError):  # a date of a year that Python does not know
        pass
    return [float(first), float(last)]
