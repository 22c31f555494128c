"""Work in a process of its own: its memory is given back, and a crash or a kill ends nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from recbole_bert4rec.system.errors import UserError, reason_of
from recbole_bert4rec.system.interrupts import Interrupted, deferred, handled

START_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
"""How processes begin: a fork would share locks of threads, and cannot use a GPU that its parent has used.

The server imports the libraries once for all of them, which takes seconds.
"""
_NO_GUARD = 97
"""Exit code of a process that imported the program, which has no main guard, and so did not come to its work."""
_GUARD = (
    "a new process imported this program and would run it again: put its calls of run(), compare() and tune() under "
    'if __name__ == "__main__": (docs/api.md has an example)'
)


class FailedError(Exception):
    """The work did not end well; the text says why, in one line."""


def context() -> Any:
    """Return what starts processes."""
    chosen = multiprocessing.get_context(START_METHOD)
    chosen.set_forkserver_preload(["recbole_bert4rec.training.run"])
    return chosen


@contextmanager
def starting() -> Iterator[None]:
    """Let signals wait until processes are started: Ctrl-C in a terminal would end the server while it imports."""
    resource_tracker.ensure_running()  # which unblocks signals as it starts
    with deferred():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the server and its processes inherit it
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def refuse_unguarded() -> None:
    """End a process that is about to be started, and for that imports a program without a main guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        print(f"error: {_GUARD}", file=sys.stderr, flush=True)
        os._exit(_NO_GUARD)


def end_with_parent() -> None:
    """End this process as soon as its parent is gone, however that ended; leave Ctrl-C to the parent.

    A terminal sends Ctrl-C to both; the parent asks this one to end by a SIGTERM.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def in_own_process(
    work: Callable[..., Any], *arguments: object, log: Path, tick: Callable[[], None] = lambda: None
) -> Any:
    """Return ``work(*arguments)``, done in a new process whose output goes to ``log``; call ``tick`` every second."""
    starter = context()
    pipe, theirs = starter.Pipe()
    process = starter.Process(target=_serve, args=(theirs, log, work, arguments))
    try:
        with starting():
            process.start()
        theirs.close()  # so that the process's death ends the pipe
        while not pipe.poll(1.0):
            tick()
        result = pipe.recv()
    except (EOFError, OSError):  # the process has died, perhaps while it said something
        process.join()
        if process.exitcode == _NO_GUARD:
            raise UserError(_GUARD) from None
        raise FailedError(_death_of(process.exitcode)) from None
    except BaseException:
        process.terminate()
        process.join()  # it may save its work first
        raise
    process.join()
    if isinstance(result, FailedError):
        raise result
    return result


def _death_of(code: int | None) -> str:
    """Say how a process ended that did not say so itself."""
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    memory = "; the system kills processes that take too much memory" if code == -signal.SIGKILL else ""
    return f"its process was ended by {how}{memory}"


def _serve(pipe: Connection, log: Path, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    """Do the work in this process, and send its result, or why there is none."""
    end_with_parent()
    with open(log, "ab", buffering=0) as file:  # which has what an interrupted run said
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    try:
        with handled((signal.SIGTERM,)):
            result = work(*arguments)
    except Interrupted as stop:
        result = FailedError(_death_of(-stop.number))
    except BaseException as error:  # which may be of a type that no other process can read
        if not isinstance(error, UserError):
            traceback.print_exc()
        result = FailedError(reason_of(error))
    pipe.send(result)
