"""``serve``: a checkpoint over HTTP, and a page that shows its recommendations."""

from __future__ import annotations

import argparse
from functools import partial

from recbole_bert4rec.cli.trained import add_checkpoint, load_here
from recbole_bert4rec.system.environment import need


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add = parser.add_argument
    text = "names of the items: .item, or what --dataset reads (default: DATASET.item beside FILE)"
    add("--items", metavar="FILE", help=text)
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, for this machine alone)")
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one (default: %(default)s)")


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Serve until it is stopped."""
    need("the service", "fastapi", "uvicorn", "prometheus_client")
    from recbole_bert4rec.serving.app import serve

    load = partial(load_here, device=options.device, model=options.model)
    serve(options.checkpoint, load, options.items, options.host, options.port)


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "the service has ended"
