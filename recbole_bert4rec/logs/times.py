"""Turns a log's column of times into numbers: numbers stay as they are, dates of one form become Unix seconds."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recbole_bert4rec.logs.codes import encode
from recbole_bert4rec.logs.reading import Reading
from recbole_bert4rec.system.errors import UserError, short

MISSING_TEXTS = ["", "NaN", "nan", "NA", "null", "NULL", "None"]
_ISO = "ISO8601"
_UTC = "UTC"
_HAS_ZONE = r"\d[T ]\d{2}.*(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"
_DAY_AND_MONTH = r"^(\d{1,2})([./])(\d{1,2})\2\d{4}(.*)$"
_CLOCK = re.compile(r"(,?[ T]\s*)?(\d{1,2}):\d{2}(:\d{2})?(\.\d+)?(\s?[AaPp][Mm])?(\s?(?:[Zz]|[+-]\d{2}:?\d{2}))?")
_RUN_TOGETHER = {
    "%Y%m%d": (19700101, 21001231),
    "%d%m%Y": (1011970, 31122100),
    "%m%d%Y": (1011970, 12312100),
    "%Y%m%d%H%M": (197001010000, 210012312359),
    "%Y%m%d%H%M%S": (19700101000000, 21001231235959),
}
"""Dates that are written as one number, and the least and the greatest of them; the first form is read untold."""
_YEAR_OF_TWO_DIGITS = ("%d%m%y", "%m%d%y", "%y%m%d")
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
_PLAUSIBLE = (1e8, 4.2e9)
"""Unix seconds from 1973 to 2103."""


class Times(NamedTuple):
    """Times in the order of the log.

    Attributes:
        values: whole numbers if all are, else float64; of dates Unix seconds. *Shape:* (rows,)
        are_dates: whether the log has dates.
        form: how they are written, in words.
        without_zone: how many dates name no time zone.
    """

    values: NDArray[Any]
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


def read_as(form: str, without_zone: int, count: int, reading: Reading) -> str:
    """Say how times were read."""
    if reading.in_order:
        return "the order of the log"
    if not without_zone:
        return form
    which = "all" if without_zone == count else f"{without_zone:,} of {count:,}"
    return f"{form}, {which} without a time zone, taken as {reading.timezone or _UTC}"


class TimeColumn:
    """A column of times."""

    def __init__(
        self,
        column: pa.ChunkedArray[Any],
        name: str,
        rows: NDArray[np.int64],
        where: Callable[[int | None], str],
        date_format: str | None = None,
        timezone: str | None = None,
    ) -> None:
        self._name, self._rows, self._where = name, rows, where
        try:
            self._codes, self._values = encode(column)
        except pa.ArrowException as error:  # such as of lists
            raise self._no_times(column.type) from error
        self._format, self._zone = date_format, timezone or _UTC

    def read(self) -> Times:
        """Return the times as numbers."""
        kind, name = self._values.type, self._name
        if pa.types.is_boolean(kind):
            raise UserError(f"{self._where(None)}: {name!r} holds true and false; times must be numbers or dates")
        if pa.types.is_decimal(kind):
            self._values = self._values.cast(pa.float64())
        if pa.types.is_date(kind):
            self._values = self._values.cast(pa.timestamp("s"))
        if pa.types.is_binary(kind):
            self._values = self._values.cast(pa.string())
        self._refuse_missing()
        kind = self._values.type
        if pa.types.is_timestamp(kind):
            dates = self._values.to_pandas()
            return self._seconds(dates, "dates", np.full(len(dates), kind.tz is None))
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self._numbers(self._values.to_numpy(zero_copy_only=False))
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise self._no_times(kind)
        return self._from_texts(pc.utf8_trim_whitespace(self._values))

    def _no_times(self, kind: pa.DataType) -> UserError:
        return UserError(f"{self._where(None)}: {self._name!r} has type {kind}; times must be numbers or dates")

    def _refuse_missing(self) -> None:
        kind, missing = self._values.type, pc.is_null(self._values, nan_is_null=True)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            missing = pc.or_(missing, pc.is_in(pc.utf8_trim_whitespace(self._values), pa.array(MISSING_TEXTS, kind)))
        gaps = np.append(missing.to_numpy(zero_copy_only=False).astype(bool), True)[self._codes]
        if gaps.any():
            row = self._rows[gaps.argmax()]
            raise UserError(
                f"{self._where(row)}: {self._name!r} is missing in {int(gaps.sum())} of {len(gaps)} rows, first in row "
                f"{row + 1}; an interaction without a time has no place in a sequence: leave these rows out"
            )

    def _from_texts(self, texts: pa.Array[Any]) -> Times:
        if self._format is None:
            for kind in (pa.int64(), pa.float64()):
                try:
                    return self._numbers(texts.cast(kind).to_numpy(zero_copy_only=False), texts)
                except pa.ArrowInvalid:
                    continue
        return self._dates(texts.to_pandas())

    def _numbers(self, values: NDArray[Any], texts: pa.Array[Any] | None = None) -> Times:
        """Take numbers as they are, unless they are dates such as 20240131."""
        if self._format is not None:
            return self._dates(pd.Series(values).astype(str))
        if np.issubdtype(values.dtype, np.integer) and (dates := self._run_together(values, texts)) is not None:
            return self._seconds(dates, "dates like %Y%m%d", np.full(len(dates), True))
        infinite = ~np.isfinite(values)[self._codes]
        if infinite.any():
            row = self._rows[infinite.argmax()]
            raise UserError(f"{self._where(row)}: {int(infinite.sum())} values of {self._name!r} are infinite")
        self._refuse_mixed_units(values)
        return Times(values[self._codes], False, "numbers")

    def _run_together(self, values: NDArray[Any], texts: pa.Array[Any] | None) -> pd.Series | None:
        """Return the dates that whole numbers such as 20240131 are; None if they are numbers."""
        least, greatest = values.min(), values.max()
        forms = [form for form, ends in _RUN_TOGETHER.items() if ends[0] <= least and greatest <= ends[1]]
        of_six = texts is not None and pc.all(pc.match_substring_regex(texts, r"^\d{6}$")).as_py()
        if texts is not None and of_six and pc.any(pc.starts_with(texts, "0")).as_py():
            forms, digits = [*_YEAR_OF_TWO_DIGITS], texts.to_pandas()
        elif forms:
            digits = pd.Series(values).astype(str).str.zfill(8)
        fits = {form: pd.to_datetime(digits, format=form, errors="coerce") for form in forms}
        fits = {form: dates for form, dates in fits.items() if dates.dt.year.between(1970, 2100).all()}
        if fits and "%Y%m%d" not in fits:
            raise UserError(
                f"{self._where(None)}: {self._name!r} holds dates such as {digits.iloc[0]!r}; say how they are to be "
                f"read, with --date_format={' or '.join(fits)}"
            )
        return fits.get("%Y%m%d")

    def _refuse_mixed_units(self, values: NDArray[Any]) -> None:
        """Refuse Unix times of which some are in seconds and others in milliseconds, or the like."""
        units = {
            name: (values >= _PLAUSIBLE[0] * size) & (values <= _PLAUSIBLE[1] * size) for name, size in _UNITS.items()
        }
        large = values >= _PLAUSIBLE[0]
        used = {name: fits for name, fits in units.items() if fits.any()}
        if len(used) < 2 or not np.logical_or.reduce(list(used.values()))[large].all():
            return
        rows = {name: fits[self._codes] for name, fits in used.items()}
        shares = [
            f"{int(fits.sum()):,} in {name}, such as {self._values[self._codes[fits.argmax()]].as_py()} in row "
            f"{self._rows[fits.argmax()] + 1}"
            for name, fits in rows.items()
        ]
        fewest = min(rows.values(), key=np.sum)
        raise UserError(
            f"{self._where(self._rows[fewest.argmax()])}: {self._name!r} holds Unix times of several units: "
            f"{'; '.join(shares)}; write all of them in one"
        )

    def _dates(self, texts: pd.Series) -> Times:
        texts = texts.str.replace(r"\s*(?:UTC|GMT)$", "Z", regex=True)
        form = self._format or self._form_of(texts)
        with_zone: NDArray[np.bool_] = np.full(len(texts), "%z" in form)
        if form == _ISO:
            with_zone = texts.str.contains(_HAS_ZONE, regex=True).to_numpy(dtype=bool)
        try:
            if self._format is not None:  # dates run together may have lost the zero in front
                width = len(pd.Timestamp(0).strftime(self._format))
                texts = texts.str.zfill(width).where(texts.str.isdecimal(), texts)
            aware = pd.to_datetime(texts.where(with_zone), format=form, errors="coerce", utc=True)
            naive = pd.to_datetime(texts.mask(with_zone), format=form, errors="coerce")
        except ValueError as error:  # of the form itself
            raise UserError(f"--date_format={form!r} cannot be read: {error}; write it like %d.%m.%Y %H:%M") from error
        dates = aware.where(with_zone, self._in_zone(naive))
        if dates.isna().any():
            self._refuse_misfits(texts, dates)
        named = "ISO 8601 dates" if form == _ISO else f"dates like {form}"
        return self._seconds(dates, named, ~with_zone)

    def _form_of(self, texts: pd.Series) -> str:
        """Find the form of dates that begin with day or month; all others must be ISO 8601."""
        parts = texts.str.extract(_DAY_AND_MONTH)
        fits = parts[0].notna()
        if fits.sum() * 2 <= len(texts):
            return _ISO
        first, sign, second, rest = (parts[fits][number] for number in range(4))
        greatest = first.astype(int).max(), second.astype(int).max()
        clock = _clock(rest.iloc[0])
        forms = [f"%d{sign.iloc[0]}%m{sign.iloc[0]}%Y{clock}", f"%m{sign.iloc[0]}%d{sign.iloc[0]}%Y{clock}"]
        if sign.iloc[0] == "." or greatest[0] > 12:
            return forms[0]
        if greatest[1] > 12:
            return forms[1]
        raise UserError(
            f"{self._where(None)}: {self._name!r} holds dates such as {texts[fits].iloc[0]!r}, in which the day or the "
            f'month could come first; say which with --date_format="{forms[0]}" or --date_format="{forms[1]}"'
        )

    def _refuse_misfits(self, texts: pd.Series, dates: pd.Series) -> None:
        """Name the values that are no dates; among numbers, those that are no numbers."""
        misfits = dates.isna()
        if self._format is None:
            numbers = pd.to_numeric(texts, errors="coerce").notna()
            misfits = misfits & ~numbers if (misfits & ~numbers).any() else misfits
        wrong = misfits.to_numpy()[self._codes]
        first = wrong.argmax()
        wanted = "numbers only or ISO 8601 dates only" if self._format is None else f"dates like {self._format}"
        hint = "; --date_format names another form" if self._format is None else ""
        raise UserError(
            f"{self._where(self._rows[first])}: {self._name!r} must hold {wanted}, but {int(wrong.sum())} of "
            f"{len(wrong)} values do not fit; the first is {short(self._values[self._codes[first]].as_py())} in row "
            f"{self._rows[first] + 1}{hint}"
        )

    def _in_zone(self, naive: pd.Series) -> pd.Series:
        """Take dates for times of the zone; of an hour that its clocks repeat, for the second one."""
        second = np.full(len(naive), False)  # not that of summer
        local: pd.Series = naive.dt.tz_localize(self._zone, ambiguous=second, nonexistent="shift_forward")
        moments: pd.Series = local.dt.tz_convert("UTC")
        return moments

    def _seconds(self, dates: pd.Series, form: str, without_zone: NDArray[np.bool_]) -> Times:
        """Return dates as Unix seconds."""
        dates = self._in_zone(dates) if dates.dt.tz is None else dates
        microseconds = dates.dt.as_unit("us").astype("int64").to_numpy()[self._codes]
        whole = not (microseconds % 10**6).any()
        seconds = microseconds // 10**6 if whole else microseconds / 10**6
        return Times(seconds, True, form, int(without_zone[self._codes].sum()))


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


def check_timezone(name: str) -> None:
    """Refuse a name that is not a time zone."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UserError(f"--timezone={name} must be a name such as Europe/Berlin or UTC") from error
