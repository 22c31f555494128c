"""Gathers the questions that wait while the model computes, and has them answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
MOST = 256
"""Questions that are answered together."""
_WAITING = 2048


class BusyError(Exception):
    """Too many questions wait."""


class Batcher(Generic[Q, A]):
    """Answers questions in batches, one batch at a time in a thread of its own.

    A question that comes while nothing is computed is answered at once; those that come meanwhile are the next batch.

    Args:
        answer: returns for each question its answer, or the error to raise.
        observe: is told the size of each batch.
    """

    def __init__(
        self, answer: Callable[[Sequence[Q]], Sequence[A | Exception]], observe: Callable[[int], None]
    ) -> None:
        self._answer, self._observe = answer, observe
        self._waiting: asyncio.Queue[tuple[Q, asyncio.Future[A]]] = asyncio.Queue(_WAITING)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def ask(self, question: Q) -> A:
        """Return the answer to a question.

        Raises:
            BusyError: too many questions wait.
        """
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((question, future))
        except asyncio.QueueFull:
            raise BusyError from None
        return await future

    async def run(self) -> None:
        """Answer questions until this is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                batch = [await self._waiting.get()]
                while len(batch) < MOST and not self._waiting.empty():
                    batch.append(self._waiting.get_nowait())
                self._observe(len(batch))
                questions = [question for question, _ in batch]
                try:
                    answers = await loop.run_in_executor(self._thread, self._answer, questions)
                except Exception as error:  # nobody may wait for ever
                    answers = [error] * len(batch)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():  # nobody waits any more
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._thread.shutdown(wait=False)
