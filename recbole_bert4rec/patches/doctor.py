"""What is installed, what is missing and what then does not work, and what is changed in RecBole."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple


class Need(NamedTuple):
    """A package that something needs.

    Attributes:
        package: its name on the package index.
        module: as it is imported.
        purpose: what does not work without it.
        required: whether BERT4Rec cannot run without it.
    """

    package: str
    module: str
    purpose: str
    required: bool


NEEDS = (
    Need("torch", "torch", "everything", True),
    Need("numpy", "numpy", "everything", True),
    Need("pandas", "pandas", "everything with RecBole", True),
    Need("scipy", "scipy", "everything with RecBole", True),
    Need("recbole", "recbole", "everything but `load()`, `nn` and `data`", True),
    Need("ray", "ray", "everything with RecBole, which imports it; tuning on several machines", True),
    Need("setuptools", "pkg_resources", "everything with RecBole: ray imports its pkg_resources", True),
    Need("pyarrow", "pyarrow", "reading interactions, CSV and Parquet logs", True),
    Need("PyYAML", "yaml", "configuration files", True),
    Need("filelock", "filelock", "comparisons and tuning", False),
    Need("hyperopt", "hyperopt", "tuning", False),
    Need("matplotlib", "matplotlib", "pictures of comparisons and of attention", False),
    Need("plotly", "plotly", "the interactive page of tuning", False),
    Need("scikit-learn", "sklearn", "the importance of options, in the report of tuning", False),
    Need("tabulate", "tabulate", "tables of comparisons; here, tables with borders", False),
    Need("shtab", "shtab", "completion in a shell", False),
    Need("lightgbm", "lightgbm", "RecBole's model LightGBM", False),
    Need("xgboost", "xgboost", "RecBole's model XGBoost", False),
)


def main() -> int:
    """Print versions, hardware and patches.

    Returns:
        The exit code: 0 where BERT4Rec can run, 1 where something that it needs is missing.
    """
    print(f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}\n")
    installed = {need.package: _version(need) for need in NEEDS}
    rows = [
        (need.package, installed[need.package] or "missing", "" if installed[need.package] else need.purpose)
        for need in NEEDS
    ]
    print(_table(rows, ("package", "version", "what does not work")))
    print(f"\nGPU: {_gpu()}\n")
    missing = [need.package for need in NEEDS if need.required and installed[need.package] is None]
    problem = None if missing else _print_patches()
    if missing:
        print(f"BERT4Rec cannot run: {', '.join(missing)} missing. Install with: pip install -r requirements.txt")
    elif problem is not None:
        print(f"BERT4Rec cannot run: {problem}. Install with: pip install -r requirements.txt")
    else:
        print("BERT4Rec can run.")
    return 1 if missing or problem else 0


def _version(need: Need) -> str | None:
    """The version that is installed; None where the module cannot be found."""
    try:
        found = importlib.util.find_spec(need.module) is not None
        return metadata.version(need.package) if found else None
    except metadata.PackageNotFoundError:
        return "of unknown version"
    except (ImportError, ValueError):
        return None


def _gpu() -> str:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return "unknown without torch"
    if not torch.cuda.is_available():
        return "none that torch can use; the processor computes"
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{', '.join(names)} (CUDA {torch.version.cuda})"


def _print_patches() -> str | None:
    """Print the table of patches.

    Returns:
        Why there is none, or None.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of RecBole's dependencies
            from recbole_bert4rec.patches import registry

            everything = registry.patches()
    except Exception as error:  # whatever a library that does not fit raises
        return f"RecBole does not work here ({type(error).__name__}: {error})"
    rows = [
        (patch.scope.value, patch.label, patch.reason, "yes" if registry.is_applied(patch) else "no")
        for patch in everything
    ]
    print(f"Changes of RecBole ({registry.FIXES_VARIABLE}={os.environ.get(registry.FIXES_VARIABLE, 'on')}):")
    print(_table(rows, ("scope", "what", "reason", "applied")))
    print()
    models = [patch for patch in everything if patch.scope == registry.Scope.MODEL]
    return None if all(map(registry.is_applied, models)) else "it is not registered"


def _table(rows: Sequence[tuple[str, ...]], headers: tuple[str, ...]) -> str:
    try:
        from tabulate import tabulate
    except ImportError:
        return "\n".join("  ".join(row) for row in (headers, *rows))
    widths = [60 if header == "reason" else None for header in headers]
    text: str = tabulate(rows, headers, "simple", maxcolwidths=widths)
    return text
