"""The web application: its addresses, its limits, and the server that listens."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from ipaddress import ip_address
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.serving.answering import FollowedCheckpoint
from recbole_bert4rec.serving.batching import Batcher, Call
from recbole_bert4rec.serving.questions import LARGEST_BODY, ExplainQuestion, RecommendQuestion, SimilarQuestion
from recbole_bert4rec.system.errors import UserError

_SMALL_BODY, _MOST_LARGE = 1 << 16, 4
"""Bytes of a body that is read at once, and larger ones that are in memory together: ids take five times as much."""
_SECONDS_OF_BODY = 10
"""Time for a client to send its body."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Of every answer: browsers run and load only files of the service itself."""

_REQUESTS = Counter("recbole_bert4rec_requests", "Requests", ["path", "status"])
_SECONDS = Histogram(
    "recbole_bert4rec_request_seconds",
    "Time of a request",
    ["path"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)


def serve(checkpoint: str, load: Callable[[str], Recommender], items: str | None, host: str, port: int) -> None:
    """Serve until it is stopped; ``items`` names a file of names."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("recbole_bert4rec.recommend").setLevel(logging.ERROR)  # answers say which items are unknown
    followed = FollowedCheckpoint(checkpoint, load, items)
    with listen(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        print(f"serving {checkpoint} at http://{name}:{listening.getsockname()[1]}", file=sys.stderr)
        if not _is_local(host):
            print("whoever can reach this address can ask: there is no password", file=sys.stderr)
        make_server(followed, host).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host={host} --port={port} cannot be listened at: {error}; is another program there?"
        ) from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for the client
    return listening


def make_server(followed: FollowedCheckpoint, host: str) -> uvicorn.Server:
    """Make the server of a checkpoint."""
    return uvicorn.Server(
        uvicorn.Config(
            make_app(followed, ["localhost", "127.0.0.1", "[::1]", host] if _is_local(host) else ["*"]),
            http="h11",
            ws="none",
            limit_concurrency=512,
            timeout_graceful_shutdown=5,
            log_level="error",  # a warning is a client's mistake: as many as it likes
            access_log=False,
            server_header=False,
            headers=list(_HEADERS.items()),
        )
    )


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

    @app.post("/recommend")
    async def recommend(question: RecommendQuestion, request: Request) -> Response:
        """Return the next items of each history."""
        options = question.k, question.filter_viewed, question.items_to_recommend, question.exclude
        call = Call(followed.current.recommend, options)
        answers = await batcher.ask(call, question.parts(), request.is_disconnected)
        return JSONResponse({"answers": answers})

    @app.post("/similar")
    async def similar(question: SimilarQuestion, request: Request) -> Response:
        """Return the items that are most like each of some items."""
        call = Call(followed.current.similar, (question.k,))
        answers = await batcher.ask(call, question.parts(), request.is_disconnected)
        return JSONResponse({"answers": answers})

    @app.post("/explain")
    async def explain(question: ExplainQuestion, request: Request) -> Response:
        """Return the influence of each item of a history on the score of an item."""
        pair, call = (question.history, question.item), Call(followed.current.explain)
        [answer] = await batcher.ask(call, [pair], request.is_disconnected, is_heavy=True)
        return JSONResponse(answer)

    @app.get("/search")
    def search(
        text: Annotated[str, Query(min_length=1, max_length=100)], most: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> dict[str, Any]:
        """Return items whose id or name has the text."""
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
    app.add_exception_handler(RequestValidationError, _refuse_form)
    app.mount("/", StaticFiles(directory=str(files(__package__) / "page"), html=True))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(bounded)
    app.add_middleware(counted)
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    return JSONResponse({"detail": str(error)}, 422)


async def _refuse_form(_: Request, error: Exception) -> Response:
    """Answer as FastAPI does, but without what was asked, which may be long, and with few mistakes."""
    assert isinstance(error, RequestValidationError)
    mistakes = [{key: mistake[key] for key in ("type", "loc", "msg")} for mistake in error.errors()[:5]]
    return JSONResponse({"detail": mistakes}, 422)


def bounded(app: ASGIApp) -> ASGIApp:
    """Refuse bodies that are too long, by their header or as they come; have few large ones in memory together."""
    large = asyncio.Semaphore(_MOST_LARGE)

    async def serve_bounded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers, body, more = dict(scope["headers"]), bytearray(), True
        length = int(headers.get(b"content-length", b"0"))
        async with AsyncExitStack() as turn:
            if _SMALL_BODY < length <= LARGEST_BODY or b"transfer-encoding" in headers:
                await turn.enter_async_context(large)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_OF_BODY):
                    while more and max(length, len(body)) <= LARGEST_BODY:
                        message = await receive()
                        body += message.get("body", b"")
                        more = message.get("more_body", False)
            if more or len(body) > LARGEST_BODY:
                detail = f"the body must have at most {LARGEST_BODY:,} bytes, and come within {_SECONDS_OF_BODY} s"
                status = 413 if max(length, len(body)) > LARGEST_BODY else 408
                await JSONResponse({"detail": detail}, status)(scope, receive, send)
                return
            whole = [{"type": "http.request", "body": bytes(body)}]

            async def receive_whole() -> Message:
                return whole.pop() if whole else await receive()

            async def send_on(message: Message) -> None:
                await turn.aclose()  # the next may come, however slowly this answer is read
                await send(message)

            await app(scope, receive_whole, send_on)

    return serve_bounded


def counted(app: ASGIApp) -> ASGIApp:
    """Count requests and their time."""

    async def serve_counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await app(scope, receive, send_on)
        except asyncio.CancelledError:  # uvicorn waits no longer
            await JSONResponse({"detail": "the service ends"}, 503)(scope, receive, send_on)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # few, whatever is asked for
            _REQUESTS.labels(path, str(status)).inc()
            _SECONDS.labels(path).observe(time.perf_counter() - begin)

    return serve_counted


def _is_local(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
