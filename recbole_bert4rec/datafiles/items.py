"""Reads .item files, which say what items are: every value as a text."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv

from recbole_bert4rec.errors import UserError


class ItemColumn(NamedTuple):
    """A column of an .item file.

    Attributes:
        kind: its type, such as ``token_seq``; empty where the header names none.
        values: texts.
    """

    kind: str
    values: pa.ChunkedArray[Any]


def read_items(path: str, field: str) -> dict[str, ItemColumn]:
    """Read the file of ``--items``.

    Args:
        path: of the file.
        field: name of the column of ids.

    Returns:
        The columns by their names without types.

    Raises:
        UserError: the file cannot be read, or has no ids.
    """
    try:
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(strings_can_be_null=False, column_types=_all_texts(path)),
        )
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UserError(f"--items={path} cannot be read: {' '.join(str(error).split())}") from error
    columns = {}
    for name in table.column_names:
        own, _, kind = name.partition(":")
        columns[own] = ItemColumn(kind, table[name])
    if field not in columns:
        raise UserError(f"--items={path} has no column {field!r}, the ids of items; it has {list(columns)}")
    return columns


def categories_in(path: str, field: str, column: str) -> dict[str, list[str]]:
    """Return the values of a column by item: one, or those of a column of type ``token_seq``, divided by spaces.

    Args:
        path: of the file.
        field: name of the column of ids.
        column: name of the column of categories.

    Raises:
        UserError: the file cannot be read, or lacks a column.
    """
    columns = read_items(path, field)
    if column not in columns:
        raise UserError(f"--items={path} has no column {column!r}; it has {list(columns)}")
    kind, values = columns[column]
    ids, texts = ([str(text) for text in one.to_pylist()] for one in (columns[field].values, values))
    lists = [text.split() if kind == "token_seq" else [text] * bool(text) for text in texts]
    return dict(zip(ids, lists, strict=True))


def _all_texts(path: str) -> dict[str, pa.DataType]:
    with open(path, encoding="utf-8-sig") as file:
        return dict.fromkeys(file.readline().rstrip("\r\n").split("\t"), pa.string())
