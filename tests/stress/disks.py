"""Lets the disk fail at each stage of writing a checkpoint, and loads what is there afterwards."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.cli.main import main
from tests.stress.programs import QUIET, SMALL

_ERRORS = ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EIO", "EMFILE")
_STAGES = ("open", "write", "fsync", "replace")


def disks(folder: Path) -> bool:
    """Return whether the last good checkpoint is whole after each fault, and one line said why; print what was said."""
    bad = []
    for error in _ERRORS:
        for stage in _STAGES:
            place = folder / f"{error}-{stage}"
            place.mkdir(parents=True)
            problem = _one(place, getattr(errno, error), stage)
            print(
                f"{error:7} at {stage:8}: {problem or 'refused in one line, the checkpoints before it are whole'}",
                flush=True,
            )
            bad += [problem] if problem else []
    print(f"{len(_ERRORS) * len(_STAGES)} faults, {len(bad)} with harm")
    return not bad


def _one(place: Path, number: int, stage: str) -> str:
    """Train until the third checkpoint cannot be written; return what is wrong with the end, or nothing."""
    os.chdir(place)
    left = 2
    originals: dict[str, Callable[..., Any]] = {"fsync": os.fsync, "replace": os.replace, "save": torch.save}

    def failing(name: str, *arguments: Any, **more: Any) -> Any:
        nonlocal left
        target = str(arguments[1]) if name == "replace" else ""
        if name == "save" or target.endswith(".pth"):
            left -= name == {"replace": "replace"}.get(stage, "save")
        if left < 0 and name == {"open": "save", "write": "save"}.get(stage, stage):
            if stage == "write":
                arguments[1].write(b"half of it")
            raise OSError(number, os.strerror(number))
        return originals[name](*arguments, **more)

    printed: list[str] = []
    with (
        mock.patch.object(os, "fsync", lambda *a: failing("fsync", *a)),
        mock.patch.object(os, "replace", lambda *a: failing("replace", *a)),
        mock.patch.object(torch, "save", lambda *a, **k: failing("save", *a, **k)),
        mock.patch.object(sys.stderr, "write", lambda text: printed.append(text)),
    ):
        code = main([*SMALL, *QUIET, "--epochs=3"], name="run")
    said = "".join(printed)
    if code != 2 or "Traceback" in said or os.strerror(number) not in said:
        return f"exit {code}: {said[-300:]}"
    if leftovers := [file.name for file in Path("saved").glob(".*")]:
        return f"left behind: {leftovers}"
    for file in Path("saved").glob("*.pth"):
        checkpoint.read(file)
    return "" if list(Path("saved").glob("*.pth")) else "no checkpoint is left"
