"""Reads logs with an object a line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from recbole_bert4rec.datafiles.reading import UNREADABLE
from recbole_bert4rec.datafiles.texts import Lines
from recbole_bert4rec.errors import UserError, short


class JsonLines(Lines):
    """An object a line."""

    def _names(self, wanted: list[str]) -> list[str]:
        seen = dict[str, None]()
        try:
            for _, record in itertools.islice(self._records(), 100):
                seen.update(dict.fromkeys(record))
        except UserError:
            raise
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        return list(seen)

    def _table(self, columns: list[str]) -> pa.Table:
        return pa.concat_tables([*self.batches(columns, 1 << 17), _texts_of({column: [] for column in columns})])

    def batches(self, columns: list[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows, a part at a time."""
        if names := self._names(columns):
            self._check_columns(columns, names)
        found: dict[str, list[str | None]] = {column: [] for column in columns}
        try:
            for line, record in self._records():
                for column in columns:
                    value = record.get(column)
                    if value is not None and not isinstance(value, str):
                        raise UserError(
                            f"{self.path}, line {line}: column {column!r} must hold a text or a number, but holds "
                            f"{short(value)}"
                        )
                    found[column].append(value)
                if len(found[columns[0]]) >= rows:
                    yield _texts_of(found)
                    found = {column: [] for column in columns}
        except UserError:
            raise
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        if found[columns[0]]:
            yield _texts_of(found)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number and the object of each line that is not blank; numbers stay the texts that they are."""
        decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=lambda _: None).decode
        with self._texts("strict") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    record = decode(line.strip())
                except (json.JSONDecodeError, RecursionError) as error:
                    raise UserError(
                        f"{self.path}, line {number} is no JSON ({error}): {short(line.strip())}"
                    ) from error
                if not isinstance(record, dict):
                    raise UserError(f"{self.path}, line {number} must hold an object, but holds {short(line.strip())}")
                yield number, record

    def lines(self, rows: Sequence[int]) -> list[int]:
        """Return the line in which each of some rows begins: the file is read once more."""
        with self._texts() as file:
            filled = [number for number, line in enumerate(file, 1) if line.strip()]
        return [filled[row] for row in rows]


def _texts_of(rows: dict[str, list[str | None]]) -> pa.Table:
    return pa.table({column: pa.array(values, pa.string()) for column, values in rows.items()})
