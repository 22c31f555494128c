"""``doctor``: which libraries are installed or missing, what needs them, and the changes of RecBole."""

from __future__ import annotations

import importlib
import platform
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from recbole_bert4rec.cli.flags import Commands, Parser, add_command
from recbole_bert4rec.system.constants import INSTALL_RECBOLE, SUPPORTED_RECBOLE

_EVERYTHING = "everything"
_PURPOSES = {
    "": _EVERYTHING,
    "tune": "searches",
    "plots": "comparisons",
    "serve": "the service",
    "onnx": "export, and models that were exported",
}
"""What does not work without the libraries of an extra; "" stands for no extra."""
_MODULES = {"scikit-learn": "sklearn", "PyYAML": "yaml", "ray[tune]": "ray.tune"}
"""Modules of packages whose names differ."""


def add_to(commands: Commands[Parser]) -> None:
    """Add the command."""
    purpose = "say what is installed and what is changed in RecBole"
    add_command(commands, "doctor", purpose, execute=lambda _: main(), left_behind="nothing was changed")


def main() -> int:
    """Print whether BERT4Rec can run or how to mend it, versions, and changes; return 1 if it cannot run."""
    warnings.simplefilter("ignore")  # of libraries, which users cannot change
    purposes = {f"recbole=={SUPPORTED_RECBOLE}": {_EVERYTHING}}
    for extra, requirement in _requirements():
        if extra in _PURPOSES:
            purposes.setdefault(requirement, set()).add(_PURPOSES[extra])
    required, optional, lines = list[str](), list[str](), list[str]()
    for requirement, of_it in purposes.items():
        package = re.split("[<>=!~ ]", requirement)[0]
        version, fault = _version_and_fault(package)
        if fault:
            (required if _EVERYTHING in of_it else optional).append(requirement)
        what = f"what does not work: {', '.join(sorted(of_it))} ({fault})" if fault else ""
        lines.append(f"{package:<20}{version:<20}{what}".rstrip())
    unpatched, changes = _changes()
    problem = f"{', '.join(required)} missing or broken" if required else unpatched
    if problem:
        mend = _remedy(required) if required else "pip install -r requirements.txt"
        print(f"BERT4Rec cannot run: {problem}. Mend it with: {mend}\n")
    else:
        print("BERT4Rec can run.\n")
    gpus = "unknown without torch"
    with suppress(ImportError):
        cuda = importlib.import_module("torch").cuda
        gpus = ", ".join(map(cuda.get_device_name, range(cuda.device_count()))) or "none that torch can use"
    print(f"Python {platform.python_version()} ({sys.executable}), {platform.platform()}\nGPU: {gpus}\n")
    print(*lines, sep="\n")
    if optional:
        print(f"\nWhat is optional and missing or broken comes with: {_remedy(optional)}")
    print("\nChanges of RecBole:", *changes, sep="\n")
    return int(problem is not None)


def _requirements() -> Iterator[tuple[str, str]]:
    """Yield extras and their requirements, from a checkout, which may be newer than its installation, or a wheel."""
    checkout = ConfigParser()
    if checkout.read(Path(__file__).resolve().parents[2] / "setup.cfg"):
        of_extras = {"": checkout["options"]["install_requires"], **checkout["options.extras_require"]}
        for extra, requirements in of_extras.items():
            yield from ((extra, line) for line in requirements.split("\n") if line)
    else:
        for requirement in metadata.requires("recbole_bert4rec") or ():
            line, _, marker = requirement.partition(";")
            found = re.search(r"extra == ['\"](\w+)", marker)
            yield found[1] if found else "", line.strip()


def _version_and_fault(package: str) -> tuple[str, str]:
    """Return the version of a package, and why it does not work, or ""."""
    try:
        version = metadata.version(package.partition("[")[0])
    except metadata.PackageNotFoundError:
        return "missing", "not installed"
    try:
        importlib.import_module(_MODULES.get(package, package))
    except Exception as error:  # a library that does not fit may raise anything
        return version, f"{type(error).__name__}: {error}"
    return version, ""


def _remedy(requirements: Iterable[str]) -> str:
    """Return the command that installs packages; RecBole's own dependencies are left out."""
    others = [shlex.quote(requirement) for requirement in requirements if not requirement.startswith("recbole=")]
    commands = [f"pip install --upgrade {' '.join(others)}"] if others else []
    return " && ".join(commands + [INSTALL_RECBOLE] * (len(others) < len([*requirements])))


def _changes() -> tuple[str | None, list[str]]:
    """Return why RecBole is not changed, or None, and lines that describe the changes."""
    try:
        from recbole_bert4rec.plugin.hooks import HOOKS, state_of
    except Exception as error:  # a library that does not fit may raise anything
        return f"RecBole does not work here ({type(error).__name__}: {error})", []
    names: dict[str, list[str]] = {}
    for hook in HOOKS:
        names.setdefault(f"{state_of(hook)}: {hook.reason} ({hook.line})", []).append(f"{hook.owner}.{hook.name}")
    unpatched = any(state_of(hook) == "to be made" for hook in HOOKS)
    return "it is not registered" if unpatched else None, [f"{what}\n    {', '.join(names[what])}" for what in names]
