"""Registers this package as soon as RecBole is imported; importing the package does not import RecBole by itself."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_RECBOLE, _OURS = "recbole", "recbole_bert4rec."
_QUICK_START = "recbole.quick_start.quick_start"
"""It imports Ray, so registering does not import it."""


class WhenImported(MetaPathFinder):
    """Calls a function after a module of RecBole was imported, as soon as no module of this package is half imported.

    Registering imports modules of this package. If one of them is the first to import RecBole, it must be whole.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._awaited = [_RECBOLE, _QUICK_START]
        self._open = 0  # modules that are being imported

    def start(self) -> None:
        """Call the function now if RecBole is imported already; watch for later imports."""
        sys.meta_path.insert(0, self)
        self._look()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find RecBole and the modules of this package as the other finders do, and note when they are imported."""
        if fullname not in self._awaited and not fullname.startswith(_OURS):
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: Loader) -> None:
        execute = loader.exec_module

        def watched(module: ModuleType) -> None:
            self._open += 1
            try:
                execute(module)
            finally:
                self._open -= 1
            self._look()

        loader.exec_module = watched  # type: ignore[method-assign]  # loaders have no hook

    def _look(self) -> None:
        imported = [name for name in self._awaited if name in sys.modules]
        if self._open or not imported:
            return
        self._awaited = [name for name in self._awaited if name not in imported]
        if not self._awaited and self in sys.meta_path:
            sys.meta_path.remove(self)
        self._call()


class Registering:
    """Registers this package with RecBole, when that is imported or needed.

    Attributes:
        failure: why RecBole cannot be used; None if it can, or was not needed yet.
    """

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._goes_on = False

    def start(self) -> None:
        """Register now if RecBole is imported already, or as soon as it is imported."""
        WhenImported(self.complete).start()

    def complete(self) -> None:
        """Import RecBole and register; a second call adds modules that were not imported at the first."""
        if self._goes_on or self.failure is not None:
            return
        self._goes_on = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # RecBole's dependencies deplore their own age while they are imported
                from recbole_bert4rec.plugin.patches import registry

                registry.tables_on_import()
        except (ModuleNotFoundError, AttributeError) as error:  # the second comes of libraries that are too new
            self.failure = error
            if getattr(error, "name", None) != _RECBOLE:
                warnings.warn(
                    f"RecBole is installed but does not work here ({error}), so BERT4Rec is not registered; "
                    "`python -m recbole_bert4rec doctor` says what is missing",
                    stacklevel=2,
                )
            return
        finally:
            self._goes_on = False
        registry.on_import()
