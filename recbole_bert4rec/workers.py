"""Work in a process of its own: what it takes is given back, and if it crashes or is killed nothing else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from recbole_bert4rec.errors import UserError

_GRACE = 10.0
"""Seconds that a process has to end after its work did."""


class FailedError(Exception):
    """The work did not end well; the text says why, in one line."""


def reason_of(error: BaseException) -> str:
    """What went wrong in one line; where, too, if it is not a mistake that a user can mend."""
    said = " ".join(str(error).split()) or "no message"
    if isinstance(error, UserError):
        return said
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {said}{place}"


def death_of(code: int | None) -> str:
    """How a process ended that did not say so itself."""
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    memory = "; the system kills processes that take too much memory" if code == -signal.SIGKILL else ""
    return f"its process was ended by {how}{memory}"


def end_with_parent() -> None:
    """Let this process end as soon as its parent is gone, however that ended; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def in_own_process(
    work: Callable[..., Any],
    *arguments: Any,
    log: Path,
    news: Callable[[Any], None] = lambda _: None,
    tick: Callable[[], None] = lambda: None,
) -> Any:
    """``work(*arguments, report)`` in a new process.

    Args:
        log: file for all that the process prints.
        news: gets what the work reports.
        tick: called about every second while the work goes on.

    Raises:
        FailedError: the work raised an error, or its process was killed.
    """
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, arguments, str(log)))
    process.start()
    theirs.close()
    try:
        return _listen(pipe, process, news, tick)
    finally:
        process.join(timeout=_GRACE if sys.exc_info()[0] is None else 0)
        process.kill()
        process.join()


def _serve(pipe: Connection, work: Callable[..., Any], arguments: tuple[Any, ...], log: str) -> None:
    end_with_parent()
    with open(log, "wb", buffering=0) as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    try:
        pipe.send(("result", work(*arguments, lambda news: pipe.send(("news", news)))))
    except UserError as error:
        pipe.send(("failed", reason_of(error)))
    except BaseException as error:
        traceback.print_exc()
        pipe.send(("failed", reason_of(error)))


def _listen(pipe: Connection, process: Any, news: Callable[[Any], None], tick: Callable[[], None]) -> Any:
    while True:
        ready = wait([pipe, process.sentinel], timeout=1.0)
        tick()
        if not ready:
            continue
        try:
            kind, said = pipe.recv()
        except (EOFError, ConnectionResetError):
            process.join()
            raise FailedError(death_of(process.exitcode)) from None
        if kind == "failed":
            raise FailedError(said)
        if kind == "result":
            return said
        news(said)
