"""``serve``: a checkpoint over HTTP, and a page to look at what it recommends."""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from ipaddress import ip_address

try:
    import uvicorn

    from recbole_bert4rec.serving.app import make_app
except ImportError as missing:
    raise ImportError(f'{missing}; the service needs `pip install "recbole-bert4rec[serve]"`') from missing
from recbole_bert4rec.cli.trained import add_checkpoint, open_model
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.serving.answering import Served, follow_checkpoint
from recbole_bert4rec.serving.items import ItemFile
from recbole_bert4rec.serving.metrics import Metrics
from recbole_bert4rec.serving.reload import Followed

_BACKLOG = 2048


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add = parser.add_argument
    add("--compare", metavar="FILE", help="another checkpoint, to look at side by side")
    add("--items", metavar="NAME.item", help="atomic file with names, and perhaps pictures, of the items")
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, for this machine alone)")
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one (default: %(default)s)")


def execute(options: argparse.Namespace, flags: list[str]) -> None:
    """Serve until it is stopped.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("recbole_bert4rec.recommend").setLevel(logging.ERROR)  # answers say which items are unknown
    metrics = Metrics()
    items = ItemFile(options.items, open_model(options).fields[1])
    paths = [options.checkpoint, *filter(None, [options.compare])]
    served = [follow_checkpoint(path, options.device, items, metrics.reload) for path in paths]
    local = _is_local(options.host)
    app = make_app(served, items, metrics, ("localhost", "127.0.0.1", "[::1]", options.host) if local else ("*",))
    with listen(options.host, options.port) as listening:
        host = f"[{options.host}]" if ":" in options.host else options.host
        print(f"serving {' and '.join(paths)} at http://{host}:{listening.getsockname()[1]}", file=sys.stderr)
        if not local:
            print("whoever can reach this address can ask: there is no password", file=sys.stderr)
        _reload_on_hangup(served)
        config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=10)
        uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: address, or name.
        port: 0 for any free one.

    Raises:
        UserError: it cannot.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer waits 40 ms for the client
        return listening
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--host={host} --port={port} cannot be listened at: {error}; is another program there?"
        ) from error


def kept(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "the service has ended"


def _reload_on_hangup(served: Sequence[Followed[Served]]) -> None:
    """Have the checkpoints loaded anew at SIGHUP, where the system has it."""

    def ask(*_: object) -> None:
        for one in served:
            one.asked = True

    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, ask)


def _is_local(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
