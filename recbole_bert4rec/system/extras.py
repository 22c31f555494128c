"""Libraries that only some features need, and the extra of this package that installs each."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from recbole_bert4rec.system.errors import UserError

EXTRAS = {
    "fastapi": "serve",
    "hyperopt": "tune",
    "matplotlib": "plots",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "plotly": "plots",
    "prometheus_client": "serve",
    "ray": "tune",
    "uvicorn": "serve",
}
"""The extra by the library's module."""
OF_A_SEARCH = ("hyperopt", "plotly")
"""Modules that every search needs."""


class MissingExtraError(UserError, ImportError):
    """A feature is asked for whose libraries are not installed."""


def is_installed(module: str) -> bool:
    """Return whether a module can be found; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def remedy(modules: Iterable[str]) -> str:
    """Return the command that installs modules which are missing."""
    return f"pip install -e '.[{','.join(sorted({EXTRAS[module] for module in modules}))}]'"


def need(feature: str, *modules: str) -> None:
    """Refuse a feature, before anything is done, if its libraries are not installed."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        raise MissingExtraError(f"{feature} needs {', '.join(missing)}; in the checkout: {remedy(missing)}")
