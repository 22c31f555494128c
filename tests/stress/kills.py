"""Kills a run at random moments, resumes it each time, and compares its end with that of a run left alone."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from recbole_bert4rec import checkpoints
from tests.helpers.small import equal
from tests.stress.programs import outcome, records_of, run_to_end, start

_ENDS = {0: "", -9: "SIGKILL", -15: "SIGTERM at once", -2: "SIGINT at once", 130: "SIGINT", 143: "SIGTERM"}
_SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def kills(folder: Path, count: int, flags: list[str], seed: int) -> bool:
    """Return whether ``count`` kills, as many a run as it takes to end, changed nothing; print what they did.

    ``folder`` is empty, and gets the runs; ``seed`` is that of the moments.
    """
    run_to_end(folder / "whole", *flags)
    wanted = outcome(folder / "whole")
    seconds = records_of(folder / "whole")[0]["seconds"]["train"]
    draw, ways, wrong, runs = random.Random(seed), Counter[str](), 0, 0
    while ways.total() < count:
        place, runs = folder / f"killed-{runs}", runs + 1
        while not any("unfinished" not in record for record in records_of(place)):
            if ways.total() == count:
                run_to_end(place, "--resume", *flags)
            elif way := _kill(place, seconds, flags, draw):
                ways[way] += 1
            for file in (place / "saved").glob("*.pth"):
                checkpoints.read(file)  # raises if it is damaged
        is_same = equal(outcome(place), wanted)
        wrong += not is_same
        print(f"run {runs}, {ways.total()} kills so far: {'the same bit for bit' if is_same else place}", flush=True)
    print(f"{dict(ways)}; {wrong} runs with another end")
    return not wrong


def _kill(place: Path, seconds: float, flags: list[str], draw: random.Random) -> str:
    """Begin or resume a run and end it at some moment; return how, and nothing where it ended by itself.

    One in ten is ended while it loads; the others after they saved something, in the third of the training after that.
    """
    began = time.time()
    process = start(place, "--resume", *flags)
    early = draw.random() < 0.1
    last = place / "saved"
    while process.poll() is None and not early and not any(f.stat().st_mtime > began for f in last.glob("*.last.pth")):
        time.sleep(0.01)
    with suppress(subprocess.TimeoutExpired):
        process.wait(draw.uniform(0, 4 if early else seconds / 3))
    process.send_signal(draw.choice(_SIGNALS))
    printed, _ = process.communicate()
    if process.returncode not in _ENDS:
        raise RuntimeError(f"exit {process.returncode}: {printed[-2000:]}")
    return _ENDS[process.returncode]
