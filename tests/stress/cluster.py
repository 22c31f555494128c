"""Kills workers and machines of a Ray cluster while they train, and compares each end with that of two processes."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path

import psutil

from tests.stress.machines import Machines
from tests.stress.programs import differences, outcome, run_to_end, start

_SEED_OF_RUN = "--seed=2020"
_PATIENCE = 300
"""Seconds without a checkpoint after which a run is stuck."""


def cluster(folder: Path, count: int, machines: int, flags: list[str], seed: int) -> bool:
    """Return whether runs end as an undisturbed one, although workers and machines are killed; print each end.

    Args:
        folder: empty; gets the runs.
        count: of killed workers, as many a run as it takes to end.
        machines: of the cluster, a processor each; two train together.
        flags: of the runs.
        seed: of the moments.
    """
    run_to_end(folder / "whole", "--nproc=2", _SEED_OF_RUN, *flags)
    wanted = outcome(folder / "whole")
    draw, workers, nodes, wrong, runs = random.Random(seed), 0, 0, 0, 0
    with Machines(machines, folder) as here:
        while workers < count or nodes < 2:
            place, runs = folder / f"killed-{runs}", runs + 1
            process = _begin(here, place, flags)
            seen = time.time()
            while _goes_on(process, place, seen, draw):
                seen = time.time()
                if nodes < 2 and (workers >= count * (nodes + 1) // 3):
                    _kill_machine(here, draw)
                    nodes += 1
                elif workers < count:
                    workers += _kill_worker(draw)
            printed, _ = process.communicate()
            if process.returncode:
                print(f"exit {process.returncode}: {printed[-2000:]}")
                return False
            found = _tested_again(place) + differences(wanted, outcome(place))
            wrong += bool(found)
            print(f"run {runs}: {workers} workers, {nodes} machines: {found[:5] or 'the same bit for bit'}", flush=True)
            shutil.rmtree(place)
    print(f"{workers} workers and {nodes} machines killed in {runs} runs; {wrong} runs with another end")
    return not wrong


def _tested_again(place: Path) -> list[str]:
    """Take away records of what was tested again, by workers that were lost after the test; list what differs."""
    first, *more = sorted((place / "saved").glob("*.json"), key=lambda file: file.stat().st_mtime)
    results = [json.loads(file.read_text("utf-8"))["test_result"] for file in (first, *more)]
    for file in more:
        file.unlink()
    return [f"another test: {result}" for result in results[1:] if result != results[0]]


def _begin(here: Machines, place: Path, flags: list[str]) -> subprocess.Popen[str]:
    """Start a run on the first machine."""
    more = ["--engine=ray", "--num_workers=2", f"--ray_address={here.address}", _SEED_OF_RUN]
    return start(place, *more, *flags, inside=here.inside(1))


def _goes_on(process: subprocess.Popen[str], place: Path, since: float, draw: random.Random) -> bool:
    """Wait for a checkpoint that is newer than ``since``, and a moment more; return whether the run still goes on.

    Raises:
        RuntimeError: it is stuck.
    """
    while process.poll() is None:
        if any(file.stat().st_mtime > since for file in (place / "saved").glob("*.last.pth")):
            time.sleep(draw.uniform(0, 3))
            return process.poll() is None
        if time.time() - since > _PATIENCE:
            process.kill()
            raise RuntimeError(f"no checkpoint for {_PATIENCE} seconds: {process.communicate()[0][-2000:]}")
        time.sleep(0.05)
    return False


def _kill_worker(draw: random.Random) -> int:
    """Kill one of the workers that train; return how many there were to kill, at most 1."""
    found = [one for one in psutil.process_iter(["cmdline"]) if "TrainWorker" in " ".join(one.info["cmdline"] or ())]
    if not found:
        return 0
    draw.choice(found).kill()
    return 1


def _kill_machine(here: Machines, draw: random.Random) -> None:
    """Kill a machine that is not the first, and start it anew."""
    number = draw.choice(here.numbers[1:])
    here.kill(number)
    here.start(number)
