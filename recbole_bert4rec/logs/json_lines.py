"""Reads JSON lines: an object a line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from recbole_bert4rec.logs.texts import Lines
from recbole_bert4rec.system.errors import UserError, short

_ROWS = 1 << 17
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None)
"""Numbers stay the texts that they are."""


class JsonLines(Lines):
    """Objects; a column is a key of theirs, or with dots a key of objects in them: ``events.item``."""

    def _names(self, wanted: list[str]) -> list[str]:
        seen = dict[str, None]()
        with self._explained():
            for _, record in itertools.islice(self._records(), 100):
                seen.update(dict.fromkeys(_dotted(record)))
        return list(seen)

    def _parts(self, columns: list[str], rows: int | None) -> Iterator[pa.Table]:
        if names := self.names(columns):
            self._check_columns(columns, names)
        values: dict[str, list[Any]] = {column: [] for column in columns}
        full = False
        with self._explained():
            for line, record in self._records():
                for column in columns:
                    value = record[column] if column in record else _inner(record, column.split("."))
                    if not _is_text(value):
                        inside = next(_dotted(value, f"{column}."), "")
                        named = f"; what it holds is named like {inside}" if inside else ""
                        raise UserError(
                            f"{self.path}, line {line}: column {column!r} must hold texts or numbers, or lists of "
                            f"them, but holds {short(value)}{named}"
                        )
                    values[column].append(value)
                if len(values[columns[0]]) >= (rows or _ROWS):
                    yield _table(values)
                    values = {column: [] for column in columns}
                    full = True
        if values[columns[0]] or not full:
            yield _table(values)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the line of each object, and the object."""
        with self._texts("strict") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text:
                    continue
                try:
                    record = _DECODER.decode(text)
                except (ValueError, RecursionError) as error:
                    raise UserError(
                        f"{self.path}, line {number} is no JSON ({error}); each line must hold an object: {short(text)}"
                    ) from error
                if not isinstance(record, dict):
                    raise UserError(f"{self.path}, line {number} must hold an object, but holds {short(record)}")
                yield number, record

    def _lines(self, rows: Sequence[int]) -> list[int]:
        """Read the log once more for it."""
        lines = [line for line, _ in self._records()]
        return [lines[row] for row in rows]


def _dotted(record: object, before: str = "") -> Iterator[str]:
    """Yield the keys of an object, and with dots those of objects in it."""
    for part in record[:1] if isinstance(record, list) else [record]:
        for key, value in part.items() if isinstance(part, dict) else ():
            yield before + key
            yield from _dotted(value, f"{before}{key}.")


def _inner(value: Any, path: list[str]) -> Any:
    """Return the value of an object by some keys; of a list, a list of the values of its objects."""
    if isinstance(value, list):
        return [_inner(element, path) for element in value]
    return value if not path else _inner(value.get(path[0]), path[1:]) if isinstance(value, dict) else None


def _is_text(value: object) -> bool:
    """Tell whether a value is a text, missing, or a list of such."""
    if isinstance(value, list):
        return all(element is None or isinstance(element, str) for element in value)
    return value is None or isinstance(value, str)


def _table(values: dict[str, list[Any]]) -> pa.Table:
    """Return columns of texts; a column with a list holds lists alone."""
    arrays = {}
    for column, rows in values.items():
        lists = any(isinstance(value, list) for value in rows)
        texts = [value if isinstance(value, list) or value is None else [value] for value in rows] if lists else rows
        arrays[column] = pa.array(texts, pa.list_(pa.string()) if lists else pa.string())
    return pa.table(arrays)
