"""Turn external ids of items into a model's internal ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from logging import getLogger
from numbers import Number
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Ids = Collection[Any]
"""External ids: texts as in the log, or the numbers that these texts spell."""


class Items:
    """The external ids of the catalogue: ``tokens``, (N,), by internal id, padding first."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens: NDArray[np.object_] = np.array(tokens, dtype=object)
        self._index = pd.Index(self.tokens)
        self._warn_once = lru_cache(256)(getLogger(__name__).warning)  # not for each question with the same lists

    def ids_of(self, values: Ids | pd.Series) -> NDArray[np.int64]:
        """Return internal ids, and :data:`PADDING` for what is not in the catalogue.

        ``12.0``, or ``12`` with blanks around it, means ``12`` unless an item is written so.
        """
        texts = as_texts(values)
        ids: NDArray[np.int64] = self._index.get_indexer(pd.Index(texts)).astype(np.int64)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            from recbole_bert4rec.logs.ids import cleaned, without_point

            plain = without_point(cleaned(pa.array(texts[unknown], pa.string())))
            ids[unknown] = self._index.get_indexer(pd.Index(plain.to_pylist()))
        return np.where(ids < 0, PADDING, ids)

    def known(self, values: object, name: str, needed: str = "all") -> NDArray[np.int64]:
        """Return internal ids of listed items, of which the catalogue must have those ``needed``: all, one or none.

        If not all are needed, one warning says that unknown items are left out.
        """
        listed = list_of(values, f"{name} must be a list of items")
        ids = self.ids_of(listed)
        unknown = np.flatnonzero(ids == PADDING)
        if len(unknown):
            said = self.unknown(name, len(unknown), len(ids), listed[unknown[0]], needed)
            self._warn_once(f"{said}; they are left out")
        known: NDArray[np.int64] = ids[ids != PADDING]
        return known

    def unknown(self, name: str, unknown: int, count: int, example: object, needed: str = "one") -> str:
        """Say how many of the named items are not in the catalogue; refuse them if more are needed."""
        said = f"{name} names {unknown} of {count} items that the model does not know, such as {short(example)}"
        if needed == "all" or (needed == "one" and unknown == count):
            known = f"it knows {len(self.tokens) - 1} items, such as {short(self.tokens[1])}"
            raise UserError(f"{said}; {known}: give both in the same spelling")
        return said


def as_texts(values: Ids | pd.Series) -> NDArray[np.object_]:
    """Return ids as texts, as a log has them; whole numbers have no decimal point."""
    column = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    if pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        column = column.astype(str)
    elif pd.api.types.infer_dtype(column, skipna=False) != "string":
        column = column.astype(object).map(_text)
    return np.asarray(column, dtype=object)


def _text(value: object) -> str:
    if not (value is None or isinstance(value, (str, Number, np.generic, UUID))):
        raise UserError(f"ids must be texts or numbers, but one is {short(value)}, of type {type(value).__name__}")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def list_of(values: object, wanted: str) -> list[Any]:
    """Return a list of ids or of lists; refuse a text, a dictionary, a record and a table."""
    if hasattr(values, "to_pylist"):  # pyarrow's, whose elements are not texts
        values = values.to_pylist()
    is_record = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "_fields") or hasattr(values, "columns")
    if is_record or not isinstance(values, Iterable):
        raise UserError(f"{wanted}, but is the {type(values).__name__} {' '.join(short(values).split())}")
    return list(values)
