"""``doctor``: libraries that are installed or missing, what does not work without them, and changes of RecBole."""

from __future__ import annotations

import argparse
import importlib
import platform
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import NamedTuple

from recbole_bert4rec.cli.words import nothing_changed
from recbole_bert4rec.system.constants import INSTALL_RECBOLE
from recbole_bert4rec.system.environment import EXTRAS, is_installed, remedy

_IMPORTED = "everything with RecBole, which imports it"


class Need(NamedTuple):
    """A package that something needs.

    Attributes:
        package: its name on the package index.
        module: its name in Python.
        purpose: what does not work without it.
        required: whether BERT4Rec cannot run without it.
        wanted: requirement for pip. Default: the package's name.
    """

    package: str
    module: str
    purpose: str
    required: bool = True
    wanted: str = ""


NEEDS = (
    Need("torch", "torch", "everything"),
    Need("numpy", "numpy", "everything"),
    Need("pandas", "pandas", "everything with RecBole", wanted="pandas<3"),
    Need("scipy", "scipy", "everything"),
    Need("recbole", "recbole", "everything but `load()` and `core`"),
    Need("colorama", "colorama", _IMPORTED),
    Need("colorlog", "colorlog", _IMPORTED),
    Need("scikit-learn", "sklearn", _IMPORTED),
    Need("tensorboard", "tensorboard", _IMPORTED),
    Need("texttable", "texttable", _IMPORTED),
    Need("thop", "thop", "RecBole's count of operations"),
    Need("psutil", "psutil", "RecBole's account of memory"),
    Need("setuptools", "setuptools", "RecBole's count of operations: thop needs distutils, which it brings"),
    Need("duckdb", "duckdb", "reading logs of one's own"),
    Need("pyarrow", "pyarrow", "reading interactions"),
    Need("PyYAML", "yaml", "configuration files"),
    Need("filelock", "filelock", "comparisons and tuning"),
    Need("tabulate", "tabulate", "tables; here, tables with borders"),
    Need("tqdm", "tqdm", "progress bars"),
    Need("matplotlib", "matplotlib", "comparisons", False),
    Need("onnxruntime", "onnxruntime", "models that were exported, and export", False),
    Need("onnx", "onnx", "export", False),
    Need("onnxscript", "onnxscript", "export", False),
    Need("plotly", "plotly", "tuning", False),
    Need("hyperopt", "hyperopt", "tuning", False),
    Need("ray", "ray.tune", "tuning side by side and on several machines", False, "ray[tune]"),
    Need("fastapi", "fastapi", "the service", False),
    Need("uvicorn", "uvicorn", "the service", False),
    Need("prometheus_client", "prometheus_client", "the service", False),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no flag: the command has none."""


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Print the findings, and exit with 1 if BERT4Rec cannot run."""
    sys.exit(main())


left_behind = nothing_changed


def main() -> int:
    """Print whether BERT4Rec can run or what mends it, versions and changes of RecBole; return 1 if it cannot run."""
    unpatched, changes = _changes()
    rows, bad = [], []
    for need in NEEDS:
        version = _version(need)
        fault = None if version is None else _fault(need.module)
        works = version is not None and fault is None
        why = f"{need.purpose} ({fault})" if fault else need.purpose
        rows.append((need.package, version or "missing", "" if works else why))
        bad += [] if works else [need]
    required = [need for need in bad if need.required]
    names = ", ".join(need.package for need in required)
    problem = f"{names} missing or broken" if required else unpatched
    if problem is None:
        print("BERT4Rec can run.\n")
    else:
        mend = _remedy(required) or "pip install -r requirements.txt"
        print(f"BERT4Rec cannot run: {problem}. Mend it with: {mend}\n")
    print(f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}\n")
    print(_table(rows, ("package", "version", "what does not work")))
    print(f"\nGPU: {_gpu()}\n")
    optional = {need.module.partition(".")[0]: need for need in bad if not need.required}
    if missing := [module for module in optional if module in EXTRAS and not is_installed(module)]:
        print(f"What is optional and missing comes with, in the checkout: {remedy(missing)}\n")
    if broken := [need for module, need in optional.items() if is_installed(module)]:
        print(f"What is optional and broken comes with: {_remedy(broken)}\n")
    print(changes)
    return int(problem is not None)


def _version(need: Need) -> str | None:
    """Return the installed version; None if there is none."""
    if not is_installed(need.module.partition(".")[0]):
        return None
    try:
        return metadata.version(need.package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _fault(module: str) -> str | None:
    """Return why a module cannot be imported; None if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(module)
    except Exception as error:  # a library that does not fit may raise anything
        return f"{type(error).__name__}: {error}"
    return None


def _remedy(needs: Sequence[Need]) -> str:
    """Return the command that installs packages; RecBole without the dependencies of its metadata."""
    packages = [shlex.quote(need.wanted or need.package) for need in needs if need.package != "recbole"]
    commands = [f"pip install --upgrade {' '.join(packages)}"] if packages else []
    return " && ".join(commands + [INSTALL_RECBOLE] * (len(packages) < len(needs)))


def _gpu() -> str:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return "unknown without torch"
    if not torch.cuda.is_available():
        return "none that torch can use; the processor computes"
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"{', '.join(names)} (CUDA {torch.version.cuda})"


def _changes() -> tuple[str | None, str]:
    """Return why RecBole is not changed, or None, and the table of changes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of RecBole's dependencies
            from recbole_bert4rec.plugin.hooks import HOOKS, state_of
    except Exception as error:  # a library that does not fit may raise anything
        return f"RecBole does not work here ({type(error).__name__}: {error})", ""
    rows = [(f"{hook.owner}.{hook.name}", f"{hook.reason} ({hook.line})", state_of(hook)) for hook in HOOKS]
    unpatched = "it is not registered" if any(row[-1] == "to be made" for row in rows) else None
    return unpatched, f"Changes of RecBole:\n{_table(rows, ('what', 'why', 'state'))}"


def _table(rows: Sequence[tuple[str, ...]], headers: tuple[str, ...]) -> str:
    try:
        from tabulate import tabulate
    except ImportError:
        return "\n".join("  ".join(row) for row in (headers, *rows))
    widths = [60 if header == "why" else None for header in headers]
    text: str = tabulate(rows, headers, "simple", maxcolwidths=widths)
    return text
