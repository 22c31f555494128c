"""Reads files that say what items are, RecBole's .item or CSV: every value as a text."""

from __future__ import annotations

import csv as python_csv
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyarrow import csv

from recbole_bert4rec.datafiles.separators import find_separator
from recbole_bert4rec.errors import UserError, short, short_list


class ItemColumn(NamedTuple):
    """A column of an .item file.

    Attributes:
        kind: its type, such as ``token_seq``; empty where the header names none.
        values: texts.
    """

    kind: str
    values: pa.ChunkedArray[Any]


def read_items(path: str, field: str) -> dict[str, ItemColumn]:
    """Read the file of ``--items``; its columns are separated by tabs, commas or semicolons.

    Args:
        path: of the file.
        field: name of the column of ids.

    Returns:
        The columns by their names without types.

    Raises:
        UserError: the file cannot be read, or has no ids.
    """
    try:
        separator, names = _separator(path, field)
        quotes: Literal['"', False] = False if separator == "\t" else '"'  # an atomic file quotes nothing
        table = csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=separator, quote_char=quotes),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=False, column_types=dict.fromkeys(names, pa.string())
            ),
        )
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UserError(f"--items={path} cannot be read: {' '.join(str(error).split())}") from error
    columns = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        own, _, kind = name.partition(":")
        if own in columns:
            raise UserError(f"--items={path}: two columns are called {short(own)}; rename one")
        columns[own] = ItemColumn(kind, values)
    if field not in columns:
        raise UserError(f"--items={path} has no column {field!r}, the ids of items; it has {short_list(columns)}")
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
        raise UserError(f"--items={path} has no column {column!r}; it has {short_list(columns)}")
    kind, values = columns[column]
    ids, texts = ([str(text) for text in one.to_pylist()] for one in (columns[field].values, values))
    lists = [text.split() if kind == "token_seq" else [text] * bool(text) for text in texts]
    return dict(zip(ids, lists, strict=True))


def _separator(path: str, field: str) -> tuple[str, list[str]]:
    """Return the separator by which the columns have the ids, a tab where none has, and the columns."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        line = file.readline()

    def names(separator: str) -> list[str]:
        return next(python_csv.reader([line], delimiter=separator), [])

    found, _ = find_separator(lambda sign: [name.partition(":")[0] for name in names(sign)], [field], ("\t", ",", ";"))
    return found, names(found)
