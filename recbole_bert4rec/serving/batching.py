"""Collect the questions that wait while the model computes, and answer them together, long ones piece by piece."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

from prometheus_client import Histogram
from starlette.exceptions import HTTPException

MOST_WAITING, MOST_TOGETHER = 256, 64
"""Questions that may wait, and parts of light ones, such as histories, that are answered together."""
_PIECE, _IDS_OF_PIECE = 16, 2000
"""Parts, and roughly their ids, that the model takes at once of a heavy question."""
_TOGETHER = Histogram(
    "recbole_bert4rec_batch_questions", "Questions that were answered together", buckets=(1, 2, 4, 8, 16, 32, 64)
)


class Call(NamedTuple):
    """What questions must agree in to be answered together: a function of a list of parts, and its other arguments."""

    function: Callable[..., Sequence[Any]]
    arguments: tuple[Hashable, ...] = ()


@dataclass(eq=False)
class _Waiting:
    """A question that is not answered yet."""

    call: Call
    pieces: deque[list[Any]]
    is_gone: Callable[[], Awaitable[bool]]
    future: asyncio.Future[list[Any]]
    answers: list[Any] = field(default_factory=list)


class Batcher:
    """Answers questions in a thread. A turn takes the light ones that wait, and a piece of one that is heavy.

    So a light question waits for one turn at most, unless there are more of them than a turn takes.
    """

    def __init__(self) -> None:
        self._light, self._heavy = deque[_Waiting](), deque[_Waiting]()
        self._some_wait = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def ask(
        self, call: Call, parts: Sequence[Sequence[Any]], is_gone: Callable[[], Awaitable[bool]], is_heavy: bool = False
    ) -> list[Any]:
        """Return an answer for each part of a question, unless it is heavy and its client has gone."""
        if len(self._light) + len(self._heavy) >= MOST_WAITING:
            raise HTTPException(503, "too many questions wait; try again in 1 s", {"Retry-After": "1"})
        size = min(_PIECE, max(1, _IDS_OF_PIECE // max(1, *map(len, parts))))
        pieces = deque(list(parts[begin : begin + size]) for begin in range(0, len(parts), size))
        question = _Waiting(call, pieces, is_gone, asyncio.get_running_loop().create_future())
        (self._heavy if is_heavy or len(pieces) > 1 else self._light).append(question)
        self._some_wait.set()
        return await question.future

    async def run(self) -> None:
        """Answer questions until this is cancelled."""
        while await self._some_wait.wait():
            turn = await self._next_turn()
            if not turn:
                self._some_wait.clear()
            for call in dict.fromkeys(question.call for question in turn):
                group = [question for question in turn if question.call == call]
                pieces = [question.pieces.popleft() for question in group]
                _TOGETHER.observe(len(group))
                answered = asyncio.get_running_loop().run_in_executor(self._thread, _answer, call, pieces)
                for question, answers in zip(group, await answered, strict=True):
                    self._keep(question, answers)

    async def _next_turn(self) -> list[_Waiting]:
        """Take the light questions that fit in a turn, and the next heavy one that somebody waits for."""
        turn, parts = list[_Waiting](), 0
        while self._light and (parts := parts + len(self._light[0].pieces[0])) <= MOST_TOGETHER:
            turn.append(self._light.popleft())
        while self._heavy and await self._heavy[0].is_gone():
            self._heavy.popleft().future.set_exception(HTTPException(499))
        return [*turn, self._heavy.popleft()] if self._heavy else turn

    def _keep(self, question: _Waiting, answers: list[Any] | Exception) -> None:
        """Keep the answers to a piece; the question waits for its next turn, or is answered."""
        if question.future.done():  # its request was ended
            return
        if isinstance(answers, Exception):
            question.future.set_exception(answers)
            return
        question.answers += answers
        if question.pieces:
            self._heavy.append(question)
        else:
            question.future.set_result(question.answers)


def _answer(call: Call, pieces: list[list[Any]]) -> list[list[Any] | Exception]:
    """Answer pieces of questions that agree; if one makes them fail, each by itself."""
    try:
        rest = iter(call.function(list(chain(*pieces)), *call.arguments))
        return [list(islice(rest, len(piece))) for piece in pieces]
    except Exception as error:  # to be raised for the asker
        return [error] if len(pieces) == 1 else [_answer(call, [piece])[0] for piece in pieces]
