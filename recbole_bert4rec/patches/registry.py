"""The table of everything this package changes in RecBole, and the two functions that apply it and take it back."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar

import pandas
import recbole  # first, so that an installation without RecBole is noticed by this name

from recbole_bert4rec.constants import INSTALL_RECBOLE, SUPPORTED_RECBOLE
from recbole_bert4rec.errors import UserError

P = ParamSpec("P")
Value = TypeVar("Value")

FIXES_VARIABLE = "RECBOLE_BERT4REC_FIXES"
"""Environment variable that turns the fixes of RecBole off; read as the package is imported."""

ABSENT = object()
"""Stands for nothing, where None could be something."""


class Scope(Enum):
    """What a patch is for."""

    FIX = "fix"
    """Mends a fault of RecBole, or between RecBole and today's libraries, that other models have too."""
    POLICY = "policy"
    """What this package decides for all models: how options and files are read, which pickles are not."""
    MODEL = "model"
    """Puts BERT4Rec where RecBole looks names up."""


def always() -> bool:
    """Return True: the patch is needed whatever is installed."""
    return True


@dataclass(frozen=True)
class Patch:
    """One change of RecBole.

    Attributes:
        owner: dotted path of a module, ``module:Class``, or ``module:name`` of a dictionary or a list.
        name: the attribute that changes; the key of a dictionary; the entry that a list gets.
        replacement: a function that takes the original first and then the arguments of a call; with ``as_is``, what
            stands there instead of the original.
        reason: one sentence, with RecBole's file and line.
        scope: what the patch is for.
        as_is: the replacement is put there itself, instead of being called with the original.
        needed: whether the fault is there at all with the libraries that are installed.
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
        """What changes, in one word, such as ``recbole.config:Config._init_device``."""
        return f"{self.owner}.{self.name}"


@dataclass
class _Change:
    """An applied patch at one place, with all that is needed to take it back."""

    patch: Patch
    owner: Any
    name: str
    before: Any
    put: Any


_applied: list[_Change] = []
_fixes_applied: bool | None = None
"""The argument of the last :func:`register`; None where nothing is registered."""


def patches() -> tuple[Patch, ...]:
    """Return every patch, in the order in which they are applied."""
    from recbole_bert4rec.patches import fixes, models, policy

    return (*fixes.PATCHES, *policy.PATCHES, *models.PATCHES)


def register(fixes: bool = True) -> None:
    """Make RecBole use this package for ``BERT4Rec``; its own stays as ``RecBoleBERT4Rec``.

    A second call with the same argument changes nothing.

    Args:
        fixes: whether to mend RecBole's faults for its other models too. Without them every other model computes what
            RecBole alone computes. Processes that this one starts read ``RECBOLE_BERT4REC_FIXES`` instead.

    Raises:
        ImportError: RecBole is not of the 1.2 series, or pandas not of one that it works with.
    """
    global _fixes_applied
    if _fixes_applied == fixes:
        return
    check_recbole_version(recbole.__version__)
    check_pandas_version(pandas.__version__)
    rows = patches()
    unregister()
    try:
        for patch in rows:
            if patch.needed() and (fixes or patch.scope != Scope.FIX):
                _apply(patch)
    except BaseException:
        unregister()
        raise
    _fixes_applied = fixes


def unregister() -> None:
    """Put everything in RecBole back as it was; without :func:`register` before, do nothing.

    What somebody else has put in the place of a patch since is left alone. A module that imported a patched function by
    name in the meantime keeps it.
    """
    global _fixes_applied
    while _applied:
        _take_back(_applied.pop())
    _fixes_applied = None


def fixes_wanted() -> bool:
    """Return what ``RECBOLE_BERT4REC_FIXES`` says; True where it is not set.

    Raises:
        UserError: its value is neither ``on`` nor ``off``.
    """
    value = os.environ.get(FIXES_VARIABLE, "on").lower()
    if value not in ("on", "off"):
        raise UserError(f"the environment variable {FIXES_VARIABLE} must be on or off, but is {value!r}")
    return value == "on"


def check_recbole_version(version: str) -> None:
    """Refuse another series of RecBole, and warn of another release of the same.

    Raises:
        ImportError: RecBole is not of the 1.2 series.
    """
    if version == SUPPORTED_RECBOLE:
        return
    message = f"recbole_bert4rec was made for RecBole {SUPPORTED_RECBOLE}, but {version} is installed"
    if version.split(".")[:2] != SUPPORTED_RECBOLE.split(".")[:2]:
        raise ImportError(f"{message}; {INSTALL_RECBOLE}")
    warnings.warn(f"{message}; it may not work", stacklevel=3)


def check_pandas_version(version: str) -> None:
    """Refuse a pandas with which RecBole computes something else, and says nothing.

    RecBole fills missing values with ``frame[field].fillna(..., inplace=True)`` (dataset.py:644), which changes nothing
    from pandas 3 on: ratings stay NaN, and ids become -2^63.

    Raises:
        ImportError: it is pandas 3 or later.
    """
    if int(version.split(".")[0]) >= 3:
        raise ImportError(
            f"pandas {version} is installed, with which RecBole {SUPPORTED_RECBOLE} silently loses missing values; "
            "pip install 'pandas<3'"
        )


def is_applied(patch: Patch) -> bool:
    """Return whether a patch is in force now."""
    return any(change.patch is patch for change in _applied)


def resolve(owner: str) -> Any:
    """Return the object that an :attr:`Patch.owner` names."""
    module, _, name = owner.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def current(owner: object, name: str) -> Any:
    """Return what stands at a place; :data:`ABSENT` where there is nothing, or only something inherited."""
    if isinstance(owner, list):
        return name if name in owner else ABSENT
    if isinstance(owner, dict):
        return owner.get(name, ABSENT)
    return vars(owner).get(name, ABSENT) if isinstance(owner, type) else getattr(owner, name, ABSENT)


def wrap(original: Callable[P, Value], replacement: Callable[..., Value]) -> Callable[P, Value]:
    """Return a function that calls ``replacement(original, ...)`` and has the original's name and documentation.

    Its signature is the replacement's, where that names all its arguments.
    """

    @functools.wraps(original)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Value:
        return replacement(original, *args, **kwargs)

    signature = inspect.signature(replacement)
    _, *arguments = signature.parameters.values()
    if not any(argument.kind == argument.VAR_POSITIONAL for argument in arguments):
        wrapped.__signature__ = signature.replace(parameters=arguments)  # type: ignore[attr-defined]  # read by inspect
    return wrapped


def _apply(patch: Patch) -> None:
    owner = resolve(patch.owner)
    before = current(owner, patch.name)
    if isinstance(owner, (list, dict)) or patch.as_is:
        put = patch.name if isinstance(owner, list) else patch.replacement
    else:
        put = wrap(getattr(owner, patch.name), patch.replacement)
    others = _references(before, owner) if isinstance(owner, ModuleType) else []
    for place, name in ((owner, patch.name), *others):
        _applied.append(_Change(patch, place, name, before, put))
        _put(place, name, put)


def _references(function: object, owner: ModuleType) -> list[tuple[ModuleType, str]]:
    """Find the modules that imported a function of RecBole by name: ``from recbole.data import create_dataset``.

    RecBole's own do, and so do those of a user who imports RecBole before this package.

    Args:
        function: what stands in ``owner``; only functions of RecBole are looked for.
        owner: the module that is changed anyway.

    Returns:
        Other modules, and the name that the function has there.
    """
    if not isinstance(function, FunctionType) or (function.__module__ or "").split(".")[0] != "recbole":
        return []
    loaded: list[object] = list(sys.modules.values())  # whatever a program has put there
    return [
        (module, name)
        for module in loaded
        if isinstance(module, ModuleType) and module is not owner and not module.__name__.startswith("recbole_bert4rec")
        for name, value in list(vars(module).items())
        if value is function
    ]


def _take_back(change: _Change) -> None:
    owner, name = change.owner, change.name
    if isinstance(owner, list):
        if change.before is ABSENT and name in owner:
            owner.remove(name)
        return
    if current(owner, name) is not change.put:
        return
    if change.before is not ABSENT:
        _put(owner, name, change.before)
    elif isinstance(owner, dict):
        del owner[name]
    else:
        delattr(owner, name)


def _put(owner: object, name: str, value: object) -> None:
    if isinstance(owner, list):
        if name not in owner:
            owner.append(name)
    elif isinstance(owner, dict):
        owner[name] = value
    else:
        setattr(owner, name, value)
