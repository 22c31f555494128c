"""Options as users write them on a command line: ``--name=value``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any


def parse_flags(flags: Iterable[str]) -> dict[str, str]:
    """Return the value of each option by its name, as text; of an option that is given twice, the last.

    Args:
        flags: words of a command line. Those that are not written ``--name=value`` are left out.
    """
    return dict(flag[2:].split("=", 1) for flag in flags if flag.startswith("--") and "=" in flag)


def literal(text: str) -> Any:
    """Return the Python value that a text spells; the text itself if it spells none.

    Numbers, texts in quotes, lists, tuples, dictionaries, None and booleans (in lower case too) are read.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    # the types that RecBole lets through; bytes, sets, complex numbers and `...` stay texts
    return value if value is None or isinstance(value, (str, int, float, list, tuple, dict)) else text
