"""Users' histories in a model's numbers, from what a program has: lists, a dictionary or a frame; without torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from recbole_bert4rec.core.segments import index_within_segment, pair_keys, split_keys
from recbole_bert4rec.logs.read import fetch, keep
from recbole_bert4rec.logs.times import TimeColumn
from recbole_bert4rec.recommend.ids import ByUser, Ids, Items, as_frame, by_index, by_user, left_out, places_of
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows and items of some scores; each pair stands once. *Shape:* (P,) each."""


class Dates(NamedTuple):
    """How dates that stand for times are read.

    Attributes:
        form: in the codes of Python's strptime; None: it is found from the dates.
        timezone: of dates without one, such as Europe/Berlin; None: UTC.
    """

    form: str | None = None
    timezone: str | None = None


AS_FOUND = Dates()


@dataclass(frozen=True)
class Histories:
    """Histories of users, or any lists of theirs, in the ids of a trained model.

    Attributes:
        users: as they were given; 0, 1, ... for a list. *Shape:* (U,)
        items: internal ids of all of them, the oldest of a user first. *Shape:* (T,)
        offsets: where the items of each begin, and those of the last end. *Shape:* (U + 1,)
        skipped: interactions that are left out because the model does not know the item.
        example: such an item.
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
        """How many known items each has. *Shape:* (U,)."""
        return np.diff(self.offsets)

    @property
    def report(self) -> str | None:
        """Say what was left out; None if nothing was."""
        return left_out(self.skipped, len(self.items), self.example)

    def take(self, rows: NDArray[np.intp]) -> Histories:
        """Return some of the histories."""
        return self._cut(rows, self.lengths[rows])

    def without_last(self) -> tuple[Histories, NDArray[np.int64]]:
        """Return the histories of two items or more without their last one, and that item.

        *Shape:* (U',) of the items.
        """
        rows = np.flatnonzero(self.lengths > 1)
        return self._cut(rows, self.lengths[rows] - 1), self.items[self.offsets[rows + 1] - 1]

    def latest(self, rows: NDArray[np.intp], most: int | None = None) -> NDArray[np.int64]:
        """Return the last items of some histories, padded on the right with 0.

        *Shape:* rows (B,) -> (B, longest of them)
        """
        lengths = self.lengths[rows] if most is None else np.minimum(self.lengths[rows], most)
        column = np.arange(lengths.max(initial=0))
        inside = column < lengths[:, None]
        index = np.where(inside, (self.offsets[rows + 1] - lengths)[:, None] + column, 0)
        return np.where(inside, self.items[index] if len(self.items) else 0, 0)

    def pairs(self, rows: NDArray[np.intp]) -> Pairs:
        """Return each item that some histories hold, with the place of its history among ``rows``; each pair once."""
        lengths = self.lengths[rows]
        places = np.repeat(np.arange(len(rows)), lengths)
        items = self.items[self.offsets[rows][places] + index_within_segment(places, lengths)].astype(np.int64)
        n_items = int(items.max(initial=0)) + 1
        return split_keys(np.unique(pair_keys(places, items, n_items)), n_items)

    def _cut(self, rows: NDArray[np.intp], lengths: NDArray[np.int64]) -> Histories:
        """Return the first items of some histories."""
        owners = np.repeat(np.arange(len(rows)), lengths)
        index = self.offsets[rows][owners] + index_within_segment(owners, lengths)
        return Histories(self.users[rows], self.items[index], np.concatenate([[0], lengths.cumsum()]))


def offsets_of(owners: NDArray[np.int64], n_users: int) -> NDArray[np.int64]:
    """Return where each user's interactions begin, given the place of each one's user, ascending."""
    return np.searchsorted(owners, np.arange(n_users + 1))


def read_histories(
    histories: ByUser | pd.DataFrame,
    items: Items,
    fields: tuple[str, str, str],
    dates: Dates = AS_FOUND,
) -> Histories:
    """Read histories as :meth:`Recommender.recommend` takes them."""
    if isinstance(histories, pd.DataFrame):
        return _of_frame(histories, items, fields, dates)
    users, lists = by_user(histories, "histories")
    lengths = np.array([len(user_items) for user_items in lists], dtype=np.int64)
    flat = list(itertools.chain(*lists))
    return _sorted(users, np.repeat(np.arange(len(users)), lengths), pd.Series(flat, dtype=object), items, None)


def aligned(values: ByUser, histories: Histories, items: Items, argument: str, unknown: bool = False) -> Histories:
    """Return the list of items for each history's user; empty if there is none."""
    users, lists = by_user(values, argument)
    if isinstance(values, Mapping):
        places = places_of(users, histories.users, argument)
    elif len(lists) != len(histories):
        raise UserError(f"`{argument}` must be for each of {len(histories)} histories, but is for {len(lists)}")
    else:
        places = np.arange(len(lists))
    flat = list(itertools.chain(*lists))
    item_ids = items.ids_of(flat) if unknown else items.known(flat, argument)
    owners = np.repeat(places, [len(items_of_user) for items_of_user in lists])
    order = np.argsort(owners, kind="stable")
    return Histories(histories.users, item_ids[order], offsets_of(owners[order], len(histories)))


def one_for_each(
    values: Ids | Mapping[Any, object], histories: Histories, items: Items, argument: str, unknown: bool = False
) -> NDArray[np.int64]:
    """Return an item for each history; arguments as of :func:`aligned`, but with an item in place of a list.

    *Shape:* (U,)
    """
    framed = as_frame(values)
    if isinstance(values, pd.Series) and not isinstance(values.index, pd.RangeIndex):
        have_names = list(histories.users) != list(range(len(histories)))
        values = by_index(values, argument) if have_names else values
    if not isinstance(framed, Iterable) or isinstance(framed, (str, pd.DataFrame)):
        raise UserError(f"`{argument}` must be a list or a dictionary by user, but is a {type(values).__name__}")
    lists: ByUser = (
        {user: [item] for user, item in values.items()} if isinstance(values, Mapping) else [[item] for item in values]
    )
    single = aligned(lists, histories, items, argument, unknown)
    if (single.lengths == 0).any():
        lacking = histories.users[np.flatnonzero(single.lengths == 0)[0]]
        raise UserError(f"`{argument}` has nothing for user {short(lacking)}")
    return single.items


def _of_frame(frame: pd.DataFrame, items: Items, fields: tuple[str, str, str], dates: Dates) -> Histories:
    for field in fields[:2]:
        if field not in frame:
            raise UserError(f"the histories have no column {field!r}; their columns are {list(frame.columns)}")
        if frame[field].isna().any():
            raise UserError(f"the histories lack {int(frame[field].isna().sum())} values of {field!r}")
    codes, users = pd.factorize(frame[fields[0]])
    names = np.empty(len(users), dtype=object)
    names[:] = list(users)
    times = None
    if fields[2] in frame:
        times = _seconds(frame[fields[2]], fields[2], dates)
    return _sorted(names, codes, frame[fields[1]].reset_index(drop=True), items, times)


def _seconds(values: pd.Series, name: str, dates: Dates) -> NDArray[np.float64]:
    """Return times as numbers; dates become Unix seconds."""
    try:
        given = pa.table({"time": pa.array(values), "row": pa.array(np.arange(len(values)))})
    except pa.ArrowException as error:
        raise UserError(f"the histories: {name!r} must hold numbers only or dates only: {error}") from error
    if not len(given):
        return np.empty(0)
    with duckdb.connect() as connection:
        keep(connection, "kept", given)
        times = TimeColumn(connection, "kept", name, lambda row: "the histories", *dates).read()
        seconds = fetch(connection, f"SELECT ({times.sql})::DOUBLE AS seconds FROM kept ORDER BY row")["seconds"]
    return seconds.to_numpy()


def _sorted(
    users: NDArray[np.object_],
    owners: NDArray[np.int64],
    of_items: pd.Series,
    items: Items,
    times: NDArray[np.float64] | None,
) -> Histories:
    """Sort interactions by user, then time, without those of unknown items; equal times keep their order."""
    item_ids = items.ids_of(of_items)
    order = np.argsort(owners, kind="stable") if times is None else np.lexsort((times, owners))
    order = order[item_ids[order] != PADDING]
    unknown = np.flatnonzero(item_ids == PADDING)
    example = of_items.iloc[unknown[0]] if len(unknown) else None
    return Histories(users, item_ids[order], offsets_of(owners[order], len(users)), len(unknown), example)
