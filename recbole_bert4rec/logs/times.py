"""Turns a column of times into numbers by SQL: numbers stay as they are, dates of one form become Unix seconds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.read import Connection, ask, in_quotes
from recbole_bert4rec.system.errors import UserError, short

MISSING_TEXTS = ["", "NaN", "nan", "NA", "null", "NULL", "None"]
_UTC = "UTC"
_WHOLE, _NUMBER, _ISO = "whole numbers", "numbers", "ISO 8601 dates"
_PATTERNS = {
    _WHOLE: r"[+-]?\d{1,19}",
    _NUMBER: r"[+-]?(\d{1,99}\.?\d*|\.\d+)([eE][+-]?\d{1,2})?",  # never infinite
    _ISO: r"[1-9]\d{3}[-/]\d{1,2}[-/]\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z| UTC|[+-]\d{2}(:?\d{2})?)?)?",
}
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M:%S", ", %I:%M:%S %p")
_RUN_TOGETHER = ("%Y%m%d", "%d%m%Y", "%m%d%Y", "%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m", "%d%m%y", "%m%d%y", "%y%m%d")
"""Dates that are written as one number; the first form is read untold."""
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_PLAUSIBLE = (100_000_000, 4_200_000_000)
"""Unix seconds from 1973 to 2103."""
_YEAR_1000 = -30_610_224_000_000_000
"""Microseconds; a form takes 23 for the year 23."""
_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_FIRST_ROWS = "row < 1000"


class Times(NamedTuple):
    """How times are read: ``sql`` is the number of each in the table, of dates Unix seconds, whole if all are.

    ``form`` says how they are written, and ``without_zone`` how many dates name no time zone.
    """

    sql: str
    are_dates: bool
    form: str
    without_zone: int = 0


def no_times(column: str) -> str:
    """Say that histories have no times, and what that means."""
    return f"there is no column {column!r}, so that the rows are taken in their order"


def unit_of(first: float, last: float) -> int | None:
    """Return how many units of times from ``first`` to ``last`` make a second; None if they are not Unix times.

    ``unit_of(1_600_000_000_000, 1_700_000_000_000)`` is 1000.
    """
    fits = (size for size in _UNITS.values() if _PLAUSIBLE[0] <= first / size and last / size <= _PLAUSIBLE[1])
    return next(fits, None)


def said(times: Times, count: int, reading: Reading) -> str:
    """Say how times were read."""
    if reading.in_order:
        return "the order of the log"
    if not times.without_zone:
        return times.form
    which = "all" if times.without_zone == count else f"{times.without_zone:,} of {count:,}"
    return f"{times.form}, {which} without a time zone, taken as {reading.timezone or _UTC}"


class TimeColumn:
    """The column ``time`` of a table, whose column ``row`` numbers the rows of the log."""

    def __init__(
        self,
        connection: Connection,
        table: str,
        name: str,
        where: Callable[[int | None], str],
        date_format: str | None = None,
        timezone: str | None = None,
    ) -> None:
        self._connection, self._table, self._name, self._where = connection, table, name, where
        self._numbers, self._format = table, date_format
        (self._kind,) = self._first(f"SELECT column_type FROM (DESCRIBE {table}) WHERE column_name = 'time'")
        text = "decode(time)" if self._kind == "BLOB" else "time::VARCHAR"
        # to trim all takes as long as to read dates
        self._text = f"CASE WHEN prefix({text}, ' ') OR suffix({text}, ' ') THEN trim({text}) ELSE {text} END"
        self._zone = in_quotes(timezone or _UTC)

    def read(self) -> Times:
        """Put numbers in the place of the times, of dates microseconds; refuse what is no time."""
        try:
            # dates without a zone are of this one; of a repeated hour, of the second one
            ask(self._connection, f"SET TimeZone = {self._zone}")
            times = self._read()
        except (duckdb.ConversionException, duckdb.NotImplementedException) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{self._where(None)}: {self._name!r} cannot be read as times: {reason}") from error
        if self._numbers != self._table:
            ask(self._connection, f"DROP TABLE {self._table}")
            ask(self._connection, f"ALTER TABLE {self._numbers} RENAME TO {self._table}")
        return times

    def _read(self) -> Times:
        kind = self._kind
        is_float, is_moment = kind in ("FLOAT", "DOUBLE"), kind == "DATE" or kind.startswith("TIMESTAMP")
        is_number = is_float or kind in _WHOLE_TYPES or kind.startswith("DECIMAL")
        if not (is_number or is_moment or kind in ("VARCHAR", "BLOB")):
            raise UserError(f"{self._where(None)}: {self._name!r} has type {kind}; times must be numbers or dates")
        self._refuse_missing("NOT isfinite(time)" if is_float else "false")
        if is_moment:
            self._store("epoch_us(time::TIMESTAMPTZ)")
            return self._seconds("dates", "false" if kind.endswith("TIME ZONE") else "true")
        if not is_number or self._format is not None:
            return self._of_texts()
        if kind not in (*_WHOLE_TYPES, "DOUBLE"):
            self._store(f"{self._text}::DOUBLE")  # of 32 bits, too, as they are written
        return self._of_numbers(kind in _WHOLE_TYPES)

    def _first(self, query: str) -> Any:
        """Return the first row of an answer."""
        return ask(self._connection, query)[0]

    def _found(self, table: str, wrong: str, value: str = "time") -> Any:
        """Return how many rows there are, for how many something holds, and number and value of the first of these."""
        return self._first(
            f"SELECT count(*), count_if({wrong}), min(row) FILTER ({wrong}), arg_min({value}, row) FILTER ({wrong}) "
            f"FROM {table}"
        )

    def _refuse_missing(self, missing: str) -> None:
        count, number, row, _ = self._found(self._table, f"time IS NULL OR {missing}")
        if number:
            raise UserError(
                f"{self._where(row)}: {self._name!r} is missing or infinite in {number} of {count} rows, first in row "
                f"{row + 1}; an interaction without a time has no place in a sequence: leave these rows out"
            )

    def _misfits(self, number: str, rows: str = "true") -> int:
        """Return how many rows have no number."""
        return int(self._first(f"SELECT count(*) FROM {self._table} WHERE {rows} AND ({number}) IS NULL")[0])

    def _fits(self, number: str) -> bool:
        """Tell whether each row has a number; the first ones are asked first."""
        return not (self._misfits(number, _FIRST_ROWS) or self._misfits(number))

    def _store(self, number: str) -> bool:
        """Make a table with numbers in the place of the times; tell whether each row has one."""
        self._numbers = "timed"
        replaced = f"SELECT * REPLACE ({number} AS time) FROM {self._table}"
        ask(self._connection, f"CREATE OR REPLACE TABLE {self._numbers} AS {replaced}")
        return bool(self._first(f"SELECT count(*) = count(time) FROM {self._numbers}")[0])

    def _of_numbers(self, whole: bool) -> Times:
        """Take numbers as they are, unless they are dates such as 20240131."""
        if whole and (form := self._run_together()) is not None:
            self._store(self._read_by(form))
            return self._seconds(f"dates like {form}", "true")
        units = [f"time BETWEEN {_PLAUSIBLE[0] * size} AND {_PLAUSIBLE[1] * size}" for size in _UNITS.values()]
        _, large, *_ = self._found(self._numbers, f"time >= {_PLAUSIBLE[0]}")
        found = [self._found(self._numbers, unit)[1:] for unit in units]
        counts = [count for count, *_ in found]
        if max(counts) < sum(counts) == large:
            shares = [
                f"{count:,} in {name}, such as {value} in row {row + 1}"
                for name, (count, row, value) in zip(_UNITS, found, strict=True)
                if count
            ]
            _, row, _ = min(one for one in found if one[0])
            raise UserError(
                f"{self._where(row)}: {self._name!r} holds Unix times of several units: {'; '.join(shares)}; write all "
                "of them in one"
            )
        return Times("time", False, "numbers")

    def _run_together(self) -> str | None:
        """Return the form of dates that whole numbers such as 20240131 are; None if they are numbers."""
        dates = []
        for form in _RUN_TOGETHER:
            width = f"length({self._text}) = 6" if "%y" in form else "true"
            dates.append(f"CASE WHEN {width} AND year({self._moment(form)}) BETWEEN 1970 AND 2100 THEN 1 END")
        counted = ", ".join(f"count(*) - count({date})" for date in dates)
        at_first = self._first(f"SELECT {counted} FROM {self._table} WHERE {_FIRST_ROWS}")
        asked = zip(_RUN_TOGETHER, dates, at_first, strict=True)
        forms = [form for form, date, misfits in asked if not misfits and not self._misfits(date)]
        if forms and "%Y%m%d" not in forms:
            raise self._untold(forms)
        return "%Y%m%d" if forms else None

    def _of_texts(self) -> Times:
        """Read texts in the first way in which all can be read; most ways fail at the first rows."""
        ways = self._ways()
        misfits = {}
        for form, number in ways.items():
            misfits[form] = self._misfits(number, _FIRST_ROWS)
            if not misfits[form] and self._store(number):
                break
        else:
            raise self._misfit(ways[min(reversed(ways), key=misfits.__getitem__)])
        if form in (_WHOLE, _NUMBER):
            return self._of_numbers(form == _WHOLE)
        if form == _ISO:
            return self._seconds(form, f"NOT regexp_matches({self._text}, ':.*[A-Za-z+-]')")
        other = form.replace("%d/%m/", "%m/%d/")
        if other != form and other in ways and self._fits(ways[other]):
            raise self._untold([form, other])
        return self._seconds(f"dates like {form}", "false" if "%z" in form else "true")

    def _untold(self, forms: list[str]) -> UserError:
        """Say that dates could be of several forms, or are of one that is not read untold."""
        (example,) = self._first(f"SELECT arg_min({self._text}, row) FROM {self._table}")
        quoted = " or ".join(f'"{form}"' for form in forms)
        return UserError(
            f"{self._where(None)}: {self._name!r} holds dates such as {example!r}; say how they are to be read, with "
            f"--date_format={quoted}"
        )

    def _ways(self) -> dict[str, str]:
        """Return the forms that texts may have, and the number of each by SQL: null where a text does not fit."""
        text = self._text
        if self._format is not None:
            way = self._read_by(self._format)
            try:
                self._misfits(way, "false")
            except duckdb.Error as error:
                raise UserError(
                    f"--date_format={self._format!r} cannot be read: {str(error).splitlines()[0]}; write it like "
                    "%d.%m.%Y %H:%M"
                ) from error
            return {self._format: way}
        tidied = rf"regexp_replace(regexp_replace({text}, '\s*(UTC|GMT|Z|z)$', 'Z'), ' ([+-]\d)', '\1')"
        date = "epoch_us(TRY_CAST({} AS TIMESTAMPTZ))"
        return {
            _WHOLE: _by_pattern(_WHOLE, "TRY_CAST({} AS BIGINT)", text),
            _NUMBER: _by_pattern(_NUMBER, "TRY_CAST({} AS DOUBLE)", text),
            _ISO: _by_pattern(_ISO, date, text, tidied),
            **{day + clock: self._read_by(day + clock) for day in _DAYS for clock in _CLOCKS},
        }

    def _moment(self, form: str) -> str:
        """Return dates of a form; those that are run together may have lost the zero in front."""
        text, example = self._text, datetime(2000, 1, 1).strftime(form)
        if "%z" in form:
            text = f"regexp_replace({text}, '(UTC|GMT|Z|z)$', '+00:00')"
        if example.isdigit():
            text = f"lpad({text}, greatest({len(example)}, length({text}))::INTEGER, '0')"
        return f"try_strptime({text}, {in_quotes(form)})"

    def _read_by(self, form: str) -> str:
        """Return dates of a form as microseconds; null before the year 1000, for a form takes 23 for the year 23."""
        return f"nullif(greatest(epoch_us({self._moment(form)}::TIMESTAMPTZ), {_YEAR_1000}), {_YEAR_1000})"

    def _misfit(self, number: str) -> UserError:
        """Name the values that do not fit, or those that are missing."""
        self._refuse_missing(f"{self._text} IN {tuple(MISSING_TEXTS)}")
        count, wrong, row, value = self._found(self._table, f"({number}) IS NULL", self._text)
        wanted = "numbers only or ISO 8601 dates only" if self._format is None else f"dates like {self._format}"
        hint = "; --date_format names another form" if self._format is None else ""
        return UserError(
            f"{self._where(row)}: {self._name!r} must hold {wanted}, but {wrong} of {count} values do not fit; the "
            f"first is {short(value)} in row {row + 1}{hint}"
        )

    def _seconds(self, form: str, without_zone: str) -> Times:
        """Return microseconds as Unix seconds."""
        (parts,) = self._first(f"SELECT count_if(time % 1000000 <> 0) FROM {self._numbers}")
        (naive,) = self._first(f"SELECT count_if({without_zone}) FROM {self._table}")
        return Times(f"time {'/' if parts else '//'} 1000000", True, form, naive)


def _by_pattern(form: str, number: str, *texts: str) -> str:
    """Return the number of the first of some texts that looks as it should."""
    cases = (f"WHEN regexp_full_match({text}, '{_PATTERNS[form]}') THEN {number.format(text)}" for text in texts)
    return f"CASE {' '.join(cases)} END"
