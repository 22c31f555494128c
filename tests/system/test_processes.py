"""Work in other processes: results, news, refusals, crashes and kills, each told in one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.processes import DiedError, FailedError, Worker, in_own_process


def add(number: int, more: int, report: Callable[[Any], None]) -> tuple[int, int]:
    """What the tests let a process do: a sum and the process's id; or what a negative number stands for."""
    report(f"adding {number}")
    print(f"printed {number}")
    if number == -1:
        raise UserError("refused\nin two lines")
    if number == -2:
        raise RuntimeError("broken")
    if number == -3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number + more, os.getpid()


def test_one_process_does_all_the_work_until_something_goes_wrong() -> None:
    news: list[Any] = []
    with Worker() as worker:
        first, process = worker.run(add, 1, 10, news=news.append)
        second, same = worker.run(add, 2, 10, news=news.append)
        with pytest.raises(FailedError, match=r"^refused in two lines$"):
            worker.run(add, -1, 10, news=news.append)
        assert not worker.process.is_alive()
        third, _ = worker.run(add, 3, 10, news=news.append)
    assert (first, second, third, process) == (11, 12, 13, same)
    assert process != os.getpid()
    assert news == ["adding 1", "adding 2", "adding -1", "adding 3"]
    assert not worker.process.is_alive()


@pytest.mark.parametrize(
    ("number", "error", "named"),
    [(-2, FailedError, r"broken \(test_processes.py:\d+\)"), (-3, DiedError, "SIGKILL")],
)
def test_after_a_crash_or_a_kill_the_next_work_begins_in_a_new_process(
    number: int, error: type[Exception], named: str
) -> None:
    with Worker() as worker:
        _, process = worker.run(add, 1, 10)
        with pytest.raises(error, match=named):
            worker.run(add, number, 10)
        result, other = worker.run(add, 2, 10)
    assert result == 12
    assert other != process


def test_what_a_process_prints_is_in_its_log_with_the_traceback(tmp_path: Path) -> None:
    assert in_own_process(add, 2, 1, log=tmp_path / "log")[0] == 3
    assert (tmp_path / "log").read_text() == "printed 2\n"
    with pytest.raises(FailedError, match="broken"):
        in_own_process(add, -2, 1, log=tmp_path / "log")
    assert "Traceback" in (tmp_path / "log").read_text()


def test_an_error_of_a_listener_ends_the_process_at_once() -> None:
    def stop(news: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Worker() as worker:
        worker.run(add, 1, 1, news=stop)
    assert not worker.process.is_alive()
