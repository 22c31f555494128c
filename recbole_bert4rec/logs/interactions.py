"""Reads interactions of any number from a log or an atomic file, a part of the users at a time."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc, parquet

from recbole_bert4rec.logs.codes import are_whole, as_texts, cleaned, without_point
from recbole_bert4rec.logs.logs import open_log
from recbole_bert4rec.logs.parquet_log import ParquetLog
from recbole_bert4rec.logs.reading import Reading
from recbole_bert4rec.logs.times import no_times
from recbole_bert4rec.system.errors import UserError

_ROWS = 1 << 16  # read at once
_PART = 1 << 18  # interactions of a part, about
_BYTES_OF_PARQUET, _BYTES_OF_TEXT = 4, 16  # of the file, for each interaction
_MOST_PARTS = 500  # files that are open at once


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
        self._made_floats: dict[str, bool] | None = None  # which ids a program made floats of
        self._log = open_log(path, self._reading, flag)
        needed = list(fields if needs_times else fields[:2])
        self._columns = self._log.present(needed, [] if needs_times or self._reading.in_order else [fields[2]])
        if len(self._columns) < 3 and not self._reading.in_order and flag == "--input":
            self._log.doubts.append(no_times(fields[2]))

    def renamed(self, frame: pd.DataFrame, fields: tuple[str, str, str]) -> pd.DataFrame:
        """Return interactions of this file with other names of their columns."""
        return frame.rename(columns=dict(zip(self._fields, fields, strict=True)))

    @property
    def identity(self) -> dict[str, Any]:
        """Return values that change with the content: names, sizes and times of files, columns, the way of reading."""
        return {
            "log": str(self._log.path),
            "files": self._log.status(),
            "fields": list(self._fields),
            **asdict(self._reading),
        }

    @property
    def n_parts(self) -> int:
        """Into how many parts the users are divided, so that one fits into memory with ease."""
        a_row = _BYTES_OF_PARQUET if isinstance(self._log, ParquetLog) else _BYTES_OF_TEXT
        rows: int = sum(size for _, size, *_ in self._log.status()) // a_row
        return min(_MOST_PARTS, 1 + rows // _PART)

    def shares(self, count: int) -> list[InteractionFile]:
        """Return at most so many, each with some of the folder's files, which stay in their order."""
        if not isinstance(self._log, ParquetLog):
            return [self]
        files = self._log.files
        shares = []
        for group in np.array_split(np.array(files, dtype=object), min(count, len(files))):
            share = copy.copy(self)
            share._log = self._log.share(group.tolist())
            shares.append(share)
        return shares

    def divide(self, folder: Path, count: int) -> list[Path]:
        """Write the interactions of each part of the users into a file of its own, unless that was done before."""
        if not folder.is_dir():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            self._divide(unfinished, count)
            unfinished.rename(folder)
        files = sorted(folder.iterdir())
        if not files:
            raise UserError(f"{self.path} holds no interactions")
        return files

    def _divide(self, folder: Path, count: int) -> None:
        with ExitStack() as stack:
            writers: dict[int, Any] = {}
            for table in self.tables():
                part = pd.util.hash_array(table[self._fields[0]].to_numpy(), categorize=True) % np.uint64(count)
                for number in np.unique(part).tolist():
                    if number not in writers:
                        sink = stack.enter_context(pa.OSFile(str(folder / f"{number:05d}.arrow"), "wb"))
                        writers[number] = stack.enter_context(ipc.new_file(sink, table.schema))
                    writers[number].write_table(table.filter(pa.array(part == number)))

    def tables(self) -> Iterator[pa.Table]:
        """Yield the interactions in the order of the file: ids as texts, times as they are written."""
        left_out, self._made_floats = 0, None
        for table in self._log.batches(self._columns, _ROWS):
            try:
                if isinstance(self._log, ParquetLog):
                    table.validate(full=True)  # it does not say whether a text is one
                interactions = self._as_read(table)
            except pa.ArrowException as error:
                raise UserError(f"{self.path} cannot be read: {' '.join(str(error).split())}") from error
            if any(interactions[name].null_count for name in self._columns[:2]):
                kept = pc.and_(*(pc.is_valid(interactions[name]) for name in self._columns[:2]))
                left_out += len(interactions) - int(np.count_nonzero(kept))
                interactions = interactions.filter(kept)
            yield interactions
        if left_out:
            self._log.doubts.append(f"{left_out:,} rows are left out, whose user or item is empty")
        for doubt in self._log.doubts:
            getLogger(__name__).warning(f"{self.path}: {doubt}")
        self._log.doubts.clear()

    def example(self, column: int = 1) -> str:
        """Return the first item, or for column 0 the first user."""
        return str(next(text for table in self.tables() for text in table[self._columns[column]].to_pylist()))

    def _as_read(self, table: pa.Table) -> pa.Table:
        """Return interactions with ids as texts."""
        user, item, *_ = self._columns
        ids = {name: [cleaned(as_texts(chunk)) for chunk in table[name].chunks] for name in (user, item)}
        if self._made_floats is None:  # as for a whole column, by its first part
            self._made_floats = {name: all(are_whole(chunk) for chunk in chunks) for name, chunks in ids.items()}
        for position, name in enumerate((user, item)):
            texts = [without_point(chunk) for chunk in ids[name]] if self._made_floats[name] else ids[name]
            table = table.set_column(position, name, pa.chunked_array(texts, pa.string()))
        return table


def read_part(*files: Path) -> pd.DataFrame:
    """Return the interactions of a part that :meth:`InteractionFile.divide` wrote for one or more shares of a file."""
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as source:
            tables.append(ipc.open_file(source).read_all())
    return pa.concat_tables(tables).to_pandas()


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
                    header = source.readline()
                    target.write(b"" if number else header)
                    while block := source.read(1 << 20):
                        target.write(block)
        return
    with parquet.ParquetWriter(path, parquet.read_schema(parts[0])) as writer:
        for part in parts:
            writer.write_table(parquet.read_table(part))
