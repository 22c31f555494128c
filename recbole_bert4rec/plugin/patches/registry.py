"""Make the changes of RecBole: on a plain import; in our programs more of them, which are taken back afterwards."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pandas
import recbole  # first, so that an installation without RecBole is noticed by this name

from recbole_bert4rec.plugin.patches.patch import Patch
from recbole_bert4rec.plugin.patches.places import hold, is_applied, release
from recbole_bert4rec.system.constants import INSTALL_RECBOLE, SUPPORTED_RECBOLE
from recbole_bert4rec.system.processes import refuse_unguarded

_ON_IMPORT: tuple[str, ...] = ("plugin.patches.registration", "training.recording", "plugin.patches.compat")
_ON_REQUEST: tuple[str, ...] = (
    *("plugin.patches.fixes", "plugin.patches.policy_options", "plugin.patches.policy_models"),
    *("plugin.patches.policy_data", "plugin.patches.policy_files", "plugin.patches.policy_logs"),
)
"""The modules that list changes, as ``PATCHES``, in the order in which they are made."""


def patches() -> tuple[Patch, ...]:
    """Return every change, in the order in which they are made."""
    return (*tables_on_import(), *_rows(_ON_REQUEST))


def _rows(tables: Iterable[str]) -> tuple[Patch, ...]:
    modules = [importlib.import_module(f"recbole_bert4rec.{name}") for name in tables]
    return tuple(patch for module in modules for patch in module.PATCHES)


def tables_on_import() -> tuple[Patch, ...]:
    """Return the changes of a plain import; RecBole is imported for them."""
    return _rows(_ON_IMPORT)


def on_import() -> None:
    """Make the changes of a plain import; a second call makes those that could not be made before."""
    check_recbole_version(recbole.__version__)
    check_pandas_version(pandas.__version__)
    hold(patch for patch in tables_on_import() if not is_applied(patch))


@contextmanager
def in_program() -> Iterator[None]:
    """Make all changes inside the block, which is one of this package's programs or functions."""
    refuse_unguarded()
    on_import()
    held = hold(_rows(_ON_REQUEST))
    try:
        yield
    finally:
        release(held)


def check_recbole_version(version: str) -> None:
    """Refuse another series of RecBole, and warn of another release of the same."""
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
    """
    if int(version.split(".")[0]) >= 3:
        raise ImportError(
            f"pandas {version} is installed, with which RecBole {SUPPORTED_RECBOLE} silently loses missing values; "
            "pip install 'pandas<3'"
        )
