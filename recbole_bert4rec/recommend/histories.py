"""Users' histories as sequences for a trained model in torch, read from what a program has."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.core.sequences import Sequences
from recbole_bert4rec.recommend.given import (
    AS_FOUND,
    ByUser,
    Dates,
    Ids,
    Items,
    by_user,
    left_out,
    places_of,
    read_given,
)
from recbole_bert4rec.system.errors import UserError, short


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

    def take(self, rows: NDArray[np.intp]) -> Histories:
        """Return some of the histories."""
        chosen = torch.from_numpy(rows)
        sequences = self.sequences.slices(self.sequences.offsets[chosen], self.sequences.lengths[chosen])
        return Histories(self.users[rows], sequences)

    def drawn(self, most: int) -> Histories:
        """Return those with a known item, or so many of them, drawn at random; the same ones each time."""
        known = np.flatnonzero(self.sequences.lengths.numpy())
        return self.take(np.random.default_rng(0).permutation(known)[:most])

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
        return left_out(self.skipped, len(self.sequences.items), self.example)


def read_histories(
    histories: ByUser | pd.DataFrame,
    items: Items,
    fields: tuple[str, str, str],
    times: ByUser | None = None,
    dates: Dates = AS_FOUND,
) -> Histories:
    """Read histories as sequences; arguments and errors as of :func:`~recbole_bert4rec.recommend.given.read_given`."""
    found = read_given(histories, items, fields, times, dates)
    owners, numbers = torch.from_numpy(found.owners), torch.from_numpy(found.items)
    when = None if found.times is None else torch.from_numpy(found.times)
    sequences = Sequences.from_sorted(owners, numbers, len(found.users), when)
    return Histories(found.users, sequences, found.skipped, found.example)


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
    users, lists = by_user(values, what)
    if isinstance(values, Mapping):
        place = places_of(users, histories.users, what)
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
