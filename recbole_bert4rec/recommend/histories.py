"""Users' histories as a program has them, lists, a dictionary or a frame of external ids, for a trained model."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.data.sequences import Sequences, order_by_user_and_time
from recbole_bert4rec.datafiles.times import TimeColumn
from recbole_bert4rec.errors import UserError, short

Ids = Collection[Any]
"""External ids: texts as in the log, or numbers that are written so."""
ByUser: TypeAlias = "Sequence[Ids] | Mapping[Any, Ids]"
"""A list for each user: a list of them, or a dictionary by user."""


class Items:
    """The catalogue's external ids.

    Args:
        tokens: by internal id, padding first.

    Raises:
        UserError: there is none, or one stands twice.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens: NDArray[np.object_] = np.array(tokens, dtype=object)
        self._index = pd.Index(self.tokens)
        if len(tokens) < 2 or not self._index.is_unique:
            raise UserError("the items' ids in a checkpoint must be at least one, and different from each other")

    def ids_of(self, values: Ids | pd.Series) -> NDArray[np.int64]:
        """Return internal ids; :data:`PADDING` for what is no item of the catalogue."""
        found: NDArray[np.int64] = self._index.get_indexer(pd.Index(as_tokens(values))).astype(np.int64)
        return np.where(found < 0, PADDING, found)

    def known(self, values: Ids, what: str) -> NDArray[np.int64]:
        """Return internal ids of items that must be in the catalogue.

        Raises:
            UserError: one is not.
        """
        given = list(_listed(values, what))
        found = self.ids_of(given)
        if (found == PADDING).any():
            missing = [value for value, number in zip(given, found, strict=True) if number == PADDING]
            raise UserError(
                f"`{what}` names {len(missing)} of {len(given)} items that the model does not know, such as "
                f"{short(missing[0])}"
            )
        return found


@dataclass(frozen=True)
class Histories:
    """Histories in the ids of a trained model.

    Attributes:
        users: as they were given; 0, 1, ... for a list. *Shape:* (U,)
        sequences: a row for each user; a user without a known item has an empty one.
        skipped: interactions that are left out because the model does not know the item.
        example: such an item.
    """

    users: NDArray[np.object_]
    sequences: Sequences
    skipped: int = 0
    example: object = None

    def __len__(self) -> int:
        return len(self.users)

    def without_last(self) -> tuple[Histories, Tensor]:
        """Return the histories of two items or more without their last one, and that item.

        *Shape:* (U',) of the items.
        """
        rows = (self.sequences.lengths > 1).nonzero().squeeze(1)
        begin, length = self.sequences.offsets[rows], self.sequences.lengths[rows] - 1
        shorter = self.sequences.slices(begin, length)
        return Histories(self.users[rows.numpy()], shorter), self.sequences.items[begin + length].long()

    @property
    def report(self) -> str | None:
        """Say what was left out; None where nothing was."""
        if not self.skipped:
            return None
        total = self.skipped + len(self.sequences.items)
        return (
            f"{self.skipped} of {total} interactions are left out: the model does not know their items, such as "
            f"{short(self.example)}"
        )


def as_tokens(values: Ids | pd.Series) -> NDArray[np.object_]:
    """Return ids as the texts that a log has for them; whole numbers without a decimal point."""
    column = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
    if pd.api.types.is_integer_dtype(column.dtype) and not column.hasnans:
        texts = column.astype(str)
    else:
        texts = column.astype(object).map(_token)
    return np.asarray(texts, dtype=object)


def _token(value: object) -> str:
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]  # a number, then


def read_histories(
    histories: ByUser | pd.DataFrame, items: Items, fields: tuple[str, str, str], times: ByUser | None = None
) -> Histories:
    """Read histories as :meth:`Recommender.recommend` takes them.

    Args:
        histories: lists of items, the oldest first; a dictionary of such lists; or a frame with a row an interaction.
        items: of the model.
        fields: names of the columns of users, items and times.
        times: of the items of lists, in the same form. Where there are times, they give the order.

    Raises:
        UserError: the form is another one, or a time or a user is missing.
    """
    if isinstance(histories, pd.DataFrame):
        if times is not None:
            raise UserError(f"`times` is for lists; put the times of a frame into a column {fields[2]!r}")
        return _of_frame(histories, items, fields)
    users, lists = _by_user(histories, "histories")
    lengths = np.array([len(one) for one in lists], dtype=np.int64)
    flat_times = None
    if times is not None:
        whose, of_items = _by_user(times, "times")
        if list(whose) != list(users) or [len(one) for one in of_items] != lengths.tolist():
            raise UserError("`times` must have a time for each item of `histories`, in the same form")
        flat_times = _seconds(list(itertools.chain(*of_items)), "times")
    flat = list(itertools.chain(*lists))
    return _histories(
        users, np.repeat(np.arange(len(users)), lengths), pd.Series(flat, dtype=object), items, flat_times
    )


