"""Registers this package as soon as RecBole is imported; importing the package does not import RecBole by itself."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from recbole_bert4rec.patches.sklearn_later import sklearn_when_called

_RECBOLE, _OURS = "recbole", "recbole_bert4rec."
_AFTER = tuple(f"{_OURS}{room}" for room in ("training", "comparison", "tuning"))
"""Rooms that import functions of RecBole by name, which must be changed by then."""


class WhenImported(MetaPathFinder):
    """Calls a function once: when RecBole is imported, or before a room of :data:`_AFTER` is.

    Registering imports the rooms below those, so where one of their modules is the first to import RecBole, it waits
    until that module is whole.

    Args:
        call: the function.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._open = 0  # modules that are being imported

    def start(self) -> None:
        """Call the function now, where RecBole is imported already, or watch for it."""
        if _RECBOLE in sys.modules:
            self._call()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find RecBole and the modules of this package as the other finders do, and note when they are imported."""
        if fullname != _RECBOLE and not fullname.startswith(_OURS):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader, first=fullname in _AFTER)
        return spec

    def _watch(self, loader: Loader, first: bool) -> None:
        execute = loader.exec_module

        def watched(module: ModuleType) -> None:
            if first:
                self._call()
            self._open += 1
            try:
                execute(module)
            finally:
                self._open -= 1
            if not self._open and _RECBOLE in sys.modules and self in sys.meta_path:
                self._call()

        loader.exec_module = watched  # type: ignore[method-assign]  # loaders have no hook


class Registration:
    """Registers this package with RecBole, when it is needed and at most once.

    Attributes:
        failure: why RecBole cannot be used; None where it can, or was not asked for yet.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._done = False
        self._watch = WhenImported(self.complete)

    def start(self) -> None:
        """Register now, where RecBole is imported already, or as soon as it is."""
        self._watch.start()

    def complete(self) -> None:
        """Import RecBole and register; a second call does nothing."""
        if self._done:
            return
        self._done = True
        self._watch.stop()
        try:
            with warnings.catch_warnings(), sklearn_when_called():
                warnings.simplefilter("ignore")  # RecBole's dependencies deplore their own age while they are imported
                from recbole_bert4rec.patches import registry

                registry.patches()
        except (ModuleNotFoundError, AttributeError) as error:  # the second comes of libraries that are too new
            self.failure = error
            if getattr(error, "name", None) != _RECBOLE:
                warnings.warn(
                    f"RecBole is installed but does not work here ({error}), so BERT4Rec is not registered; "
                    "`python -m recbole_bert4rec doctor` says what is missing",
                    stacklevel=2,
                )
            return
        registry.register(fixes=registry.fixes_wanted())
