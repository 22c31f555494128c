"""Call a function when modules are imported, whoever imports them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class WhenImported(MetaPathFinder):
    """Call a function after each import of some modules, and at once if one is imported already."""

    def __init__(self, names: Sequence[str], call: Callable[[], object]) -> None:
        self._names, self._call = names, call

    def start(self) -> None:
        """Watch from now on."""
        sys.meta_path.insert(0, self)
        if any(name in sys.modules for name in self._names):
            self._call()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as the other finders do, and note when it is imported."""
        if fullname not in self._names:
            return None
        specs = (finder.find_spec(fullname, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def watched(module: ModuleType) -> None:
                execute(module)
                self._call()

            spec.loader.exec_module = watched  # type: ignore[method-assign]  # loaders have no hook
        return spec