def _by_user(values: object, what: str) -> tuple[NDArray[np.object_], list[Ids]]:
    """Return users and their lists."""
    wanted = f"`{what}` must be a list of lists, a dictionary of lists or, for histories, a frame"
    if isinstance(values, Mapping):
        names, lists = list(values), list(values.values())
    elif isinstance(values, Iterable) and not isinstance(values, (str, bytes)):
        lists = list(values)
        names = list(range(len(lists)))
    else:
        raise UserError(f"{wanted}, but is {short(values)}")
    users = np.empty(len(names), dtype=object)
    users[:] = names
    return users, [_listed(one, what, f"{wanted}; a single list is written [{what}]") for one in lists]


def _listed(value: object, what: str, wanted: str = "") -> Ids:
    """Return what holds ids, which a text does not."""
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise UserError(f"{wanted or f'`{what}` must be a list of items'}, but there is {short(value)} in it")
    return value if isinstance(value, Collection) else list(value)


def _of_frame(frame: pd.DataFrame, items: Items, fields: tuple[str, str, str]) -> Histories:
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
        times = _seconds(frame[fields[2]], fields[2])
    return _histories(names, codes, frame[fields[1]].reset_index(drop=True), items, times)


def _seconds(values: Ids | pd.Series, name: str) -> NDArray[np.float64]:
    """Return times as numbers; dates become Unix seconds.

    Raises:
        UserError: a time is missing, or neither a number nor a date.
    """
    try:
        column = pa.chunked_array([pa.array(values)])
    except pa.ArrowException as error:
        raise UserError(f"the histories: {name!r} must hold numbers only or dates only: {error}") from error
    if not len(column):
        return np.empty(0)
    found = TimeColumn(column, name, np.arange(len(column)), lambda row: "the histories").read()
    return found.values.astype(np.float64)


def _histories(
    users: NDArray[np.object_],
    owners: NDArray[np.int64],
    of_items: pd.Series,
    items: Items,
    times: NDArray[np.float64] | None,
) -> Histories:
    """Sort interactions into histories, without those of unknown items."""
    numbers = items.ids_of(of_items)
    owner, number = torch.from_numpy(owners.astype(np.int64)), torch.from_numpy(numbers)
    when = None if times is None else torch.from_numpy(times)
    order = owner.argsort(stable=True) if when is None else order_by_user_and_time(owner, when)
    order = order[number[order] != PADDING]
    sequences = Sequences.from_sorted(owner[order], number[order], len(users), None if when is None else when[order])
    unknown = np.flatnonzero(numbers == PADDING)
    example = of_items.iloc[unknown[0]] if len(unknown) else None
    return Histories(users, sequences, len(unknown), example)


def aligned(values: ByUser, histories: Histories, items: Items, what: str, unknown: bool = False) -> Sequences:
    """Return for each history its user's own list of items; empty where there is none.

    Args:
        values: as the histories were given: by user, or a list for each.
        histories: whose order the result has.
        items: of the model.
        what: the argument's name, for messages.
        unknown: let items that the model does not know stand as padding.

    Raises:
        UserError: a list of another length, users without a history, or unknown items.
    """
    users, lists = _by_user(values, what)
    if isinstance(values, Mapping):
        place = pd.Index(histories.users).get_indexer(pd.Index(users))
        if (place < 0).any():
            raise UserError(f"`{what}` names user {short(users[place < 0][0])}, who has no history here")
    elif len(lists) != len(histories):
        raise UserError(f"`{what}` must be for each of {len(histories)} histories, but is for {len(lists)}")
    else:
        place = np.arange(len(lists))
    flat = list(itertools.chain(*lists))
    numbers = torch.from_numpy(items.ids_of(flat) if unknown else items.known(flat, what))
    owners = torch.from_numpy(np.repeat(place, [len(one) for one in lists]).astype(np.int64))
    order = owners.argsort(stable=True)
    return Sequences.from_sorted(owners[order], numbers[order], len(histories))


def one_for_each(
    values: Ids | Mapping[Any, object], histories: Histories, items: Items, what: str, unknown: bool = False
) -> Tensor:
    """Return an item for each history; arguments as of :func:`aligned`, but with an item in place of a list.

    *Shape:* (U,)

    Raises:
        UserError: a history has none.
    """
    if not isinstance(values, Mapping) and (isinstance(values, str) or not isinstance(values, Iterable)):
        raise UserError(f"`{what}` must be a list or a dictionary by user, but is {short(values)}")
    lists: ByUser = (
        {user: [item] for user, item in values.items()} if isinstance(values, Mapping) else [[item] for item in values]
    )
    found = aligned(lists, histories, items, what, unknown)
    if bool((found.lengths == 0).any()):
        lacking = histories.users[int((found.lengths == 0).nonzero()[0])]
        raise UserError(f"`{what}` has nothing for user {short(lacking)}")
    return found.items.long()
