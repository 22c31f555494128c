"""Work in a process of its own: its memory is given back, and when it crashes or is killed nothing else does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
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
_pipe: Connection
"""In a process that was started: leads to the one that listens."""


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
        self._pool: ProcessPoolExecutor | None = None

    def run(
        self,
        work: Callable[..., Any],
        *arguments: object,
        news: Callable[[Any], None] = lambda _: None,
        tick: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return ``work(*arguments, report)``; ``news`` gets what it reports, and ``tick`` is called every second."""
        try:
            future = self._begin(work, arguments)
            while self._pipe.poll(1.0) or not future.done():
                tick()
                try:
                    message = self._pipe.recv() if self._pipe.poll() else ()
                except (EOFError, OSError):  # the process has died, perhaps while it said something
                    break
                if message is None:
                    break
                for content in message:
                    news(content)
            return future.result()
        except UserError as error:
            raise FailedError(reason_of(error)) from error
        except FailedError:
            self._end()
            raise
        except BrokenProcessPool:
            self._end()
            if self.process.exitcode == _NO_GUARD:
                raise UserError(_GUARD) from None
            raise DiedError(_death_of(self.process.exitcode)) from None

    def _begin(self, work: Callable[..., Any], arguments: tuple[object, ...]) -> Future[Any]:
        """Begin a piece of work, in a new process unless one waits for it."""
        with deferred():
            if self._pool is None:
                self._pipe, self._theirs = CONTEXT.Pipe(duplex=False)
                self._pool = ProcessPoolExecutor(1, CONTEXT, _prepare, (self._theirs, self._log))
            future = self._pool.submit(_do, work, arguments, self._log is not None)
            (self.process,) = self._pool._processes.values()  # nothing public tells how a process ended
            self._theirs.close()  # so that the process's death ends the pipe
        return future

    def _end(self) -> None:
        """Let the process finish; one that was asked to end may save its work and tell so."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pipe.close()
            self._pool = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None and self._pool is not None:
            self.process.terminate()
        self._end()


def in_own_process(work: Callable[..., Any], *arguments: object, log: Path, **listeners: Callable[..., None]) -> Any:
    """Return ``work(*arguments, report)``, done in a new process that ends with it."""
    with Worker(log) as worker:
        return worker.run(work, *arguments, **listeners)


def _prepare(pipe: Connection, log: Path | None) -> None:
    """Let this process be ready for its first piece of work."""
    global _pipe
    _pipe = pipe
    end_with_parent()
    if log is not None:
        with open(log, "wb", buffering=0) as file:
            for stream in (sys.stdout, sys.stderr):
                os.dup2(file.fileno(), stream.fileno())


def _do(work: Callable[..., Any], arguments: tuple[object, ...], logged: bool) -> Any:
    """Do a piece of work in this process, and tell through the pipe what it reports and that it is over."""
    try:
        with handled((signal.SIGTERM,)):
            return work(*arguments, lambda news: _pipe.send((news,)))
    except UserError:
        raise
    except Interrupted as stop:
        raise DiedError(_death_of(-stop.number)) from None
    except BaseException as error:  # which may be of a type that no other process can read
        if logged:
            traceback.print_exc()
        raise FailedError(reason_of(error)) from None
    finally:
        _pipe.send(None)
