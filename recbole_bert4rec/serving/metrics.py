"""Counts and times of the service, for Prometheus."""

from __future__ import annotations

import time

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServiceMetrics:
    """Counts of requests, of batches and of loaded checkpoints."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(PLATFORM_COLLECTOR)
        registry.register(GC_COLLECTOR)
        prefix = "recbole_bert4rec_"
        self._requests = Counter(f"{prefix}requests", "Requests", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            f"{prefix}request_seconds", "Time of a request", ["path"], buckets=_SECONDS, registry=registry
        )
        self._sizes = Histogram(
            f"{prefix}batch_questions", "Questions that were answered together", buckets=_SIZES, registry=registry
        )
        self._loads = Counter(f"{prefix}reloads", "Checkpoints that were loaded anew", ["result"], registry=registry)

    def batch(self, size: int) -> None:
        """Count a batch."""
        self._sizes.observe(size)

    def reload(self, well: bool) -> None:
        """Count a load of a new checkpoint."""
        self._loads.labels("done" if well else "failed").inc()

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Return all counts in Prometheus' text format."""
        return generate_latest(self._registry)


class Counted:
    """Counts the requests of an application, and adds headers to its answers."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, headers: dict[str, str]) -> None:
        self._app, self._metrics = app, metrics
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # few, whatever is asked for
            self._metrics.request(path, status, time.perf_counter() - begin)
