"""Turns a column of times into numbers by SQL: numbers stay as they are, dates of one form become Unix seconds."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

import duckdb

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.read import Connection, ask, in_quotes
from recbole_bert4rec.system.errors import UserError, short

MISSING_TEXTS = ["", "NaN", "nan", "NA", "null", "NULL", "None"]
_UTC = "UTC"
_ISO = "ISO8601"
_WHOLE, _NUMBER = r"[+-]?\d{1,18}", r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(?i:inf|infinity)"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"
_ISO_DATE = rf"\d{{4}}[-/]\d{{1,2}}[-/]\d{{1,2}}([T ]\d{{1,2}}:\d{{2}}(:\d{{2}}(\.\d+)?)? ?{_ZONE}?)?"
_DAY_AND_MONTH = r"(\d{1,2})([./])(\d{1,2})[./]\d{4}(.*)"
_CLOCK = re.compile(r"(,?[ T]\s*)?(\d{1,2}):\d{2}(:\d{2})?(\.\d+)?(\s?[AaPp][Mm])?(\s?(?:[Zz]|[+-]\d{2}:?\d{2}))?")
_RUN_TOGETHER = {
    "%Y%m%d": (19700101, 21001231),
    "%d%m%Y": (1011970, 31122100),
    "%m%d%Y": (1011970, 12312100),
    "%Y%m%d%H%M": (197001010000, 210012312359),
    "%Y%m%d%H%M%S": (19700101000000, 21001231235959),
    "%Y%m": (197001, 210012),
    "%d%m%y": (10101, 311299),
    "%m%d%y": (10101, 123199),
    "%y%m%d": (10101, 991231),
}
"""Dates that are written as one number, and the least and the greatest of them; the first form is read untold."""
_OF_SIX = ("%d%m%y", "%m%d%y", "%y%m%d")
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_PLAUSIBLE = (1e8, 4.2e9)
"""Unix seconds from 1973 to 2103."""
_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


class Times(NamedTuple):
    """How a column of times is read.

    Attributes:
        sql: the number of each, of dates Unix seconds: whole numbers if all are, else doubles.
        are_dates: whether the log has dates.
        form: how they are written, in words.
        without_zone: how many dates name no time zone.
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


