"""Work in a process of its own: its memory is given back, and when it crashes or is killed nothing else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recbole_bert4rec.system.errors import UserError, reason_of
from recbole_bert4rec.system.interrupts import Interrupted, deferred, handled

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

CONTEXT: SpawnContext | ForkServerContext = multiprocessing.get_context("spawn")
"""How processes begin: a fork would share locks of threads, and cannot use a GPU that its parent has used."""
_NO_GUARD = 97
"""Exit code of a process that imported the program, which has no main guard, and so did not come to its work."""
_GUARD = (
    "a process that is being started imported this program, which would begin again in it: put its calls of run(), "
    'compare() and tune() under if __name__ == "__main__": (docs/api.md has an example)'
)


class FailedError(Exception):
    """The work did not end well; the text says why, in one line."""


class DiedError(FailedError):
    """The process of the work was killed or ended by itself."""


def _death_of(code: int | None) -> str:
    """Say how a process ended that did not say so itself."""
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    memory = "; the system kills processes that take too much memory" if code == -signal.SIGKILL else ""
    return f"its process was ended by {how}{memory}"


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


class Worker:
    """A process that does one piece of work after the other; if one went wrong, the next begins in a new process."""

    def __init__(self, log: Path | None = None) -> None:
        self._log = log
        self._pipe: Connection | None = None

    def run(
        self,
        work: Callable[..., Any],
        *arguments: object,
        news: Callable[[Any], None] = lambda _: None,
        tick: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return ``work(*arguments, report)``; ``news`` gets what it reports, and ``tick`` is called every second."""
        pipe = self._pipe or self._begin()
        with suppress(OSError):  # the process has died already, as recv will find
            pipe.send((work, arguments))
        while True:
            while not pipe.poll(1.0):
                tick()
            try:
                message = pipe.recv()
            except (EOFError, OSError):  # the process has died, perhaps while it said something
                self._end()
                if self.process.exitcode == _NO_GUARD:
                    raise UserError(_GUARD) from None
                raise DiedError(_death_of(self.process.exitcode)) from None
            if isinstance(message, FailedError):
                self._end()
                raise message
            is_news, content = message
            if not is_news:
                return content
            news(content)

    def _begin(self) -> Connection:
        with deferred():
            pipe, theirs = CONTEXT.Pipe()
            self.process = CONTEXT.Process(target=_serve, args=(theirs, self._log))
            self.process.start()
            self._pipe = pipe
            theirs.close()  # so that the process's death ends the pipe
        return pipe

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
            self.process.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None and self._pipe is not None:
            self.process.terminate()
            self.process.join()  # while it can still report: it may save its work first
        self._end()


def in_own_process(work: Callable[..., Any], *arguments: object, log: Path, **listeners: Callable[..., None]) -> Any:
    """Return ``work(*arguments, report)``, done in a new process that ends with it."""
    with Worker(log) as worker:
        return worker.run(work, *arguments, **listeners)


def _serve(pipe: Connection, log: Path | None) -> None:
    """Do in this process what comes through the pipe, until something goes wrong or the pipe is closed."""
    end_with_parent()
    if log is not None:
        with open(log, "wb", buffering=0) as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())
    with suppress(EOFError):
        while True:
            work, arguments = pipe.recv()
            try:
                with handled((signal.SIGTERM,)):
                    result = work(*arguments, lambda news: pipe.send((True, news)))
            except Interrupted as stop:
                return pipe.send(DiedError(_death_of(-stop.number)))
            except BaseException as error:  # which may be of a type that no other process can read
                if log is not None and not isinstance(error, UserError):
                    traceback.print_exc()
                return pipe.send(FailedError(reason_of(error)))
            pipe.send((False, result))
