"""Reads Parquet files, and folders of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from recbole_bert4rec.logs.reading import UNREADABLE, Log, is_list
from recbole_bert4rec.system.errors import UserError


class ParquetLog(Log):
    """One Parquet file, or all of a folder; folders named ``column=value`` are a column."""

    def share(self, files: list[Path]) -> ParquetLog:
        """Return a log of some of the files."""
        return ParquetLog(self.path, files, self._reading)

    @property
    def files(self) -> list[Path]:
        """Those that hold the rows."""
        return list(self._files)

    def _names(self, wanted: list[str]) -> list[str]:
        with self._unreadable_explained(self.path):
            return _dotted(self._whole(wanted).schema)

    def count(self) -> int:
        """Return how many rows the log has, which its files say without being read."""
        return sum(self._rows_of(file) for file in self._files if file.stat().st_size)

    def _rows_of(self, file: Path) -> int:
        with self._unreadable_explained(file):
            rows: int = parquet.read_metadata(file).num_rows
            return rows

    def _parts(self, columns: list[str], rows: int | None) -> Iterator[pa.Table]:
        with self._reading_of(columns) as whole:
            roots = list(dict.fromkeys(_path(column, whole.schema)[0] for column in columns))
            for table in [whole.to_table(columns=roots)] if rows is None else _slowly(whole, roots, rows):
                paths = [_path(column, whole.schema) for column in columns]
                yield pa.table([_inner(table[root], inner) for root, *inner in paths], names=columns)

    @contextmanager
    def _reading_of(self, columns: list[str]) -> Iterator[dataset.Dataset]:
        """Give the files as one; a mistake inside the block is one of the log."""
        with self._unreadable_explained(self.path):
            whole = self._whole(columns)
            self._check_columns(columns, _dotted(whole.schema))
            yield whole

    def _whole(self, columns: list[str]) -> dataset.Dataset:
        """Return the files as one; the names of folders are texts, and a column has the type of all its values."""
        folders = [file.relative_to(self.path).parts[:-1] if self.path.is_dir() else () for file in self._files]
        keys = dict.fromkeys(part.partition("=")[0] for parts in folders for part in parts if "=" in part)
        partitioned = dataset.HivePartitioning(pa.schema([(key, pa.string()) for key in keys])) if keys else None
        files: dict[str, Any] = {
            "source": list(map(str, self._files)),
            "format": "parquet",
            "partitioning": partitioned,
        }
        whole: dataset.Dataset = dataset.dataset(**files)
        schema, there = whole.schema, set(_dotted(whole.schema))
        names = dict.fromkeys(_path(name, schema)[0] for name in columns if name in there)
        for name in (name for name in names if name not in keys):
            for file, other in self._other_schemas:
                if name not in other.names:
                    raise UserError(f"{file} has no column {name!r}, which {self._files[0]} has")
                both = [pa.schema([each.field(name)]) for each in (schema, other)]
                try:
                    common = pa.unify_schemas(both, promote_options="permissive").field(name)
                except pa.ArrowException as error:
                    raise UserError(f"{file}: {error}; write the column {name!r} of all files in one type") from error
                schema = schema.set(schema.get_field_index(name), common)
        return whole if schema == whole.schema else dataset.dataset(**files, schema=schema)

    @cached_property
    def _other_schemas(self) -> list[tuple[Path, pa.Schema]]:
        """The files but the first, which pyarrow reads by itself, with their columns."""
        schemas = []
        for file in self._files[1:]:
            with self._unreadable_explained(file):
                schemas.append((file, parquet.read_schema(file)))
        return schemas

    @contextmanager
    def _unreadable_explained(self, path: Path) -> Iterator[None]:
        try:
            yield
        except UserError:
            raise
        except UNREADABLE as error:
            raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from error


def _slowly(whole: dataset.Dataset, columns: list[str], rows: int) -> Iterator[pa.Table]:
    """Yield the rows in order, so many at a time, in little memory."""
    pages = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, pre_buffer=False)
    how: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    for batch in whole.to_batches(columns=columns, batch_size=rows, fragment_scan_options=pages, **how):
        if len(batch):
            yield pa.Table.from_batches([batch])


def _dotted(fields: Iterable[pa.Field[Any]], before: str = "") -> list[str]:
    """Return the names of columns, and with dots those of their fields: ``events``, ``events.item``."""
    names = []
    for field in fields:
        names.append(before + field.name)
        kind = field.type.value_type if is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            names += _dotted(kind, f"{before}{field.name}.")
    return names


def _path(name: str, schema: pa.Schema) -> list[str]:
    """Return the name of a column, and the names of the fields in it."""
    return [name] if name in schema.names else name.split(".")


def _inner(column: pa.ChunkedArray[Any], path: list[str]) -> pa.ChunkedArray[Any]:
    """Return a field of a column; of a column of lists, a list of fields in each row."""
    if not path:
        return column
    chunks: list[Any] = []
    for chunk in column.chunks:
        if is_list(chunk.type):
            lengths = pc.list_value_length(chunk).fill_null(0).to_numpy(zero_copy_only=False)
            offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
            inner = _inner(pa.chunked_array([pc.list_flatten(chunk)]), path).combine_chunks()
            chunks.append(pa.LargeListArray.from_arrays(offsets, inner))
        else:
            chunks += _inner(pa.chunked_array([pc.struct_field(chunk, path[0])]), path[1:]).chunks
    return pa.chunked_array(chunks)
