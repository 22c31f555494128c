"""The web application: its addresses, and the answers to mistakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from recbole_bert4rec.serving.admission import Admission
from recbole_bert4rec.serving.answering import Answer, Answerer, Served
from recbole_bert4rec.serving.batching import Batcher, BusyError
from recbole_bert4rec.serving.items import ItemFile
from recbole_bert4rec.serving.metrics import Counted, ServiceMetrics
from recbole_bert4rec.serving.questions import (
    LARGEST_BODY,
    Checkpoint,
    ExplainAnswer,
    ExplainQuestion,
    Health,
    Mistake,
    RecommendAnswer,
    RecommendQuestion,
    SearchAnswer,
    ServiceQuestion,
    Shown,
    SimilarAnswer,
    SimilarQuestion,
)
from recbole_bert4rec.serving.reload import ReloadingFile, follow
from recbole_bert4rec.system.errors import UserError, nearest

_PAGE = {"": ("index.html", "text/html"), "page.js": ("page.js", "text/javascript")}
_PAGE |= {"page.css": ("page.css", "text/css"), "icon.svg": ("icon.svg", "image/svg+xml")}
_MOST_MISTAKES = 5
"""Mistakes of a question that are listed."""
_GONE = 499
"""Status in the metrics of requests whose client has gone; nobody reads the answer."""
_QUESTIONS: dict[str, type[ServiceQuestion]] = {
    "/recommend": RecommendQuestion,
    "/similar": SimilarQuestion,
    "/explain": ExplainQuestion,
}
_WORDS = {
    "missing": "is missing",
    "model_attributes_type": "must be an object with the keys of a question",
    "list_type": "must be a list",
    "bool_type": "must be true or false",
    "literal_error": "must be {expected}",
    "too_short": "must have at least {min_length} elements, but has {actual_length}",
    "too_long": "must have at most {max_length} elements, but has {actual_length}",
}
"""Plainer texts for some of pydantic's."""
_MISTAKES: dict[int | str, dict[str, Any]] = {
    400: {"model": Mistake, "description": "The body cannot be read"},
    413: {"model": Mistake, "description": f"The body has more than {LARGEST_BODY} bytes"},
    422: {"model": Mistake, "description": "The question cannot be answered; detail says why"},
    503: {"model": Mistake, "description": "Too much is asked at once; Retry-After says when to try again"},
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Of every answer: browsers run and load only files of the service itself."""


def make_app(
    served: Sequence[ReloadingFile[Served]], items: ItemFile, metrics: ServiceMetrics, hosts: Sequence[str] = ("*",)
) -> FastAPI:
    """Make the application."""
    batcher: Batcher[ServiceQuestion, Answer] = Batcher(Answerer(served, items), metrics.batch)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        task, end = asyncio.create_task(batcher.run()), follow(served)
        yield
        end.set()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    app = FastAPI(
        title="recbole_bert4rec",
        summary="Recommendations of a trained model.",
        lifespan=running,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
    )
    _add_questions(app, batcher)
    _add_looks(app, served, items, metrics)
    _add_page(app)
    _add_mistakes(app)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    app.add_middleware(Admission)
    app.add_middleware(Counted, metrics=metrics, headers=_HEADERS)
    return app


def _add_questions(app: FastAPI, batcher: Batcher[ServiceQuestion, Answer]) -> None:
    """Add the addresses that ask the model."""

    @app.post("/recommend", response_model=RecommendAnswer, responses=_MISTAKES)
    async def recommend(question: RecommendQuestion, request: Request) -> Response:
        """Return the next items of each history."""
        return await _answer(batcher, question, request)

    @app.post("/similar", response_model=SimilarAnswer, responses=_MISTAKES)
    async def similar(question: SimilarQuestion, request: Request) -> Response:
        """Return the items that are most like each of some items."""
        return await _answer(batcher, question, request)

    @app.post("/explain", response_model=ExplainAnswer, responses=_MISTAKES)
    async def explain(question: ExplainQuestion, request: Request) -> Response:
        """Return the influence of each item of a history on the score of an item."""
        return await _answer(batcher, question, request)


async def _answer(batcher: Batcher[ServiceQuestion, Answer], question: ServiceQuestion, request: Request) -> Response:
    """Answer a question, unless its client goes first."""
    answering = asyncio.ensure_future(batcher.ask(question))
    gone = asyncio.ensure_future(_until_gone(request))
    try:
        await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            return Response(status_code=_GONE)
        answer = answering.result()
    finally:
        answering.cancel()
        gone.cancel()
    return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _add_looks(app: FastAPI, served: Sequence[ReloadingFile[Served]], items: ItemFile, metrics: ServiceMetrics) -> None:
    """Add the addresses that do not ask the model."""

    @app.get("/search", responses={422: _MISTAKES[422]}, response_model_exclude_none=True)
    def search(
        text: Annotated[str, Query(min_length=1, max_length=100)], most: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> SearchAnswer:
        """Return items whose id or name has the text."""
        return SearchAnswer(items=[Shown(**items.show(item)) for item in served[0].current.search.find(text, most)])

    @app.get("/health")
    def health() -> Health:
        """Return the served checkpoints."""
        return Health(checkpoints=[_about(checkpoint) for checkpoint in served])

    @app.get("/metrics", response_class=Response)
    def count() -> Response:
        """Return counts and times for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _about(checkpoint: ReloadingFile[Served]) -> Checkpoint:
    model = checkpoint.current.model
    return Checkpoint(
        file=checkpoint.path.rpartition("/")[2],
        model=str(model.config["model"]),
        items=len(model.items),
        viewed=model.viewed.why,
        loaded=checkpoint.loaded.isoformat(timespec="seconds"),
        loads=checkpoint.loads,
        failure=checkpoint.failure,
    )


def _add_page(app: FastAPI) -> None:
    """Add the page for people."""
    for path, (name, kind) in _PAGE.items():
        content = (files(__package__) / "page" / name).read_bytes()
        app.add_api_route(f"/{path}", _sender(content, kind), include_in_schema=False)


def _sender(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return Response(content, media_type=kind)

    return send


def _in_words(mistake: dict[str, Any], path: str) -> str:
    """Name a mistake in a question to a path, and its key."""
    if mistake["type"] == "json_invalid":
        return f"the body is no JSON, at character {mistake['loc'][-1]}: {mistake['ctx']['error']}"
    if mistake["type"] == "value_error":
        return str(mistake["ctx"]["error"])
    where = ".".join(map(str, mistake["loc"]))
    if mistake["type"] in _WORDS:
        return f"{where} {_WORDS[mistake['type']].format(**mistake.get('ctx', {}))}"
    if mistake["type"] != "extra_forbidden":
        return f"{where}: {mistake['msg']}"
    near = nearest(str(mistake["loc"][-1]), _QUESTIONS[path].model_fields)
    return f"{where}: there is no such key{f'; did you mean {near}?' if near else ''}"


def _add_mistakes(app: FastAPI) -> None:
    """Answer every mistake in one line under ``detail``."""

    def answer(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"detail": detail}, status, headers)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> JSONResponse:
        if request.method == "POST" and "json" not in request.headers.get("content-type", ""):
            return answer(422, "the body must be JSON, with the header Content-Type: application/json")
        mistakes = error.errors()
        sentences = [_in_words(mistake, request.url.path) for mistake in mistakes[:_MOST_MISTAKES]]
        more = [f"{len(mistakes) - len(sentences)} more"] if len(mistakes) > len(sentences) else []
        return answer(422, "; ".join([*sentences, *more]).encode("utf-8", "replace").decode())

    @app.exception_handler(UserError)
    async def refused(_: Request, error: UserError) -> JSONResponse:
        return answer(422, str(error))

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> JSONResponse:
        detail = f"too many questions wait; try again in {error.seconds} s"
        return answer(503, detail, {"Retry-After": str(error.seconds)})

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, str(error.detail), dict(error.headers or {}))
