"""RecBole without scikit-learn until something calls it: importing it takes as long as importing torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_FUNCTIONS = {
    "sklearn.metrics": ("auc", "mean_absolute_error", "mean_squared_error"),
    "sklearn.linear_model": ("ElasticNet",),
    "sklearn.utils.extmath": ("randomized_svd",),
}
"""What RecBole imports: for metrics of ratings, and for two of its general models."""


@contextmanager
def sklearn_when_called() -> Iterator[None]:
    """Let RecBole, imported inside the block, import scikit-learn when one of its functions is called.

    Where scikit-learn is imported already, nothing is changed.
    """
    if "sklearn" in sys.modules:
        yield
        return
    stand_ins = {name: ModuleType(name) for name in (*_FUNCTIONS, "sklearn.exceptions")}
    for name, functions in _FUNCTIONS.items():
        vars(stand_ins[name]).update({function: _later(name, function) for function in functions})
    vars(stand_ins["sklearn.exceptions"])["ConvergenceWarning"] = _ConvergenceWarning
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _later(module: str, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return call


class _Later(type):
    """Of a class that counts as scikit-learn's of the same name in ``issubclass``, which is what filters call."""

    def __subclasscheck__(cls, subclass: type) -> bool:
        theirs: type[Warning] = importlib.import_module("sklearn.exceptions").ConvergenceWarning
        return issubclass(subclass, theirs)


class _ConvergenceWarning(Warning, metaclass=_Later):
    """Stands for scikit-learn's where RecBole's SLIMElastic says which warnings to leave out."""
