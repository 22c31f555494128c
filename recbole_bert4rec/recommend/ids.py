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

from recbole_bert4rec.logs.spellings import keys
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Ids = Collection[Any]
"""External ids: texts as in the log, or numbers that are written so."""
ByUser: TypeAlias = "Sequence[Ids] | Mapping[Any, Ids]"
"""A list for each user: a list of them, or a dictionary by user."""


class Items:
    """The catalogue's external ids.

    Args:
        tokens: by internal id, padding first.
        clean: in what ids may differ and be one, as ``clean_ids`` of the training.

    Raises:
        UserError: there is none, or one stands twice.
    """

    def __init__(self, tokens: Sequence[str], clean: Collection[str] = ()) -> None:
        self.tokens: NDArray[np.object_] = np.array(tokens, dtype=object)
        self._clean = clean
        self._index = pd.Index(self.tokens)
        self._warned: set[str] = set()
        if len(tokens) < 2 or not self._index.is_unique:
            raise UserError("the items' ids in a checkpoint must be at least one, and different from each other")
        self._keys = pd.Index(keys(pa.array(tokens, pa.string()), clean).to_pylist()) if clean else self._index
        if not self._keys.is_unique:
            raise UserError(f"the items' ids in a checkpoint are not different from each other but in {list(clean)}")

    def ids_of(self, values: Ids | pd.Series) -> NDArray[np.int64]:
        """Return internal ids; :data:`PADDING` for what is no item of the catalogue.

        Ids that the training took for one are one here, and ``12.0`` is ``12`` where there is no item ``12.0``.
        """
        tokens = as_tokens(values)
        found: NDArray[np.int64] = self._index.get_indexer(pd.Index(tokens)).astype(np.int64)
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            spelt = keys(pa.array(tokens[unknown], pa.string()), {"point", *self._clean})
            found[unknown] = self._keys.get_indexer(pd.Index(spelt.to_pylist()))
        return np.where(found < 0, PADDING, found)

    def in_spelling(self, values: Ids) -> list[str]:
        """Return ids as the catalogue has them; those of other items as they are."""
        known = zip(values, self.ids_of(values), strict=True)
        return [str(value if number == PADDING else self.tokens[number]) for value, number in known]

    def known(self, values: Ids, what: str) -> NDArray[np.int64]:
        """Return internal ids of items that must be in the catalogue.

        Raises:
            UserError: one is not.
        """
        found, unknown = self._told(values, what)
        if unknown is not None:
            raise UserError(unknown)
        return found

    def those_known(self, values: Ids, what: str, needed: bool = False) -> NDArray[np.int64]:
        """Return internal ids of the items that are in the catalogue; warn once that others are not.

        Raises:
            UserError: none is, where one is ``needed``.
        """
        found, unknown = self._told(values, what)
        if needed:
            self.refuse_unknown(f"`{what}`", values, found)
        if unknown is not None and unknown not in self._warned:
            self._warned.add(unknown)
            getLogger(__name__).warning(f"{unknown}; they are left out")
        known: NDArray[np.int64] = found[found != PADDING]
        return known

    def refuse_unknown(self, what: str, values: Ids, found: NDArray[np.int64] | None = None) -> None:
        """Refuse items of which none is in the catalogue.

        Args:
            what: names them.
            values: external ids.
            found: internal ids, where they are known already.

        Raises:
            UserError: with an example of each side.
        """
        found = self.ids_of(values) if found is None else found
        if len(found) and not found.any():
            raise UserError(nothing_known(what, len(found), next(iter(values)), self.tokens[1:]))

    def _told(self, values: Ids, what: str) -> tuple[NDArray[np.int64], str | None]:
        """Return internal ids, and words about those that are not in the catalogue."""
        given = list(_listed(values, what))
        found = self.ids_of(given)
        missing = [value for value, number in zip(given, found, strict=True) if number == PADDING]
        if not missing:
            return found, None
        return found, unknown_items(f"`{what}`", len(missing), len(given), missing[0])

    def labels(self, categories: Mapping[Any, Any]) -> NDArray[np.int64]:
        """Return numbers of each item's categories, different ones, and -1 after them. *Shape:* (N, M).

        Args:
            categories: a category or a list of them by item; a missing one is none, as is that of an unknown item.

        Raises:
            UserError: it is no dictionary.
        """
        if not isinstance(categories, Mapping):
            raise UserError(f"`categories` must be a dictionary by item, but is {short(categories)}")
        ids = self.ids_of(list(categories))
        self.refuse_unknown("`categories`", categories.keys(), ids)
        lacking = len(self.tokens) - 1 - len(np.unique(ids[ids != PADDING]))
        said = f"`categories` has nothing for {lacking} of {len(self.tokens) - 1} items"
        if lacking and said not in self._warned:
            self._warned.add(said)
            getLogger(__name__).warning(f"{said}; `max_per` does not limit them")
        single = (value if _is_list(value) else [value] for value in categories.values())
        lists = pd.Series([list(value) for value in single], ids, dtype=object).explode()
        pairs = pd.DataFrame({"item": lists.index, "label": pd.factorize(lists)[0]}).drop_duplicates()
        pairs = pairs[(pairs["item"] != PADDING) & (pairs["label"] >= 0)]
        place = pairs.groupby("item").cumcount()
        table = np.full((len(self.tokens), 1 + max(place, default=0)), -1, dtype=np.int64)
        table[pairs["item"], place] = pairs["label"]
        return table


