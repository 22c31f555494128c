"""Reads files with a vector for each item, such as those of a sentence encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import parquet

from recbole_bert4rec.logs.codes import as_texts
from recbole_bert4rec.system.errors import UserError, short, short_list

_MOST = float(np.finfo(np.float16).max)


class ItemVectors(NamedTuple):
    """Items and what is known of each.

    Attributes:
        items: external ids, different ones. *Shape:* (C,)
        vectors: float16. *Shape:* (C, D)
    """

    items: NDArray[np.object_]
    vectors: NDArray[np.float16]


def read_item_vectors(path: str, field: str) -> ItemVectors:
    """Read a file of ``item_vectors``.

    Args:
        path: ``NAME.parquet`` with a column of ids and one of lists of numbers, or further columns of numbers; or
            ``NAME.npy`` with a matrix, whose ids stand in ``NAME.txt``, one a line.
        field: the name of the column of ids; ``item_id`` is taken, too.

    Raises:
        UserError: the file cannot be read, an item stands twice, vectors differ in length, or a number is not finite or
            beyond what float16 has.
    """
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
        vectors = vectors.astype(np.float32)
    except (OSError, pa.ArrowException, ValueError, UserError) as error:
        raise UserError(f"{name} cannot be read: {str(error).splitlines()[0]}") from error
    if vectors.ndim != 2 or len(items) != len(vectors) or not vectors.size:
        raise UserError(f"{name} has {len(items)} ids and vectors of shape {vectors.shape}; give each id a vector")
    for wrong, why in (
        (pd.isna(items), "has no id"),
        (pd.Index(items).duplicated(), "stands twice"),
        (~(np.abs(vectors) <= _MOST).all(1), f"has a number that is not finite, or above {_MOST:g}"),  # NaN, too
    ):
        if wrong.any():
            raise UserError(f"{name}: item {short(items[wrong][0])}, in row {np.flatnonzero(wrong)[0]}, {why}")
    return ItemVectors(items, vectors.astype(np.float16))


def _read_parquet(path: str, field: str) -> tuple[NDArray[np.object_], NDArray[Any]]:
    table = parquet.read_table(path)
    ids = next((name for name in (field, "item_id") if name in table.column_names), None)
    if ids is None:
        raise UserError(f"it has no column {field!r}, the ids, but {short_list(table.column_names)}")
    items = as_texts(pa.concat_arrays(table.column(ids).chunks)).to_numpy(zero_copy_only=False)
    index = [column for column in table.column_names if column.startswith("__index_level_")]  # pandas' own
    others = table.drop_columns([ids, *index])
    if not any(pa.types.is_nested(kind) for kind in others.schema.types):
        return items, others.to_pandas().to_numpy(dtype=np.float32)
    if others.num_columns > 1:
        raise UserError(f"beside {ids!r} it must have one column of lists, or columns of numbers alone")
    vectors: Any = pa.concat_arrays(others.column(0).chunks)
    lengths = pc.list_value_length(vectors).fill_null(0).to_numpy(zero_copy_only=False)
    odd = lengths != lengths[:1]
    if odd.any():
        first, other = short(items[0]), short(items[odd][0])
        raise UserError(f"item {first} has {lengths[0]} numbers, and item {other} has {lengths[odd][0]}")
    return items, vectors.flatten().to_numpy(zero_copy_only=False).reshape(len(items), -1)


def _read_npy(path: str) -> tuple[NDArray[np.object_], NDArray[Any]]:
    vectors, ids = np.load(path, allow_pickle=False), Path(path).with_suffix(".txt")
    if not ids.is_file():
        raise UserError(f"there is no file {ids} with the ids, one a line")
    items = np.array(ids.read_text("utf-8").splitlines(), dtype=object)
    return items, vectors
