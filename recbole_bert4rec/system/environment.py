"""The environment of a program: versions, processor, memory, commit; hides warnings of dependencies."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("recbole_bert4rec", "recbole", "torch", "numpy", "pandas", "scipy", "ray", "hyperopt")


def suppress_dependency_warnings() -> None:
    """Hide warnings of RecBole and its dependencies, which users cannot change; a library undoes it afterwards."""
    for module in ("recbole", "ray", "hyperopt", "thop", "tensorboard", "torch.utils.tensorboard"):
        warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")


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
    changes = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!benchmarks/results")
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
