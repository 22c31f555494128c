"""Reads Parquet files, and folders of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import dataset, parquet

from recbole_bert4rec.datafiles.reading import UNREADABLE, Log
from recbole_bert4rec.errors import UserError


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
        except UNREADABLE as error:
            raise UserError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
