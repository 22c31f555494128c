"""``serve``: a checkpoint over HTTP, and a page that shows its recommendations."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.cli.trained import add_checkpoint, load_here
from recbole_bert4rec.system.environment import folder_of_recbole, need
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.recommender import Recommender
    from recbole_bert4rec.serving.items import ItemFile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add = parser.add_argument
    add("--compare", metavar="FILE", help="another checkpoint, to look at side by side")
    text = "names of the items: .item, or what --dataset reads (default: DATASET.item beside FILE)"
    add("--items", metavar="FILE", help=text)
    add("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, for this machine alone)")
    add("--port", type=int, default=8000, help="port to listen at; 0 for any free one (default: %(default)s)")


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Serve until it is stopped."""
    need("the service", "fastapi", "uvicorn", "prometheus_client")
    from recbole_bert4rec.serving.items import ItemFile
    from recbole_bert4rec.serving.server import serve

    load = partial(load_here, device=options.device, model=options.model)
    model = load(options.checkpoint)
    beside = None if options.items else items_beside(options.checkpoint, model)
    items = beside or ItemFile(options.items, model.fields[1], model)
    checkpoints = [options.checkpoint, *filter(None, [options.compare])]
    serve(checkpoints, load, items, options.host, options.port)


def items_beside(checkpoint: str, model: Recommender) -> ItemFile | None:
    """Return the names of a data set's .item file: beside the checkpoint, or in the data that come with RecBole."""
    from recbole_bert4rec.serving.items import ItemFile

    dataset, folders = str(model.config["dataset"]), [Path(checkpoint).parent]
    if not model.config.get("conversion"):
        with suppress(ModuleNotFoundError):  # RecBole need not be there
            folders.append(folder_of_recbole() / "dataset_example" / dataset)
    for file in (folder / f"{dataset}.item" for folder in folders):
        if not file.is_file():
            continue
        try:
            names = ItemFile(str(file), model.fields[1], model)
        except UserError as error:
            print(f"items have no names: {error}", file=sys.stderr)
        else:
            print(f"names of items from {file}; --items=FILE takes others", file=sys.stderr)
            return names
    return None


def left_behind(options: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    return "the service has ended"
