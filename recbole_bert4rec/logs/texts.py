"""Reads logs whose columns a character separates, and finds the lines of their rows."""

from __future__ import annotations

import codecs
import csv as python_csv
import gzip
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, TextIO

import pyarrow as pa
from pyarrow import csv

from recbole_bert4rec.logs.conversion import has_quotes
from recbole_bert4rec.logs.reading import UNREADABLE, Log
from recbole_bert4rec.logs.separators import COMMON_SEPARATORS, find_separator
from recbole_bert4rec.system.errors import UserError, short, short_list

_BLOCK, _COUNTED = 1 << 24, 1 << 20
"""Bytes that are parsed, and whose lines are counted, at once."""
_LINES = 1 << 14
_STAND_IN = "\x1f"
"""ASCII's sign between units, in the place of a separator of several signs."""
_TYPED = re.compile(r"(.*):(token|token_seq|float|float_seq)")
"""A column's name and its type, as in RecBole's files."""
_DATUM = re.compile(r"\s*[+-]?\d[\d.,:TZ+ -]*")
"""A number or a date, which names no column."""


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
        encoding = self._reading.encoding
        if encoding is not None:
            try:
                "".encode(encoding)
            except (LookupError, UnicodeError) as error:
                raise UserError(f"--encoding={encoding} is no encoding of texts; write one such as cp1252") from error
            return codecs.lookup(encoding).name
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
        """Encoding of the text, which the user names or the first bytes tell."""
        if "encoding" not in self.read_as:
            self.read_as["encoding"] = self._find_encoding()
        return self.read_as["encoding"]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of what goes wrong inside the block what is wrong with the log."""
        try:
            yield
        except UserError:
            raise
        except UNREADABLE as error:
            raise self._unreadable(error) from error

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
            reason = " ".join(str(failure).split())
            return UserError(f"{self.path} is damaged ({reason}); download or compress it again")
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
    _has_header = True

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
        if len(separator) > 1:
            lines, separator = map(partial(_replaced, separator=separator), lines), _STAND_IN
        style: dict[str, Any] = {"quotechar": self._quote} if self._quote else {"quoting": python_csv.QUOTE_NONE}
        return python_csv.reader(lines, delimiter=separator, strict=strict, escapechar=self._escape or None, **style)

    def _names(self, wanted: list[str]) -> list[str]:
        """Find the separator, too."""
        with self._explained():
            self._separator, self._written = self._find_header(wanted)
        if not self._written:
            raise self._empty()
        if any("\ufffd" in name for name in self._written):
            raise self._unreadable(ValueError("the names of its columns are of another encoding"))
        self.read_as["separator"] = self._separator
        return [self._plain(name) for name in self._written]

    def _plain(self, name: str) -> str:
        """Return the name of a column without spaces and type."""
        typed = _TYPED.fullmatch(name.strip())
        return name.strip() if typed is None else typed[1]

    def _parts(self, columns: list[str], rows: int | None) -> Iterator[pa.Table]:
        there = self.names(columns)
        self._check_columns(columns, there)
        wanted = [self._written[there.index(column)] for column in columns]
        long = len(self._separator) > 1
        # with threads, an error would not always name its row
        options = csv.ReadOptions(block_size=_BLOCK) if rows is None else csv.ReadOptions(use_threads=False)
        options.encoding = "utf8" if long or self.encoding.startswith("utf-8") else self.encoding
        if not self._has_header:
            options.column_names = self._written
        parsing = csv.ParseOptions(
            delimiter=_STAND_IN if long else self._separator,
            quote_char=self._quote,
            escape_char=self._escape,
            newlines_in_values=bool(self._quote),
        )
        texts = csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted)
        read: Callable[..., Iterable[pa.Table]] = _at_once if rows is None else _streamed
        count = 0
        with self._explained():
            source = _Replaced(self._texts("strict"), self._separator) if long else self.path
            for table in read(source, read_options=options, parse_options=parsing, convert_options=texts):
                count += len(table)
                yield table.rename_columns(columns)
        if self._quote and self._count_lines() not in (None, count + self._has_header):
            self._check_line_breaks(len(self._written))

    def _hint(self, there: list[str]) -> str:
        if self._reading.columns is None and any(_DATUM.fullmatch(name) for name in there):
            return (
                "; if its first line is no header, name the columns in their order: --columns=user_id,item_id,timestamp"
            )
        return "; it has one column, or another separator: name that with --separator=..." if len(there) == 1 else ""

    def _count_lines(self) -> int | None:
        """Count the lines of a text; None for one without quotes, whose values hold no line breaks."""
        lines, quotes, escaped, last = 0, False, 0, b"\n"
        sign = str(self._quote).encode()
        with self._bytes() as file:
            while block := file.read(_COUNTED):
                lines += block.count(b"\n")
                lines -= last.endswith(b"\r") and block.startswith(b"\n")
                if b"\r" in block:
                    lines += block.count(b"\r") - block.count(b"\r\n")
                quotes, last = quotes or sign in block, block
                escaped += block.count(b"\\" + sign)
        if escaped and not self._escape:
            self.doubts.append(
                f"a backslash stands before a quote {escaped:,} times; where it is there for the quote's sake, "
                "--escape=\\ reads both as the quote"
            )
        return lines + (not last.endswith((b"\r", b"\n"))) if quotes else None

    def _check_line_breaks(self, width: int) -> None:
        """Tell values that hold line breaks from quotes that swallow rows.

        A value swallows rows where its quote is not closed as it should be, or where all lines that it spans could be
        rows. With ``--quote`` the second is believed.
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
        separator, names = find_separator(
            lambda sign: [self._plain(name) for name in self._header(sign)], columns, self._separators()
        )
        if self._reading.columns is not None and not {*columns[:2]} <= {*names}:
            return self._without_header([name.strip() for name in self._reading.columns.split(",")])
        return separator, self._header(separator)

    def _without_header(self, names: list[str]) -> tuple[str, list[str]]:
        """Return the separator by which the first line has as many values as there are names, and the names."""
        lines = {separator: self._header(separator) for separator in self._separators()}
        separator, values = max(lines.items(), key=lambda line: (len(line[1]) == len(names), len(line[1])))
        if len(values) != len(names):
            raise UserError(
                f"{self.path}, line 1: --columns must name each of the {len(values)} columns, separated by "
                f"{separator!r}, but names {len(names)} ({short_list(names)}): {short(separator.join(values))}"
            )
        self._has_header = False
        return separator, names

    def _separators(self) -> tuple[str, ...]:
        """Return the signs that may separate the columns."""
        separator = self._reading.separator
        usual = "\t" if ".tsv" in self.path.name.lower() else ","
        return (usual, *COMMON_SEPARATORS) if separator is None else (_separator(separator),)

    def _header(self, separator: str) -> list[str]:
        with self._texts() as file:
            return next((names for names in self._csv(file, separator) if names), [])

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield the line in which each record begins, and its fields; first the header's, if there is one."""
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
            names = self._written
            for line, fields in self._records(strict=True):
                if len(fields) != len(names):
                    return UserError(
                        f"{self.path}, line {line}: the number of columns is {len(fields)}, but the header has "
                        f"{len(names)} ({short_list(names)}), separated by {self._separator!r}: "
                        f"{short(self._separator.join(fields))}"
                    )
        except UserError as failure:
            return failure
        except UNREADABLE:  # told before
            pass
        return other

    def _lines(self, rows: Sequence[int]) -> list[int]:
        """Read the log once more for it."""
        wanted, lines = iter(rows), []
        row = next(wanted, None)
        records = self._records()
        if self._has_header:
            next(records)
        for number, (line, _) in enumerate(records):
            if row is None:
                break
            if number == row:
                lines.append(line)
                row = next(wanted, None)
        return lines


