"""Ids of items and users as a program has them, in a model's numbers; numpy alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from logging import getLogger
from numbers import Number
from typing import Any, TypeAlias, TypeGuard
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from recbole_bert4rec.logs.ids import cleaned, without_point
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Ids = Collection[Any]
"""External ids: texts as in the log, or numbers that are written so."""
ByUser: TypeAlias = "Sequence[Ids] | Mapping[Any, Ids]"
"""A list for each user: a list of them, or a dictionary by user."""


class Items:
    """The catalogue's external ids."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens: NDArray[np.object_] = np.array(tokens, dtype=object)
        self._index = pd.Index(self.tokens)
        self._warned: set[str] = set()
        if len(tokens) < 2 or not self._index.is_unique:
            raise UserError("the items' ids in a checkpoint must be at least one, and different from each other")

    def ids_of(self, values: Ids | pd.Series) -> NDArray[np.int64]:
        """Return internal ids; :data:`PADDING` for all that is not in the catalogue.

        ``12.0`` and ``12`` with blanks around it are ``12`` if there is no item that is written so.
        """
        tokens = as_tokens(values)
        ids: NDArray[np.int64] = self._index.get_indexer(pd.Index(tokens)).astype(np.int64)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            plain = without_point(cleaned(pa.array(tokens[unknown], pa.string())))
            ids[unknown] = self._index.get_indexer(pd.Index(plain.to_pylist()))
        return np.where(ids < 0, PADDING, ids)

    def in_spelling(self, values: Ids) -> list[str]:
        """Return ids as the catalogue has them; those of other items as they are."""
        known = zip(values, self.ids_of(values), strict=True)
        return [str(value if number == PADDING else self.tokens[number]) for value, number in known]

    def known(self, values: Ids, argument: str) -> NDArray[np.int64]:
        """Return internal ids of items that must be in the catalogue."""
        ids, unknown = self._ids_and_unknown(values, argument)
        if unknown is not None:
            raise UserError(unknown)
        return ids

    def those_known(self, values: Ids, argument: str, needed: bool = False) -> NDArray[np.int64]:
        """Return internal ids of the items that are in the catalogue; warn once that others are not."""
        ids, unknown = self._ids_and_unknown(values, argument)
        if needed:
            self.refuse_unknown(f"`{argument}`", values, ids)
        if unknown is not None and unknown not in self._warned:
            self._warned.add(unknown)
            getLogger(__name__).warning(f"{unknown}; they are left out")
        known: NDArray[np.int64] = ids[ids != PADDING]
        return known

    def refuse_unknown(self, name: str, values: Ids, ids: NDArray[np.int64] | None = None) -> None:
        """Refuse items of which none is in the catalogue."""
        ids = self.ids_of(values) if ids is None else ids
        if len(ids) and not ids.any():
            raise UserError(nothing_known(name, len(ids), next(iter(values)), self.tokens[1:]))

    def _ids_and_unknown(self, values: Ids, argument: str) -> tuple[NDArray[np.int64], str | None]:
        """Return internal ids, and a message about those that are not in the catalogue."""
        listed = list(_listed(values, argument))
        ids = self.ids_of(listed)
        missing = [value for value, number in zip(listed, ids, strict=True) if number == PADDING]
        if not missing:
            return ids, None
        return ids, unknown_items(f"`{argument}`", len(missing), len(listed), missing[0])


def left_out(skipped: int, read: int, example: object) -> str | None:
    """Say how many interactions are left out, and give an example; None if there is none."""
    if not skipped:
        return None
    return (
        f"{skipped} of {skipped + read} interactions are left out: the model does not know their items, such as "
        f"{short(example)}"
    )


def unknown_items(name: str, unknown: int, count: int, example: object) -> str:
    """Say how many of the items that somebody names a model does not know, with an example."""
    return f"{name} names {unknown} of {count} items that the model does not know, such as {short(example)}"


def nothing_known(name: str, count: int, example: object, items: Sequence[str] | NDArray[np.object_]) -> str:
    """Say that a model knows none of the items that somebody names, with an example of each side."""
    return (
        f"{unknown_items(name, count, count, example)}; it knows {len(items)} items, such as {short(items[0])}: give "
        "both in the same spelling"
    )


