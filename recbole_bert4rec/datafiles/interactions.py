"""Reads interactions of any number from CSV, Parquet and atomic files, a part of the users at a time."""

from __future__ import annotations

import copy
import csv as python_csv
import gzip
import shutil
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, ipc, parquet

from recbole_bert4rec.datafiles.codes import as_texts
from recbole_bert4rec.datafiles.separators import COMMON_SEPARATORS, find_separator
from recbole_bert4rec.errors import UserError, short_list

_UNREADABLE = (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError, python_csv.Error)
"""What is raised for damaged files."""
_IN_TURN = csv.ReadOptions(use_threads=False)
"""How texts are read: with threads, an error would not always name its row."""
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
ENDINGS = (*_SEPARATORS, ".parquet")
_ROWS = 1 << 16  # read at once
_PART = 1 << 18  # interactions of a part, about
_BYTES = {".parquet": 4}  # of the file, for each interaction; more in text
_MOST_PARTS = 500  # files that are open at once


class InteractionFile:
    """A file, or a folder of files, with a row an interaction, or a row a user with a list of items.

    Args:
        path: .csv, .tsv, .inter (each also .gz), .parquet, or a folder of .parquet files.
        fields: names of the columns of users, items and, where there is one, times.

    Raises:
        UserError: there is no such file, or it lacks a column.
    """

    def __init__(self, path: str, fields: tuple[str, str, str]) -> None:
        self.path, self._fields = Path(path), fields
        self._files = sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]
        kind = ".parquet" if self.path.is_dir() else _kind(self.path)
        if kind not in ENDINGS:
            raise UserError(f"{path} must end in {', '.join(ENDINGS)}, or be a folder of .parquet files")
        if not self._files or not all(file.is_file() for file in self._files):
            raise UserError(f"{path} does not exist" if not self.path.is_dir() else f"{path} holds no .parquet file")
        self._kind = kind
        for file in self._files:
            self._check(file, self._columns(file))

    def renamed(self, frame: pd.DataFrame, fields: tuple[str, str, str]) -> pd.DataFrame:
        """Return interactions of this file with other names of their columns."""
        return frame.rename(columns=dict(zip(self._fields, fields, strict=True)))

    @property
    def identity(self) -> dict[str, Any]:
        """What changes with the content: names, sizes and times of the files, and the columns that are read."""
        status = [(str(file.resolve()), file.stat()) for file in self._files]
        return {"files": [[name, one.st_size, one.st_mtime] for name, one in status], "fields": list(self._fields)}

    @property
    def n_parts(self) -> int:
        """Into how many parts the users are divided, so that one fits into memory with ease."""
        rows = sum(file.stat().st_size for file in self._files) // _BYTES.get(self._kind, 16)
        return min(_MOST_PARTS, 1 + rows // _PART)

    def shares(self, count: int) -> list[InteractionFile]:
        """Return at most so many, each with some of the folder's files, which stay in their order."""
        groups = np.array_split(np.array(self._files, dtype=object), min(count, len(self._files)))
        shares = [copy.copy(self) for _ in groups]
        for share, files in zip(shares, groups, strict=True):
            share._files = files.tolist()
        return shares

    def divide(self, folder: Path, count: int) -> list[Path]:
        """Write the interactions of each part of the users into a file of its own, unless that was done before.

        Args:
            folder: to be made.
            count: number of parts. The same users are in the same part of another file that is divided into as many.

        Returns:
            The files for :func:`read_part`, named by their numbers; a part without interactions has none.

        Raises:
            UserError: a line cannot be read, or there are no interactions.
        """
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
        """Yield the interactions in the order of the file: ids as texts, times as they are written.

        Raises:
            UserError: a line cannot be read.
        """
        for file in self._files:
            names = self._columns(file)
            wanted = [name for name in self._fields if name in names]
            try:
                for batch in self._batches(file, [names[name] for name in wanted]):
                    batch.validate(full=True)  # Parquet does not say whether a text is one
                    yield self._as_read(pa.Table.from_batches([batch]).rename_columns(wanted))
            except _UNREADABLE as error:
                raise UserError(f"{file} cannot be read: {' '.join(str(error).split())}") from error

    def _columns(self, file: Path) -> dict[str, str]:
        """Return the file's name of each column by its own; they differ in an atomic file, NAME:TYPE."""
        try:
            names = parquet.read_schema(file).names if self._kind == ".parquet" else self._header(file)
        except _UNREADABLE as error:
            raise UserError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
        return {name.partition(":")[0] if self._kind == ".inter" else name: name for name in names}

    def _header(self, file: Path) -> list[str]:
        """Return the names of the columns; note the first separator by which there are users and items."""
        others = () if self._kind == ".inter" else COMMON_SEPARATORS
        self._separator, names = find_separator(
            partial(self._names, file), self._fields[:2], (_SEPARATORS[self._kind], *others)
        )
        return names

    def _names(self, file: Path, separator: str) -> list[str]:
        opener = gzip.open if file.suffix == ".gz" else open
        with opener(file, "rt", encoding="utf-8-sig") as text:
            names = next((names for names in python_csv.reader(text, delimiter=separator) if names), [])
        if not names:
            raise UserError(f"{file} is empty; its first line must name the columns")
        return names

    def _check(self, file: Path, names: dict[str, str]) -> None:
        flags = ("USER_ID_FIELD", "ITEM_ID_FIELD")
        for flag, field in zip(flags, self._fields, strict=False):
            if field not in names:
                raise UserError(
                    f"{file} has no column {field!r}; its columns are {short_list(names)}; name yours with "
                    f"--{flag}=NAME"
                )

    def _parse(self, separator: str) -> csv.ParseOptions:
        return csv.ParseOptions(delimiter=separator, newlines_in_values=self._kind != ".inter")

    def _batches(self, file: Path, names: list[str]) -> Iterator[pa.RecordBatch]:
        if self._kind == ".parquet":
            yield from parquet.ParquetFile(file).iter_batches(_ROWS, columns=names)
            return
        kinds = dict.fromkeys(names, pa.string())
        as_text = csv.ConvertOptions(
            include_columns=names, column_types=kinds, null_values=[""], strings_can_be_null=True
        )
        with csv.open_csv(
            file, read_options=_IN_TURN, parse_options=self._parse(self._separator), convert_options=as_text
        ) as reader:
            yield from reader

    def _as_read(self, table: pa.Table) -> pa.Table:
        """Return a row an interaction, with ids as texts, without rows that lack an id."""
        user, item, _ = self._fields
        if pa.types.is_list(table[item].type) or pa.types.is_large_list(table[item].type):
            owner = pc.list_parent_indices(table[item])
            lists = [pc.list_flatten(table[name]) for name in table.column_names[1:]]
            table = pa.Table.from_arrays([table[user].take(owner), *lists], table.column_names)
        for position, name in enumerate((user, item)):
            texts = [as_texts(chunk) for chunk in table[name].chunks]
            table = table.set_column(position, name, pa.chunked_array(texts, pa.string()))
        return table.filter(pc.and_(pc.is_valid(table[user]), pc.is_valid(table[item])))


def read_part(*files: Path) -> pd.DataFrame:
    """Return the interactions of a part that :meth:`InteractionFile.divide` wrote for one or more shares of a file."""
    tables = []
    for file in files:
        with pa.memory_map(str(file)) as source:
            tables.append(ipc.open_file(source).read_all())
    return pa.concat_tables(tables).to_pandas()


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def write_table(table: pd.DataFrame, path: Path, kind: str) -> None:
    """Write a frame; what is no number in it is text.

    Args:
        table: to be written.
        path: of the file.
        kind: .csv or .parquet.
    """
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
