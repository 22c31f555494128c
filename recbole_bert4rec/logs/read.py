"""Reads a log of any form and size into one table of DuckDB; no row is lost, and a mistake is named with its line."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TextIO

import duckdb
import pyarrow as pa
from pyarrow import parquet

from recbole_bert4rec.logs.conversion import has_quotes
from recbole_bert4rec.logs.formats import (
    DAMAGED,
    Reading,
    find_encoding,
    find_files,
    find_separator,
    one_sign,
    open_bytes,
    open_text,
    separators,
    undecodable,
)
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list

Connection = duckdb.DuckDBPyConnection

_MEMORY = 1 << 30
"""Bytes that sorting and counting take at most; what is more lies on the disk."""
_LONGEST = 1 << 26
"""Bytes of a line."""
_COUNTED = 1 << 20
"""Bytes whose lines are counted at once."""
_STAND_IN = "\x1f"
"""ASCII's sign between units, in the place of a separator of several signs."""
_SEEN = 100
"""Objects whose keys are the columns of JSON lines."""
_TYPED = re.compile(r"(.*):(token|token_seq|float|float_seq)")
"""A column's name and its type, as in RecBole's files."""
_DATUM = re.compile(r"\s*[+-]?\d[\d.,:TZ+ -]*")
"""A number or a date, which names no column."""


