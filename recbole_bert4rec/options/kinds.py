"""Kinds of option values; each says in words what it accepts."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeGuard

from recbole_bert4rec.system.errors import short

AUTO = "auto"
"""A value that the data decide."""


@dataclass(frozen=True)
class Kind:
    """A set of values: words that follow "must be", a test, and the values if they are a few names."""

    wanted: str
    accepts: Callable[[object], bool]
    names: tuple[str, ...] = ()


SWITCH = Kind("one of [True, False]", lambda value: isinstance(value, bool))
"""True or False, but neither 1 nor 0."""


def anything(wanted: str) -> Kind:
    """Return values that are checked elsewhere, or by RecBole; ``wanted`` documents them."""
    return Kind(wanted, lambda value: True)


def whole(low: int) -> Kind:
    """Return the whole numbers from ``low`` on, without True and False."""
    return Kind(
        f"a whole number at least {low}",
        lambda value: not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= low,
    )


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether ``value`` is a finite number that a float can hold, and neither True nor False."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def real(low: float, high: float = math.inf, brackets: str = "[)") -> Kind:
    """Return the finite numbers of an interval; ``brackets`` tell whether it includes its ends."""
    upper = "" if math.isinf(high) else f" and {'at most' if brackets[1] == ']' else 'below'} {high:g}"

    def accepts(value: object) -> bool:
        return is_number(value) and (
            low < value < high or (value == low and brackets[0] == "[") or (value == high and brackets[1] == "]")
        )

    return Kind(f"a number {'at least' if brackets[0] == '[' else 'above'} {low:g}{upper}", accepts)


def one_of(*names: str) -> Kind:
    """Return some names."""
    return Kind(f"one of {list(names)}", lambda value: isinstance(value, str) and value in names, names)


def some_of(*names: str) -> Kind:
    """Return lists of some of the names."""
    return Kind(f"a list of some of {list(names)}, or []", lambda value: _are_texts(value) and {*value} <= {*names})


def lists(plural: str, alone: bool = False) -> Kind:
    """Return lists of texts; with ``alone`` a single text, too."""
    return Kind(f"a list of {plural}, or []", lambda value: _are_texts(value) or (alone and isinstance(value, str)))


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def or_null(kind: Kind) -> Kind:
    """Return the values of ``kind``, and null."""
    return Kind(f"{kind.wanted}, or null", lambda value: value is None or kind.accepts(value), kind.names)


def or_auto(kind: Kind) -> Kind:
    """Return the values of ``kind``, and ``auto``, which :mod:`~recbole_bert4rec.options.auto` replaces."""
    return Kind(f"{kind.wanted}, or {AUTO}", lambda value: value == AUTO or kind.accepts(value), kind.names)


def misfits(config: Mapping[str, Any], kinds: Mapping[str, Kind]) -> list[str]:
    """Describe each option whose value is not of its kind."""
    return [
        f"`{name}` must be {kind.wanted}, but is {short(config.get(name))} instead."
        for name, kind in kinds.items()
        if not kind.accepts(config.get(name))
    ]


def literal(text: str) -> Any:
    """Return the Python value that a text spells (also true and false), or else the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    # the types that RecBole lets through; bytes, sets, complex numbers and `...` stay texts
    return value if value is None or isinstance(value, (str, int, float, list, tuple, dict)) else text
