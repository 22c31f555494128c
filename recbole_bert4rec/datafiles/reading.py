"""What a log is, whatever its form, and how it is to be read."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from recbole_bert4rec.datafiles.spellings import kinds_asked
from recbole_bert4rec.errors import UserError, nearest, short_list

UNREADABLE = (pa.ArrowException, ValueError, OSError, EOFError, zlib.error)
"""What readers raise where a file is damaged, or of another form."""
_FIELDS = ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")


@dataclass(frozen=True)
class Reading:
    """How a log is to be read; what is None is found.

    Attributes:
        separator: one character between the columns of a text.
        encoding: of a text, as Python names it.
        date_format: of dates, in the signs of Python's strptime, such as ``%d.%m.%Y``.
        timezone: of dates that name none, such as ``Europe/Berlin``; None: UTC.
        drop_duplicates: leave out rows whose user, item and time are those of an earlier row.
        quote: the sign around values of a text that hold separators; ``none``: there is none.
        escape: the sign before a quote or a separator that belongs to a value.
        clean_ids: in what ids may differ and be one: :data:`~recbole_bert4rec.datafiles.spellings.KINDS`, with commas.
    """

    separator: str | None = None
    encoding: str | None = None
    date_format: str | None = None
    timezone: str | None = None
    drop_duplicates: bool = False
    quote: str | None = None
    escape: str | None = None
    clean_ids: str = ""


class Log(ABC):
    """A log on disk.

    Args:
        path: of the file or folder, absolute.
        files: that hold the rows.
        reading: how to read them.

    Attributes:
        read_as: how the log was read, by what was found; filled by :meth:`read`.
        clean: in what ids may differ and be one: what is asked for, and spaces where the header has some.
        doubts: what may be wrong, a sentence each; filled by :meth:`read`.
    """

    def __init__(self, path: Path, files: list[Path], reading: Reading) -> None:
        self.path, self._files, self._reading = path, files, reading
        self.read_as: dict[str, str] = {}
        self.clean = frozenset(kinds_asked(reading.clean_ids))
        self.doubts: list[str] = []

    def status(self) -> list[list[Any]]:
        """Return path (within the log's folder), bytes and time of change of each file."""
        base, states = self.path.parent, [(file, file.stat()) for file in self._files]
        return [[file.relative_to(base).as_posix(), state.st_size, state.st_mtime] for file, state in states]

    def read(self, columns: list[str]) -> pa.Table:
        """Return columns in the order in which they are asked for.

        Raises:
            UserError: the log cannot be read, lacks a column or has no rows.
        """
        self.check_names(columns)
        table = self._table(columns)
        if not len(table):
            raise UserError(f"{self.path} has a header but no rows")
        return table

    def check_names(self, columns: list[str]) -> None:
        """Refuse names that no atomic file can have, and a log without a byte."""
        if len(set(columns)) < len(columns):
            raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {columns}")
        for option, column in zip(_FIELDS, columns, strict=True):
            if ":" in column or "\t" in column:
                raise UserError(
                    f"{self.path}: the name of column {column!r} ({option}) must hold neither ':' nor a tab"
                )
        if not any(file.stat().st_size for file in self._files):
            raise self._empty()

    def _empty(self) -> UserError:
        return UserError(f"{self.path} is empty; its first line must name the columns")

    def present(self, needed: list[str], more: list[str]) -> list[str]:
        """Return the names of columns that must be there, and of those that may be and are.

        Raises:
            UserError: one is not there.
        """
        if not any(file.stat().st_size for file in self._files):
            raise self._empty()
        there = self._names([*needed, *more])
        self._check_columns(needed, there)
        return [*needed, *(name for name in more if name in there)]

    @abstractmethod
    def _names(self, wanted: list[str]) -> list[str]:
        """Return the names of the columns, among which those that are wanted should be."""

    @abstractmethod
    def _table(self, columns: list[str]) -> pa.Table:
        """Return what :meth:`read` does, if need be without rows."""

    @abstractmethod
    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield what :meth:`read` returns, in its order, about so many rows at a time; the log is not all in memory.

        Raises:
            UserError: see :meth:`read`; of a text also after the last part.
        """

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some rows begins; none where the log has no lines.

        Args:
            rows: from 0, in rising order.
        """
        return []

    def where(self, row: int | None = None) -> str:
        """Say where a row stands: file, and line if there are lines."""
        line = [] if row is None else self.lines([int(row)])
        return f"{self.path}, line {line[0]}" if line else str(self.path)

    def _check_columns(self, wanted: list[str], there: list[str], hint: str = "") -> None:
        for option, column in zip(_FIELDS, wanted, strict=False):
            if column not in there:
                near = nearest(column, there)
                meant = f"; did you mean --{option}={near}?" if near else ""
                raise UserError(
                    f"{self.path} has no column {column!r}; its columns are {short_list(there)}; name yours with "
                    f"--{option}=NAME{meant}{hint}"
                )
            if there.count(column) > 1:
                raise UserError(f"{self.path}: two columns have the same name, {column!r}; rename one")
