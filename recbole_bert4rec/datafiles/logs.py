"""Reads three columns of a user's own log (text, JSON lines or Parquet), and finds the lines of its rows."""

from __future__ import annotations

import codecs
import csv as python_csv
import gzip
import io
import itertools
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, TextIO

import pyarrow as pa
from pyarrow import csv, dataset, parquet

from recbole_bert4rec.constants import FORMATS
from recbole_bert4rec.datafiles.conversion import has_quotes
from recbole_bert4rec.datafiles.separators import COMMON_SEPARATORS, find_separator
from recbole_bert4rec.datafiles.spellings import kinds_asked
from recbole_bert4rec.errors import UserError, nearest, short, short_list

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET, _JSON_LINES, _ATOMIC = ".parquet", ".jsonl", ".inter"
_BLOCK = 1 << 24
_UNREADABLE = (pa.ArrowException, ValueError, OSError, EOFError, zlib.error)
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


def is_table(name: str) -> bool:
    """Return whether the name of a data set is the path of a log."""
    if _ending(Path(name)) is not None:
        return True
    return "/" in name.replace("\\", "/") and bool(_parquet_files(Path(name)))


def data_set_name(log: str | Path) -> str:
    """Return the name of the data set that is made of a log: the log's own, without its ending."""
    path = Path(log)
    ending = _ending(path)
    if ending is None:  # a folder, beside which the data set needs a folder of another name
        return f"{path.resolve().name}-log"
    return path.name[: path.name.lower().rindex(ending)]


def open_log(name: str, reading: Reading, flag: str = "--dataset") -> Log:
    """Return a log, or an atomic file, that is not read yet.

    Args:
        name: its path.
        reading: how to read it.
        flag: that names it, for messages.

    Raises:
        UserError: there is no such log, or its ending says nothing.
    """
    path = Path(name).resolve()
    if path.is_dir():
        files = _parquet_files(path)
        if not files:
            raise UserError(f"{flag}={name}: the folder holds no .parquet file")
        return ParquetLog(path, files, reading)
    if not path.is_file():
        beside = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        near = nearest(path.name, beside)
        raise UserError(f"{flag}={name}: no such file" + (f"; did you mean {near}?" if near else ""))
    if path.name.removesuffix(".gz").endswith(_ATOMIC):
        return _Atomic(path, [path], reading)
    ending = _ending(path)
    if ending is None:
        raise UserError(f"{flag}={name} must be a {FORMATS}, or RecBole's {_ATOMIC}")
    kinds = {_PARQUET: ParquetLog, _JSON_LINES: _JsonLines}
    return kinds.get(ending, _Text)(path, [path], reading)


def _ending(path: Path) -> str | None:
    """Return the ending that says what a log is, without ``.gz``; None where there is none that is known."""
    name = path.name.lower()
    packed, ending = name.endswith(".gz"), Path(name.removesuffix(".gz")).suffix
    known = ending in (*_SEPARATORS, _JSON_LINES) or (ending == _PARQUET and not packed)
    return ending if known else None


