"""Connections to clients: no more than there are files for, and none that does nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

try:
    import resource
except ImportError:  # not a Unix
    resource = None  # type: ignore[assignment]

_SECONDS = 10.0
"""In which a client must do something: send its whole request, or read some of its answer."""
_MOST, _OTHER_FILES = 1000, 256
"""Connections, and files that are left for other things."""
_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def most_connections() -> int:
    """Return how many connections there may be, after this process has got as many files as it can have."""
    if resource is None:
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return _MOST if soft == resource.RLIM_INFINITY else min(_MOST, max(soft - _OTHER_FILES, soft // 2))


class Connection(H11Protocol):
    """uvicorn's connection, which is closed where its client does nothing for some seconds.

    uvicorn itself closes those alone that have had an answer. Where there are as many connections as there may be, a
    new one takes the place of the one that has been idle longest; where all are being answered, it is refused.
    """

    most = _MOST

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._idle_since = self.loop.time()
        self._seen: object = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Watch the connection; make place for it, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.most and not self._make_place():
            transport.write(_REFUSED)
            transport.close()
            return
        self._timer = self.loop.call_later(_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note since when it is idle."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def idle(self) -> bool:
        """Whether nothing is computed for it: it has no whole request, or its answer is made."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body

    def _make_place(self) -> bool:
        """Close the connection that has been idle longest where there are too many; say whether there is place."""
        there = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(there) <= self.most:
            return True
        others = [one for one in there if one.idle and one is not self]
        if others:
            min(others, key=lambda one: one._idle_since).transport.abort()
        return bool(others)

    def _look(self) -> None:
        """Close the connection where its client has done nothing since the last look."""
        cycle, unread = self.cycle, self.transport.get_write_buffer_size()
        waits = self.idle or unread > 0
        seen = (cycle, unread) if waits else None
        if waits and seen == self._seen:
            self.transport.abort()
            return
        self._seen = seen
        self._timer = self.loop.call_later(_SECONDS, self._look)
