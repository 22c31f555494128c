"""Trains small models in one process again and again, and watches its memory, its open files and its folder."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.training.run import run

_OPTIONS = {"epochs": 2, "hidden_size": 16, "inner_size": 16, "n_layers": 1, "MAX_ITEM_LIST_LENGTH": 20}
_OPTIONS |= {"show_progress": False, "state": "error", "use_gpu": False}


def loop(minutes: float) -> bool:
    """Return whether memory and open files stay flat; print them along the way."""
    suppress_dependency_warnings()
    seen: list[tuple[float, int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end or len(seen) < 6:
            run(options=_OPTIONS)
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            seen.append((_resident(), len(os.listdir("/proc/self/fd")), len(files)))
            print("run {}: {:.0f} MB, {} open files, {} files".format(len(seen), *seen[-1]), flush=True)
        os.chdir("/")
    first, last = seen[len(seen) // 2], seen[-1]
    grown = (last[0] - first[0]) / (len(seen) - len(seen) // 2)
    print(f"{len(seen)} runs; in their second half {grown:.2f} MB a run, {last[1] - first[1]} open files")
    return grown < 1.0 and last[1] <= first[1]


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
