"""``serve``: a checkpoint over HTTP, and a page to look at what it recommends."""

from __future__ import annotations

import argparse
from functools import partial

from recbole_bert4rec.cli.trained import add_checkpoint, load_here
from recbole_bert4rec.extras import need


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add = parser.add_argument
    add("--compare", metavar="FILE", help="another checkpoint, to look at side by side")
    add("--items", metavar="FILE", help="names, and perhaps pictures, of the items: .item, or what --dataset reads")
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, for this machine alone)")
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one (default: %(default)s)")


def execute(options: argparse.Namespace, flags: list[str]) -> None:
    """Serve until it is stopped.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
        MissingExtraError: its libraries are not installed.
    """
    need("the service", "fastapi", "uvicorn", "prometheus_client")
    from recbole_bert4rec.serving.items import ItemFile
    from recbole_bert4rec.serving.server import serve

    load = partial(load_here, device=options.device, model=options.model)
    model = load(options.checkpoint)
    items = ItemFile(options.items, model.fields[1], model)
    checkpoints = [options.checkpoint, *filter(None, [options.compare])]
    serve(checkpoints, load, items, options.host, options.port)


def kept(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "the service has ended"
