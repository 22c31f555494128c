"""The kinds of values of options; each describes in words what it accepts."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, TypeGuard

from recbole_bert4rec.system.errors import short

AUTO = "auto"
"""A value that the data decide."""


class Kind(Protocol):
    """A set of values."""

    @property
    def wanted(self) -> str:
        """Describe the values, to follow "must be"."""
        ...

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is one of the set."""
        ...


def is_number(value: object) -> TypeGuard[int | float]:
    """Tell whether ``value`` is a finite number that a float can hold; True and False are none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


@dataclass(frozen=True)
class Whole:
    """Whole numbers from ``low`` on."""

    low: int

    @property
    def wanted(self) -> str:
        """Describe the values."""
        return f"a whole number at least {self.low}"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is such a number; True and False are none."""
        return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= self.low


@dataclass(frozen=True)
class Real:
    """Numbers of an interval; ``brackets`` say whether its ends belong to it."""

    low: float
    high: float = math.inf
    brackets: str = "[)"

    @property
    def wanted(self) -> str:
        """Describe the values."""
        upper = (
            "" if math.isinf(self.high) else f" and {'at most' if self.brackets[1] == ']' else 'below'} {self.high:g}"
        )
        return f"a number {'at least' if self.brackets[0] == '[' else 'above'} {self.low:g}{upper}"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is a finite number of the interval; True and False are none."""
        if not is_number(value):
            return False
        above = value >= self.low if self.brackets[0] == "[" else value > self.low
        below = value <= self.high if self.brackets[1] == "]" else value < self.high
        return above and below


@dataclass(frozen=True)
class OneOf:
    """Some names."""

    names: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """Describe the values."""
        return f"one of {list(self.names)}"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is one of the names."""
        return isinstance(value, str) and value in self.names


@dataclass(frozen=True)
class NonEmpty:
    """Texts that are not empty."""

    wanted = "a text"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is such a text."""
        return isinstance(value, str) and value != ""


@dataclass(frozen=True)
class Switch:
    """True or False."""

    wanted = "one of [True, False]"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is True or False; 1 and 0 are not."""
        return isinstance(value, bool)


@dataclass(frozen=True)
class _Or:
    """Values of another kind, and one more value, which YAML calls ``name``."""

    kind: Kind
    value: object
    name: str

    @property
    def wanted(self) -> str:
        """Describe the values."""
        return f"{self.kind.wanted}, or {self.name}"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is that one or of the kind."""
        return value == self.value or self.kind.accepts(value)


def or_null(kind: Kind) -> Kind:
    """Return the values of ``kind``, and null."""
    return _Or(kind, None, "null")


def or_auto(kind: Kind) -> Kind:
    """Return the values of ``kind``, and ``auto``; :mod:`~recbole_bert4rec.options.auto` replaces it by one of them."""
    return _Or(kind, AUTO, AUTO)


@dataclass(frozen=True)
class SomeOf:
    """Lists of some of ``names``, or of any texts if there are none; with ``alone`` a single text, too."""

    names: tuple[str, ...] = ()
    plural: str = "names"
    alone: bool = False

    @property
    def wanted(self) -> str:
        """Describe the values."""
        if self.names:
            return f"a list of some of {list(self.names)}, or []"
        return f"a list of {self.plural}, or []"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is such a list."""
        if not isinstance(value, list):
            return self.alone and isinstance(value, str)
        return all(isinstance(name, str) and (not self.names or name in self.names) for name in value)


@dataclass(frozen=True)
class Clipping:
    """Keyword arguments of torch's ``clip_grad_norm_``."""

    wanted = "a dictionary such as {'max_norm': 5.0}"

    def accepts(self, value: object) -> bool:
        """Tell whether ``value`` is such a dictionary."""
        if not isinstance(value, dict) or "max_norm" not in value or set(value) - {"max_norm", "norm_type"}:
            return False
        return all(map(Real(0, brackets="()").accepts, value.values()))


@dataclass(frozen=True)
class Anything:
    """Values that are not checked one by one; ``wanted`` documents them."""

    wanted: str

    def accepts(self, value: object) -> bool:
        """Accept every value."""
        return True


def misfits(config: Mapping[str, Any], kinds: Mapping[str, Kind]) -> list[str]:
    """List the options whose value is not of their kind, in words."""
    return [
        f"`{name}` must be {kind.wanted}, but is {short(config.get(name))} instead."
        for name, kind in kinds.items()
        if not kind.accepts(config.get(name))
    ]
