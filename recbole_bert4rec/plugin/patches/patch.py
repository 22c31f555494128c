"""A change of RecBole: its place, the replacement, the reason, and the scope."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Returned = TypeVar("Returned")


class Scope(Enum):
    """When a change is made; the value describes the effect."""

    REGISTRATION = "on import: RecBole finds this package's models, data set, trainer and loaders by their names"
    COMPAT = "on import: what ends in an exception with today's libraries works; no figure changes"
    FIX = "in our programs: faults of RecBole are mended, and figures may change"
    POLICY = "in our programs: how options, files and logs are treated"

    @property
    def order(self) -> int:
        """Return the order of changes of the same place: later ones call earlier ones."""
        return list(Scope).index(self)


def always() -> bool:
    """Return True: the change is needed with any libraries."""
    return True


@dataclass(frozen=True, eq=False)
class Patch:
    """One change of RecBole.

    Attributes:
        owner: dotted path of a module, ``module:Class``, or ``sys:modules``.
        name: the attribute that changes; the key of ``sys.modules``.
        replacement: a function of the original and then the arguments of a call; with ``as_is``, any object that
            replaces the original.
        reason: one sentence, with RecBole's file and line.
        scope: when the change is made.
        as_is: whether the replacement itself is put there, instead of being called with the original.
        needed: whether the installed libraries have the fault.
    """

    owner: str
    name: str
    replacement: Any
    reason: str
    scope: Scope
    as_is: bool = False
    needed: Callable[[], bool] = always

    @property
    def label(self) -> str:
        """The changed attribute in one word, such as ``recbole.config:Config._init_device``."""
        return f"{self.owner}.{self.name}"

    @property
    def module(self) -> str:
        """Return the changed module."""
        return self.owner.partition(":")[0]

    def over(self, original: Any) -> Any:
        """Return the changed object for an original."""
        return self.replacement if self.as_is else wrap(original, self.replacement)


def wrap(original: Callable[P, Returned], replacement: Callable[..., Returned]) -> Callable[P, Returned]:
    """Return a function that calls ``replacement(original, ...)`` and has the original's name and documentation.

    Its signature is the replacement's, if that names all its arguments.
    """

    @functools.wraps(original)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Returned:
        return replacement(original, *args, **kwargs)

    signature = inspect.signature(replacement)
    _, *arguments = signature.parameters.values()
    if not any(argument.kind == argument.VAR_POSITIONAL for argument in arguments):
        wrapped.__signature__ = signature.replace(parameters=arguments)  # type: ignore[attr-defined]  # read by inspect
    return wrapped


def unless_ours(ours: type, replacement: Callable[..., Returned]) -> Callable[..., Returned]:
    """Return a replacement of a method that leaves instances of our class alone: they have their own method."""

    @functools.wraps(replacement)
    def replaced(original: Callable[..., Returned], self: object, *args: object, **kwargs: object) -> Returned:
        if isinstance(self, ours):
            return original(self, *args, **kwargs)
        return replacement(original, self, *args, **kwargs)

    return replaced


policy = partial(Patch, scope=Scope.POLICY)
