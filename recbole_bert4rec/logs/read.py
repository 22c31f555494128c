"""Reads a log of any form and size into one table of DuckDB; no row is lost, and a mistake is named with its line."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
from pyarrow import parquet

from recbole_bert4rec.logs.conversion import has_quotes
from recbole_bert4rec.logs.formats import (
    STAND_IN,
    UNREADABLE,
    Reading,
    find_encoding,
    find_files,
    one_sign,
    open_bytes,
    open_text,
    separators,
    unreadable,
)
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list

Connection = duckdb.DuckDBPyConnection
T = TypeVar("T")

_MEMORY = 1 << 30
"""Bytes that sorting and counting take at most; what is more lies on the disk."""
_THREADS = 4
"""Each takes some of that memory."""
_LONGEST = 1 << 22
"""Bytes of a line; DuckDB takes 16 times as many for what it reads."""
_BLOCK = 1 << 20
"""Bytes of a text that are looked at at once."""
_PART = "path of the part"
"""Column of DuckDB's, by a name that no column of a log has."""
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
    how: dict[str, Any] = {"memory_limit": f"{memory}B", "threads": min(_THREADS, os.cpu_count() or 1)}
    with duckdb.connect(":memory:", config={**how, "temp_directory": str(scratch / "spilled")}) as connection:
        ask(connection, "SET TimeZone = 'UTC'")  # not the machine's
        try:
            yield connection
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{scratch.parent} needs more room, or the machine more memory: {reason}") from error


def _waiting(connection: Connection, work: Callable[[], T]) -> T:
    """Do some work of DuckDB in another thread, so that a signal ends it: DuckDB does not always look for one."""
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(work)
        try:
            return begun.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def ask(connection: Connection, query: str, *values: Any) -> list[Any]:
    """Return all rows of an answer; one that is not read to its end would block the connection."""
    return _waiting(connection, lambda: connection.execute(query, values).fetchall())


def fetch(connection: Connection, query: str) -> pa.Table:
    """Return all rows of an answer as a table."""
    return _waiting(connection, lambda: connection.sql(query).to_arrow_table())