@contextmanager
def connected(scratch: Path) -> Iterator[Connection]:
    """Give a database in memory, with a folder for what memory does not hold."""
    memory = min(_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    how: dict[str, Any] = {"memory_limit": f"{memory}B", "temp_directory": str(scratch / "spilled")}
    with duckdb.connect(":memory:", config=how) as connection:
        yield connection


def ask(connection: Connection, query: str, *values: Any) -> list[Any]:
    """Return all rows of an answer; one that is not read to its end would block the connection."""
    return connection.execute(query, values).fetchall()


def keep(connection: Connection, name: str, table: pa.Table) -> None:
    """Make a table of the database."""
    connection.register("given", table)
    ask(connection, f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.unregister("given")


class Log:
    """A log on disk.

    Attributes:
        path: of its file or folder.
        form: ``text``, ``json``, ``parquet`` or ``atomic``.
        files: that hold the rows.
        read_as: how the log was read; filled by :meth:`read`.
        doubts: what may be wrong, a sentence each; filled by :meth:`read`.
    """

    def __init__(self, name: str, reading: Reading, flag: str = "--dataset") -> None:
        self.path = Path(name).resolve()
        self.form, self.files, self.doubts = find_files(name, flag)
        self.reading = reading
        self.read_as: dict[str, str] = {}
        self._separator, self._header, self._width, self._columns = "", 1, 0, list[str]()
        self._sources: list[int] | None = None  # the row of each interaction; None: each has its own
        self._connection: Connection | None = None

    def status(self) -> list[list[Any]]:
        """Return path (within the log's folder), bytes, and times of change of content and of all of each file.

        The last one tells files apart whose size and time of change were kept when one took the place of another.
        """
        base, states = self.path.parent, [(file, file.stat()) for file in self.files]
        return [
            [file.relative_to(base).as_posix(), state.st_size, state.st_mtime, state.st_ctime] for file, state in states
        ]

    # ---- columns

    def present(self, needed: list[str], more: list[str]) -> list[str]:
        """Return the names of columns that must be there, and of those that may be and are."""
        there = self.names([*needed, *more])
        self._check_columns(needed, there)
        return [*needed, *(name for name in more if name in there)]

    def names(self, wanted: list[str]) -> list[str]:
        """Return the names of the columns, among which those that are wanted should be."""
        if not any(file.stat().st_size for file in self.files):
            raise self._empty()
        if self.form == "parquet":
            return _dotted(self._schema(wanted))
        with self._explained():
            return self._names_of_objects if self.form == "json" else self._names_of_text(wanted)

    def check_names(self, columns: list[str]) -> None:
        """Refuse names that no atomic file can have."""
        if len(set(columns)) < len(columns):
            raise UserError(f"USER_ID_FIELD, ITEM_ID_FIELD and TIME_FIELD must be three columns, but are {columns}")
        for column in columns:
            if ":" in column or "\t" in column:
                option = f" ({NAMES_OF_COLUMNS[columns.index(column)]})" if columns.index(column) < 3 else ""
                raise UserError(f"{self.path}: the name of column {column!r}{option} must hold neither ':' nor a tab")

    def _empty(self) -> UserError:
        return UserError(f"{self.path} is empty; its first line must name the columns")

    def _check_columns(self, wanted: list[str], there: list[str]) -> None:
        flags = NAMES_OF_COLUMNS[:2] if self.reading.in_order else NAMES_OF_COLUMNS
        for position, column in enumerate(wanted):
            if column not in there:
                near, flag = nearest(column, there), dict(enumerate(flags)).get(position)
                mend = f"; name yours with --{flag}=NAME" if flag else ""
                meant = f"; did you mean --{flag}={near}?" if near and flag else ""
                hint = self._hint(there)
                if position == 2 and flag:
                    hint = f"; of a log whose rows are in their order --in_order=True needs no times{hint}"
                raise UserError(
                    f"{self.path} has no column {column!r}; its columns are {short_list(there)}{mend}{meant}{hint}"
                )
            if there.count(column) > 1:
                raise UserError(f"{self.path}: two columns have the same name, {column!r}; rename one")

    def _hint(self, there: list[str]) -> str:
        """Name reasons, besides a wrong name, why a column is not there."""
        if self.form not in ("text", "atomic"):
            return ""
        if self.reading.columns is None and any(_DATUM.fullmatch(name) for name in there):
            return (
                "; if its first line is no header, name the columns in their order: --columns=user_id,item_id,timestamp"
            )
        return "; it has one column, or another separator: name that with --separator=..." if len(there) == 1 else ""

    # ---- rows

    def read(self, connection: Connection, columns: list[str], scratch: Path) -> list[str]:
        """Make the table ``log`` with the columns ``c0``, ``c1``, ... and a row an interaction; return their types.

        The rows have the log's order. A row with lists, such as a session's items, is as many interactions as its lists
        have values. With ``in_order`` the third column is the number of the row.
        """
        in_order = self.reading.in_order and len(columns) > 2
        wanted = [*columns[:2], *columns[3:]] if in_order else columns
        self.store(connection, wanted, scratch)
        numbers = [number for number in range(len(columns)) if not in_order or number != 2]
        renamed = [f"s{place} AS c{number}" for place, number in enumerate(numbers)]
        lists = [place for place, kind in enumerate(self._types("stored")) if kind.endswith("[]")]
        if lists:
            self._without_lists(wanted, lists)
        self._all(f"CREATE TABLE log AS SELECT {', '.join(renamed)}{', rowid AS c2' if in_order else ''} FROM stored")
        self._all("DROP TABLE stored")
        if not self._one("SELECT count(*) FROM log"):
            raise UserError(f"{self.path} has a header but no rows")
        return self._types("log")

    def store(self, connection: Connection, columns: list[str], scratch: Path) -> None:
        """Make the table ``stored`` with the columns ``s0``, ``s1``, ..., a row as the log has it: lists stay lists."""
        self._check_columns(columns, self.names(columns))
        self._connection = connection
        select = {"parquet": self._of_parquet, "json": self._of_json}.get(self.form, self._of_text)
        with self._explained():
            select(columns, scratch)

    def _types(self, table: str) -> list[str]:
        """Return the types of the columns, in their order by name."""
        kinds = self._all(f"SELECT column_name, column_type FROM (DESCRIBE {table})")
        return [kind for name, kind in sorted(kinds, key=lambda pair: (len(pair[0]), pair[0])) if name != "source"]

    def _all(self, query: str, *values: Any) -> list[Any]:
        assert self._connection is not None
        return ask(self._connection, query, *values)

    def _one(self, query: str, *values: Any) -> Any:
        """Return the first value of the first row; None if there is no row."""
        rows = self._all(query, *values)
        return rows[0][0] if rows else None

    def _without_lists(self, names: list[str], lists: list[int]) -> None:
        """Make a row of each value of the lists in a row, which must be as many in each."""
        lengths = [f"coalesce(len(s{place}), 0)" for place in lists]
        for place, length in zip(lists, lengths, strict=True):
            if odd := self._all(
                f"SELECT rowid, {lengths[0]}, {length} FROM stored WHERE {length} <> {lengths[0]} ORDER BY 1 LIMIT 1"
            ):
                row, first, other = odd[0]
                raise UserError(
                    f"{self.where(row)}: the lists {names[lists[0]]!r} and {names[place]!r} in row {row + 1} have "
                    f"{first} and {other} values; they must be as many"
                )
        if empty := self._one(f"SELECT count(*) FROM stored WHERE {lengths[0]} = 0"):
            self.doubts.append(f"{empty:,} rows are left out, whose lists are empty")
        values = [f"unnest(s{place}) AS s{place}" if place in lists else f"s{place}" for place in range(len(names))]
        self._all(f"CREATE TABLE single AS SELECT {', '.join(values)}, rowid AS source FROM stored")
        self._all("DROP TABLE stored")
        self._all("CREATE TABLE sources AS SELECT source FROM single")
        self._all("ALTER TABLE single DROP COLUMN source")
        self._all("ALTER TABLE single RENAME TO stored")
        self._sources = []

    # ---- places

    def where(self, row: int | None = None) -> str:
        """Name the place of an interaction: file, and line if there are lines."""
        line = [] if row is None else self.lines([int(row)])
        return f"{self.path}, line {line[0]}" if line else str(self.path)

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some interactions, in their order, begins; none if the log has no lines."""
        if self._sources is not None:
            rows = [self._one("SELECT source FROM sources WHERE rowid = ?", row) for row in rows]
        if self.form == "parquet":
            return []
        wanted, lines = iter(rows), list[int]()
        row = next(wanted, None)
        for number, (line, _) in enumerate(self._objects() if self.form == "json" else self._records()):
            while number == row:
                lines.append(line)
                row = next(wanted, None)
            if row is None:
                break
        return lines

    # ---- texts

    @property
    def encoding(self) -> str:
        """Encoding of the text, which the user names or the first bytes tell."""
        if "encoding" not in self.read_as:
            self.read_as["encoding"] = find_encoding(self.path, self.reading)
        return self.read_as["encoding"]

    @contextmanager
    def _explained(self, part: Path | None = None) -> Iterator[None]:
        """Say of what goes wrong inside the block what is wrong with the log, or with one of its files."""
        try:
            yield
        except UnicodeDecodeError as error:
            raise undecodable(self.path, self.encoding, error) from error
        except DAMAGED as error:
            raise self._damaged(error) from error
        except (duckdb.Error, pa.ArrowException) as error:
            if self.form == "parquet":
                raise UserError(f"{part or self.path} cannot be read: {' '.join(str(error).split())}") from error
            with self._explained():
                for _ in self._objects() if self.form == "json" else self._records(strict=True):
                    pass
            raise UserError(f"{self.path} cannot be read: {str(error).splitlines()[0]}") from error

    def _damaged(self, error: Exception) -> UserError:
        return UserError(f"{self.path} is damaged ({error}); download or compress it again")

    def _lines(self) -> TextIO:
        return open_text(self.path, self.encoding)

    def _unpacked(self, scratch: Path) -> tuple[Path, int | None]:
        """Return the text as DuckDB reads it, in UTF-8 with line ends of one kind; and its lines, as far as they matter.

        It is the log itself, or a copy. The lines are None in a text without quotes, whose values hold no line breaks.
        """
        lines, lone, quotes, last = 0, 0, False, b"\n"
        sign = (self._quote or '"').encode()
        with open_bytes(self.path) as file:
            while block := file.read(_COUNTED):
                lines += block.count(b"\n") - (last.endswith(b"\r") and block.startswith(b"\n"))
                if b"\r" in block:
                    returns = block.count(b"\r")
                    lines, lone = lines + returns - block.count(b"\r\n"), lone + returns - block.count(b"\r\n")
                    lone -= block.endswith(b"\r")
                quotes, last = quotes or sign in block, block
        count = lines + (not last.endswith((b"\r", b"\n"))) if quotes and self._quote else None
        if self.encoding == "utf-8" and not lone and not self.path.name.lower().endswith(".gz"):
            return self.path, count
        copy = scratch / "log.txt"
        with open_text(self.path, self.encoding, newline=None) as source, copy.open("w", encoding="utf-8") as target:
            while text := source.read(_COUNTED):
                target.write(text)
        return copy, count

    @property
    def _quote(self) -> str:
        """The sign around values, empty where there is none."""
        if self.form == "atomic":
            return '"' if has_quotes(self.path) else ""
        quote = self.reading.quote
        return '"' if quote is None else "" if quote == "none" else one_sign(quote, "--quote")

    @property
    def _escape(self) -> str:
        return "" if self.reading.escape is None else one_sign(self.reading.escape, "--escape")

    def _csv(self, lines: Iterable[str], separator: str, strict: bool = False) -> Any:
        """Return Python's reader of lines."""
        if len(separator) > 1:
            lines, separator = map(partial(_replaced, separator=separator), lines), _STAND_IN
        style: dict[str, Any] = {"quotechar": self._quote} if self._quote else {"quoting": csv.QUOTE_NONE}
        return csv.reader(lines, delimiter=separator, strict=strict, escapechar=self._escape or None, **style)

    def _names_of_text(self, wanted: list[str]) -> list[str]:
        """Return the names of the columns, and find the separator."""
        signs = ("\t",) if self.form == "atomic" else separators(self.path, self.reading)
        self._separator, names = find_separator(self._first, wanted, signs)
        if self.reading.columns is not None and not {*wanted[:2]} <= {*names}:
            names = self._without_header([name.strip() for name in self.reading.columns.split(",")], signs)
        if not names:
            raise self._empty()
        self.read_as["separator"] = self._separator
        self._columns, self._width = names, len(names)
        return names

    def _first(self, separator: str) -> list[str]:
        """Return the values of the first line, of names without spaces and type."""
        with self._lines() as file:
            reader = self._csv(file, separator)
            names = next((names for names in reader if names), [])
            self._header = reader.line_num
        typed = [_TYPED.fullmatch(name.strip()) for name in names]
        return [name.strip() if match is None else match[1] for name, match in zip(names, typed, strict=True)]

    def _without_header(self, names: list[str], signs: Sequence[str]) -> list[str]:
        """Find the separator by which the first line has as many values as there are names."""
        lines = {separator: self._first(separator) for separator in signs}
        separator, values = max(lines.items(), key=lambda line: (len(line[1]) == len(names), len(line[1])))
        if len(values) != len(names):
            raise UserError(
                f"{self.path}, line 1: --columns must name each of the {len(values)} columns, separated by "
                f"{separator!r}, but names {len(names)} ({short_list(names)}): {short(separator.join(values))}"
            )
        self._separator, self._header = separator, 0
        return names

    def _of_text(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of a text."""
        there = self.names(wanted)
        plain, lines = self._unpacked(scratch)
        dialect = {"delim": self._separator, "quote": self._quote, "escape": self._escape or self._quote}
        self._store(
            plain,
            [f"f{there.index(name)}" for name in wanted],
            [f"f{n}" for n in range(len(there))],
            self._header,
            dialect,
        )
        rows = self._one("SELECT count(*) FROM stored")
        if lines is not None and lines != rows + self._header:
            self._check_line_breaks()

    def _store(
        self, plain: Path, values: list[str], columns: list[str], skip: int, dialect: dict[str, str], where: str = ""
    ) -> None:
        """Make the table ``stored`` of a text in UTF-8."""
        kinds = ", ".join(f"{name}: 'VARCHAR'" for name in columns)
        select = ", ".join(f"{value} AS s{place}" for place, value in enumerate(values))
        self._all(
            f"CREATE TABLE stored AS SELECT {select} FROM read_csv(?, auto_detect = false, header = false, "
            f"columns = {{{kinds}}}, skip = {skip}, delim = ?, quote = ?, escape = ?, "
            f"strict_mode = {bool(dialect['quote'])}, max_line_size = {_LONGEST}){where}",
            str(plain),
            *dialect.values(),
        )

    def _check_line_breaks(self) -> None:
        """Tell values that hold line breaks from quotes that swallow rows.

        A value swallows rows where all lines that it spans could be rows. With ``--quote`` it is believed.
        """
        spans, begin = [], 1
        with self._lines() as file:
            kept: list[str] = []
            for fields in self._csv(_recorded(file, kept), self._separator):
                lines, kept[:] = kept[:], []
                if fields and len(lines) > 1:
                    widths = {len(line.split(self._separator)) for line in lines}
                    if self.reading.quote is None and widths == {self._width}:
                        raise self._swallowed(begin, lines[0], len(lines))
                    spans.append(begin)
                begin += len(lines)
        if spans:
            self.doubts.append(
                f"{len(spans):,} rows hold line breaks inside of quotes, the first in line {spans[0]}; --quote=none "
                "reads a row a line"
            )

    def _swallowed(self, begin: int, text: str, count: int) -> UserError:
        lost = f" before line {begin + count - 1}, so that {count - 1} rows would be lost" if count > 1 else ""
        return UserError(
            f"{self.path}, line {begin}: a value begins with a quote that is not closed as it should be{lost}: "
            f"{short(text.strip())}. --quote=none takes quotes for signs like others, --escape=\\ one after a backslash; "
            'else double those inside of values: "the ""best"" one"'
        )

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield the line in which each row begins, and its values; ``strict`` refuses one that is no row."""
        with self._lines() as file:
            kept: list[str] = []
            reader, begin = self._csv(_recorded(file, kept), self._separator, strict), 1
            try:
                for fields in reader:
                    if fields and begin > self._header:
                        if strict and len(fields) != self._width and fields[self._width :] != [""]:
                            raise UserError(
                                f"{self.path}, line {begin}: the number of columns is {len(fields)}, but the header has "
                                f"{self._width} ({short_list(self._columns)}), separated by {self._separator!r}: {short(self._separator.join(fields))}"
                            )
                        yield begin, fields
                    begin += len(kept)
                    kept.clear()
            except csv.Error as error:
                raise self._swallowed(begin, kept[0], len(kept)) from error

    # ---- JSON lines

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the line of each object, and the object; what is none is refused."""
        with self._lines() as file:
            for number, line in enumerate(file, 1):
                if not (text := line.strip()):
                    continue
                try:
                    record = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise UserError(
                        f"{self.path}, line {number} is no JSON ({error}); each line must hold an object: {short(text)}"
                    ) from error
                if not isinstance(record, dict):
                    raise UserError(f"{self.path}, line {number} must hold an object, but holds {short(record)}")
                yield number, record

    @cached_property
    def _names_of_objects(self) -> list[str]:
        """The keys of the first objects, and with dots those of objects in them."""
        return list(dict.fromkeys(name for name, _ in self._keys))

    @cached_property
    def _keys(self) -> list[tuple[str, str]]:
        """Names of the first objects' values, and their paths for DuckDB."""
        return list(dict.fromkeys(pair for _, one in itertools.islice(self._objects(), _SEEN) for pair in _paths(one)))

    def _of_json(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of JSON lines: texts, or lists of them."""
        plain, _ = self._unpacked(scratch)
        paths = dict(self._keys)
        values = [f"json_extract(line, {in_quotes(paths[name])})" for name in wanted]
        inner = [
            f"to_json({value})" if "[*]" in paths[name] else value for name, value in zip(wanted, values, strict=True)
        ]
        is_object = "CASE json_type(line) WHEN 'OBJECT' THEN true ELSE error('a line holds no object') END"
        self._store(
            plain,
            [f"nullif({value}::VARCHAR, 'NaN')" for value in inner],
            ["line"],
            0,
            {"delim": "\x01", "quote": "", "escape": ""},
            f" WHERE trim(line, ' \t') <> '' AND {is_object}",
        )
        texts = []
        for place, name in enumerate(wanted):
            held = f"s{place}"
            if (
                row := self._one(f"SELECT min(rowid) FROM stored WHERE regexp_matches({held}, '^(\\{{|\\[[\\[{{])')")
            ) is not None:
                value = self._one(f"SELECT {held} FROM stored WHERE rowid = ?", row)
                inside = next((key for key in self._names_of_objects if key.startswith(f"{name}.")), "")
                named = f"; what it holds is named like {inside}" if inside else ""
                raise UserError(
                    f"{self.where(row)}: column {name!r} must hold texts or numbers, or lists of them, but holds "
                    f"{short(value)}{named}"
                )
            text = f"json_extract_string({held}, '$')"
            if self._one(f"SELECT bool_or(starts_with({held}, '[')) FROM stored"):
                text = f"CASE WHEN starts_with({held}, '[') THEN json_extract_string({held}, '$[*]') ELSE [{text}] END"
            texts.append(f"{text} AS s{place}")
        self._all(f"CREATE TABLE texts AS SELECT {', '.join(texts)} FROM stored")
        self._all("DROP TABLE stored")
        self._all("ALTER TABLE texts RENAME TO stored")

    # ---- Parquet

    def count(self) -> int:
        """Return how many rows files of Parquet have."""
        count = 0
        for file in self.files:
            with self._explained(file):
                count += parquet.read_metadata(file).num_rows
        return count

    def _schema(self, wanted: list[str]) -> pa.Schema:
        """Return the columns of all files; those that are wanted must be in each, in types that go together.

        Folders named ``column=value`` are columns of texts.
        """
        schemas = []
        for file in self.files:
            with self._explained(file):
                schemas.append((file, parquet.read_schema(file)))
        first = schemas[0][1]
        parts = self.files[0].relative_to(self.path).parts[:-1] if self.path.is_dir() else ()
        keys = [part.partition("=")[0] for part in parts if "=" in part]
        roots = {_root(name, first.names) for name in wanted} - {*keys}
        for name in (name for name in first.names if name in roots):
            for file, other in schemas[1:]:
                if name not in other.names:
                    raise UserError(f"{file} has no column {name!r}, which {self.files[0]} has")
                both = first.field(name).type, other.field(name).type
                if len({*map(_family, both)} - {"null"}) > 1:
                    raise UserError(
                        f"{file}: {name!r} is of type {both[1]}, but {both[0]} in {self.files[0]}; write the column of "
                        "all files in one type"
                    )
        for key in keys:
            first = first.append(pa.field(key, pa.string())) if key not in first.names else first
        return first

    def _of_parquet(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of Parquet files."""
        schema = self._schema(wanted)
        values = [f"{_inside(name, schema)} AS s{place}" for place, name in enumerate(wanted)]
        for name in wanted:
            if name in schema.names and pa.types.is_duration(schema.field(name).type):
                raise UserError(f"{self.path}: {name!r} holds durations, of type {schema.field(name).type}")
        self._all(
            f"CREATE TABLE stored AS SELECT {', '.join(values)} FROM read_parquet(?, union_by_name = true, "
            f"hive_partitioning = {self.path.is_dir()}, hive_types_autocast = false)",
            [str(file) for file in self.files if file.stat().st_size],
        )


def _replaced(text: str, separator: str) -> str:
    return text.replace(separator, _STAND_IN)


def _recorded(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    """Yield lines that are also kept, until who reads them takes them away."""
    for line in lines:
        kept.append(line)
        yield line


def in_quotes(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _paths(value: object, name: str = "", path: str = "$") -> Iterator[tuple[str, str]]:
    """Yield name and path of each value in an object; of a list of objects, by its first one."""
    if isinstance(value, list):
        value, path = value[:1] and value[0], f"{path}[*]"
    for key, inner in value.items() if isinstance(value, dict) else ():
        here = f'{path}."{key}"'
        yield f"{name}{key}", here
        yield from _paths(inner, f"{name}{key}.", here)


def is_list(kind: pa.DataType) -> bool:
    """Tell whether each value of a column is a list of values."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _dotted(fields: Iterable[pa.Field[Any]], before: str = "") -> list[str]:
    """Return the names of columns, and with dots those of their fields: ``events``, ``events.item``."""
    names = []
    for field in fields:
        names.append(before + field.name)
        kind = field.type.value_type if is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            names += _dotted(kind, f"{before}{field.name}.")
    return names


def _root(name: str, names: Sequence[str]) -> str:
    """Return the column in which a value lies."""
    return name if name in names else name.partition(".")[0]


def _family(kind: pa.DataType) -> str:
    """Return what types of a column that go together have in common; those with and without a time zone do not."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_timestamp(kind):
        return f"time {kind.tz is not None}"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else str(kind)


def _inside(name: str, schema: pa.Schema) -> str:
    """Return a column, or a field in one, as SQL names it; of a column of lists, a list of fields in each row."""
    root = _root(name, schema.names)
    value, kind = '"' + root.replace('"', '""') + '"', schema.field(root).type
    for key in name[len(root) + 1 :].split(".") if name != root else ():
        if is_list(kind):
            value, kind = f"list_transform({value}, lambda x: x[{in_quotes(key)}])", kind.value_type.field(key).type
        else:
            value, kind = f"{value}[{in_quotes(key)}]", kind.field(key).type
    return value
