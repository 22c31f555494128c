"""Finds the character between the columns of a text by the columns that are looked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

COMMON_SEPARATORS = ("::", ",", ";", "\t", "|", " ")


def find_separator(
    header: Callable[[str], list[str]], wanted: Collection[str], candidates: Iterable[str]
) -> tuple[str, list[str]]:
    """Return a separator and the names of the columns."""
    headers = {}
    for separator in dict.fromkeys(candidates):
        headers[separator] = header(separator)
        if {*wanted} <= {*headers[separator]}:
            return separator, headers[separator]
    return max(headers.items(), key=lambda pair: (len({*wanted} & {*pair[1]}), len(pair[1])))
