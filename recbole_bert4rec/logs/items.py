"""Reads files that describe items: RecBole's .item, or any form of a log."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from recbole_bert4rec.logs.codes import as_texts, cleaned
from recbole_bert4rec.logs.logs import open_log
from recbole_bert4rec.logs.reading import Reading, is_list
from recbole_bert4rec.system.errors import UserError, short, short_list


class ItemColumn(NamedTuple):
    """A column of a file of items.

    Attributes:
        kind: its type, such as ``token_seq``; empty where the header names none.
        values: a text for each item, empty where there is none, or a list of texts; what can be neither, as it is.
    """

    kind: str
    values: list[Any]


def read_items(path: str, field: str, reading: Reading | None = None) -> dict[str, ItemColumn]:
    """Read the file of ``--items``.

    Args:
        path: what :func:`~recbole_bert4rec.logs.logs.open_log` opens.
        field: name of the column of ids.
        reading: how to read it. Default: as it is found.

    Returns:
        The columns by their names without types; ids as a log has them.

    Raises:
        UserError: the file cannot be read, or has no ids.
    """
    log = open_log(path, reading or Reading(), "--items")
    names = log.names([field])
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--items={path}: two columns are called {short(name)}; rename one")
    if field not in names:
        raise UserError(f"--items={path} has no column {field!r}, the ids of items; it has {short_list(names)}")
    values: dict[str, list[Any]] = {name: [] for name in names}
    for part in log.stored([field]):
        for name, column in zip(names, part.columns, strict=True):
            try:
                values[name] += _texts(column)
            except pa.ArrowException as error:
                if name == field:
                    raise UserError(f"--items={path}: {field!r} cannot be ids: {error}") from error
                values[name] += column.to_pylist()
    ids = cleaned(pa.array(values[field], pa.string()))
    values[field] = ids.fill_null("").to_pylist()
    return {name: ItemColumn(log.kinds.get(name, ""), column) for name, column in values.items()}


def categories_in(path: str, field: str, column: str, reading: Reading | None = None) -> dict[str, list[str]]:
    """Return the values of a column by item: one, or those of a list, or of a ``token_seq``, divided by spaces.

    Args:
        path: of the file.
        field: name of the column of ids.
        column: name of the column of categories.
        reading: how to read it. Default: as it is found.

    Raises:
        UserError: the file cannot be read, or lacks a column.
    """
    columns = read_items(path, field, reading)
    if column not in columns:
        raise UserError(f"--items={path} has no column {column!r}; it has {short_list(columns)}")
    kind, values = columns[column]
    lists = [_listed(value, kind) for value in values]
    return dict(zip(columns[field].values, lists, strict=True))


def _texts(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return a text for each value, empty for a missing one, or a list of texts.

    Raises:
        pa.ArrowException: the values are no texts, nor numbers or lists of them.
    """
    if not is_list(column.type):
        return [text or "" for chunk in column.chunks for text in as_texts(chunk).to_pylist()]
    return [[str(value) for value in values or [] if value is not None] for values in column.to_pylist()]


def _listed(value: Any, kind: str) -> list[str]:
    if isinstance(value, list):
        return value
    return value.split() if kind == "token_seq" else [value] * bool(value)
