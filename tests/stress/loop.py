"""Trains and searches in one process again and again, and watches its memory, its open files and its folders."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from recbole_bert4rec.cli.main import main
from tests.stress.programs import QUIET, SMALL

_FLAGS = [*SMALL, *QUIET, "--epochs=2"]
_SPACE = "learning_rate choice [0.001, 0.003]\n"


class Seen(NamedTuple):
    """What a round leaves.

    Attributes:
        resident: memory of this process, in MB.
        opened: files that it has open.
        written: KB in the round's folder.
        strewn: files among the machine's temporary ones.
    """

    resident: float
    opened: int
    written: float
    strewn: int


def loop(minutes: float) -> bool:
    """Return whether memory, open files and folders stay flat; print them along the way."""
    seen: list[Seen] = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", f"{folder}/temporary"):
        (Path(folder) / "temporary").mkdir()
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end or len(seen) < 6:
            seen.append(_round(Path(folder)))
            print(f"round {len(seen)}: {seen[-1]}", flush=True)
    first, last = seen[len(seen) // 2], seen[-1]
    grown = (last.resident - first.resident) / (len(seen) - len(seen) // 2)
    print(f"{len(seen)} rounds of a run and a search; {grown:.2f} MB a round in their second half; {first} to {last}")
    flat = last.opened <= first.opened and last.strewn <= first.strewn and last.written < 1.01 * first.written
    return grown < 1.0 and flat


def _round(folder: Path) -> Seen:
    """Train once, search two trials, and forget both."""
    place = folder / "round"
    place.mkdir()
    os.chdir(place)
    Path("space.hyper").write_text(_SPACE)
    codes = main(_FLAGS, name="run"), main(["tune", "--params_file=space.hyper", *_FLAGS])
    if any(codes):
        raise RuntimeError(f"exit codes {codes}")
    written = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / 1024
    os.chdir(folder)
    shutil.rmtree(place)
    strewn = len(list((folder / "temporary").rglob("*")))
    return Seen(round(_resident(), 1), len(os.listdir("/proc/self/fd")), round(written, 1), strewn)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