def left_out(skipped: int, kept: int, example: object) -> str | None:
    """Say how many interactions are left out, and give an example; None where there is none."""
    if not skipped:
        return None
    return (
        f"{skipped} of {skipped + kept} interactions are left out: the model does not know their items, such as "
        f"{short(example)}"
    )


def unknown_items(what: str, unknown: int, count: int, example: object) -> str:
    """Say how many of the items that somebody names a model does not know, with an example."""
    return f"{what} names {unknown} of {count} items that the model does not know, such as {short(example)}"


def nothing_known(what: str, count: int, example: object, items: Sequence[str] | NDArray[np.object_]) -> str:
    """Say that a model knows none of the items that somebody names, with an example of each side."""
    return (
        f"{unknown_items(what, count, count, example)}; it knows {len(items)} items, such as {short(items[0])}: give "
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
    """Return the text of an id.

    Raises:
        UserError: it is neither a text nor a number, as an array in it or bytes.
    """
    if not (value is None or isinstance(value, (str, Number, np.generic, UUID))):
        raise UserError(f"ids must be texts or numbers, but one is {short(value)}, of type {type(value).__name__}")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def by_user(values: object, what: str) -> tuple[NDArray[np.object_], list[Ids]]:
    """Return users and their lists.

    Args:
        values: a list for each user: a list of them, or a dictionary by user.
        what: the argument's name, for messages.

    Raises:
        UserError: the form is another one.
    """
    wanted = f"`{what}` must be a list of lists, a dictionary of lists or, for histories, a frame"
    of_one = f"{wanted}; a single list is written [{what}]"
    if isinstance(values, Mapping):
        names, lists = list(values), list(values.values())
        of_one = f"`{what}` must be a dictionary of lists, such as {{'ann': ['50', '181']}}"
    elif isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        lists = list(values)
        names = list(range(len(lists)))
    else:
        raise UserError(f"{wanted}, but is {short(values)}")
    if what == "histories" and (unordered := [one for one in lists if isinstance(one, (set, frozenset))]):
        raise UserError(
            f"`{what}` must be lists, oldest item first, but one is a set, which has no order: {short(unordered[0])}"
        )
    users = np.empty(len(names), dtype=object)
    users[:] = names
    return users, [_listed(one, what, of_one) for one in lists]


def places_of(named: NDArray[np.object_], users: NDArray[np.object_], what: str) -> NDArray[np.intp]:
    """Return the places of some users among all.

    Raises:
        UserError: one is not there.
    """
    places: NDArray[np.intp] = pd.Index(users).get_indexer(pd.Index(named))
    if (places < 0).any():
        raise UserError(f"`{what}` names user {short(named[places < 0][0])}, who has no history here")
    return places


def _listed(value: object, what: str, wanted: str = "") -> Ids:
    """Return what holds ids, which a text does not."""
    if not _is_list(value):
        raise UserError(f"{wanted or f'`{what}` must be a list of items'}, but there is {short(value)} in it")
    return value if isinstance(value, Collection) else list(value)


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
