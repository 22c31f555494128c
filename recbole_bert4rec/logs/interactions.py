"""Reads interactions of any number from a log or an atomic file, a part of the users at a time."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from logging import getLogger
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import ipc, parquet

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.ids import code_ids
from recbole_bert4rec.logs.read import Log, ask, batches, connected, keep
from recbole_bert4rec.logs.times import no_times
from recbole_bert4rec.system.errors import UserError

_ROWS = 1 << 16  # read at once
_PART = 1 << 18  # interactions of a part, about
_BYTES_OF_PARQUET, _BYTES_OF_TEXT = 4, 16  # of the file, for each interaction
_MOST_PARTS = 500


class InteractionFile:
    """A file, or a folder of files, with a row an interaction, or a row a user with a list of items."""

    def __init__(
        self,
        path: str,
        fields: tuple[str, str, str],
        reading: Reading | None = None,
        flag: str = "--input",
        needs_times: bool = False,
    ) -> None:
        self.path, self._fields, self._reading = Path(path), fields, reading or Reading()
        self._first = list[str]()
        self._log = Log(path, self._reading, flag)
        needed = list(fields if needs_times else fields[:2])
        self._columns = self._log.present(needed, [] if needs_times or self._reading.in_order else [fields[2]])
        if len(self._columns) < 3 and not self._reading.in_order and flag == "--input":
            self._log.doubts.append(no_times(fields[2]))

    @property
    def identity(self) -> dict[str, Any]:
        """Return values that change with the content: names, sizes and times of files, columns, the way of reading."""
        log = {"log": str(self._log.path), "files": self._log.status(), "fields": list(self._fields)}
        return log | asdict(self._reading)

    @property
    def n_parts(self) -> int:
        """Into how many parts the users are divided, so that one fits into memory with ease."""
        a_row = _BYTES_OF_PARQUET if self._log.form == "parquet" else _BYTES_OF_TEXT
        rows: int = sum(size for _, size, *_ in self._log.status()) // a_row
        return min(_MOST_PARTS, 1 + rows // _PART)

    def divide(self, folder: Path, count: int) -> list[Path]:
        """Write the interactions of each part of the users into a file of its own, unless that was done before."""
        if not folder.is_dir():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            for number, tables in itertools.groupby(self.parts(count, folder.parent), key=itemgetter(0)):
                (_, first), path = next(tables), str(unfinished / f"{number:05d}.arrow")
                with pa.OSFile(path, "wb") as sink, ipc.new_file(sink, first.schema) as writer:
                    for table in itertools.chain([first], (table for _, table in tables)):
                        writer.write_table(table)
            unfinished.rename(folder)
        files = sorted(folder.iterdir())
        if not files:
            raise UserError(f"{self.path} holds no interactions")
        return files

    def parts(self, count: int, scratch: Path) -> Iterator[tuple[int, pa.Table]]:
        """Yield the interactions of each part of the users in the order of the file, a number of the part with each.

        Ids are texts, times as they are written.
        """
        with TemporaryDirectory(dir=scratch) as folder, connected(Path(folder)) as connection:
            rows = self._log.read(connection, self._columns, Path(folder))
            users, items = (code_ids(connection, f"c{n}", self._columns[n], self._log).tokens for n in (0, 1))
            self._first = [str(users[0]), str(items[0])] if len(users) and len(items) else []
            of_users = pd.util.hash_array(users.to_numpy(zero_copy_only=False), categorize=True) % np.uint64(count)
            coded = [pa.array(column.astype(np.int32)) for column in (np.arange(len(users)), of_users)]
            keep(connection, "parts", pa.table(coded, names=["code", "part"]))
            time = ", c2" if len(self._columns) > 2 else ""
            joined = "FROM log JOIN of_c0 ON c0 = of_c0.written JOIN of_c1 ON c1 = of_c1.written"
            ((kept,),) = ask(connection, f"SELECT count(*) {joined}")
            if rows > kept:
                self._log.doubts.append(f"{rows - kept:,} rows are left out, whose user or item is empty")
            for doubt in self._log.doubts:
                getLogger(__name__).warning(f"{self.path}: {doubt}")
            self._log.doubts.clear()
            in_parts = (
                f"SELECT part, of_c0.code, of_c1.code{time} {joined} JOIN parts ON of_c0.code = parts.code "
                "ORDER BY part, log.rowid"
            )
            for batch in batches(connection, in_parts, _ROWS):
                part, of_user, of_item, *times = batch.columns
                columns = [users.take(of_user), items.take(of_item), *times]
                table, numbers = pa.table(columns, names=self._columns), part.to_numpy()
                starts = np.flatnonzero(np.diff(numbers, prepend=-1))
                for start, end in itertools.pairwise([*starts.tolist(), len(table)]):
                    yield int(numbers[start]), table.slice(start, end - start)

    def example(self, column: int = 1) -> str:
        """Return the first item, or for column 0 the first user."""
        if not self._first:  # it was divided before
            with TemporaryDirectory() as folder:
                next(self.parts(1, Path(folder)))
        return self._first[column]


def read_part(file: Path, fields: Sequence[str]) -> pd.DataFrame:
    """Return the interactions of a part that :meth:`InteractionFile.divide` wrote, by these names of their columns."""
    with pa.memory_map(str(file)) as source:
        table = ipc.open_file(source).read_all()
    return table.rename_columns(list(fields[: table.num_columns])).to_pandas()


def write_table(table: pd.DataFrame, path: Path, kind: str) -> None:
    """Write a frame; columns that are not numbers are written as text."""
    if kind == ".csv":
        table.to_csv(path, index=False)
        return
    types = [pa.string() if dtype.kind == "O" else pa.from_numpy_dtype(dtype) for dtype in table.dtypes]
    schema = pa.schema(list(zip(map(str, table.columns), types, strict=True)))  # the same where a part has no row
    parquet.write_table(pa.Table.from_pandas(table, schema, preserve_index=False).replace_schema_metadata(), path)


def join_tables(parts: list[Path], path: Path, kind: str) -> None:
    """Write several files of :func:`write_table` as one, in memory that does not grow with them."""
    if kind == ".csv":
        with open(path, "wb") as target:
            for number, part in enumerate(parts):
                with open(part, "rb") as source:
                    if number:
                        source.readline()  # the header
                    shutil.copyfileobj(source, target)
        return
    with parquet.ParquetWriter(path, parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))
