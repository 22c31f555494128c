"""Where RecBole is changed now: each change is made when the first one asks for it, and taken back with the last."""

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
"""RecBole's module that imports Ray. What changes in it changes when somebody imports it, if anybody does."""

ABSENT = object()
"""Stands for nothing, where None could be something."""


@dataclass
class _Place:
    """A place in RecBole at which something is changed now.

    Attributes:
        before: what stood there.
        put: what stands there now.
        patches: in force, in the order of the tables.
        others: modules of RecBole that imported the same function by name, and the name that it has there.
        made: what stood there with which patches, so that the very same stands there again.
    """

    owner: Any
    name: str
    before: Any
    put: Any
    patches: list[Patch] = field(default_factory=list)
    others: list[tuple[ModuleType, str]] = field(default_factory=list)
    made: dict[tuple[Patch, ...], Any] = field(default_factory=dict)


_places: dict[str, _Place] = {}
_uses: Counter[Patch] = Counter()
"""How many ask for each change."""
lock = threading.RLock()


def hold(rows: Iterable[Patch]) -> list[Patch]:
    """Ask for changes.

    Returns:
        Those that are needed here and possible now, for :func:`release`. Where one fails, none is made.
    """
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
    """Ask no longer for changes; those that nobody asks for are taken back.

    What somebody else has put in the place of a change since is left alone.
    """
    with lock:
        for patch in reversed(list(held)):
            _uses[patch] -= 1
            if not _uses[patch]:
                _take_back(patch)


def is_applied(patch: Patch) -> bool:
    """Return whether a change is in force now."""
    return _uses[patch] > 0


def places_changed() -> list[str]:
    """Return the places that are changed now: where a change is made, and where RecBole imported the same function."""
    found = []
    for label, place in _places.items():
        found += [label, *(f"{module.__name__}.{name}" for module, name in place.others)]
    return found


def resolve(owner: str) -> Any:
    """Return the object that an :attr:`Patch.owner` names."""
    module, _, name = owner.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found


def current(owner: object, name: str) -> Any:
    """Return what stands at a place; :data:`ABSENT` where there is nothing, or only something inherited."""
    if isinstance(owner, dict):
        return owner.get(name, ABSENT)
    return vars(owner).get(name, ABSENT) if isinstance(owner, type) else getattr(owner, name, ABSENT)


def original(owner: str, name: str) -> Any:
    """Return what RecBole itself has at a place."""
    stands = getattr(resolve(owner), name)
    place = _places.get(f"{owner}.{name}")
    return stands if place is None else place.before


def _apply(patch: Patch) -> None:
    if patch.label not in _places:
        owner = resolve(patch.owner)
        before = current(owner, patch.name)
        _places[patch.label] = _Place(owner, patch.name, before, before)
    place = _places[patch.label]
    place.patches = sorted([*place.patches, patch], key=lambda one: one.scope.order)
    try:
        _put(place)
    except BaseException:
        place.patches.remove(patch)
        if not place.patches:
            del _places[patch.label]
        raise


def _take_back(patch: Patch) -> None:
    place = _places.get(patch.label)
    if place is None or patch not in place.patches:
        return
    place.patches.remove(patch)
    _put(place)
    if not place.patches:
        del _places[patch.label]


def _put(place: _Place) -> None:
    """Let the changes in force stand at a place and at its other references, one over the other."""
    stands = place.before
    if place.patches:
        stands = place.made[tuple(place.patches)] = place.made.get(tuple(place.patches)) or _layered(place)
    if isinstance(place.owner, ModuleType) and place.patches:
        place.others = _references(place)
    for owner, name in ((place.owner, place.name), *place.others):
        stood = current(owner, name)
        if stood is place.put or stood is place.before:
            _set(owner, name, stands)
    place.put = stands


def _layered(place: _Place) -> Any:
    inherited = place.before is ABSENT and not place.patches[0].as_is
    stands = getattr(place.owner, place.name) if inherited else place.before
    for patch in place.patches:
        stands = patch.over(stands)
    return stands


def _references(place: _Place) -> list[tuple[ModuleType, str]]:
    """Find the modules of RecBole that imported a function of its own by name: ``from recbole.data import ...``."""
    before = place.before
    if not isinstance(before, FunctionType) or (before.__module__ or "").partition(".")[0] != "recbole":
        return []
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "recbole"]
    return [
        (module, name)
        for module in modules
        if module is not place.owner
        for name, value in list(vars(module).items())
        if value is before or value is place.put
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
