"""Reads logs whose columns a character separates, and finds the lines of their rows."""

from __future__ import annotations

import codecs
import csv as python_csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal, TextIO

import pyarrow as pa
from pyarrow import csv

from recbole_bert4rec.datafiles.conversion import has_quotes
from recbole_bert4rec.datafiles.reading import UNREADABLE, Log
from recbole_bert4rec.datafiles.separators import COMMON_SEPARATORS, find_separator
from recbole_bert4rec.errors import UserError, short, short_list

_BLOCK = 1 << 24


def encoding_of(start: bytes) -> str:
    """Return the encoding of a text that its first bytes tell; UTF-8 where they tell none."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.count(0) * 3 > len(start):  # every other byte of Latin letters in UTF-16
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    return "utf-8"


class Lines(Log):
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
        except UNREADABLE:
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
        except UNREADABLE as failure:
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


class Text(Lines):
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
        except UNREADABLE as error:
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
        except UNREADABLE as error:
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
        usual = "\t" if ".tsv" in self.path.name.lower() else ","
        return (usual, *COMMON_SEPARATORS) if given is None else (_one_sign(given),)

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
        except UNREADABLE:  # said before
            pass
        return other

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some rows begins: the file is read once more."""
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


class Atomic(Text):
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
