"""Collect the questions that wait while the model computes, and answer them together, the light ones first."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar


class Weighed(Protocol):
    """A question with a known amount of work."""

    @property
    def work(self) -> float:
        """Cost of the answer, in any unit."""

    def agree_in(self) -> Hashable:
        """Return a key: questions with equal keys can be one call of the model."""


Q = TypeVar("Q", bound=Weighed)
A = TypeVar("A")
MOST = 256
"""Questions that are answered together."""
_WORK = 60_000.0
"""Most work of a batch of several questions: about a tenth of a second, and 20 MB, on one core."""
_WAITING, _SECONDS = 2048, 30.0
"""Questions that may wait, and the seconds that those before a question may take."""
_WORK_OF_CALL = 1500
"""Work of a call of the model in addition to that of its questions."""
_FIRST_GUESS, _KEEPS = 2e-6, 0.9
"""Seconds of a unit of work at first, and the weight of earlier batches in later estimates."""


class BusyError(Exception):
    """Too much waits.

    Attributes:
        seconds: to wait, roughly.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = math.ceil(seconds)


class Batcher(Generic[Q, A]):
    """Answers questions in batches, one batch at a time in another thread.

    A question that comes while nothing is computed is answered at once; those that come meanwhile wait. The oldest of
    them is in the next batch, with the lightest of the others: no light one waits for many heavy ones. What a batch
    holds and what waits are bounded by the work that questions take, not by their number alone. A question whose asker
    is cancelled is dropped.
    """

    def __init__(
        self, answer: Callable[[Sequence[Q]], Sequence[A | Exception]], observe: Callable[[int], None]
    ) -> None:
        self._answer, self._observe = answer, observe
        self._waiting: dict[asyncio.Future[A], Q] = {}  # the oldest first
        self._work_waiting = 0.0
        self._some_wait = asyncio.Event()
        self._work, self._seconds = _WORK, _WORK * _FIRST_GUESS
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def ask(self, question: Q) -> A:
        """Return the answer to a question."""
        before = self._seconds / self._work * self._work_waiting
        if len(self._waiting) >= _WAITING or before > _SECONDS:
            raise BusyError(max(1.0, before))
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting[future] = question
        self._work_waiting += question.work
        self._some_wait.set()
        try:
            return await future
        finally:
            if future in self._waiting:  # nobody waits any more
                self._take(future)

    async def run(self) -> None:
        """Answer questions until this is cancelled."""
        try:
            while True:
                await self._some_wait.wait()
                self._some_wait.clear()
                while self._waiting:
                    await self._answer_some()
        finally:
            self._thread.shutdown(wait=False)

    async def _answer_some(self) -> None:
        """Answer the questions whose turn it is."""
        batch, work = self._next()
        questions = list(batch.values())
        self._observe(len(batch))
        begin = time.monotonic()
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, questions)
        except Exception as error:  # nobody may wait for ever
            answers = [error] * len(batch)
        self._seconds = _KEEPS * self._seconds + time.monotonic() - begin
        self._work = _KEEPS * self._work + work
        for future, answer in zip(batch, answers, strict=True):
            if future.done():  # nobody waits any more
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def _next(self) -> tuple[dict[asyncio.Future[A], Q], float]:
        """Take the oldest question, so that each has its turn, and the lightest of the others, as a batch holds."""
        oldest = next(iter(self._waiting))
        batch = {oldest: self._take(oldest)}
        work, calls = batch[oldest].work, {batch[oldest].agree_in()}
        for future, question in sorted(self._waiting.items(), key=lambda waiting: waiting[1].work):
            call = question.agree_in()
            more = question.work + (0 if call in calls else _WORK_OF_CALL)
            if work + more > _WORK or len(batch) == MOST:
                break
            work += more
            calls.add(call)
            batch[future] = self._take(future)
        return batch, work + _WORK_OF_CALL

    def _take(self, future: asyncio.Future[A]) -> Q:
        """Remove a question from those that wait."""
        question = self._waiting.pop(future)
        self._work_waiting = self._work_waiting - question.work if self._waiting else 0.0
        return question