class Atomic(Text):
    """RecBole's .inter file: tabs, names with types, and quotes only where a log was converted whose ids need them."""

    @property
    def _quote(self) -> str | Literal[False]:
        return '"' if has_quotes(self.path) else False

    def _separators(self) -> tuple[str, ...]:
        return ("\t",)


def _at_once(source: Any, **options: Any) -> Iterator[pa.Table]:
    """Yield the rows of a text in one part."""
    yield csv.read_csv(source, **options)


def _streamed(path: Path, **options: Any) -> Iterator[pa.Table]:
    """Yield the rows of a text, a part at a time."""
    with csv.open_csv(path, **options) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _replaced(text: str, separator: str) -> str:
    return text.replace(separator, _STAND_IN)


class _Replaced(io.RawIOBase):
    """A text in UTF-8 in which one sign stands for a separator of several, as pyarrow wants it."""

    def __init__(self, text: TextIO, separator: str) -> None:
        super().__init__()
        self._text, self._separator, self._ready = text, separator, b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as what was made of some lines reaches."""
        if not self._ready:
            lines = "".join(itertools.islice(self._text, _LINES))
            self._ready = _replaced(lines, self._separator).encode()
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


class _Recorded:
    """Lines that are also kept, until who reads them takes them away."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._source, self.lines = iter(lines), list[str]()

    def __iter__(self) -> Iterator[str]:
        for line in self._source:
            self.lines.append(line)
            yield line


def _separator(text: str) -> str:
    sign = {"\\t": "\t", "tab": "\t"}.get(text, text)
    return sign if len(sign) == 2 and sign == 2 * sign[0] and sign.isascii() else _one_sign(sign)


def _one_sign(text: str, flag: str = "--separator", forbidden: str = '"') -> str:
    sign = text
    if len(sign) != 1 or not sign.isascii() or sign in forbidden + "\r\n":
        example = {"--separator": "; or \\t for a tab", "--quote": "', or none", "--escape": "\\"}[flag]
        raise UserError(f"{flag}={text!r} must be one character, such as {example}")
    return sign
