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

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, handled

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

CONTEXT: SpawnContext | ForkServerContext = multiprocessing.get_context("spawn")
"""How processes begin: a fork would share locks of threads, and cannot use a GPU that its parent has used."""
_NAME = "recbole_bert4rec worker"
_NO_GUARD = 97
"""Exit code of a process that imported the program, which has no main guard, and so did not come to its work."""
_GUARD = (
    "a process that is being started imported this program, which would begin again in it: put its calls of run(), "
    'compare() and tune() under if __name__ == "__main__": (docs/api.md has an example)'
)
_GRACE = 10.0
"""Seconds that a process has to end once its work is done."""


class FailedError(Exception):
    """The work did not end well; the text says why, in one line."""


class DiedError(FailedError):
    """The process of the work was killed or ended by itself."""


def reason_of(error: BaseException) -> str:
    """Return an error in one line, with its place in the code unless it is a mistake that a user can mend."""
    message = " ".join(str(error).split()) or "no message"
    if isinstance(error, UserError):
        return message
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last)
    return f"{type(error).__name__}: {message}{where}"


def death_of(code: int | None) -> str:
    """Say how a process ended that did not say so itself."""
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    memory = "; the system kills processes that take too much memory" if code == -signal.SIGKILL else ""
    return f"its process was ended by {how}{memory}"


def refuse_unguarded() -> None:
    """Refuse to begin in a process that is itself about to be started: it imports a program without a main guard."""
    process = multiprocessing.current_process()
    if not getattr(process, "_inheriting", False):
        return
    if process.name == _NAME:
        os._exit(_NO_GUARD)
    raise UserError(_GUARD)


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
    """A process that does one piece of work after the other; if it died, the next piece starts another one."""

    def __init__(self, work: Callable[..., Any], *shared: object, log: Path | None = None) -> None:
        self._target = (work, shared, None if log is None else str(log))
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(theirs, *self._target), name=_NAME)
        self.process.start()
        theirs.close()

    def run(
        self,
        *arguments: object,
        news: Callable[[Any], None] = lambda _: None,
        tick: Callable[[], None] = lambda: None,
    ) -> Any:
        """Do one piece of work and return its result."""
        if not self.process.is_alive():
            self._pipe.close()
            self._start()
        try:
            self._pipe.send(arguments)
            while True:
                kind, content = self._next(tick)
                if kind != "news":
                    break
                news(content)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            self.process.join()
            if self.process.exitcode == _NO_GUARD:
                raise UserError(_GUARD) from None
            raise DiedError(death_of(self.process.exitcode)) from None
        if kind == "failed":
            self._end(_GRACE)
        if kind == "result":
            return content
        raise FailedError(content)

    def _next(self, tick: Callable[[], None]) -> tuple[str, Any]:
        """Wait for the next message. Raises EOFError if the process has died."""
        while True:
            ready = wait([self._pipe, self.process.sentinel], timeout=1.0)
            tick()
            if self._pipe in ready or self._pipe.poll():
                message: tuple[str, Any] = self._pipe.recv()
                return message
            if ready:
                raise EOFError

    def _end(self, grace: float) -> None:
        self.process.join(timeout=grace)
        self.process.kill()
        self.process.join()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """End the process: let it finish if nothing went wrong; else let it save its work, and end it."""
        if error is None:
            self._pipe.close()
        else:
            self.process.terminate()  # with the pipe open, for the work may be telling something
        self._end(_GRACE)
        self._pipe.close()


def in_own_process(work: Callable[..., Any], *arguments: object, log: Path, **listeners: Callable[..., None]) -> Any:
    """Return ``work(*arguments, report)``, done in a new process that ends with it."""
    with Worker(work, log=log) as worker:
        return worker.run(*arguments, **listeners)


def _serve(pipe: Connection, work: Callable[..., Any], shared: tuple[Any, ...], log: str | None) -> None:
    """Do the work whose arguments come through the pipe until that is closed, or until something goes wrong."""
    end_with_parent()
    if log is not None:
        with open(log, "wb", buffering=0) as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())
    with suppress(Interrupted), handled((signal.SIGTERM,)):
        _work(pipe, work, shared, log)


def _work(pipe: Connection, work: Callable[..., Any], shared: tuple[Any, ...], log: str | None) -> None:
    while True:
        try:
            arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("result", work(*shared, *arguments, lambda news: pipe.send(("news", news)))))
        except UserError as error:
            pipe.send(("refused", reason_of(error)))
        except Interrupted:
            raise
        except BaseException as error:
            if log is not None:
                traceback.print_exc()
            pipe.send(("failed", reason_of(error)))
            return  # the next work begins in a process that nothing has gone wrong in
