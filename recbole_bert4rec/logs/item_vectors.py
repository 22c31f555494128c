"""Reads files with a vector for each item, such as those of a sentence encoder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from recbole_bert4rec.logs.ids import as_texts, cleaned
from recbole_bert4rec.system.errors import UserError, short, short_list
from recbole_bert4rec.system.files import digest_of

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


def read_item_vectors(path: str, field: str) -> ItemVectors:
    """Read a file of ``item_vectors``."""
    name = f"item_vectors={path}"
    if not path.endswith((".parquet", ".npy")):
        raise UserError(
            f"{name} must be a file NAME.parquet, or NAME.npy with the ids in NAME.txt, or a list such as "
            "['a.parquet', 'b.npy']"
        )
    if not Path(path).is_file():
        raise UserError(f"{name}: there is no such file")
    try:
        items, vectors = _read_parquet(path, field) if path.endswith(".parquet") else _read_npy(path)
    except (OSError, pa.ArrowException, ValueError, TypeError, UserError) as error:
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
        ids = next((name for name in (field, "item_id") if name in names), None)
        if ids is None:
            raise UserError(f"it has no column {field!r}, the ids, but {short_list(names)}")
        items = cleaned(as_texts(file.read([ids]).column(0).combine_chunks())).to_numpy(zero_copy_only=False)
        columns = [name for name in names if name != ids and not name.startswith("__index_level_")]  # pandas' own
        has_lists = any(pa.types.is_nested(file.schema_arrow.field(name).type) for name in columns)
        if has_lists and len(columns) > 1:
            raise UserError(f"beside {ids!r} it must have one column of lists, or columns of numbers alone")
        vectors, begin = np.empty((len(items), 0), np.float16), 0
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=columns):
            numbers = _matrix(batch.column(0), items[begin:]) if has_lists else batch.to_pandas().to_numpy(np.float32)
            if not begin:
                vectors = np.empty((len(items), numbers.shape[1]), np.float16)
            if numbers.shape[1] != vectors.shape[1]:
                raise _other_length(items[0], vectors.shape[1], items[begin], numbers.shape[1])
            with np.errstate(over="ignore"):  # it becomes infinite, which is refused
                vectors[begin : begin + len(numbers)] = numbers
            begin += len(numbers)
    return items, vectors


def _matrix(lists: Any, items: NDArray[np.object_]) -> NDArray[Any]:
    """Return lists of numbers, those of these items, as a matrix."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd):
        raise _other_length(items[0], lengths[0], items[odd[0]], lengths[odd[0]])
    matrix: NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)
    return matrix


def _other_length(item: str, length: int, other: str, other_length: int) -> UserError:
    return UserError(f"item {short(item)} has {length} numbers, and item {short(other)} has {other_length}")


def _read_npy(path: str) -> tuple[NDArray[np.object_], NDArray[np.float16]]:
    ids = Path(path).with_suffix(".txt")
    with np.errstate(over="ignore"):
        vectors = np.load(path, mmap_mode="r", allow_pickle=False).astype(np.float16)
    if not ids.is_file():
        raise UserError(f"there is no file {ids} with the ids, one a line")
    items = np.array(ids.read_text("utf-8-sig").splitlines(), dtype=object)
    return items, vectors
