"""Histories and ids as a program has them, lists, a dictionary or a frame, in a model's numbers; numpy alone."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from logging import getLogger
from numbers import Number
from typing import Any, NamedTuple, TypeAlias, TypeGuard
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from recbole_bert4rec.logs.spellings import keys
from recbole_bert4rec.logs.times import TimeColumn
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Ids = Collection[Any]
"""External ids: texts as in the log, or numbers that are written so."""
ByUser: TypeAlias = "Sequence[Ids] | Mapping[Any, Ids]"
"""A list for each user: a list of them, or a dictionary by user."""


class Dates(NamedTuple):
    """How dates are read that stand for times.

    Attributes:
        form: in the signs of Python's strptime; None: find it.
        timezone: of dates without one, such as Europe/Berlin; None: UTC.
        like: form of the training log's times; see :class:`~recbole_bert4rec.logs.times.TimeColumn`.
    """

    form: str | None = None
    timezone: str | None = None
    like: str | None = None


AS_FOUND = Dates()


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


class Given(NamedTuple):
    """Interactions of known items, by user, then time.

    Attributes:
        users: as they were given; 0, 1, ... for a list. *Shape:* (U,)
        owners: place of each interaction's user among them, ascending. *Shape:* (T,)
        items: internal ids, the oldest of a user first. *Shape:* (T,)
        times: None where there are none. *Shape:* (T,)
        skipped: interactions that are left out because the model does not know the item.
        example: such an item.
    """

    users: NDArray[np.object_]
    owners: NDArray[np.int64]
    items: NDArray[np.int64]
    times: NDArray[np.float64] | None
    skipped: int
    example: object

    @property
    def report(self) -> str | None:
        """Say what was left out; None where nothing was."""
        return left_out(self.skipped, len(self.items), self.example)


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


def read_given(
    histories: ByUser | pd.DataFrame,
    items: Items,
    fields: tuple[str, str, str],
    times: ByUser | None = None,
    dates: Dates = AS_FOUND,
) -> Given:
    """Read histories as :meth:`Recommender.recommend` takes them.

    Args:
        histories: lists of items, the oldest first; a dictionary of such lists; or a frame with a row an interaction.
        items: of the model.
        fields: names of the columns of users, items and times.
        times: of the items of lists, in the same form. Where there are times, they give the order.
        dates: how times are read that are dates.

    Raises:
        UserError: the form is another one, or a time or a user is missing.
    """
    if isinstance(histories, pd.DataFrame):
        if times is not None:
            raise UserError(f"`times` is for lists; put the times of a frame into a column {fields[2]!r}")
        return _of_frame(histories, items, fields, dates)
    users, lists = by_user(histories, "histories")
    lengths = np.array([len(one) for one in lists], dtype=np.int64)
    flat_times = None
    if times is not None:
        whose, of_items = by_user(times, "times")
        if list(whose) != list(users) or [len(one) for one in of_items] != lengths.tolist():
            raise UserError("`times` must have a time for each item of `histories`, in the same form")
        flat_times = _seconds(list(itertools.chain(*of_items)), "times", dates)
    flat = list(itertools.chain(*lists))
    return _sorted(users, np.repeat(np.arange(len(users)), lengths), pd.Series(flat, dtype=object), items, flat_times)


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


def _of_frame(frame: pd.DataFrame, items: Items, fields: tuple[str, str, str], dates: Dates) -> Given:
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


def _seconds(values: Ids | pd.Series, name: str, dates: Dates) -> NDArray[np.float64]:
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
    found = TimeColumn(column, name, np.arange(len(column)), lambda row: "the histories", *dates)
    return found.read().values.astype(np.float64)


def _sorted(
    users: NDArray[np.object_],
    owners: NDArray[np.int64],
    of_items: pd.Series,
    items: Items,
    times: NDArray[np.float64] | None,
) -> Given:
    """Sort interactions by user, then time, without those of unknown items; equal times keep their order."""
    numbers = items.ids_of(of_items)
    order = np.argsort(owners, kind="stable") if times is None else np.lexsort((times, owners))
    order = order[numbers[order] != PADDING]
    unknown = np.flatnonzero(numbers == PADDING)
    example = of_items.iloc[unknown[0]] if len(unknown) else None
    when = None if times is None else times[order]
    return Given(users, owners[order].astype(np.int64), numbers[order], when, len(unknown), example)
