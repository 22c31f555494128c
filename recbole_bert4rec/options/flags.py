"""Options as users write them on a command line: ``--name=value``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

from recbole_bert4rec.system.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600}


def parse_flags(flags: Iterable[str]) -> dict[str, str]:
    """Return the value of each option by its name, as text; of an option that is given twice, the last."""
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


def seconds_of(text: str) -> float:
    """Return the seconds of a budget such as ``90s``, ``10m`` or ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise UserError(f"--budget={text} is not a time; write for instance --budget=90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]
