"""``vectors``: the vectors of all items, or of the users of a file."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from recbole_bert4rec.cli.trained import (
    add_checkpoint,
    add_input,
    add_output,
    answer_users,
    check_output,
    open_model,
    parts_kept,
    write_or_print,
)

if TYPE_CHECKING:
    import pandas as pd

    from recbole_bert4rec.recommend.answers import Vectors
    from recbole_bert4rec.recommend.histories import Histories
    from recbole_bert4rec.recommend.recommender import Recommender


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add_input(parser, "write the vectors of the users instead of those of the items")
    add_output(parser, "an id and a column for each number")
    text = "add a last number, so that a product of both kinds is the score"
    parser.add_argument("--with_bias", action="store_true", help=text)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Write vectors.

    Args:
        options: the command's own flags.
        flags: none.

    Raises:
        UserError: something that the user can mend.
    """
    check_output(options)
    model = open_model(options)
    if options.input is None:
        write_or_print(_table(model.item_vectors(options.with_bias), model.fields[1]), options.output)
        return
    answer_users(options, model, partial(_of_users, with_bias=options.with_bias), {})


left_behind = parts_kept


def _of_users(model: Recommender, histories: Histories, with_bias: bool) -> pd.DataFrame:
    """Return the table of some users."""
    return _table(model.user_vectors(histories, with_bias=with_bias), model.fields[0])


def _table(vectors: Vectors, name: str) -> pd.DataFrame:
    """Return ids and numbers side by side."""
    import pandas as pd

    columns = [f"v{number}" for number in range(vectors.vectors.shape[1])]
    table = pd.DataFrame(vectors.vectors, columns=columns)
    table.insert(0, name, vectors.ids)
    return table