def as_tokens(values: Ids | pd.Series) -> NDArray[np.object_]:
    """Return ids as the texts that a log has for them; whole numbers without a decimal point."""
    column = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    if pd.api.types.infer_dtype(column, skipna=False) == "string":
        texts = column
    elif pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        texts = column.astype(str)
    else:
        texts = column.astype(object).map(_token)
    return np.asarray(texts, dtype=object)


def _token(value: object) -> str:
    """Return the text of an id."""
    if not (value is None or isinstance(value, (str, Number, np.generic, UUID))):
        raise UserError(f"ids must be texts or numbers, but one is {short(value)}, of type {type(value).__name__}")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def by_user(values: object, argument: str) -> tuple[NDArray[np.object_], list[Ids]]:
    """Return users and their lists."""
    wanted = f"`{argument}` must be a list of lists, a dictionary of lists or, for histories, a frame"
    of_one = f"{wanted}; a single list is written [{argument}]"
    values = by_index(values, argument) if isinstance(values, pd.Series) else values
    if isinstance(values, Mapping):
        names, lists = list(values), list(values.values())
        of_one = f"`{argument}` must be a dictionary of lists, such as {{'ann': ['50', '181']}}"
    elif isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        lists = list(values)
        names = list(range(len(lists)))
    else:
        raise UserError(f"{wanted}, but is {short(values)}")
    if argument == "histories" and (unordered := [ids for ids in lists if isinstance(ids, (set, frozenset))]):
        example = short(unordered[0])
        raise UserError(
            f"`{argument}` must be lists, oldest item first, but one is a set, which has no order: {example}"
        )
    users = np.empty(len(names), dtype=object)
    users[:] = names
    return users, [_listed(ids, argument, of_one) for ids in lists]


def by_index(column: pd.Series, argument: str) -> dict[Any, Any]:
    """Return what a column has for each user, whom its index names; refuse one who is named twice."""
    if not column.index.is_unique:
        twice = next(user for user, again in zip(column.index, column.index.duplicated(), strict=True) if again)
        raise UserError(f"`{argument}` names user {short(twice)} twice")
    return dict(column.items())


def places_of(named: NDArray[np.object_], users: NDArray[np.object_], argument: str) -> NDArray[np.intp]:
    """Return the places of some users among all."""
    places: NDArray[np.intp] = pd.Index(users).get_indexer(pd.Index(named))
    if (places < 0).any():
        raise UserError(f"`{argument}` names user {short(named[places < 0][0])}, who has no history here")
    return places


def as_frame(value: object) -> object:
    """Return a table, of whatever library, as a frame of pandas; anything else as it is."""
    if isinstance(value, (pd.DataFrame, pd.Series)):
        return value
    if hasattr(value, "__arrow_c_stream__"):
        try:
            return pa.table(value).to_pandas()
        except (TypeError, ValueError, pa.ArrowException) as error:
            if hasattr(value, "__dataframe__"):
                raise UserError(f"the table cannot be read by pandas: {' '.join(str(error).split())}") from error
            return value  # a single column
    return pd.api.interchange.from_dataframe(value) if hasattr(value, "__dataframe__") else value


def _listed(value: object, argument: str, wanted: str = "") -> Ids:
    """Return a list of ids as a collection; a text, a dictionary, a record and a table are refused."""
    if isinstance(value, Mapping) or hasattr(value, "_fields") or isinstance(as_frame(value), pd.DataFrame):
        wanted = wanted or f"`{argument}` must be a list of items"
        raise UserError(
            f"{wanted}, but there is a {type(value).__name__} in its place: {' '.join(short(value).split())}"
        )
    if not _is_list(value):
        raise UserError(f"{wanted or f'`{argument}` must be a list of items'}, but there is {short(value)} in it")
    if hasattr(value, "to_pylist"):  # of pyarrow, whose own elements are no texts
        return list(value.to_pylist())
    return value if isinstance(value, Collection) else list(value)


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
