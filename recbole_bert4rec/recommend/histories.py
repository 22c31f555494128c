"""Turn users' histories (lists, a dictionary or a table) into a model's internal ids, without torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, split_keys
from recbole_bert4rec.recommend.ids import Ids, Items, list_of
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows and items of some scores, each pair once. *Shape:* (P,) each."""
ByUser: TypeAlias = "Sequence[Ids] | Mapping[Any, Ids] | pd.Series"
"""A list for each user: a list of lists, a dictionary by user, or a column whose index names the users."""
Dates = tuple[str | None, str | None]
"""The form of dates for Python's strptime, None to find it; and the time zone of dates that name none, None for UTC."""


@dataclass(frozen=True)
class Histories:
    """Histories, or other lists of items, in the internal ids of a trained model, the oldest item first.

    Users are as they were given, or 0, 1, ... Interactions with items that the model does not know, such as
    ``example``, are left out; ``skipped`` counts them. *Shape:* (U,), (T,), (U + 1,).
    """

    users: NDArray[np.object_]
    items: NDArray[np.int64]
    offsets: NDArray[np.int64]
    skipped: int = 0
    example: object = None

    def __len__(self) -> int:
        return len(self.users)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of known items of each history. *Shape:* (U,)."""
        return np.diff(self.offsets)

    def without_last(self) -> tuple[Histories, NDArray[np.int64]]:
        """Return the histories of two items or more without the last item, and these last items (U',)."""
        rows = np.flatnonzero(self.lengths > 1)
        owners, index = self._places(rows, self.lengths[rows] - 1)
        histories = Histories(self.users[rows], self.items[index], offsets_of(owners, len(rows)))
        return histories, self.items[self.offsets[rows + 1] - 1]

    def latest(self, rows: NDArray[np.intp], most: int) -> NDArray[np.int64]:
        """Return the last items of some histories, padded with 0 on the right. *Shape:* (B,) -> (B, L)."""
        lengths = np.minimum(self.lengths[rows], most)
        items = np.zeros((len(rows), lengths.max(initial=0)), dtype=np.int64)
        inside = np.arange(items.shape[1]) < lengths[:, None]
        owners, column = np.nonzero(inside)
        items[inside] = self.items[(self.offsets[rows + 1] - lengths)[owners] + column]
        return items

    def pairs(self, rows: NDArray[np.intp]) -> Pairs:
        """Return the items of some histories, with the place of each one's history in ``rows``; each pair once."""
        places, index = self._places(rows, self.lengths[rows])
        items = self.items[index].astype(np.int64)
        n_items = int(items.max(initial=0)) + 1
        return split_keys(np.unique(pair_keys(places, items, n_items)), n_items)

    def _places(self, rows: NDArray[np.intp], lengths: NDArray[np.int64]) -> Pairs:
        """Return, for the first items of some histories, their histories' places in ``rows``, and their own."""
        owners = np.repeat(np.arange(len(rows)), lengths)
        return owners, self.offsets[rows][owners] + index_within_segment(owners, lengths)


def offsets_of(owners: NDArray[np.int64], n_users: int) -> NDArray[np.int64]:
    """Return where each user's interactions begin, given the user's number of each interaction, ascending."""
    return np.searchsorted(owners, np.arange(n_users + 1))


def read_histories(histories: object, items: Items, fields: tuple[str, str, str], dates: Dates) -> Histories:
    """Read histories of any form, and sort them by user, then time; equal times keep their order."""
    times = None
    if isinstance(histories, pd.DataFrame):
        for field in fields[:2]:
            if field not in histories:
                raise UserError(f"the histories have no column {field!r}; their columns are {list(histories.columns)}")
            if histories[field].isna().any():
                raise UserError(f"the histories lack {int(histories[field].isna().sum())} values of {field!r}")
        owners, named = pd.factorize(histories[fields[0]])
        users = list(named)
        of_items = histories[fields[1]].reset_index(drop=True)
        if fields[2] in histories:
            times = _numbers(histories[fields[2]], fields[2], dates)
    else:
        users, lists = lists_by_user(histories, "histories")
        owners = np.repeat(np.arange(len(users)), list(map(len, lists)))
        of_items = pd.Series(list(itertools.chain(*lists)), dtype=object)
    item_ids = items.ids_of(of_items)
    order = np.argsort(owners, kind="stable") if times is None else np.lexsort((times, owners))
    order = order[item_ids[order] != PADDING]
    unknown = np.flatnonzero(item_ids == PADDING)
    example = of_items.iloc[unknown[0]] if len(unknown) else None
    names = pd.Series(users, dtype=object).to_numpy()
    return Histories(names, item_ids[order], offsets_of(owners[order], len(users)), len(unknown), example)


def lists_by_user(values: object, argument: str) -> tuple[list[Any], list[list[Any]]]:
    """Return users and their lists."""
    wanted = f"`{argument}` must be a list of lists, or a dictionary of lists such as {{'ann': ['50', '181']}}"
    values = by_index(values, argument) if isinstance(values, pd.Series) else values
    if isinstance(values, Mapping):
        users, lists = list(values), list(values.values())
    else:
        lists = list_of(values, wanted)
        users = list(range(len(lists)))
    if argument == "histories" and (unordered := [ids for ids in lists if isinstance(ids, (set, frozenset))]):
        raise UserError(f"{wanted}, the oldest item first, but one is a set, which has no order: {short(unordered[0])}")
    of_one = f"{wanted}; a single list is written [{argument}]"
    return users, [list_of(ids, of_one) for ids in lists]


def excluded_items(values: Mapping[Any, Ids], histories: Histories, items: Items) -> Histories:
    """Return the list of items to exclude for each history's user, which may be empty."""
    lists = _of_users(dict(zip(*lists_by_user(values, "exclude"), strict=True)), histories.users, "exclude", [])
    item_ids = items.ids_of(list(itertools.chain(*lists)))
    return Histories(histories.users, item_ids, np.cumsum([0, *map(len, lists)]))


def one_for_each(
    values: object, histories: Histories, items: Items, argument: str, unknown: bool = False
) -> NDArray[np.int64]:
    """Return one item for each history (U,), from a list in their order or from a dictionary by user."""
    if isinstance(values, pd.Series) and not isinstance(values.index, pd.RangeIndex):
        have_names = list(histories.users) != list(range(len(histories)))
        values = by_index(values, argument) if have_names else values
    if isinstance(values, Mapping):
        values = _of_users(values, histories.users, argument)
    chosen = list_of(values, f"`{argument}` must be a list or a dictionary by user")
    if len(chosen) != len(histories):
        raise UserError(f"`{argument}` must be for each of {len(histories)} histories, but is for {len(chosen)}")
    return items.ids_of(chosen) if unknown else items.known(chosen, f"`{argument}`")


def by_index(column: pd.Series, argument: str) -> dict[Any, Any]:
    """Return a column as a dictionary by user, whom its index names; refuse a user who is named twice."""
    twice = column.index[column.index.duplicated()]
    if len(twice):
        raise UserError(f"`{argument}` names user {short(twice[0])} twice")
    return dict(column.items())


def as_pandas(value: object) -> object:
    """Return the table of any library with Arrow's interface as a pandas frame, and anything else as it is."""
    if isinstance(value, (pd.DataFrame, pd.Series)) or not hasattr(value, "__arrow_c_stream__"):
        return value
    try:
        return pa.table(value).to_pandas()
    except (TypeError, ValueError, pa.ArrowException):  # it is a single column
        return value


def _of_users(values: Mapping[Any, Any], users: NDArray[np.object_], argument: str, default: Any = None) -> list[Any]:
    """Return a dictionary's value for each of some users; without a default it must have all of them."""
    with_history = {*users}
    for user in values:
        if user not in with_history:
            raise UserError(f"`{argument}` names user {short(user)}, who has no history here")
    for user in users if default is None else ():
        if user not in values:
            raise UserError(f"`{argument}` has nothing for user {short(user)}")
    return [values.get(user, default) for user in users]


def _numbers(values: pd.Series, name: str, dates: Dates) -> NDArray[np.float64]:
    """Return times as numbers; dates become Unix seconds."""
    import duckdb

    from recbole_bert4rec.logs.read import fetch, keep
    from recbole_bert4rec.logs.times import TimeColumn

    try:
        given = pa.table({"time": pa.array(values), "row": pa.array(np.arange(len(values)))})
    except pa.ArrowException as error:
        raise UserError(f"the histories: {name!r} must hold only numbers or only dates: {error}") from error
    if not len(given):
        return np.empty(0)
    with duckdb.connect() as connection:
        keep(connection, "kept", given)
        times = TimeColumn(connection, "kept", name, lambda row: "the histories", *dates).read()
        seconds = fetch(connection, f"SELECT ({times.sql})::DOUBLE AS seconds FROM kept ORDER BY row")["seconds"]
    return seconds.to_numpy()
