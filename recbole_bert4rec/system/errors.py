"""The one exception for mistakes that a user can mend, and what its text is made of: hints, reasons, short values."""

from __future__ import annotations

import difflib
import os
import reprlib
import traceback
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake that a user can mend. The text says what is wrong, where, the value received and how to mend it."""


def nearest(key: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that a misspelt key most likely means, if any is close."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(key.lower(), list(by_lower), n=1, cutoff=0.75)
    return by_lower[close[0]] if close else None


def why(error: Exception) -> str:
    """Return why a file cannot be read or written, in one line, without what the message says anyway."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def reason_of(error: BaseException) -> str:
    """Return an error in one line, with its place in the code unless it is a mistake that a user can mend."""
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, UserError):
        return message
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {message}{where}"


_REPR = reprlib.Repr()
_REPR.maxstring, _REPR.maxother, _REPR.maxlist = 60, 60, 20


def short(value: object) -> str:
    """Return the value received as an error message shows it: a ``repr`` that stays short, however the value nests."""
    return _REPR.repr(value)


def short_list(names: Iterable[str]) -> str:
    """Return names as an error message shows them: not more than twenty."""
    return short(list(names))