def _parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder and its folders, but for what Spark and others hide by ``_`` or ``.``."""
    found = sorted(folder.rglob("*.parquet")) if folder.is_dir() else []
    return [
        file for file in found if file.is_file() and not any(part[0] in "_." for part in file.relative_to(folder).parts)
    ]


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


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text that its first bytes tell; UTF-8 where they tell none."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.count(0) * 3 > len(start):  # every other byte of Latin letters in UTF-16
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    return "utf-8"


class _Lines(Log):
    """A log of lines of text, plain or packed with gzip."""

    def _bytes(self) -> IO[bytes]:
        return gzip.open(self.path) if self.path.name.lower().endswith(".gz") else open(self.path, "rb")  # type: ignore[return-value]

    def _find_encoding(self) -> str:
        """Return the encoding that is given, or the one that the first bytes tell; UTF-8 where they tell none."""
        given = self._reading.encoding
        if given is not None:
            try:
                "".encode(given)
            except (LookupError, UnicodeError) as error:
                raise UserError(f"--encoding={given} is no encoding of texts; write one such as cp1252") from error
            return codecs.lookup(given).name
        try:
            with self._bytes() as file:
                start = file.read(1024)
        except _UNREADABLE:
            return "utf-8"  # the header cannot be read either, which says why
        return encoding_of(start)

    def _texts(self, errors: Literal["strict", "replace"] = "replace") -> TextIO:
        return io.TextIOWrapper(self._bytes(), self.encoding, errors, newline="")

    @property
    def encoding(self) -> str:
        """Of the text, as it was given or found."""
        if "encoding" not in self.read_as:
            self.read_as["encoding"] = self._find_encoding()
        return self.read_as["encoding"]

    def _unreadable(self, error: BaseException) -> UserError:
        """Say why a log cannot be read: which bytes are damaged or of another encoding, or what the reader said."""
        try:
            with self._texts("strict") as file:
                for _ in file:
                    pass
        except UnicodeDecodeError as failure:
            wrong = f"{failure.object[failure.start : failure.start + 1]!r}"
            return UserError(
                f"{self.path}{self._first_unfit_line()}: {wrong} is not {self.encoding}; save it as UTF-8 or name its "
                "encoding, such as --encoding=cp1252"
            )
        except _UNREADABLE as failure:
            said = " ".join(str(failure).split())
            return UserError(f"{self.path} is damaged ({said}); download or compress it again")
        return UserError(f"{self.path} cannot be read: {' '.join(str(error).split())}")

    def _first_unfit_line(self) -> str:
        """Return number and text of the first line that cannot be decoded, where lines can be told without decoding."""
        if self.encoding.startswith("utf-16"):
            return ""
        with self._bytes() as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(self.encoding)
                except UnicodeDecodeError:
                    return f", line {number}, {short(line.decode('cp1252', 'replace').strip())} as cp1252 reads it"
        return ""


class _Text(_Lines):
    """Columns that one character separates, with a header; values in double quotes may hold anything."""

    _separator = ""  # until the header is read

    @property
    def _quote(self) -> str | Literal[False]:
        """The sign around values, False where there is none."""
        quote = self._reading.quote
        return '"' if quote is None else False if quote == "none" else _one_sign(quote, "--quote", "")

    @property
    def _escape(self) -> str | Literal[False]:
        escape = self._reading.escape
        return False if escape is None else _one_sign(escape, "--escape", '"')

    def _csv(self, lines: Iterable[str], separator: str, strict: bool = False) -> Any:
        """Return Python's reader of lines."""
        style: dict[str, Any] = {"quotechar": self._quote} if self._quote else {"quoting": python_csv.QUOTE_NONE}
        return python_csv.reader(lines, delimiter=separator, strict=strict, escapechar=self._escape or None, **style)

    def _names(self, wanted: list[str]) -> list[str]:
        """Find the separator, too."""
        try:
            self._separator, self._written = self._find_header(wanted)
        except UserError:
            raise
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        if not self._written:
            raise self._empty()
        if any("\ufffd" in name for name in self._written):
            raise self._unreadable(ValueError("the names of its columns are of another encoding"))
        self.read_as["separator"] = self._separator
        if any(name != name.strip() for name in self._written):
            self.clean |= {"spaces"}
        return [self._plain(name) for name in self._written]

    def _plain(self, name: str) -> str:
        """Return the name of a column as the user names it."""
        return name.strip()

    def _table(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables(self._tables(columns, csv.read_csv, csv.ReadOptions(block_size=_BLOCK)))

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows, a part at a time."""
        # with threads, an error would not always name its row
        return self._tables(columns, _streamed, csv.ReadOptions(use_threads=False))

    def _tables(self, columns: list[str], read: Callable[..., Any], options: csv.ReadOptions) -> Iterator[pa.Table]:
        there = self._names(columns)
        only = "; it has one column, or another separator: name that with --separator=..." if len(there) == 1 else ""
        self._check_columns(columns, there, only)
        wanted = [self._written[there.index(column)] for column in columns]
        options.encoding = "utf8" if self.encoding.startswith("utf-8") else self.encoding
        kinds: dict[str, pa.DataType] = dict.fromkeys(wanted, pa.string())
        rows = 0
        try:
            tables = read(
                self.path,
                read_options=options,
                parse_options=csv.ParseOptions(
                    delimiter=self._separator,
                    quote_char=self._quote,
                    escape_char=self._escape,
                    newlines_in_values=bool(self._quote),
                ),
                convert_options=csv.ConvertOptions(column_types=kinds, include_columns=wanted),
            )
            for table in [tables] if isinstance(tables, pa.Table) else tables:
                rows += len(table)
                yield table.rename_columns(columns)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        if self._quote and self._count_lines() not in (None, rows + 1):
            self._check_line_breaks(len(self._written))

    def _count_lines(self) -> int | None:
        """Count the lines of a text; None for one without quotes, whose values hold no line breaks."""
        lines, quotes, last = 0, False, b"\n"
        sign = str(self._quote).encode()
        with self._bytes() as file:
            while block := file.read(_BLOCK):
                lines += block.count(b"\n") - (last.endswith(b"\r") and block.startswith(b"\n"))
                if b"\r" in block:
                    lines += block.count(b"\r") - block.count(b"\r\n")
                quotes, last = quotes or sign in block, block
        return lines + (not last.endswith((b"\r", b"\n"))) if quotes else None

    def _check_line_breaks(self, width: int) -> None:
        """Tell values that hold line breaks from quotes that swallow rows.

        A value swallows rows where its quote is not closed as it should be, or where all lines that it spans could be
        rows. With ``--quote`` the second is believed.

        Raises:
            UserError: naming the first such line.
        """
        spans, begin = [], 1
        with self._texts() as file:
            record = _Recorded(file)
            records = self._csv(record, self._separator)
            try:
                for fields in records:
                    lines, record.lines = record.lines, []
                    if fields and len(lines) > 1:
                        if self._swallows(lines, width):
                            raise self._swallowed(begin, lines)
                        spans.append(begin)
                    begin += len(lines)
            except python_csv.Error as error:  # a value is longer than any that is one
                raise self._swallowed(begin, record.lines) from error
        if spans:
            self.doubts.append(
                f"{len(spans):,} rows hold line breaks inside of quotes, the first in line {spans[0]}; --quote=none "
                "reads a row a line"
            )

    def _swallows(self, lines: list[str], width: int) -> bool:
        try:
            list(self._csv(lines, self._separator, strict=True))
        except python_csv.Error:
            return True
        return self._reading.quote is None and all(self._width(line) == width for line in lines)

    def _swallowed(self, begin: int, lines: list[str]) -> UserError:
        return UserError(
            f"{self.path}, line {begin}: a value begins with a quote that is not closed before line "
            f"{begin + len(lines) - 1}, or not as it should be, so that {len(lines) - 1} rows would be lost: "
            f"{short(lines[0].strip())}. --quote=none takes quotes for signs like others; else double those inside of "
            'values: "the ""best"" one"'
        )

    def _width(self, line: str) -> int:
        """Return how many columns a line has where quotes mean nothing."""
        return len(line.split(self._separator))

    def _find_header(self, columns: list[str]) -> tuple[str, list[str]]:
        """Return the separator and the names of the columns.

        The separator is the one that was given, or else the first one by which the header has the columns.
        """
        separator, _ = find_separator(
            lambda sign: [self._plain(name) for name in self._header(sign)], columns, self._separators()
        )
        return separator, self._header(separator)

    def _separators(self) -> tuple[str, ...]:
        """Return the signs that may separate the columns."""
        given = self._reading.separator
        return (_SEPARATORS[str(_ending(self.path))], *COMMON_SEPARATORS) if given is None else (_one_sign(given),)

    def _header(self, separator: str) -> list[str]:
        with self._texts() as file:
            return next((names for names in self._csv(file, separator) if names), [])

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield the line in which each record begins, and its fields; first the header's.

        Raises:
            UserError: a quote is not closed; with ``strict``, also if there is more after it.
        """
        with self._texts() as file:
            reader, begin = self._csv(file, self._separator, strict), 1
            try:
                for fields in reader:
                    if fields:
                        yield begin, fields
                    begin = reader.line_num + 1
            except python_csv.Error as error:
                raise UserError(
                    f"{self.path}, line {begin}: a value begins with a quote that is not closed as it should be "
                    f'({error}); double the quotes inside of values: "the ""best"" one"'
                ) from error

    def _unreadable(self, error: BaseException) -> UserError:
        """Name the first line of another width than the header's, or with a quote that is not closed, if there is one.

        What else is wrong is said as of all lines of text.
        """
        other = super()._unreadable(error)
        if not self._separator:
            return other
        try:
            records = self._records(strict=True)
            _, names = next(records)
            for line, fields in records:
                if len(fields) != len(names):
                    return UserError(
                        f"{self.path}, line {line}: the number of columns is {len(fields)}, but the header has "
                        f"{len(names)} ({short_list(names)}), separated by {self._separator!r}: "
                        f"{short(self._separator.join(fields))}"
                    )
        except UserError as failure:
            return failure
        except _UNREADABLE:  # said before
            pass
        return other

    def lines(self, rows: Sequence[int]) -> list[int]:
        wanted, found = iter(rows), []
        row = next(wanted, None)
        records = self._records()
        next(records)
        for number, (line, _) in enumerate(records):
            if row is None:
                break
            if number == row:
                found.append(line)
                row = next(wanted, None)
        return found


class _Atomic(_Text):
    """RecBole's .inter file: tabs, names with types, and quotes only where a log was converted whose ids need them."""

    @property
    def _quote(self) -> str | Literal[False]:
        return '"' if has_quotes(self.path) else False

    def _plain(self, name: str) -> str:
        return name.partition(":")[0]

    def _separators(self) -> tuple[str, ...]:
        return ("\t",)


def _streamed(path: Path, **options: Any) -> Iterator[pa.Table]:
    """Yield the rows of a text, a part at a time."""
    with csv.open_csv(path, **options) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


class _Recorded:
    """Lines that are also kept, until who reads them takes them away."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._source, self.lines = iter(lines), list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._source:
            self.lines.append(line)
            yield line


def _one_sign(text: str, flag: str = "--separator", forbidden: str = '"') -> str:
    sign = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(sign) != 1 or not sign.isascii() or sign in forbidden + "\r\n":
        example = {"--separator": "; or \\t for a tab", "--quote": "', or none", "--escape": "\\"}[flag]
        raise UserError(f"{flag}={text!r} must be one character, such as {example}")
    return sign


class _JsonLines(_Lines):
    """An object a line."""

    def _names(self, wanted: list[str]) -> list[str]:
        seen = dict[str, None]()
        try:
            for _, record in itertools.islice(self._records(), 100):
                seen.update(dict.fromkeys(record))
        except UserError:
            raise
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return list(seen)

    def _table(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables([*self.batches(columns, 1 << 17), _texts_of({column: [] for column in columns})])

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows, a part at a time."""
        if names := self._names(columns):
            self._check_columns(columns, names)
        found: dict[str, list[str | None]] = {column: [] for column in columns}
        try:
            for line, record in self._records():
                for column in columns:
                    value = record.get(column)
                    if value is not None and not isinstance(value, str):
                        raise UserError(
                            f"{self.path}, line {line}: column {column!r} must hold a text or a number, but holds "
                            f"{short(value)}"
                        )
                    found[column].append(value)
                if len(found[columns[0]]) >= rows:
                    yield _texts_of(found)
                    found = {column: [] for column in columns}
        except UserError:
            raise
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        if found[columns[0]]:
            yield _texts_of(found)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number and the object of each line that is not blank; numbers stay the texts that they are."""
        decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None).decode
        with self._texts("strict") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    record = decode(line.strip())
                except (json.JSONDecodeError, RecursionError) as error:
                    raise UserError(
                        f"{self.path}, line {number} is no JSON ({error}): {short(line.strip())}"
                    ) from error
                if not isinstance(record, dict):
                    raise UserError(f"{self.path}, line {number} must hold an object, but holds {short(line.strip())}")
                yield number, record

    def lines(self, rows: Sequence[int]) -> list[int]:
        with self._texts() as file:
            filled = [number for number, line in enumerate(file, 1) if line.strip()]
        return [filled[row] for row in rows]


def _texts_of(rows: dict[str, list[str | None]]) -> pa.Table:
    return pa.table({column: pa.array(values, pa.string()) for column, values in rows.items()})


class ParquetLog(Log):
    """One Parquet file, or all of a folder; folders named ``column=value`` are a column."""

    def _table(self, columns: list[str]) -> pa.Table:
        with self._reading_of(columns) as whole:
            return whole.to_table(columns=columns)

    def share(self, files: list[Path]) -> ParquetLog:
        """Return a log of some of the files."""
        return ParquetLog(self.path, files, self._reading)

    @property
    def files(self) -> list[Path]:
        """Those that hold the rows."""
        return list(self._files)

    def _names(self, wanted: list[str]) -> list[str]:
        with self._unreadable_explained(self.path):
            return [str(name) for name in self._whole(wanted).schema.names]

    def count(self) -> int:
        """Return how many rows the log has, which its files say without being read.

        Raises:
            UserError: a file is damaged.
        """
        return sum(self._rows_of(file) for file in self._files if file.stat().st_size)

    def _rows_of(self, file: Path) -> int:
        with self._unreadable_explained(file):
            rows: int = parquet.read_metadata(file).num_rows
            return rows

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows, a part at a time."""
        pages = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
        how: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
        with self._reading_of(columns) as whole:
            for batch in whole.to_batches(columns=columns, batch_size=rows, fragment_scan_options=pages, **how):
                if len(batch):
                    yield pa.Table.from_batches([batch])

    @contextmanager
    def _reading_of(self, columns: list[str]) -> Iterator[dataset.Dataset]:
        """Give the files as one; a mistake inside the block is one of the log."""
        with self._unreadable_explained(self.path):
            whole = self._whole(columns)
            self._check_columns(columns, [str(name) for name in whole.schema.names])
            yield whole

    def _whole(self, columns: list[str]) -> dataset.Dataset:
        """Return the files as one; the names of folders are texts, and a column has the type of its first values.

        Raises:
            UserError: a file lacks a column that others have.
        """
        folders = [file.relative_to(self.path).parts[:-1] if self.path.is_dir() else () for file in self._files]
        keys = dict.fromkeys(part.partition("=")[0] for parts in folders for part in parts if "=" in part)
        partitioned = dataset.HivePartitioning(pa.schema([(key, pa.string()) for key in keys])) if keys else None
        whole = dataset.dataset([str(file) for file in self._files], format="parquet", partitioning=partitioned)
        names = [name for name in columns if name in whole.schema.names and name not in keys]
        for file, schema in self._other_schemas:
            for name in names:
                if name not in schema.names:
                    raise UserError(f"{file} has no column {name!r}, which {self._files[0]} has")
                kind, place = schema.field(name).type, whole.schema.get_field_index(name)
                if pa.types.is_null(whole.schema.field(name).type) and not pa.types.is_null(kind):
                    typed: Any = whole.replace_schema(whole.schema.set(place, pa.field(name, kind)))  # type: ignore[func-returns-value]
                    whole = typed
        return whole

    @cached_property
    def _other_schemas(self) -> list[tuple[Path, pa.Schema]]:
        """The files but the first, which pyarrow reads by itself, with their columns."""
        found = []
        for file in self._files[1:]:
            with self._unreadable_explained(file):
                found.append((file, parquet.read_schema(file)))
        return found

    @contextmanager
    def _unreadable_explained(self, path: Path) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except _UNREADABLE as error:
            raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
