"""Trials one after the other in a process of their own: one that crashes or is killed does not take the rest along."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection, wait
from typing import Any

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.training.epochs import Report
from recbole_bert4rec.tuning.objective import Task, run_trial
from recbole_bert4rec.workers import death_of, end_with_parent, reason_of

_ATTEMPTS = 2
"""A trial whose process was killed is tried once more."""


def _serve(pipe: Connection, task: Task, data: bytes | None) -> None:
    """Run the trials that come through the pipe until it is closed."""
    end_with_parent()
    while True:
        try:
            params, checkpoint = pipe.recv()
        except EOFError:
            return
        try:
            result = run_trial(task, params, data, checkpoint, lambda news: pipe.send(("epoch", news)))
            pipe.send(("result", result))
        except UserError as error:
            pipe.send(("refused", reason_of(error)))
        except Exception as error:
            pipe.send(("failed", reason_of(error)))
            return  # the next trial begins in a process that nothing has gone wrong in


class LocalWorker:
    """A process that runs one trial at a time; started anew when it dies."""

    def __init__(self, task: Task, data: bytes | None) -> None:
        self._arguments = (task, data)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=False)
        self.process.start()
        theirs.close()

    def run(self, params: dict[str, Any], checkpoint: str, report: Report) -> dict[str, Any]:
        """The trial's result, or ``{"reason": ...}`` where it failed."""
        for _ in range(_ATTEMPTS):
            if not self.process.is_alive():
                self._start()
            self._pipe.send((params, checkpoint))
            outcome = self._listen(report)
            if outcome is not None:
                return outcome
            self.process.join()
            code = self.process.exitcode
        return {"reason": f"{death_of(code)} ({_ATTEMPTS} times)"}

    def _listen(self, report: Report) -> dict[str, Any] | None:
        """Pass the trial's reports on; its end, or None where the process died."""
        while True:
            ready = wait([self._pipe, self.process.sentinel])
            if self._pipe not in ready and not self._pipe.poll():
                return None
            try:
                kind, news = self._pipe.recv()
            except (EOFError, ConnectionResetError):
                return None
            if kind == "epoch":
                report(news)
                continue
            if kind == "failed":
                self.process.join()
            return news if kind == "result" else {"reason": news}

    def close(self) -> None:
        """End the process, whatever it does."""
        self._pipe.close()
        self.process.terminate()
        self.process.join()
