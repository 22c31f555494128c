"""Reads files that describe items: their names, and a vector for each, such as those of a sentence encoder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.ids import as_texts, cleaned
from recbole_bert4rec.logs.read import Log, connected, fetch
from recbole_bert4rec.system.errors import UserError, short, short_list
from recbole_bert4rec.system.files import digest_of

_NAMES = ("name", "title")
_MOST = float(np.finfo(np.float16).max)
_ROWS_AT_ONCE = 1 << 14


class ItemVectors(NamedTuple):
    """Items and what is known of each.

    Attributes:
        items: external ids, different ones. *Shape:* (C,)
        vectors: float16. *Shape:* (C, D)
    """

    items: NDArray[np.object_]
    vectors: NDArray[np.float16]


def read_names(path: str, field: str) -> tuple[list[str], list[str]]:
    """Read ids and names, empty where there is none, from RecBole's .item file or any form of a log."""
    log = Log(path, Reading(), "--items")
    there = log.names([field])
    named = [name for word in _NAMES for name in there if name.lower().endswith(word) and name != field]
    if field not in there or not named:
        raise UserError(
            f"--items={path} must have a column {field!r}, the ids of items, and one that is called, or ends with, "
            f"{' or '.join(_NAMES)}; it has {short_list(there)}"
        )
    with TemporaryDirectory() as folder, connected(Path(folder)) as connection:
        log.store(connection, [field, named[0]], Path(folder))
        ids, names = fetch(connection, "SELECT s0, s1 FROM stored").columns
    try:
        texts: list[Any] = cleaned(as_texts(ids.combine_chunks())).fill_null("").to_pylist()
    except pa.ArrowException as error:
        raise UserError(f"--items={path}: {field!r} cannot be ids: {error}") from error
    lists = [name if isinstance(name, list) else [name] for name in names.to_pylist()]
    return texts, [" ".join(str(part) for part in parts if part is not None) for parts in lists]


def read_item_vectors(path: str, field: str) -> ItemVectors:
    """Read a file of ``item_vectors``."""
    name = f"item_vectors={path}"
    if not path.endswith((".parquet", ".npy")):
        raise UserError(
            f"{name} must be a file NAME.parquet, or NAME.npy with the ids in NAME.txt, or a list such as "
            "['a.parquet', 'b.npy']"
        )
    try:
        items, vectors = _read_parquet(path, field) if path.endswith(".parquet") else _read_npy(path)
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        raise UserError(f"{name} cannot be read: {str(error).splitlines()[0]}") from error
    if vectors.ndim != 2 or len(items) != len(vectors) or not vectors.size:
        raise UserError(f"{name} has {len(items)} ids and vectors of shape {vectors.shape}; give each id a vector")
    for wrong, why in (
        (pd.isna(items), "has no id"),
        (pd.Index(items).duplicated(), "stands twice"),
        (~np.isfinite(vectors.sum(1, dtype=np.float32)), f"has a number that is not finite, or above {_MOST:g}"),
    ):
        if wrong.any():
            raise UserError(f"{name}: item {short(items[wrong][0])}, in row {np.flatnonzero(wrong)[0]}, {why}")
    return ItemVectors(items, vectors)


def digests(paths: str | Iterable[str] | None) -> list[str]:
    """Return digests of files of vectors, and of those with their ids, where they are there."""
    paths = [paths] if isinstance(paths, str) else paths or ()
    files = [file for path in paths for file in (Path(path), Path(path).with_suffix(".txt"))]
    return [digest_of(file) for file in files if file.is_file()]


def _read_parquet(path: str, field: str) -> tuple[NDArray[np.object_], NDArray[np.float16]]:
    with parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:  # else groups of rows are read whole
        names = file.schema_arrow.names
        ids = field if field in names else "item_id"
        if ids not in names:
            raise UserError(f"it has no column {field!r}, the ids, but {short_list(names)}")
        items = cleaned(as_texts(file.read([ids]).column(0).combine_chunks())).to_numpy(zero_copy_only=False)
        columns = [name for name in names if name != ids and not name.startswith("__index_level_")]  # pandas' own
        has_lists = any(pa.types.is_nested(file.schema_arrow.field(name).type) for name in columns)
        if has_lists and len(columns) > 1:
            raise UserError(f"beside {ids!r} it must have one column of lists, or columns of numbers alone")
        vectors, begin, width = np.empty((len(items), 0), np.float16), 0, len(columns)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            if has_lists:
                lists: Any = batch.column(0)
                widths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
                width = width if begin else int(widths[0])
                for odd in np.flatnonzero(widths != width):
                    both = short(items[0]), short(items[begin + odd])
                    raise UserError(f"item {both[0]} has {width} numbers, and item {both[1]} has {widths[odd]}")
                numbers = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
            else:
                numbers = batch.to_pandas().to_numpy(np.float32)
            if not begin:
                vectors = np.empty((len(items), width), np.float16)
            with np.errstate(over="ignore"):  # it becomes infinite, which is refused
                vectors[begin : begin + len(numbers)] = numbers
            begin += len(numbers)
    return items, vectors


def _read_npy(path: str) -> tuple[NDArray[np.object_], NDArray[np.float16]]:
    with np.errstate(over="ignore"):
        vectors = np.load(path, mmap_mode="r", allow_pickle=False).astype(np.float16)
    items = Path(path).with_suffix(".txt").read_text("utf-8-sig").splitlines()
    return np.array(items, dtype=object), vectors
