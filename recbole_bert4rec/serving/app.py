"""The web application: its addresses, its limits, and the server that listens."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.serving.answering import FollowedCheckpoint
from recbole_bert4rec.serving.batching import Batcher
from recbole_bert4rec.serving.questions import ExplainQuestion, RecommendQuestion, SimilarQuestion, check_size
from recbole_bert4rec.system.errors import UserError

_LARGEST_BODY, _SMALL_BODY, _MOST_LARGE = 1 << 20, 1 << 16, 4
"""Most bytes of a body, and of one that is read at once; most larger ones in memory: ids take five times as much."""
_SECONDS_OF_CLIENT = 10
"""Time for a client to begin a question, for a large body to wait for its turn, and for a body to arrive."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Headers of every answer: browsers run and load only files of the service itself."""
_REQUESTS = Counter("recbole_bert4rec_requests", "Requests", ["path", "status"])
_BUCKETS = 0.001, 0.0025, *Histogram.DEFAULT_BUCKETS
_SECONDS = Histogram("recbole_bert4rec_request_seconds", "Time of a request", ["path"], buckets=_BUCKETS)


def serve(checkpoint: str, load: Callable[[str], Recommender], items: str | None, host: str, port: int) -> None:
    """Serve until it is stopped; ``items`` names a file of names."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("recbole_bert4rec.recommend").setLevel(logging.ERROR)  # answers say which items are unknown
    followed, is_ipv6 = FollowedCheckpoint(checkpoint, load, items), ":" in host
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host={host} --port={port} cannot be listened at: {error}; is another program there?"
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for the client
    with listening:
        address = f"[{host}]" if is_ipv6 else host
        print(f"serving {checkpoint} at http://{address}:{listening.getsockname()[1]}", file=sys.stderr)
        if not _is_local(host):
            print("whoever can reach this address can ask: there is no password", file=sys.stderr)
        make_server(followed, host).run(sockets=[listening])


def make_server(followed: FollowedCheckpoint, host: str) -> uvicorn.Server:
    """Make the server of a checkpoint."""
    config = uvicorn.Config(
        make_app(followed, ["localhost", "127.0.0.1", "[::1]", host] if _is_local(host) else ["*"]),
        http=_Protocol,
        ws="none",
        limit_concurrency=512,
        timeout_graceful_shutdown=5,
        log_level="error",  # warnings are of clients' mistakes, which may be many
        access_log=False,
        server_header=False,
        headers=list(_HEADERS.items()),
    )
    return uvicorn.Server(config)


class _Protocol(H11Protocol):
    """Limits the time until a question; uvicorn does so only after an answer, and only until the first byte."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(_SECONDS_OF_CLIENT, self.timeout_keep_alive_handler)

    def data_received(self, data: bytes) -> None:
        self.conn.receive_data(data)
        self.handle_events()  # a question stops the timer


def make_app(followed: FollowedCheckpoint, hosts: list[str]) -> FastAPI:
    """Make the application."""
    batcher = Batcher()

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(batcher.run()), asyncio.create_task(followed.follow())]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(
        title="recbole_bert4rec",
        summary="Recommendations of a trained model.",
        lifespan=running,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.large, app.router.route_class = asyncio.Semaphore(_MOST_LARGE), _BoundedRoute

    async def answer_lists(request: Request, parts: list[tuple[str, ...]], answer: Any, k: int, *more: Any) -> Response:
        check_size(parts, k)
        return JSONResponse({"answers": await batcher.ask((answer, k, *more), parts, request.is_disconnected)})

    @app.post("/recommend")
    async def recommend(question: RecommendQuestion, request: Request) -> Response:
        """Return the next items of each history."""
        options = question.k, question.filter_viewed, question.items_to_recommend, question.exclude
        return await answer_lists(request, question.histories, followed.current.recommend, *options)

    @app.post("/similar")
    async def similar(question: SimilarQuestion, request: Request) -> Response:
        """Return the items that are most like each of some items."""
        return await answer_lists(request, [(item,) for item in question.items], followed.current.similar, question.k)

    @app.post("/explain")
    async def explain(question: ExplainQuestion, request: Request) -> Response:
        """Return the influence of each item of a history on the score of an item."""
        pair, call = (question.history, question.item), (followed.current.explain,)
        [answer] = await batcher.ask(call, [pair], request.is_disconnected, is_heavy=True)
        return JSONResponse(answer)

    @app.get("/search")
    def search(
        text: Annotated[str, Query(min_length=1, max_length=100)], most: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> dict[str, Any]:
        """Return items whose id or name contains the text."""
        return {"items": followed.current.find(text, most)}

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Return the served checkpoint."""
        return {"status": "ok", **followed.about}

    @app.get("/metrics", response_class=Response)
    def metrics() -> Response:
        """Return counts and times for Prometheus."""
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    app.add_exception_handler(UserError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse)
    app.mount("/", StaticFiles(directory=str(files(__package__) / "page"), html=True))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(counted)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    """Answer as FastAPI does, but with few mistakes, and without the question, which may be long."""
    mistakes = error.errors()[:5] if isinstance(error, RequestValidationError) else []
    places = [[part[:100] if isinstance(part, str) else part for part in mistake["loc"]] for mistake in mistakes]
    detail = [{"type": m["type"], "loc": place, "msg": m["msg"]} for m, place in zip(mistakes, places, strict=True)]
    return JSONResponse({"detail": detail or str(error)}, 422)


class _BoundedRoute(APIRoute):
    """Refuses bodies that are too long, by their header or as they arrive; keeps few large ones in memory."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def answer_bounded(request: Request) -> Response:
            body, length = bytearray(), int(request.headers.get("content-length", "0"))
            too_long = HTTPException(413, f"the body must have at most {_LARGEST_BODY:,} bytes")
            if length > _LARGEST_BODY:
                raise too_long
            late = HTTPException(503, "too many large questions wait; try again in 1 s", {"Retry-After": "1"})
            async with AsyncExitStack() as turn:
                try:
                    if length > _SMALL_BODY or "transfer-encoding" in request.headers:
                        async with asyncio.timeout(_SECONDS_OF_CLIENT):
                            await turn.enter_async_context(request.app.state.large)
                    late = HTTPException(408, f"the body must come within {_SECONDS_OF_CLIENT} s")
                    async with asyncio.timeout(_SECONDS_OF_CLIENT):
                        async for chunk in request.stream():
                            body += chunk
                            if len(body) > _LARGEST_BODY:
                                raise too_long
                except (TimeoutError, ClientDisconnect):
                    raise late from None
                request._body = bytes(body)  # FastAPI reads it there
                return await answer(request)

        return answer_bounded


def counted(app: ASGIApp) -> ASGIApp:
    """Count requests and their time."""

    async def serve_counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        status = 500

        async def send_on(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        with _SECONDS.time() as seconds:
            try:
                await app(scope, receive, send_on)
            except asyncio.CancelledError:  # uvicorn waits no longer
                await JSONResponse({"detail": "the service ends"}, 503)(scope, receive, send_on)
            finally:
                path = getattr(scope.get("route"), "path", "other")  # few, whatever is asked for
                seconds.labels(path)
                _REQUESTS.labels(path, str(status)).inc()

    return serve_counted


def _is_local(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
