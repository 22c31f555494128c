"""Sorts a Parquet log of any size by user and time, a part of the users at a time, into files that are mapped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tqdm.auto import tqdm

from recbole_bert4rec.logs.codes import NO_ID, PADDING_ID, check_ids, doubts, no_ids
from recbole_bert4rec.logs.dictionary import Dictionary, Numbers
from recbole_bert4rec.logs.facts import facts_of_counts
from recbole_bert4rec.logs.mapped import COUNTS, ITEM_TOKENS, ITEMS, OFFSETS, TIMES, USER_TOKENS
from recbole_bert4rec.logs.parquet_log import ParquetLog
from recbole_bert4rec.logs.reading import Reading
from recbole_bert4rec.logs.times import TimeColumn, Times, read_as
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import digest_of

_AT_ONCE = 1 << 19
"""Rows that are read at once; pyarrow takes about ten times their memory."""
_PART = 1 << 22
"""Interactions of a part, about: users are sorted as many at a time as have so many."""
_MOST_PARTS = 500
"""Files that are open at once."""
_TOKENS_AT_ONCE = 1 << 16
_DELAY = 2
"""Seconds before a bar is shown."""
_SHOWN = "{l_bar}{bar}| {elapsed}<{remaining}"
"""Format of the bar, which counts each row three times."""


def sort_log(
    source: ParquetLog, columns: list[str], reading: Reading, work: Path, no_bar: bool | None
) -> dict[str, Any]:
    """Write the files of a :class:`~recbole_bert4rec.logs.mapped.MappedLog`.

    Users and items have the numbers, and each user's interactions the order, that RecBole gives them if it reads
    the same log as an atomic file in the order of time.
    """
    source.check_names(columns)
    rows = source.count()
    shown: dict[str, Any] = {"desc": "Sort the log", "ncols": 100, "bar_format": _SHOWN, "leave": False}
    with tqdm(total=3 * rows, delay=_DELAY, disable=no_bar, **shown) as bar:  # read, divided, sorted
        scan = _Scan(source, columns, reading, work / "rows", bar)
        users, items = (dictionary.numbers() for dictionary in scan.ids)
        pa.default_memory_pool().release_unused()  # else what reading took would stay to the end of the run
        parts = _Parts(scan, users, items, work, bar)
        (work / "rows").unlink()
        counts = _sort(parts, len(users.tokens), len(items.tokens), reading.drop_duplicates, work, bar)
    for name, numbers in ((USER_TOKENS, users), (ITEM_TOKENS, items)):
        _write_tokens(numbers.tokens, work / name)
    form = read_as(scan.form, scan.without_zone, scan.kept, reading)
    return {
        "read_as": {**source.read_as, columns[2]: form},
        "doubts": [*source.doubts, *scan.doubts],
        "rows": scan.read,
        "left_out": scan.left_out,
        "exact_duplicates": counts.doubles,
        "duplicates_left_out": reading.drop_duplicates,
        **facts_of_counts(counts.of_user, counts.of_item, counts.repeats, counts.ends, scan.are_dates),
        "digest": _digest(work),
    }


def _dtype_of(times: str) -> np.dtype[Any]:
    """Return the layout of an interaction in the files that are sorted."""
    return np.dtype([("user", "<i4"), ("item", "<i4"), ("time", times)])


class _Scan:
    """One reading of the log: its interactions as codes, in the log's order, in a file.

    Attributes:
        path: of the file.
        dtype: of an interaction in it.
        ids: of users and items.
        read: number of rows.
        kept: number of interactions.
        of_user: interactions by the user's code. *Shape:* (codes,)
        left_out: for ``conversion.json``.
        form, without_zone, are_dates: see :class:`~recbole_bert4rec.logs.times.Times`.
    """

    def __init__(self, source: ParquetLog, columns: list[str], reading: Reading, path: Path, bar: tqdm[Any]) -> None:
        self._source, self._columns, self.reading = source, columns, reading
        self.path = path
        self.ids = (Dictionary(), Dictionary())
        self.kept, self.read, self.without_zone = 0, 0, 0
        self.of_user = np.empty(0, dtype=np.int64)
        self._missing = dict.fromkeys(columns[:2], 0)
        self._forms: dict[tuple[str, bool], str] = {}
        self.doubts: dict[str, None] = {}
        with path.open("wb") as file:
            for table in source.batches(columns, _AT_ONCE):
                self._take(table, file)
                bar.update(len(table))
        self._check()
        ((self.form, self.are_dates),) = self._forms
        self.left_out = {name: {"rows": count, "lines": []} for name, count in self._missing.items() if count}

    def _take(self, table: pa.Table, file: IO[bytes]) -> None:
        """Append the interactions of some rows to the file."""
        codes = [self._encode(table, index) for index in (0, 1)]
        kept = np.flatnonzero((codes[0] != NO_ID) & (codes[1] != NO_ID))
        self._missing[self._columns[0]] += int((codes[0] == NO_ID).sum())
        self._missing[self._columns[1]] += int(((codes[1] == NO_ID) & (codes[0] != NO_ID)).sum())
        if len(kept):
            times = self._times(table, kept)
            interactions = np.empty(len(kept), dtype=_dtype_of(times.dtype.str))
            interactions["time"] = times
            for name, column_codes, ids in zip(("user", "item"), codes, self.ids, strict=True):
                interactions[name] = column_codes[kept]
                ids.note(column_codes[kept], times, self.kept)
            counts = np.bincount(interactions["user"], minlength=len(self.of_user))
            counts[: len(self.of_user)] += self.of_user
            self.of_user, self.dtype = counts, interactions.dtype
            interactions.tofile(file)
        self.kept += len(kept)
        self.read += len(table)

    def _encode(self, table: pa.Table, index: int) -> NDArray[np.int64]:
        name = self._columns[index]
        try:
            return self.ids[index].encode(table[name])
        except pa.ArrowException as error:
            raise no_ids(name, table[name].type, self._source.where, error) from error

    def _times(self, table: pa.Table, kept: NDArray[np.int64]) -> NDArray[Any]:
        """Return the times of some rows: whole numbers of 64 bits of a column of whole numbers, else float64."""
        name = self._columns[2]
        column = table[name] if len(kept) == len(table) else table[name].take(kept)
        read: Times = TimeColumn(
            column, name, kept + self.read, self._where(len(table)), self.reading.date_format, self.reading.timezone
        ).read()
        self.without_zone += read.without_zone
        self._forms.setdefault((read.form, read.are_dates), self._where(len(table))(None))
        values: NDArray[Any] = read.values
        if pa.types.is_integer(column.type):
            return values.astype("<u8" if values.dtype == np.uint64 else "<i8")
        if values.dtype == np.float32:  # as they are read where they are written as text
            values = pa.array(values).cast(pa.string()).cast(pa.float64()).to_numpy()
        exact = values.astype("<f8")
        if values.dtype.kind in "iu" and (exact.astype(values.dtype) != values).any():
            raise UserError(
                f"{self._where(len(table))(None)}: {name!r} holds whole numbers above 2**53 as texts, which cannot be "
                "sorted on the disk; store them as whole numbers"
            )
        return exact

    def _where(self, count: int) -> Callable[[int | None], str]:
        """Return a function that names the place of a row of this batch; a Parquet file has no lines to name."""
        rows = f"{self._source.path}, rows {self.read + 1:,} to {self.read + count:,}"
        return lambda row: rows

    def _check(self) -> None:
        """Refuse ids that cannot be used, a log without interactions, and times of several forms."""
        source, columns = self._source, self._columns
        if not self.read:
            raise UserError(f"{source.path} has a header but no rows")
        for name, ids in zip(columns, self.ids, strict=False):
            texts = ids.texts()
            check_ids(texts, name, source.where)
            self.doubts |= dict.fromkeys(doubts(texts, name))
        if not self.kept:
            raise UserError(f"{source.path}: no row has both {columns[0]!r} and {columns[1]!r}")
        if len(self._forms) > 1:
            (form, _), (other_form, _) = list(self._forms)[:2]
            first, second = list(self._forms.values())[:2]
            raise UserError(
                f"{second}: {columns[2]!r} holds {other_form}, but {form} in {first}; say how dates are written with "
                "--date_format=..., or store the times as timestamps"
            )


class _Parts:
    """The interactions in files, each with as many users as :func:`_sort` sorts at a time, in RecBole's numbers.

    Attributes:
        paths: of the files.
        dtype: of an interaction in them.
        bounds: the first user of each, and one after the last. *Shape:* (parts + 1,)
    """

    def __init__(self, scan: _Scan, users: Numbers, items: Numbers, work: Path, bar: tqdm[Any]) -> None:
        self.dtype = scan.dtype
        of_user = np.zeros(len(users.tokens) + 1, dtype=np.int64)
        np.add.at(of_user, users.of_code[: len(scan.of_user)], scan.of_user)
        size = max(_PART, -(-scan.kept // _MOST_PARTS))
        part_of_user = np.cumsum(of_user)[:-1] // size  # of user number 1 and on: what stands before it
        starts = np.flatnonzero(np.diff(part_of_user, prepend=-1)) + 1
        self.bounds = np.append(starts, len(of_user))
        self.paths = [work / f"part-{number:03}" for number in range(len(starts))]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in self.paths]
            for rows in _blocks(scan.path, scan.dtype):
                rows["user"], rows["item"] = users.of_code[rows["user"]], items.of_code[rows["item"]]
                part = (np.searchsorted(self.bounds, rows["user"], side="right") - 1).astype(np.uint16)
                rows = rows[np.argsort(part, kind="stable")]
                ends = np.cumsum(np.bincount(part, minlength=len(files)))
                for file, end, count in zip(files, ends, np.diff(ends, prepend=0), strict=True):
                    rows[end - count : end].tofile(file)
                bar.update(len(rows))


def _blocks(path: Path, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Yield the content of a file, a part at a time."""
    with path.open("rb") as file:
        while len(rows := np.fromfile(file, dtype, _AT_ONCE)):
            yield rows


