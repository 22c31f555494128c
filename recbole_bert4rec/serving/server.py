"""Run the application: listen, reload checkpoints at a signal, and end in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from ipaddress import ip_address

import uvicorn
from fastapi import FastAPI

from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.serving.answering import Served, follow_checkpoint
from recbole_bert4rec.serving.app import make_app
from recbole_bert4rec.serving.connections import Connection, most_connections
from recbole_bert4rec.serving.items import ItemFile
from recbole_bert4rec.serving.metrics import ServiceMetrics
from recbole_bert4rec.serving.reload import ReloadingFile
from recbole_bert4rec.system.errors import UserError

_BACKLOG, _AT_ONCE = 2048, 32
"""Connections that may wait, and those accepted in one go: each takes a file before it is refused."""
_SECONDS_TO_END = 5
"""Time for the running requests when the service ends."""


def serve(
    checkpoints: Sequence[str], load: Callable[[str], Recommender], items: ItemFile, host: str, port: int
) -> None:
    """Serve until it is stopped."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("recbole_bert4rec.recommend").setLevel(logging.ERROR)  # answers say which items are unknown
    metrics = ServiceMetrics()
    served = [follow_checkpoint(path, load, items, metrics.reload) for path in checkpoints]
    local = _is_local(host)
    app = make_app(served, items, metrics, ("localhost", "127.0.0.1", "[::1]", host) if local else ("*",))
    with listen(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        print(f"serving {' and '.join(checkpoints)} at http://{name}:{listening.getsockname()[1]}", file=sys.stderr)
        if not local:
            print("whoever can reach this address can ask: there is no password", file=sys.stderr)
        _reload_on_hangup(served)
        make_server(app).run(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn's server; more connections may wait than it accepts in one go."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen as uvicorn does, with a longer queue."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as uvicorn does, but leave clients that are not done after some seconds."""
        asyncio.get_running_loop().call_later(_SECONDS_TO_END, self._leave_clients)
        await super().shutdown(sockets)

    def _leave_clients(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return the server of an application; it has as many connections as this process may have."""
    Connection.most = most_connections()
    return _Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            backlog=_AT_ONCE,
            log_level="error",  # a warning is a client's mistake: as many as it likes
            server_header=False,
            timeout_graceful_shutdown=_SECONDS_TO_END + 1,
        )
    )


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for the client
        return listening
    except OverflowError as error:
        raise UserError(f"--port={port} must be from 0 to 65535") from error
    except OSError as error:
        raise UserError(
            f"--host={host} --port={port} cannot be listened at: {error}; is another program there?"
        ) from error


def _reload_on_hangup(served: Sequence[ReloadingFile[Served]]) -> None:
    """Reload the checkpoints at SIGHUP, if the system has it."""

    def ask(*_: object) -> None:
        for checkpoint in served:
            checkpoint.reload_asked = True

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, ask)


def _is_local(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
