"""Facts about a converted log: rows, those left out, users, items, repeats, period."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.logs.times import unit_of


def facts_of(
    users: NDArray[np.int64], items: NDArray[np.int64], times: NDArray[Any], are_dates: bool
) -> dict[str, Any]:
    """Return facts about interactions.

    *Shape:* users (T,), items (T,), times (T,)
    """
    pairs = len(np.unique(users * (items.max() + 1) + items))
    return facts_of_counts(np.bincount(users), np.bincount(items), len(users) - pairs, (times[0], times[-1]), are_dates)


def facts_of_counts(
    of_user: NDArray[np.int64], of_item: NDArray[np.int64], repeats: int, ends: tuple[Any, Any], are_dates: bool
) -> dict[str, Any]:
    """Return the facts of :func:`facts_of` about interactions that were counted.

    *Shape:* of_user (U,), of_item (N,)
    """
    of_user, of_item = (counts[counts > 0] for counts in (of_user, of_item))
    first, last = (_date(time, ends, are_dates) for time in ends)
    return {
        "interactions": int(of_user.sum()),
        "users": len(of_user),
        "items": len(of_item),
        "repeats": repeats,
        "first": first,
        "last": last,
    }


def _date(time: np.generic, ends: tuple[Any, Any], are_dates: bool) -> str | float:
    """Return a time as a date if all times are plausible Unix times of one unit; else as a number."""
    size = 1 if are_dates else unit_of(*ends)
    number = time.item()
    if size is None:
        return float(number)
    try:
        return datetime.fromtimestamp(number / size, UTC).isoformat(sep=" ", timespec="seconds")
    except (ValueError, OverflowError, OSError):  # a date of a year that Python does not know
        return float(number)


def summary(record: Mapping[str, Any]) -> str:
    """Put the content of ``conversion.json`` into a few lines."""
    facts, left_out, doubles = record["interactions"], record["left_out"], record["exact_duplicates"]
    how = ", ".join(f"{name} {value!r}" for name, value in record["read_as"].items())
    lines = [
        f"{record['log']}: {record['rows']:,} rows, {how}",
        f"  {facts:,} interactions of {record['users']:,} users with {record['items']:,} items, "
        f"{record['first']} to {record['last']}",
    ]
    for column, about in left_out.items():
        shown = ", ".join(map(str, about["lines"][:5]))
        where = f" (line {shown}{', ...' if about['rows'] > 5 else ''})" if shown else ""
        lines.append(f"  {about['rows']:,} rows left out: {column!r} is empty{where}")
    if doubles:
        done = "left out" if record["duplicates_left_out"] else "kept (--drop_duplicates=True leaves them out)"
        lines.append(f"  {doubles:,} rows have user, item and time of another row: {done}")
    lines.append(f"  {record['repeats'] / facts:.1%} of interactions repeat an item that the user had")
    return "\n".join(lines)