def batches(connection: Connection, query: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an answer in its order, at most so many at a time."""
    reader = _waiting(connection, lambda: connection.sql(query).to_arrow_reader(rows))
    while (batch := _waiting(connection, lambda: next(reader, None))) is not None:
        yield batch


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
        reading: how it is to be read.
        read_as: how it was read; filled by :meth:`read`.
        doubts: what may be wrong, a sentence each; filled by :meth:`read`.
    """

    def __init__(self, name: str, reading: Reading, flag: str = "--dataset") -> None:
        try:
            zoneinfo.ZoneInfo(reading.timezone or "UTC")
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UserError(f"--timezone={reading.timezone} must be a name such as Europe/Berlin or UTC") from error
        self.path = Path(name).resolve()
        self.form, self.files, self.doubts = find_files(name, flag)
        self.reading = reading
        self.read_as: dict[str, str] = {}
        self._separator, self._skipped, self._header, self._columns = "", 1, 1, list[str]()
        self._connection: Connection | None = None
        self._has_lists = False
        self._schemas, self._keys = dict[Path, pa.Schema](), list[str]()

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
            return list(self._paths) if self.form == "json" else self._names_of_text(wanted)

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
        """Name reasons, besides a wrong name, why a column of a text is not there."""
        if self.form not in ("text", "atomic"):
            return ""
        if self.reading.columns is None and any(_DATUM.fullmatch(name) for name in there):
            return (
                "; if its first line is no header, name the columns in their order: --columns=user_id,item_id,timestamp"
            )
        return "; it has one column, or another separator: name that with --separator=..." if len(there) == 1 else ""

    # ---- rows

    def read(self, connection: Connection, columns: list[str], scratch: Path) -> int:
        """Make the table ``log`` with the columns ``c0``, ``c1``, ..., a row an interaction; return how many there are.

        They have the log's order. A row with lists, such as a session's items, is as many interactions as its lists
        have values. With ``in_order`` the third column, ``c2``, is left out.
        """
        numbers = [number for number in range(len(columns)) if number != 2 or not self.reading.in_order]
        names = [columns[number] for number in numbers]
        self.store(connection, names, scratch)
        lists = [place for place, kind in enumerate(connection.table("stored").types) if str(kind).endswith("[]")]
        self._check_lists(names, lists)
        values = [f"unnest(s{place})" if place in lists else f"s{place}" for place in range(len(names))]
        named = [f"{value} AS c{number}" for value, number in zip(values, numbers, strict=True)]
        source = ", rowid AS source" if lists else ""
        self._all(f"CREATE TABLE log AS SELECT {', '.join(named)}{source} FROM stored")
        self._all("DROP TABLE stored")
        self._has_lists = bool(lists)
        count: int = self._one("SELECT count(*) FROM log")
        if not count:
            raise UserError(f"{self.path} has a header but no rows")
        return count

    def store(self, connection: Connection, columns: list[str], scratch: Path) -> None:
        """Make the table ``stored`` with the columns ``s0``, ``s1``, ..., a row as the log has it: lists stay lists."""
        self._check_columns(columns, self.names(columns))
        self._connection = connection
        select = {"parquet": self._of_parquet, "json": self._of_json}.get(self.form, self._of_text)
        with self._explained():
            select(columns, scratch)

    def _all(self, query: str, *values: Any) -> list[Any]:
        assert self._connection is not None
        return ask(self._connection, query, *values)

    def _one(self, query: str, *values: Any) -> Any:
        """Return the first value of the first row."""
        return self._all(query, *values)[0][0]

    def _check_lists(self, names: list[str], lists: list[int]) -> None:
        """Refuse a row whose lists are not as long as each other; count those whose lists are empty."""
        lengths = [f"coalesce(len(s{place}), 0)" for place in lists]
        for place, length in zip(lists, lengths, strict=True):
            differs = f"FROM stored WHERE {length} <> {lengths[0]} ORDER BY rowid LIMIT 1"
            for row, first, other in self._all(f"SELECT rowid, {lengths[0]}, {length} {differs}"):
                raise UserError(
                    f"{self.where(row)}: the lists {names[lists[0]]!r} and {names[place]!r} in row {row + 1} have "
                    f"{first} and {other} values; they must be as many"
                )
        if lists and (empty := self._one(f"SELECT count(*) FROM stored WHERE {lengths[0]} = 0")):
            self.doubts.append(f"{empty:,} rows are left out, whose lists are empty")

    # ---- places

    def where(self, row: int | None = None) -> str:
        """Name the place of an interaction: file, and line if there are lines."""
        line = [] if row is None else self.lines([int(row)])
        return f"{self.path}, line {line[0]}" if line else str(self.path)

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some interactions, in their order, begins; none if the log has no lines."""
        if self.form == "parquet":
            return []
        if self._has_lists:
            places = ",".join(map(str, rows))
            rows = [row for (row,) in self._all(f"SELECT source FROM log WHERE rowid IN ({places}) ORDER BY rowid")]
        wanted, lines = set(rows), dict[int, int]()
        records: Iterator[tuple[Any, ...]] = self._objects() if self.form == "json" else self._records()
        for number, (line, *_) in enumerate(itertools.islice(records, max(wanted) + 1)):
            if number in wanted:
                lines[number] = line
        return [lines[row] for row in rows]

    @contextmanager
    def _explained(self, part: Path | None = None) -> Iterator[None]:
        """Say of what goes wrong inside the block what is wrong with the log, or with one of its files."""
        try:
            yield
        except UNREADABLE as error:
            raise unreadable(part or self.path, error, self.read_as.get("encoding", "")) from error
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException) as error:
            if self.form != "parquet":
                with self._explained():
                    self._refuse_mistake()
            reason = " ".join(str(error).partition("Possible")[0].split())
            raise UserError(f"{part or self.path} cannot be read: {reason}") from error

    # ---- texts

    @property
    def encoding(self) -> str:
        """Encoding of the text, which the user names or the first bytes tell."""
        if "encoding" not in self.read_as:
            self.read_as["encoding"] = find_encoding(self.path, self.reading)
        return self.read_as["encoding"]

    @property
    def _quote(self) -> str:
        """The sign around values, empty where there is none."""
        if self.form == "atomic":
            return '"' if has_quotes(self.path) else ""
        quote = self.reading.quote
        return '"' if quote is None else "" if quote == "none" else one_sign(quote, "--quote")

    @property
    def _escape(self) -> str:
        if self.reading.escape is None:
            return ""
        if not self._quote:
            raise UserError(
                "--escape names a sign before quotes, and --quote=none says that there are none; leave one out"
            )
        return one_sign(self.reading.escape, "--escape")

    def _names_of_text(self, wanted: list[str]) -> list[str]:
        """Return the names of the columns, and find the separator by which the header has those that are wanted."""
        signs = ("\t",) if self.form == "atomic" else separators(self.path, self.reading)
        first = {sign: self._first(sign) for sign in signs}
        self._separator = max(first, key=lambda sign: (len({*wanted} & {*first[sign]}), len(first[sign])))
        names = self._first(self._separator)
        if self.reading.columns is not None and not {*wanted[:2]} <= {*names}:
            names = [name.strip() for name in self.reading.columns.split(",")]
            self._separator = max(first, key=lambda sign: (len(first[sign]) == len(names), len(first[sign])))
            self._skipped, self._header, values = 0, 0, first[self._separator]
            if len(values) != len(names):
                raise UserError(
                    f"{self.path}, line 1: --columns must name each of the {len(values)} columns, separated by "
                    f"{self._separator!r}, but names {len(names)} ({short_list(names)}): "
                    f"{short(self._separator.join(values))}"
                )
        if not names:
            raise self._empty()
        self.read_as["separator"], self._columns = self._separator, names
        return names

    def _first(self, separator: str) -> list[str]:
        """Return the values of the first line, of names without spaces and type."""
        with open_text(self.path, self.encoding) as file:
            reader = self._csv(file, separator)
            names: list[str] = []
            for self._skipped, names in enumerate(reader, 1):
                if names:
                    break
            self._header = reader.line_num
        typed = [_TYPED.fullmatch(name.strip()) for name in names]
        return [name.strip() if match is None else match[1] for name, match in zip(names, typed, strict=True)]

    def _of_text(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of a text."""
        there = self._columns
        if self._quote == self._separator:
            raise UserError(f"--quote={self._quote} separates the columns of {self.path}; it cannot be both")
        plain, has_quotes = self._plain(scratch)
        values = [f"f{there.index(name)}" for name in wanted]
        columns = [f"f{number}" for number in range(len(there))]
        breaks = [f"contains(concat({', '.join(columns)}), chr(10))"] if has_quotes else []
        signs = (self._separator, self._quote, self._escape or self._quote)
        self._store(plain, values + breaks, columns, self._skipped, signs)
        if breaks and self._one(f"SELECT bool_or(s{len(values)}) FROM stored"):
            self._check_line_breaks()

    def _plain(self, scratch: Path) -> tuple[Path, bool]:
        """Return a text in UTF-8 with Unix's line ends, the log itself or a copy; and whether it has quotes."""
        signs = b"\r", self._quote.encode() or b"\r"
        found = set[bytes]()
        with open_bytes(self.path) as file:
            while block := file.read(_BLOCK):
                found |= {sign for sign in signs if sign in block}
        has_quotes = bool(self._quote) and signs[1] in found
        if self.encoding == "utf-8" and b"\r" not in found and not self.path.name.lower().endswith(".gz"):
            return self.path, has_quotes
        copy = scratch / "log.txt"
        with open_text(self.path, self.encoding) as source, copy.open("w", encoding="utf-8") as target:
            shutil.copyfileobj(source, target)
        return copy, has_quotes

    def _store(
        self,
        plain: Path,
        values: list[str],
        columns: list[str],
        skip: int,
        signs: tuple[str, str, str],
        where: str = "",
    ) -> None:
        """Make the table ``stored`` of a text in UTF-8, with these separator, quote and escape."""
        kinds = ", ".join(f"{name}: 'VARCHAR'" for name in columns)
        select = ", ".join(f"{value} AS s{place}" for place, value in enumerate(values))
        self._all(
            f"CREATE TABLE stored AS SELECT {select} FROM read_csv(?, auto_detect = false, header = false, "
            f"columns = {{{kinds}}}, skip = {skip}, delim = ?, quote = ?, escape = ?, max_line_size = {_LONGEST}, "
            f"strict_mode = {self.form != 'json'}){where}",
            _no_pattern(plain),
            *signs,
        )

    def _csv(self, lines: Iterable[str], separator: str, strict: bool = False) -> Any:
        """Return Python's reader of lines."""
        if len(separator) > 1:
            lines, separator = map(partial(_replaced, separator=separator), lines), STAND_IN
        csv.field_size_limit(_LONGEST)
        style: dict[str, Any] = {"quotechar": self._quote} if self._quote else {"quoting": csv.QUOTE_NONE}
        style["skipinitialspace"] = separator != " "  # as DuckDB finds a quote
        return csv.reader(lines, delimiter=separator, strict=strict, escapechar=self._escape or None, **style)

    def _records(self, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield the line in which each row begins, and its values; ``strict`` refuses odd quotes."""
        with open_text(self.path, self.encoding) as file:
            reader, begin = self._csv(file, self._separator, strict), 1
            try:
                for fields in reader:
                    if fields and begin > self._header:
                        yield begin, fields
                    begin = reader.line_num + 1
            except csv.Error as error:
                raise self._misquoted(begin, reader.line_num - begin) from error

    def _refuse_mistake(self) -> None:
        """Find the line that cannot be read, and say why."""
        if self.form == "json":
            for _ in self._objects():
                pass
            return
        names = self._columns
        for line, fields in self._records(strict=True):
            if len(fields) != len(names):
                raise UserError(
                    f"{self.path}, line {line}: the number of columns is {len(fields)}, but the header has "
                    f"{len(names)} ({short_list(names)}), separated by {self._separator!r}: "
                    f"{short(self._separator.join(fields))}"
                )

    def _check_line_breaks(self) -> None:
        """Refuse a value that spans lines which could all be rows, unless quotes are told; count other line breaks."""
        spans = []
        for begin, fields in self._records():
            lines = self._separator.join(fields).split("\n")
            if len(lines) > 1:
                if self.reading.quote is None and all(map(self._may_be_row, lines)):
                    raise self._misquoted(begin, len(lines) - 1)
                spans.append(begin)
        if spans:
            self.doubts.append(
                f"{len(spans):,} rows hold line breaks inside of quotes, the first in line {spans[0]}; --quote=none "
                "reads a row a line"
            )

    def _may_be_row(self, line: str) -> bool:
        """Tell whether a line has as many values as there are columns, where quotes mean nothing."""
        values = line.split(self._separator)
        return len(values) - (values[-1] == "" and len(values) > len(self._columns)) == len(self._columns)

    def _misquoted(self, begin: int, more: int) -> UserError:
        with open_text(self.path, self.encoding) as file:
            first = next(itertools.islice(file, begin - 1, None))
        lost = f" before line {begin + more}, so that {more} rows would be lost" if more else ""
        return UserError(
            f"{self.path}, line {begin}: a value begins with a quote that is not closed as it should be{lost}: "
            f"{short(first.strip())}. --quote=none takes quotes for signs like others, --escape=\\ one after a "
            'backslash; else double those inside of values: "the ""best"" one"'
        )

    # ---- JSON lines

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the line of each object, and the object; what is none is refused."""
        with open_text(self.path, self.encoding) as file:
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
    def _paths(self) -> dict[str, str]:
        """The keys of the first objects, with dots those of objects in them, and DuckDB's path of each."""
        found: dict[str, str] = {}
        for _, record in itertools.islice(self._objects(), _SEEN):
            for name, path in _paths(record):
                if len(path) <= len(found.get(name, path)):  # a key with a dot before a key in an object
                    found[name] = path
        return found

    def _of_json(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of JSON lines: texts, or lists of them."""
        plain, _ = self._plain(scratch)
        values = []
        for path in (self._paths[name] for name in wanted):
            outer, is_list, inner = path.partition("[*]")
            value = f"json_extract(line, {in_quotes(outer + is_list)})"
            if is_list:  # an element without the key keeps its place
                value = f"to_json(list_transform({value}, lambda x: json_extract(x, {in_quotes('$' + inner)})))"
            values.append(f"nullif(CAST({value} AS VARCHAR), 'NaN')")
        is_blank, is_object = "trim(coalesce(line, ''), ' \t\r') = ''", "json_type(line) = 'OBJECT'"
        where = f" WHERE CASE WHEN {is_blank} THEN false WHEN {is_object} THEN true ELSE error('no object') END"
        self._store(plain, values, ["line"], 0, ("\x01", "", ""), where)
        texts = []
        for place, name in enumerate(wanted):
            self._check_json(f"s{place}", name)
            text = f"json_extract_string(s{place}, '$')"
            if self._one(f"SELECT bool_or(starts_with(s{place}, '[')) FROM stored"):
                lists = f"json_extract_string(s{place}, '$[*]')"
                text = f"CASE WHEN starts_with(s{place}, '[') THEN {lists} ELSE [{text}] END"
            texts.append(f"{text} AS s{place}")
        self._all(f"CREATE OR REPLACE TABLE stored AS SELECT {', '.join(texts)} FROM stored")

    def _check_json(self, column: str, name: str) -> None:
        """Refuse objects, and lists of objects or lists."""
        elements = f"list_transform(json_extract({column}, '$[*]'), lambda x: json_type(x) IN ('OBJECT', 'ARRAY'))"
        is_nested = (
            f"CASE WHEN starts_with({column}, '[') THEN list_bool_or({elements}) ELSE starts_with({column}, '{{') END"
        )
        for row, value in self._all(f"SELECT rowid, {column} FROM stored WHERE {is_nested} ORDER BY 1 LIMIT 1"):
            inside = next((key for key in self._paths if key.startswith(f"{name}.")), "")
            named = f"; what it holds is named like {inside}" if inside else ""
            raise UserError(
                f"{self.where(row)}: column {name!r} must hold texts or numbers, or lists of them, but holds "
                f"{short(value)}{named}"
            )

    # ---- Parquet

    def _schema(self, wanted: list[str]) -> pa.Schema:
        """Return the columns of all files; those that are wanted must be in each, in one type. Folders name texts."""
        for file in self.files:
            if file not in self._schemas:
                with self._explained(file):
                    self._schemas[file] = parquet.read_schema(file)
        first = self._schemas[self.files[0]]
        folders = self.files[0].relative_to(self.path).parts[:-1] if self.path.is_dir() else ()
        self._keys = [folder.partition("=")[0] for folder in folders if "=" in folder]
        roots = {*first.names} & {_root(name, first.names) for name in wanted} - {*self._keys}
        both = pa.schema([first.field(name) for name in roots])
        for file, own in self._schemas.items():
            for name in roots - {*own.names}:
                raise UserError(f"{file} has no column {name!r}, which {self.files[0]} has")
            try:
                both = pa.unify_schemas([both, pa.schema([own.field(name) for name in roots])])
            except pa.ArrowTypeError as error:
                raise UserError(f"{file}: {error}; write a column of all files in one type") from error
        of_folders = [pa.field(key, pa.string()) for key in self._keys]
        return pa.schema([*both, *(field for field in first if field.name not in {*roots, *self._keys}), *of_folders])

    def _of_parquet(self, wanted: list[str], scratch: Path) -> None:
        """Make the table ``stored`` of Parquet files."""
        schema = self._schema(wanted)
        values = ", ".join(f"{self._column(name, schema)} AS s{place}" for place, name in enumerate(wanted))
        self._all(
            f"CREATE TABLE stored AS SELECT {values} FROM read_parquet(?, union_by_name = true, "
            f"filename = {in_quotes(_PART) if self._keys else False}, hive_partitioning = false)",
            list(map(_no_pattern, self.files)),
        )

    def _column(self, name: str, schema: pa.Schema) -> str:
        """Return a column, a field in one, or what the folders' names say, as SQL names it."""
        root = _root(name, schema.names)
        for each in (schema, *self._schemas.values()):
            _check_case(root, each.names)
        field = schema.field(root)
        if root in self._keys:
            below = f'substr("{_PART}", {len(str(self.path)) + 1})'
            value = f"url_decode(regexp_extract({below}, {in_quotes(f'/{re.escape(root)}=([^/]*)/')}, 1))"
            return f"nullif({value}, '__HIVE_DEFAULT_PARTITION__')"
        if pa.types.is_duration(field.type):
            raise UserError(f"{self.path}: {name!r} has type {field.type}; store ids as texts, and times as timestamps")
        keys = name[len(root) + 1 :].split(".") if name != root else []
        return _inside('"' + root.replace('"', '""') + '"', field.type, keys)


def _replaced(text: str, separator: str) -> str:
    return text.replace(separator, STAND_IN)


def _no_pattern(path: Path) -> str:
    """Return the name of a file, in which DuckDB would take some signs for a pattern of names."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(path))


def in_quotes(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def _paths(value: object, name: str = "", path: str = "$") -> Iterator[tuple[str, str]]:
    """Yield name and path of each value in an object; of a list of objects, by its first one."""
    if isinstance(value, list):
        value, path = value[:1] and value[0], f"{path}[*]"
    for key, inner in value.items() if isinstance(value, dict) else ():
        here = path + '."' + key.replace('"', '\\"') + '"'
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


def _check_case(name: str, names: list[str]) -> None:
    """Refuse a name that DuckDB could take for another one."""
    if sum(other.lower() == name.lower() for other in names) > 1:
        raise UserError(f"two of the names {short_list(names)} differ from {name!r} only in case; rename one")


def _inside(value: str, kind: Any, keys: list[str]) -> str:
    """Return a field in a value, as SQL names it; of a list, a list of the fields of its elements."""
    if not keys:
        return value
    if is_list(kind):
        element = f"x{len(keys)}"
        return f"list_transform({value}, lambda {element}: {_inside(element, kind.value_type, keys)})"
    key = keys[0]
    _check_case(key, [field.name for field in kind])
    return _inside(f"{value}[{in_quotes(key)}]", kind.field(key).type, keys[1:])
