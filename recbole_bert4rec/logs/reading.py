"""A log in any form, and how it is read."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError, nearest, short_list

UNREADABLE = (pa.ArrowException, ValueError, OSError, EOFError, zlib.error)
"""Errors of readers for files that are damaged, or of another form."""


@dataclass(frozen=True)
class Reading:
    """How a log is to be read; a value of None is found out from the log.

    Attributes:
        separator: between the columns of a text.
        encoding: of a text, as Python names it.
        date_format: of dates, in the codes of Python's strptime, such as ``%d.%m.%Y``.
        timezone: of dates that name none, such as ``Europe/Berlin``; None: UTC.
        drop_duplicates: leave out rows whose user, item and time are those of an earlier row.
        quote: the sign around values of a text that hold separators; ``none``: there is none.
        escape: the sign before a quote or a separator that belongs to a value.
        columns: names of the columns of a text without a header, with commas.
        in_order: the rows are in the order of time; a column of times is neither needed nor read.
    """

    separator: str | None = None
    encoding: str | None = None
    date_format: str | None = None
    timezone: str | None = None
    drop_duplicates: bool = False
    quote: str | None = None
    escape: str | None = None
    columns: str | None = None
    in_order: bool = False


def names_with_commas(value: object) -> str:
    """Return the option ``columns`` as one text; it may be a list."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether each value of a column is a list of values."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


