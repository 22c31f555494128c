"""External ids of items in a model's numbers."""

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
"""External ids: texts as in the log, or numbers that are written so."""


class Items:
    """The catalogue's external ids.

    Attributes:
        tokens: by internal id, padding first. *Shape:* (N,)
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens: NDArray[np.object_] = np.array(tokens, dtype=object)
        self._index = pd.Index(self.tokens)
        self._warn_once = lru_cache(256)(getLogger(__name__).warning)  # not at each question of the same lists
        if len(tokens) < 2 or not self._index.is_unique:
            raise UserError("the items' ids of a model must be at least one, and different from each other")

    def ids_of(self, values: Ids | pd.Series) -> NDArray[np.int64]:
        """Return internal ids; :data:`PADDING` for all that is not in the catalogue.

        ``12.0`` and ``12`` with blanks around it are ``12`` if there is no item that is written so.
        """
        texts = as_texts(values)
        ids: NDArray[np.int64] = self._index.get_indexer(pd.Index(texts)).astype(np.int64)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            from recbole_bert4rec.logs.ids import cleaned, without_point

            plain = without_point(cleaned(pa.array(texts[unknown], pa.string())))
            ids[unknown] = self._index.get_indexer(pd.Index(plain.to_pylist()))
        return np.where(ids < 0, PADDING, ids)

    def known(self, values: object, argument: str) -> NDArray[np.int64]:
        """Return internal ids of items that must be in the catalogue."""
        listed = list_of(values, f"`{argument}` must be a list of items")
        ids = self.ids_of(listed)
        if unknown := _unknown(listed, ids, argument):
            raise UserError(unknown)
        return ids

    def those_known(self, values: object, argument: str, needed: bool = False) -> NDArray[np.int64]:
        """Return internal ids of the items that are in the catalogue; warn once that others are not."""
        listed = list_of(values, f"`{argument}` must be a list of items")
        ids = self.ids_of(listed)
        if needed:
            self.refuse_strangers(f"`{argument}`", listed, ids)
        if unknown := _unknown(listed, ids, argument):
            self._warn_once(f"{unknown}; they are left out")
        known: NDArray[np.int64] = ids[ids != PADDING]
        return known

    def refuse_strangers(self, name: str, values: Ids, ids: NDArray[np.int64]) -> None:
        """Refuse items of which none is in the catalogue."""
        if len(ids) and not ids.any():
            raise UserError(nothing_known(name, len(ids), next(iter(values)), self.tokens[1:]))


def _unknown(values: list[Any], ids: NDArray[np.int64], argument: str) -> str:
    """Say how many items are not in the catalogue; an empty text if all are."""
    missing = np.flatnonzero(ids == PADDING)
    return unknown_items(f"`{argument}`", len(missing), len(ids), values[missing[0]]) if len(missing) else ""


def as_texts(values: Ids | pd.Series) -> NDArray[np.object_]:
    """Return ids as the texts that a log has for them; whole numbers without a decimal point."""
    column = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    if pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        column = column.astype(str)
    elif pd.api.types.infer_dtype(column, skipna=False) != "string":
        column = column.astype(object).map(_text)
    return np.asarray(column, dtype=object)


def _text(value: object) -> str:
    """Return the text of an id."""
    if not (value is None or isinstance(value, (str, Number, np.generic, UUID))):
        raise UserError(f"ids must be texts or numbers, but one is {short(value)}, of type {type(value).__name__}")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def list_of(values: object, wanted: str) -> list[Any]:
    """Return a list of ids, or of lists of them; a text, a dictionary, a record and a table are refused."""
    if hasattr(values, "to_pylist"):  # of pyarrow, whose own elements are no texts
        values = values.to_pylist()
    is_record = isinstance(values, (str, bytes, Mapping)) or hasattr(values, "_fields") or hasattr(values, "columns")
    if is_record or not isinstance(values, Iterable):
        raise UserError(f"{wanted}, but is the {type(values).__name__} {' '.join(short(values).split())}")
    return list(values)


def unknown_items(name: str, unknown: int, count: int, example: object) -> str:
    """Say how many of the items that somebody names a model does not know, with an example."""
    return f"{name} names {unknown} of {count} items that the model does not know, such as {short(example)}"


def nothing_known(name: str, count: int, example: object, items: Sequence[str] | NDArray[np.object_]) -> str:
    """Say that a model knows none of the items that somebody names, with an example of each side."""
    return (
        f"{unknown_items(name, count, count, example)}; it knows {len(items)} items, such as {short(items[0])}: give "
        "both in the same spelling"
    )
