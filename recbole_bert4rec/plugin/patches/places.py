"""The changes in force: each is made when the first user asks for it, and taken back with the last one."""

from __future__ import annotations

import importlib
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from recbole_bert4rec.plugin.patches.patch import Patch

QUICK_START = "recbole.quick_start.quick_start"
"""RecBole's module that imports Ray; it is changed only once somebody imports it."""

ABSENT = object()
"""Marks a missing attribute, since None may be a value."""


@dataclass
class _Target:
    """A changed attribute of RecBole.

    Attributes:
        before: the original.
        put: the present value.
        patches: in force, in the order of the tables.
        others: modules of RecBole that imported the same function by name, and its name there.
        made: earlier values by their patches, so that the same patches put the same object again.
    """

    owner: Any
    name: str
    before: Any
    put: Any
    patches: list[Patch] = field(default_factory=list)
    others: list[tuple[ModuleType, str]] = field(default_factory=list)
    made: dict[tuple[Patch, ...], Any] = field(default_factory=dict)


_targets: dict[str, _Target] = {}
_uses: Counter[Patch] = Counter()
"""Number of users of each change."""
lock = threading.RLock()


def hold(rows: Iterable[Patch]) -> list[Patch]:
    """Make changes; return those that are needed here and possible now. If one fails, none is made."""
    held: list[Patch] = []
    with lock:
        try:
            for patch in rows:
                if not patch.needed() or (patch.module == QUICK_START and QUICK_START not in sys.modules):
                    continue
                _uses[patch] += 1
                held.append(patch)
                if _uses[patch] == 1:
                    _apply(patch)
        except BaseException:
            release(held)
            raise
    return held


def release(held: Iterable[Patch]) -> None:
    """Ask no longer for changes; those without another user are taken back.

    An attribute that somebody else has changed since is left alone.
    """
    with lock:
        for patch in reversed(list(held)):
            _uses[patch] -= 1
            if not _uses[patch]:
                _take_back(patch)


def is_applied(patch: Patch) -> bool:
    """Return whether a change is in force now."""
    return _uses[patch] > 0


def resolve(owner: str) -> Any:
    """Return the object that an :attr:`Patch.owner` names."""
    module_name, _, name = owner.partition(":")
    module = importlib.import_module(module_name)
    return getattr(module, name) if name else module


def current(owner: object, name: str) -> Any:
    """Return an attribute's value; :data:`ABSENT` if there is none, or only an inherited one."""
    if isinstance(owner, dict):
        return owner.get(name, ABSENT)
    return vars(owner).get(name, ABSENT) if isinstance(owner, type) else getattr(owner, name, ABSENT)


def original(owner: str, name: str) -> Any:
    """Return RecBole's own value of an attribute."""
    stands = getattr(resolve(owner), name)
    target = _targets.get(f"{owner}.{name}")
    return stands if target is None else target.before


def _apply(patch: Patch) -> None:
    if patch.label not in _targets:
        owner = resolve(patch.owner)
        before = current(owner, patch.name)
        _targets[patch.label] = _Target(owner, patch.name, before, before)
    target = _targets[patch.label]
    target.patches = sorted([*target.patches, patch], key=lambda patch: patch.scope.order)
    try:
        _put(target)
    except BaseException:
        target.patches.remove(patch)
        if not target.patches:
            del _targets[patch.label]
        raise


def _take_back(patch: Patch) -> None:
    target = _targets.get(patch.label)
    if target is None or patch not in target.patches:
        return
    target.patches.remove(patch)
    _put(target)
    if not target.patches:
        del _targets[patch.label]


def _put(target: _Target) -> None:
    """Set an attribute and its other references to the original with all changes in force."""
    stands = target.before
    if target.patches:
        stands = target.made[tuple(target.patches)] = target.made.get(tuple(target.patches)) or _layered(target)
    if isinstance(target.owner, ModuleType) and target.patches:
        target.others = _references(target)
    for owner, name in ((target.owner, target.name), *target.others):
        stood = current(owner, name)
        if stood is target.put or stood is target.before:
            _set(owner, name, stands)
    target.put = stands


def _layered(target: _Target) -> Any:
    inherited = target.before is ABSENT and not target.patches[0].as_is
    stands = getattr(target.owner, target.name) if inherited else target.before
    for patch in target.patches:
        stands = patch.over(stands)
    return stands


def _references(target: _Target) -> list[tuple[ModuleType, str]]:
    """Find the modules of RecBole that imported one of its functions by name: ``from recbole.data import ...``."""
    before = target.before
    if not isinstance(before, FunctionType) or (before.__module__ or "").partition(".")[0] != "recbole":
        return []
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "recbole"]
    return [
        (module, name)
        for module in modules
        if module is not target.owner
        for name, value in list(vars(module).items())
        if value is before or value is target.put
    ]


def _set(owner: Any, name: str, value: object) -> None:
    if value is not ABSENT:
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)
    elif isinstance(owner, dict):
        del owner[name]
    else:
        delattr(owner, name)
