"""Bound the memory of requests and answers: beyond it, a request is told to come again."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recbole_bert4rec.serving.questions import LARGEST_BODY

_MOST_BYTES, _SMALL = 16 << 20, 1 << 16
"""Bytes of all received bodies and unsent answers, and of a small body. Larger bodies may take three quarters of the
bytes, so that small ones always have some. In memory, ids take five times as much."""
_PIECE = 1 << 16
"""Bytes of an answer sent at once; the rest waits until the client has read them."""
_TOO_LONG = f"the body has more than {LARGEST_BODY:,} bytes; ask for fewer at once"


class Admission:
    """Lets requests through as long as they and their answers fit into a number of bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._held = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; answer 413 to a body that is too long, and 503 without keeping it if memory is short."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if len(length) > len(str(LARGEST_BODY)) or int(length) > LARGEST_BODY:
            await JSONResponse({"detail": _TOO_LONG}, 413)(scope, receive, send)
            return
        held = 0

        async def receive_counted() -> Message:
            nonlocal held
            message = await receive()
            came = len(message.get("body", b""))
            held += came
            self._held += came
            if held > LARGEST_BODY:
                raise HTTPException(413, _TOO_LONG)
            if came and self._held > (_MOST_BYTES if held <= _SMALL else _MOST_BYTES * 3 // 4):
                if message.get("more_body", False):
                    await _discard_body(receive)
                raise HTTPException(503, "too much is asked at once; try again in 1 s", {"Retry-After": "1"})
            return message

        async def send_pieces(message: Message) -> None:
            nonlocal held
            body = message.get("body", b"")
            held += len(body)
            self._held += len(body)
            for begin in range(0, max(1, len(body)), _PIECE):
                more = begin + _PIECE < len(body) or message.get("more_body", False)
                piece = {"body": body[begin : begin + _PIECE], "more_body": more} if body else {}
                await send({**message, **piece})

        try:
            await self._app(scope, receive_counted, send_pieces)
        finally:
            self._held -= held


async def _discard_body(receive: Receive) -> None:
    """Read and drop a body: a client that is still sending would not read the answer."""
    left: int = LARGEST_BODY
    while left > 0:
        message = await receive()
        left = left - len(message["body"]) if message.get("more_body", False) else 0
