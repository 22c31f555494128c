"""Make the changes of RecBole and take them back: on a plain import, in our programs, and by ``register``."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from logging import getLogger
from types import TracebackType

import pandas
import recbole  # first, so that an installation without RecBole is noticed by this name

from recbole_bert4rec.plugin.patches.patch import Patch, Scope
from recbole_bert4rec.plugin.patches.places import hold, lock, release
from recbole_bert4rec.system.constants import FOR_THE_USER, INSTALL_RECBOLE, SUPPORTED_RECBOLE
from recbole_bert4rec.system.errors import UserError, nearest
from recbole_bert4rec.system.workers import refuse_unguarded

_ON_IMPORT: tuple[str, ...] = ("plugin.patches.registration", "training.recording", "plugin.patches.compat")
_ON_REQUEST: tuple[str, ...] = (
    *("plugin.patches.fixes", "plugin.patches.policy_options", "plugin.patches.policy_models"),
    *("plugin.patches.policy_data", "plugin.patches.policy_files", "plugin.patches.policy_logs"),
)
"""The modules that list changes, as ``PATCHES``, in the order in which they are made."""

_held_by_import: list[Patch] = []
_held_by_register: list[Patch] = []
_programs = 0


def patches() -> tuple[Patch, ...]:
    """Return every change, in the order in which they are made."""
    return (*tables_on_import(), *_rows(_ON_REQUEST))


def _rows(tables: Iterable[str]) -> tuple[Patch, ...]:
    modules = [importlib.import_module(f"recbole_bert4rec.{name}") for name in tables]
    return tuple(patch for module in modules for patch in module.PATCHES)


def policies() -> tuple[str, ...]:
    """Return the names by which :func:`register` selects policies."""
    return tuple(dict.fromkeys(patch.policy for patch in patches() if patch.policy))


def tables_on_import() -> tuple[Patch, ...]:
    """Return the changes of a plain import; RecBole is imported for them."""
    return _rows(_ON_IMPORT)


def on_import() -> None:
    """Make the changes of a plain import; a second call makes those that could not be made before.

    Raises:
        ImportError: RecBole is not of the 1.2 series, or pandas not of one that it works with.
    """
    check_recbole_version(recbole.__version__)
    check_pandas_version(pandas.__version__)
    _held_by_import.extend(hold(patch for patch in tables_on_import() if patch not in _held_by_import))


def also_on_import(rows: Iterable[Patch]) -> None:
    """Make further changes of registration, such as those by which RecBole finds a user's own class."""
    _held_by_import.extend(hold(rows))


class Registration:
    """Changes that :func:`register` made; as a context manager it takes them back as the block ends."""

    def __init__(self, held: list[Patch]) -> None:
        self._held = held

    def __enter__(self) -> Registration:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with lock:
            held, self._held = [patch for patch in self._held if patch in _held_by_register], []
            for patch in held:
                _held_by_register.remove(patch)
            release(held)


def register(fixes: bool = True, policies: bool | Collection[str] | None = True) -> Registration:
    """Mend RecBole's faults for all models, and treat their options, files and logs as this package's programs do.

    Without it, importing this package changes no other model's figures, options or files. One warning says what is on.
    Modules that imported a function of RecBole by name before keep RecBole's own.

    Args:
        fixes: whether faults of RecBole are mended that change figures.
        policies: all of them, none, or some by their names (``recbole_bert4rec.plugin.patches.registry.policies()``).

    Returns:
        A context manager, whose end takes back exactly what this call turned on; without it, it stays on.

    Raises:
        UserError: a policy has another name.
        ImportError: RecBole is not of the 1.2 series, or pandas not of one that it works with.
    """
    on_import()
    chosen = _chosen(policies)
    rows = [row for row in patches() if (fixes and row.scope is Scope.FIX) or row.policy in chosen]
    held = hold(rows)
    _held_by_register.extend(held)
    turned_on = [*(["fixes"] if fixes else []), *(f"policy {name}" for name in chosen)]
    text = f"RecBole is changed for all models: {', '.join(turned_on)}" if turned_on else "register() turns on nothing"
    getLogger(FOR_THE_USER).warning(text)
    return Registration(held)


def _chosen(selection: bool | Collection[str] | None) -> list[str]:
    known = policies()
    if not selection or selection is True:
        return list(known) if selection else []
    names = [selection] if isinstance(selection, str) else list(selection)
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise UserError(
                f"register() knows no policy {name!r}; " + (f"did you mean {near!r}?" if near else f"they are {known}")
            )
    return [name for name in known if name in names]


def unregister() -> None:
    """Put everything in RecBole back as it was before this package was imported; a second call does nothing.

    An attribute that somebody else has changed since is left alone.
    """
    with lock:
        for held in (_held_by_register, _held_by_import):
            release(held)
            held.clear()


@contextmanager
def in_program() -> Iterator[None]:
    """Make all changes inside the block, which is one of this package's programs or functions."""
    global _programs
    refuse_unguarded()
    on_import()
    with lock:
        held = hold(_rows(_ON_REQUEST))
        _programs += 1
    try:
        yield
    finally:
        with lock:
            _programs -= 1
            release(held)


def program_runs() -> bool:
    """Tell whether one of this package's programs or functions is running, whose mistakes are errors for any model."""
    return _programs > 0


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
