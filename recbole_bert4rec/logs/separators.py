"""Finds the character between the columns of a text by the columns that are looked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

COMMON_SEPARATORS = ("::", ",", ";", "\t", "|", " ")


def find_separator(
    header: Callable[[str], list[str]], wanted: Collection[str], candidates: Iterable[str]
) -> tuple[str, list[str]]:
    """Return a separator and the names of the columns.

    Args:
        header: gives the names by a separator.
        wanted: names that are looked for.
        candidates: separators; the first one by which all are there is taken, or else the one by which most are, and
            of these the one that makes the most columns.
    """
    headers = {}
    for separator in dict.fromkeys(candidates):
        headers[separator] = header(separator)
        if {*wanted} <= {*headers[separator]}:
            return separator, headers[separator]
    return max(headers.items(), key=lambda pair: (len({*wanted} & {*pair[1]}), len(pair[1])))
