"""Collect questions while the model computes, and answer them together, long ones piece by piece."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from prometheus_client import Histogram
from starlette.exceptions import HTTPException

MOST_WAITING, MOST_TOGETHER = 256, 64
"""Most questions that wait, and most parts of light ones, such as histories, that are answered together."""
_PIECE, _IDS_OF_PIECE = 16, 2000
"""Most parts of a long question, and roughly most ids in them, that the model takes at once."""
_TOGETHER = Histogram(
    "recbole_bert4rec_batch_questions", "Questions that were answered together", buckets=(1, 2, 4, 8, 16, 32, 64)
)

Call = tuple[Any, ...]
"""A function of a list of parts, and its other arguments; questions with the same call are answered together."""


class _Piece(NamedTuple):
    """Some parts of a question, and the future of their answers."""

    call: Call
    parts: Sequence[Any]
    answers: asyncio.Future[list[Any]]


class Batcher:
    """Answers questions in a thread. A turn takes the waiting light ones, and a piece of a heavy one.

    So a light question waits for one turn at most, unless there are more of them than a turn takes.
    """

    def __init__(self) -> None:
        self._light, self._heavy = deque[_Piece](), deque[_Piece]()
        self._some_wait = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")

    async def ask(
        self, call: Call, parts: Sequence[Sequence[Any]], is_gone: Callable[[], Awaitable[bool]], is_heavy: bool = False
    ) -> list[Any]:
        """Return an answer for each part of a question; stop between pieces if the client is gone."""
        if len(self._light) + len(self._heavy) >= MOST_WAITING:
            raise HTTPException(503, "too many questions wait; try again in 1 s", {"Retry-After": "1"})
        size = min(_PIECE, max(1, _IDS_OF_PIECE // max(1, *map(len, parts))))
        waiting = self._heavy if is_heavy or len(parts) > size else self._light
        answers: list[Any] = []
        for begin in range(0, len(parts), size):  # each piece waits behind the questions of others
            if begin and await is_gone():
                raise HTTPException(499)
            piece = _Piece(call, parts[begin : begin + size], asyncio.get_running_loop().create_future())
            waiting.append(piece)
            self._some_wait.set()
            answers += await piece.answers
        return answers

    async def run(self) -> None:
        """Answer questions until this is cancelled."""
        while await self._some_wait.wait():
            turn, parts = list[_Piece](), 0
            while self._light and (parts := parts + len(self._light[0].parts)) <= MOST_TOGETHER:
                turn.append(self._light.popleft())
            if self._heavy:
                turn.append(self._heavy.popleft())
            if not turn:
                self._some_wait.clear()
            for call in dict.fromkeys(piece.call for piece in turn):
                agreeing = [piece for piece in turn if piece.call == call]
                _TOGETHER.observe(len(agreeing))
                await self._answer(agreeing)

    async def _answer(self, pieces: list[_Piece]) -> None:
        """Answer pieces with the same call together, or each by itself if that fails."""
        function, *arguments = pieces[0].call
        parts = [part for piece in pieces for part in piece.parts]
        try:
            found = iter(await asyncio.get_running_loop().run_in_executor(self._thread, function, parts, *arguments))
        except Exception as error:  # it is for the client
            for piece in pieces:
                if len(pieces) > 1:
                    await self._answer([piece])
                elif not piece.answers.done():
                    piece.answers.set_exception(error)
            return
        for piece in pieces:
            answers = list(islice(found, len(piece.parts)))
            if not piece.answers.done():  # else its request was cancelled
                piece.answers.set_result(answers)
