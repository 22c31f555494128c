"""Kills a run at random moments, resumes it each time, and compares its end with that of a run left alone."""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from recbole_bert4rec import checkpoints
from recbole_bert4rec.system.errors import UserError
from tests.stress.programs import differences, is_finished, outcome, run_to_end, start, the_one

_ENDS = {0: "", -9: "SIGKILL", -15: "SIGTERM at once", -2: "SIGINT at once", 130: "SIGINT", 143: "SIGTERM"}
_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def kills(folder: Path, count: int, flags: list[str], seed: int) -> bool:
    """Return whether ``count`` kills changed nothing; print what they did.

    Args:
        folder: empty; gets the runs.
        count: of kills, as many a run as it takes to end.
        flags: of the runs.
        seed: of the moments.
    """
    run_to_end(folder / "whole", *flags)
    wanted = outcome(folder / "whole")
    seconds = json.loads(the_one(folder / "whole", ".json").read_text("utf-8"))["seconds"]["train"]
    draw, ways, unreadable, wrong, runs = random.Random(seed), Counter[str](), 0, 0, 0
    lost: list[float] = []
    while ways.total() < count:
        place, runs = folder / f"killed-{runs}", runs + 1
        while not is_finished(place):
            if ways.total() == count:
                run_to_end(place, "--resume", *flags)
            elif way := _kill(place, seconds, flags, draw, lost):
                ways[way] += 1
            unreadable += _unreadable(place)
        found = differences(wanted, outcome(place))
        wrong += bool(found)
        print(f"run {runs}, {ways.total()} kills so far: {found[:5] or 'the same bit for bit'}", flush=True)
    if lost:
        print(
            f"seconds since the last checkpoint at SIGKILL: median {statistics.median(lost):.2f}, most "
            f"{max(lost):.2f}; the whole run trains for {seconds:.1f}"
        )
    print(f"{dict(ways)}; {unreadable} unreadable checkpoints, {wrong} runs with another end")
    return not (unreadable or wrong)


def _kill(place: Path, seconds: float, flags: list[str], draw: random.Random, lost: list[float]) -> str:
    """Begin or resume a run and end it at some moment; return how, and nothing where it ended by itself.

    One in ten is ended while it loads; the others after they saved something, in the third of the training after that.
    To ``lost`` it adds how long before a SIGKILL the last checkpoint was written.

    Raises:
        RuntimeError: it ended in another way.
    """
    began = time.time()
    process = start(place, "--resume", *flags)
    early = draw.random() < 0.1
    while process.poll() is None and not early and not _saved_since(place, began):
        time.sleep(0.01)
    with suppress(subprocess.TimeoutExpired):
        process.wait(draw.uniform(0, 4 if early else seconds / 3))
    number, now = draw.choice(_SIGNALS), time.time()
    process.send_signal(number)
    printed, _ = process.communicate()
    if process.returncode not in _ENDS:
        raise RuntimeError(f"exit {process.returncode}: {printed[-2000:]}")
    if process.returncode == -signal.SIGKILL and _saved_since(place, began):
        lost.append(now - max(file.stat().st_mtime for file in (place / "saved").glob("*.last.pth")))
    return _ENDS[process.returncode]


def _saved_since(place: Path, began: float) -> bool:
    return any(file.stat().st_mtime > began for file in (place / "saved").glob("*.last.pth"))


def _unreadable(place: Path) -> int:
    count = 0
    for file in (place / "saved").glob("*.pth"):
        try:
            checkpoints.read(file)
        except UserError as error:
            print(error)
            count += 1
    return count