class _Counts(NamedTuple):
    """Counts of the sorted interactions; see :func:`~recbole_bert4rec.logs.facts.facts_of_counts`."""

    of_user: NDArray[np.int64]
    of_item: NDArray[np.int64]
    repeats: int
    doubles: int
    ends: tuple[Any, Any]


def _sort(parts: _Parts, n_users: int, n_items: int, drop: bool, work: Path, bar: tqdm[Any]) -> _Counts:
    """Sort the parts one after the other, and write the files of numbers; a part is gone once it is sorted."""
    of_user, of_item = np.zeros(n_users + 1, dtype=np.int64), np.zeros(n_items + 1, dtype=np.int64)
    repeats = doubles = 0
    ends = []
    with (work / ITEMS).open("wb") as items, (work / TIMES).open("wb") as times:
        for path in parts.paths:
            rows: NDArray[Any] = np.fromfile(path, parts.dtype)
            path.unlink()
            bar.update(len(rows))
            rows = rows[np.lexsort((rows["time"], rows["user"]))]  # stable: equal times keep the log's order
            double = _doubles(rows)
            doubles += int(double.sum())
            if drop:
                rows = rows[~double]
            of_user += np.bincount(rows["user"], minlength=len(of_user))
            of_item += np.bincount(rows["item"], minlength=len(of_item))
            repeats += len(rows) - len(np.unique(rows["user"].astype(np.int64) * len(of_item) + rows["item"]))
            ends += [rows["time"].min(), rows["time"].max()]
            rows["item"].tofile(items)
            rows["time"].astype("<f8").tofile(times)
    np.concatenate([[0], np.cumsum(of_user)]).tofile(work / OFFSETS)
    of_item.tofile(work / COUNTS)
    return _Counts(of_user, of_item, repeats, doubles, (min(ends), max(ends)))


def _doubles(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark interactions whose user, item and time an earlier one has."""
    tied = (rows["user"][1:] == rows["user"][:-1]) & (rows["time"][1:] == rows["time"][:-1])
    among = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    double = np.zeros(len(rows), dtype=bool)
    order = among[np.lexsort((rows["item"][among], rows["time"][among], rows["user"][among]))]
    double[order[1:]] = rows[order[1:]] == rows[order[:-1]]
    return double


def _write_tokens(tokens: pa.Array[Any], path: Path) -> None:
    """Write ids by their numbers, padding's first, as numpy keeps texts of one width."""
    lengths: Any = pc.utf8_length(cast(pa.StringArray, tokens))
    width = max(len(PADDING_ID), pc.max(lengths).as_py())
    with path.open("wb") as file:
        np.array([PADDING_ID], dtype=f"<U{width}").tofile(file)
        for begin in range(0, len(tokens), _TOKENS_AT_ONCE):
            np.array(tokens.slice(begin, _TOKENS_AT_ONCE).to_pylist(), dtype=f"<U{width}").tofile(file)


def _digest(folder: Path) -> str:
    """Return a digest of all files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(f"{path.name} {digest_of(path)}\n".encode())
    return digest.hexdigest()[:16]
