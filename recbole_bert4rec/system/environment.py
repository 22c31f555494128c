"""The environment of a program: versions, processor, memory, commit; optional libraries; files that ship with it."""

from __future__ import annotations

import importlib.resources
import os
import platform
import re
import resource
import subprocess
import sys
import warnings
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    from importlib.abc import Traversable

OF_A_PROCESS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
"""Numbers that torchrun and Ray Train put into the environment of a process; MASTER_ADDR is a text."""
_PACKAGES = ("recbole_bert4rec", "recbole", "torch", "numpy", "pandas", "scipy", "ray", "hyperopt")


def suppress_dependency_warnings() -> None:
    """Hide warnings of RecBole and its dependencies, which users cannot change; a library undoes it afterwards."""
    for module in ("recbole", "ray", "hyperopt", "thop", "tensorboard", "torch.utils.tensorboard"):
        warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")


def is_one_of_several() -> bool:
    """Tell whether torchrun or Ray Train has started this process to train with others."""
    return all(os.environ.get(name, "").isdecimal() for name in OF_A_PROCESS) and int(os.environ["WORLD_SIZE"]) > 1


def peak_memory_mb() -> float:
    """Return the most memory that this process has held so far, in MB."""
    if sys.platform == "linux":  # where getrusage counts the process that started this one, too
        held = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if held:
            return int(held[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def environment() -> dict[str, Any]:
    """Return the versions of Python and packages, and the machine."""
    import torch  # here, for a program that only shows its help imports this file

    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    machine = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    return {"versions": versions, "machine": machine}


def commit() -> str | None:
    """Return the git commit of this package's checkout, marked if files but results differ; None without one."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None
    changes = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    try:
        outputs = [
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True)
            for words in (("rev-parse", "--short=12", "HEAD"), changes)
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return outputs[0].stdout.strip() + (" with changes" if outputs[1].stdout.strip() else "")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


_MODULES = {
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "plots": ("jinja2", "matplotlib", "plotly"),
    "serve": ("fastapi", "prometheus_client", "uvicorn"),
    "tune": ("hyperopt", "ray"),
}
EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules}
"""The extra of this package that installs a library, by the library's module."""
OF_A_SEARCH = ("hyperopt", "plotly")
"""Modules that every search needs."""


class MissingExtraError(UserError, ImportError):
    """A feature is asked for whose libraries are not installed; it has an exit code of its own."""


def is_installed(module: str) -> bool:
    """Return whether a module can be found; it is not imported."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def need(feature: str, *modules: str) -> None:
    """Refuse a feature, before anything is done, if its libraries are not installed."""
    missing = [module for module in modules if not is_installed(module)]
    if missing:
        extras = ",".join(sorted({EXTRAS[module] for module in missing}))
        raise MissingExtraError(f"{feature} needs {', '.join(missing)}; in the checkout: pip install -e '.[{extras}]'")


def shipped(kind: str) -> Traversable:
    """The folder ``properties/KIND`` of an installed copy or, without installation, of the checkout."""
    try:
        return importlib.resources.files("recbole_bert4rec.properties") / kind
    except ModuleNotFoundError:
        return Path(__file__).resolve().parents[2] / "properties" / kind


def folder_of_recbole() -> Path:
    """The folder of RecBole's package; it is not imported."""
    spec = find_spec("recbole")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'recbole'", name="recbole")
    return Path(spec.origin).parent


def find_config(name: str, kind: str = "recipe") -> str:
    """A file as the user names it, or one of ``properties/KIND`` by its bare name."""
    file = shipped(kind) / name
    if os.path.exists(name):
        return name
    if os.sep not in name and file.is_file():
        return str(file)
    known = sorted(entry.name for entry in shipped(kind).iterdir())
    raise UserError(f"there is no file {name}; the names of properties/{kind} are {', '.join(known)}")
