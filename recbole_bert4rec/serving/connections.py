"""Connections to clients: bounded by the open files, and closed if the client does nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

_SECONDS = 10.0
"""Time for a client to send its whole request, or to read some of its answer."""
_MOST, _OTHER_FILES = 1000, 256
"""Connections, and files that are left for other uses."""
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def most_connections() -> int:
    """Raise this process's limit of open files; return how many connections there may be."""
    if resource is None:
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(soft - _OTHER_FILES, soft // 2))


class Connection(H11Protocol):
    """uvicorn's connection, closed if its client does nothing for some seconds.

    uvicorn itself only closes those that have had an answer. If there are as many connections as there may be, a new
    one replaces the one that has been idle longest; if all are being answered, it is refused.
    """

    most = _MOST

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._idle_since = self.loop.time()
        self._seen: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Watch the connection; make room for it, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.most and not self._make_room():
            transport.write(_REFUSED)
            transport.close()
            return
        self._timer = self.loop.call_later(_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note when it became idle."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def idle(self) -> bool:
        """Whether nothing is computed for it: it has no whole request, or its answer is made."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _make_room(self) -> bool:
        """If there are too many connections, close the one that has been idle longest; return whether there is room."""
        ours = (other for other in self.connections if isinstance(other, Connection))
        open_connections = [other for other in ours if not other.transport.is_closing()]
        if len(open_connections) <= self.most:
            return True
        idle = [other for other in open_connections if other.idle and other is not self]
        if idle:
            min(idle, key=lambda other: other._idle_since).transport.abort()
        return bool(idle)

    def _look(self) -> None:
        """Close the connection if its client has done nothing since the last look."""
        cycle, unread = self.cycle, self.transport.get_write_buffer_size()
        waits = self.idle or unread > 0
        seen = (cycle, unread) if waits else None
        if waits and seen == self._seen:
            self.transport.abort()
            return
        self._seen = seen
        self._timer = self.loop.call_later(_SECONDS, self._look)
