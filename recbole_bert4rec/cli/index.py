"""``index``: lists of similar items, with which recommending from a large catalogue need not score all of it."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.cli.trained import (
    add_adjustment,
    add_checkpoint,
    add_input,
    nothing_written,
    open_input,
    open_model,
)
from recbole_bert4rec.system.extras import need
from recbole_bert4rec.system.files import check_writable

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.histories import Histories
    from recbole_bert4rec.recommend.recommender import Recommender


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add_input(parser, "histories to choose and to measure on (default: those in the checkpoint)")
    add = parser.add_argument
    add("--output", required=True, metavar="FILE", help="to write, for recommend --index=FILE")
    add("--recall", type=float, default=0.99, help="share of the exact best items to find (default: %(default)s)")
    add("--k", type=int, default=20, help="items a user for which this is chosen (default: %(default)s)")
    add_adjustment(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Write the index, and print how well it does.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
        MissingExtraError: its library is not installed.
    """
    need("an index", "faiss")
    check_writable("--output", options.output)
    model = open_model(options, logit_adjustment=options.logit_adjustment)
    index = model.build_index(options.recall, options.k, _some_of(options, model))
    index.save(options.output)
    print(index)


left_behind = nothing_written


def _some_of(options: argparse.Namespace, model: Recommender) -> Histories | None:
    """Return the histories of a part of ``--input``; None if the flag is missing."""
    if options.input is None:
        return None
    from recbole_bert4rec.logs.interactions import read_part

    source = open_input(options, model)
    with tempfile.TemporaryDirectory() as folder:
        part = source.divide(Path(folder) / "input", source.n_parts)[0]
        return model.read(source.renamed(read_part(part), model.fields), warn=False)