class Log(ABC):
    """A log on disk.

    Attributes:
        read_as: how the log was read; filled by :meth:`read`.
        doubts: what may be wrong, a sentence each; filled by :meth:`read`, and by :meth:`batches` at the end.
    """

    def __init__(self, path: Path, files: list[Path], reading: Reading) -> None:
        self.path, self._files, self._reading = path, files, reading
        self.read_as: dict[str, str] = {}
        self.doubts: list[str] = []
        self._rows: Sequence[int] | NDArray[np.int64] | None = None  # of the interactions; None: each has its own

    def status(self) -> list[list[Any]]:
        """Return path (within the log's folder), bytes, and times of change of content and of all of each file.

        The last one tells files apart whose size and time of change were kept when one took the place of another.
        """
        base, states = self.path.parent, [(file, file.stat()) for file in self._files]
        return [
            [file.relative_to(base).as_posix(), state.st_size, state.st_mtime, state.st_ctime] for file, state in states
        ]

    def read(self, columns: list[str]) -> pa.Table:
        """Return columns in the order of their names, a row an interaction.

        A row with lists, such as a session's items, is as many interactions as its lists have values.
        """
        self.check_names(columns)
        parts = list(self._interactions(columns, None))
        table = pa.concat_tables([table for table, _ in parts])
        if not len(table):
            raise UserError(f"{self.path} has a header but no rows")
        if not all(isinstance(rows, range) for _, rows in parts):
            self._rows = np.concatenate([rows for _, rows in parts])
        return table

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows of :meth:`read`, in its order, about so many at a time; the log is not all in memory."""
        return (table for table, _ in self._interactions(columns, rows))

    def stored(self, wanted: list[str]) -> Iterator[pa.Table]:
        """Yield all columns as they are stored: lists stay lists."""
        return self._parts(self.names(wanted), None)

    def check_names(self, columns: list[str]) -> None:
        """Refuse names that no atomic file can have, and a log without a byte."""
        if len(set(columns)) < len(columns):
            raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {columns}")
        for column in columns:
            if ":" in column or "\t" in column:
                option = f" ({NAMES_OF_COLUMNS[columns.index(column)]})" if columns.index(column) < 3 else ""
                raise UserError(f"{self.path}: the name of column {column!r}{option} must hold neither ':' nor a tab")
        self._refuse_empty()

    def _refuse_empty(self) -> None:
        if not any(file.stat().st_size for file in self._files):
            raise self._empty()

    def _empty(self) -> UserError:
        return UserError(f"{self.path} is empty; its first line must name the columns")

    def present(self, needed: list[str], more: list[str]) -> list[str]:
        """Return the names of columns that must be there, and of those that may be and are."""
        there = self.names([*needed, *more])
        self._check_columns(needed, there)
        return [*needed, *(name for name in more if name in there)]

    def names(self, wanted: list[str]) -> list[str]:
        """Return the names of the columns, among which those that are wanted should be."""
        self._refuse_empty()
        return self._names(wanted)

    @abstractmethod
    def _names(self, wanted: list[str]) -> list[str]:
        """Return the names of a log that is not empty; see :meth:`names`."""

    @abstractmethod
    def _parts(self, columns: list[str], rows: int | None) -> Iterator[pa.Table]:
        """Yield columns as they are stored, about so many rows at a time; None: as many as are read fastest."""

    def _interactions(
        self, columns: list[str], rows: int | None
    ) -> Iterator[tuple[pa.Table, range | NDArray[np.int64]]]:
        """Yield the interactions of some rows, and the row of each."""
        in_order = self._reading.in_order and len(columns) > 2
        read = [*columns[:2], *columns[3:]] if in_order else columns
        first, count, empty = 0, 0, 0
        for stored in self._parts(read, rows):
            table, of_rows = self._without_lists(stored, first)
            first += len(stored)
            empty += len(stored) - len(np.unique(of_rows)) if isinstance(of_rows, np.ndarray) else 0
            if in_order:
                numbers = pa.array(np.arange(count, count + len(table)))
                table = table.add_column(2, columns[2], numbers)
            count += len(table)
            yield table, of_rows
        if empty:
            self.doubts.append(f"{empty:,} rows are left out, whose lists are empty")

    def _without_lists(self, stored: pa.Table, first: int) -> tuple[pa.Table, range | NDArray[np.int64]]:
        """Make a row of each value of the lists in a row, which must be as many in each."""
        names = [name for name, column in zip(stored.column_names, stored.columns, strict=True) if is_list(column.type)]
        if not names:
            return stored, range(first, first + len(stored))
        lengths = {name: pc.list_value_length(stored[name]).fill_null(0).to_numpy() for name in names}
        for name, counts in lengths.items():
            if (other := np.flatnonzero(counts != lengths[names[0]])).size:
                raise UserError(
                    f"{self.where(first + int(other[0]))}: the lists {names[0]!r} and {name!r} in row "
                    f"{first + int(other[0]) + 1} have {lengths[names[0]][other[0]]} and {counts[other[0]]} values; "
                    "they must be as many"
                )
        of_row = np.repeat(np.arange(len(stored)), lengths[names[0]])
        columns = [
            pc.list_flatten(column) if name in names else column.take(of_row)
            for name, column in zip(stored.column_names, stored.columns, strict=True)
        ]
        return pa.table(columns, names=stored.column_names), of_row + first

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some interactions begins; none if the log has no lines."""
        return self._lines(rows if self._rows is None else [int(self._rows[row]) for row in rows])

    def _lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some rows begins."""
        return []

    def where(self, row: int | None = None) -> str:
        """Name the place of an interaction: file, and line if there are lines."""
        line = [] if row is None else self.lines([int(row)])
        return f"{self.path}, line {line[0]}" if line else str(self.path)

    def _hint(self, there: list[str]) -> str:
        """Name reasons, besides a wrong name, why a column is not there."""
        return ""

    def _check_columns(self, wanted: list[str], there: list[str]) -> None:
        flags = NAMES_OF_COLUMNS[:2] if self._reading.in_order else NAMES_OF_COLUMNS
        for position, column in enumerate(wanted):
            if column not in there:
                hint = self._hint(there)
                near, flag = nearest(column, there), dict(enumerate(flags)).get(position)
                mend = f"; name yours with --{flag}=NAME" if flag else ""
                meant = f"; did you mean --{flag}={near}?" if near and flag else ""
                if position == 2 and flag:
                    hint = f"; of a log whose rows are in their order --in_order=True needs no times{hint}"
                raise UserError(
                    f"{self.path} has no column {column!r}; its columns are {short_list(there)}{mend}{meant}{hint}"
                )
            if there.count(column) > 1:
                raise UserError(f"{self.path}: two columns have the same name, {column!r}; rename one")
