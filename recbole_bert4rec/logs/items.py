"""Reads files that describe items: RecBole's .item, or any form of a log."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.ids import as_texts, cleaned
from recbole_bert4rec.logs.read import Log, connected, is_list
from recbole_bert4rec.system.errors import UserError, short, short_list


def read_items(path: str, field: str) -> dict[str, list[Any]]:
    """Read the file of ``--items``."""
    log = Log(path, Reading(), "--items")
    names = log.names([field])
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--items={path}: two columns are called {short(name)}; rename one")
    if field not in names:
        raise UserError(f"--items={path} has no column {field!r}, the ids of items; it has {short_list(names)}")
    with TemporaryDirectory() as folder, connected(Path(folder)) as connection:
        log.store(connection, names, Path(folder))
        table = connection.sql("SELECT * FROM stored").to_arrow_table()
    values: dict[str, list[Any]] = {}
    for name, column in zip(names, table.columns, strict=True):
        try:
            values[name] = _texts(column)
        except pa.ArrowException as error:
            if name == field:
                raise UserError(f"--items={path}: {field!r} cannot be ids: {error}") from error
            values[name] = column.to_pylist()
    ids = cleaned(pa.array(values[field], pa.string()))
    values[field] = ids.fill_null("").to_pylist()
    return values


def _texts(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return a text for each value, empty for a missing one, or a list of texts."""
    if not is_list(column.type):
        return [text or "" for text in as_texts(column.combine_chunks()).to_pylist()]
    return [[str(value) for value in values or [] if value is not None] for values in column.to_pylist()]