def check_timezone(name: str) -> None:
    """Refuse a name that is not a time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UserError(f"--timezone={name} must be a name such as Europe/Berlin or UTC") from error


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
        self._format, self._zone = date_format, timezone or _UTC
        (self._kind,) = self._first(f"SELECT column_type FROM (DESCRIBE {table}) WHERE column_name = 'time'")
        self._text = "trim(CAST(time AS VARCHAR))"

    def read(self) -> Times:
        """Return how the times are read; refuse what is no time."""
        kind = self._kind
        if kind == "BLOB":
            kind, self._text = "VARCHAR", "trim(decode(time))"
        is_float, is_decimal = kind in ("FLOAT", "DOUBLE"), kind.startswith("DECIMAL")
        is_moment = kind == "DATE" or kind.startswith("TIMESTAMP")
        if kind == "BOOLEAN" or not (kind == "VARCHAR" or kind in _WHOLE_TYPES or is_float or is_decimal or is_moment):
            raise UserError(f"{self._where(None)}: {self._name!r} has type {kind}; times must be numbers or dates")
        missing = (
            "isnan(time)" if is_float else f"{self._text} IN {tuple(MISSING_TEXTS)}" if kind == "VARCHAR" else "false"
        )
        self._refuse_missing(f"time IS NULL OR {missing}")
        if is_moment:
            zoned = kind.endswith("TIME ZONE")
            return self._seconds("time" if zoned else self._in_zone("CAST(time AS TIMESTAMP)"), "dates", not zoned)
        if kind == "VARCHAR":
            return self._from_texts()
        if self._format is not None:
            return self._dates()
        if kind in _WHOLE_TYPES:
            return self._numbers("time", True)
        return self._numbers(f"CAST({self._text} AS DOUBLE)", False)  # of 32 bits, too, as they are written

    def _first(self, query: str) -> Any:
        """Return the first row of an answer."""
        return ask(self._connection, query)[0]

    def _count(self, wrong: str) -> tuple[int, int, int]:
        """Return how many rows there are, for how many something holds, and the first of these."""
        count, number, row = self._first(
            f"SELECT count(*), count_if({wrong}), min(CASE WHEN {wrong} THEN row END) FROM {self._table}"
        )
        return count, number, row

    def _all(self, holds: str) -> bool:
        return self._first(f"SELECT bool_and(coalesce({holds}, false)) FROM {self._table}")[0] is True

    def _refuse_missing(self, missing: str) -> None:
        count, number, row = self._count(missing)
        if number:
            raise UserError(
                f"{self._where(row)}: {self._name!r} is missing in {number} of {count} rows, first in row {row + 1}; "
                "an interaction without a time has no place in a sequence: leave these rows out"
            )

    def _from_texts(self) -> Times:
        if self._format is None:
            if self._all(f"regexp_full_match({self._text}, '{_WHOLE}')"):
                return self._numbers(f"CAST({self._text} AS BIGINT)", True)
            if self._all(f"regexp_full_match({self._text}, '{_NUMBER}')"):
                return self._numbers(f"CAST({self._text} AS DOUBLE)", False)
        return self._dates()

    def _numbers(self, number: str, whole: bool) -> Times:
        """Take numbers as they are, unless they are dates such as 20240131."""
        if whole and (form := self._run_together(number)) is not None:
            return self._seconds(self._in_zone(self._parsed(self._text, form)), f"dates like {form}", True)
        _, infinite, row = self._count(f"isinf(CAST({number} AS DOUBLE))")
        if infinite:
            raise UserError(f"{self._where(row)}: {infinite} values of {self._name!r} are infinite")
        self._refuse_mixed_units(number)
        return Times(number, False, "numbers")

    def _run_together(self, number: str) -> str | None:
        """Return the form of dates that whole numbers such as 20240131 are; None if they are numbers."""
        least, greatest, digits = self._first(
            f"SELECT min({number}), max({number}), max(length({self._text})) FROM {self._table}"
        )
        in_range = [form for form, ends in _RUN_TOGETHER.items() if ends[0] <= least and greatest <= ends[1]]
        forms = [
            form
            for form in in_range
            if (form not in _OF_SIX or self._all(f"length({self._text}) = 6"))
            and self._all(f"year({self._parsed(self._text, form)}) BETWEEN 1970 AND 2100")
        ]
        if forms and "%Y%m%d" not in forms:
            (example,) = self._first(f"SELECT {self._text} FROM {self._table} ORDER BY row LIMIT 1")
            raise UserError(
                f"{self._where(None)}: {self._name!r} holds dates such as {example!r}; say how they are to be "
                f"read, with --date_format={' or '.join(forms)}"
            )
        return "%Y%m%d" if forms else None

    def _refuse_mixed_units(self, number: str) -> None:
        """Refuse Unix times of which some are in seconds and others in milliseconds, or the like."""
        within = {
            name: f"{number} BETWEEN {int(_PLAUSIBLE[0] * size)} AND {int(_PLAUSIBLE[1] * size)}"
            for name, size in _UNITS.items()
        }
        used = {name: found for name, fits in within.items() if (found := self._count(fits))[1]}
        if (
            len(used) < 2
            or self._count(f"{number} >= {int(_PLAUSIBLE[0])} AND NOT ({' OR '.join(within.values())})")[1]
        ):
            return
        shares = []
        for name, (_, count, row) in used.items():
            (example,) = self._first(f"SELECT {number} FROM {self._table} WHERE row = {row}")
            shares.append(f"{count:,} in {name}, such as {example} in row {row + 1}")
        fewest = min(used.values(), key=lambda found: found[1])
        raise UserError(
            f"{self._where(fewest[2])}: {self._name!r} holds Unix times of several units: {'; '.join(shares)}; write "
            "all of them in one"
        )

    def _dates(self) -> Times:
        text = rf"regexp_replace({self._text}, '\s*(UTC|GMT|Z|z)$', '+00:00')"
        form = self._format or self._form_of_days() or _ISO
        if form == _ISO:
            zoned = f"regexp_matches({text}, '\\d[T ]\\d{{1,2}}:.*[+-]\\d{{2}}(:?\\d{{2}})?$')"
            fits = f"regexp_full_match({text}, '{_ISO_DATE}')"
            date = f"CASE WHEN {fits} THEN {self._in_zone(f'TRY_CAST({text} AS TIMESTAMP)')} END"
            moment = (
                f"CASE WHEN {fits} AND {zoned} THEN TRY_CAST(replace({text}, ' +', '+') AS TIMESTAMPTZ) ELSE {date} END"
            )
        else:
            zoned = "true" if "%z" in form else "false"
            read = self._parsed(text, form)
            moment = read if "%z" in form else self._in_zone(read)
        try:
            count, misfits, _ = self._count(f"coalesce(year({moment}) < 1000, true)")
        except duckdb.Error as error:  # of the form itself
            raise UserError(
                f"--date_format={form!r} cannot be read: {str(error).splitlines()[0]}; write it like %d.%m.%Y %H:%M"
            ) from error
        if misfits:
            self._refuse_misfits(f"coalesce(year({moment}) < 1000, true)", count)
        return self._seconds(moment, "ISO 8601 dates" if form == _ISO else f"dates like {form}", f"NOT {zoned}")

    def _parsed(self, text: str, form: str) -> str:
        """Return dates of a form; those that are run together may have lost the zero in front."""
        width = len(datetime(2000, 1, 1).strftime(form))
        padded = f"CASE WHEN regexp_full_match({text}, '\\d+') THEN lpad({text}, greatest({width}, length({text}))::INTEGER, '0')"
        return f"try_strptime({padded} ELSE {text} END, {in_quotes(form)})"

    def _form_of_days(self) -> str | None:
        """Find the form of dates that begin with day or month; None if most dates do not."""
        fits = f"regexp_full_match({self._text}, '{_DAY_AND_MONTH}')"
        part = [f"TRY_CAST(regexp_extract({self._text}, '{_DAY_AND_MONTH}', {n}) AS INTEGER)" for n in (1, 3)]
        count, number, day, month, example = self._first(
            f"SELECT count(*), count_if({fits}), max({part[0]}), max({part[1]}), "
            f"arg_min({self._text}, row) FILTER (WHERE {fits}) FROM {self._table}"
        )
        if number * 2 <= count:
            return None
        _, sign, _, rest = re.fullmatch(_DAY_AND_MONTH, example).groups()  # type: ignore[union-attr]  # as DuckDB found
        clock = _clock(rest)
        forms = [f"%d{sign}%m{sign}%Y{clock}", f"%m{sign}%d{sign}%Y{clock}"]
        if sign == "." or day > 12:
            return forms[0]
        if month > 12:
            return forms[1]
        raise UserError(
            f"{self._where(None)}: {self._name!r} holds dates such as {example!r}, in which the day or the "
            f'month could come first; say which with --date_format="{forms[0]}" or --date_format="{forms[1]}"'
        )

    def _refuse_misfits(self, misfits: str, count: int) -> None:
        """Name the values that are no dates; among numbers, those that are no numbers."""
        if self._format is None:
            no_number = f"{misfits} AND NOT regexp_full_match({self._text}, '{_NUMBER}')"
            misfits = no_number if self._count(no_number)[1] else misfits
        _, wrong, row = self._count(misfits)
        (value,) = self._first(f"SELECT {self._text} FROM {self._table} WHERE row = {row}")
        wanted = "numbers only or ISO 8601 dates only" if self._format is None else f"dates like {self._format}"
        hint = "; --date_format names another form" if self._format is None else ""
        raise UserError(
            f"{self._where(row)}: {self._name!r} must hold {wanted}, but {wrong} of {count} values do not fit; the "
            f"first is {short(value)} in row {row + 1}{hint}"
        )

    def _in_zone(self, naive: str) -> str:
        """Take dates for times of the zone; of an hour that its clocks repeat, for the second one."""
        return f"timezone('{self._zone}', {naive})"

    def _seconds(self, moment: str, form: str, without_zone: bool | str) -> Times:
        """Return moments as Unix seconds."""
        parts, naive = self._first(
            f"SELECT count_if(epoch_us({moment}) % 1000000 <> 0), count_if({without_zone}) FROM {self._table}"
        )
        return Times(f"epoch_us({moment}) {'/' if parts else '//'} 1000000", True, form, naive)


def _clock(text: str) -> str:
    """Return the form of a time of day; of anything else nothing, so that it does not fit."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        return ""
    before, _, seconds, fraction, half, zone = (part or "" for part in match.groups())
    half = half and (" %p" if half.startswith(" ") else "%p")
    zone = zone and (" %z" if zone.startswith(" ") else "%z")
    hour = "%I" if half else "%H"
    return f"{before}{hour}:%M{seconds and ':%S'}{fraction and '.%f'}{half}{zone}"
