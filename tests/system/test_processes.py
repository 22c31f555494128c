"""Work in other processes: results, refusals, crashes and kills, each told in one line."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.processes import FailedError, in_own_process

LOG = Path("log.txt")


def add(number: int, more: int) -> tuple[int, int]:
    """What the tests let a process do: a sum and the process's id; or what a negative number stands for."""
    print(f"printed {number}")
    if number == -1:
        raise UserError("refused\nin two lines")
    if number == -2:
        raise RuntimeError("broken")
    if number == -3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == -4:
        signal.pause()
    return number + more, os.getpid()


def test_work_is_done_in_another_process_whose_output_is_in_a_file() -> None:
    result, process = in_own_process(add, 1, 10, log=LOG)
    assert result == 11
    assert process != os.getpid()
    assert LOG.read_text() == "printed 1\n"
    assert not psutil.pid_exists(process)


@pytest.mark.parametrize(
    ("number", "named", "logged"),
    [
        (-1, r"^refused in two lines$", False),
        (-2, r"broken \(test_processes.py:\d+\)", True),
        (-3, "SIGKILL", False),
    ],
)
def test_a_mistake_a_crash_and_a_kill_are_one_line_and_the_file_has_the_traceback(
    number: int, named: str, logged: bool
) -> None:
    with pytest.raises(FailedError, match=named):
        in_own_process(add, number, 10, log=LOG)
    assert ("Traceback" in LOG.read_text()) == logged


def test_the_process_ends_with_what_waits_for_it() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_own_process(add, -4, 1, log=LOG, tick=stop)
    alive = psutil.Process().children(recursive=True)
    assert str(LOG.resolve()) not in [file.path for one in alive for file in one.open_files()]
