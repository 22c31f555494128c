"""``evaluate``: the metrics of a checkpoint, by histories and the items that came next."""

from __future__ import annotations

import argparse
import json
import sys

from recbole_bert4rec.cli.trained import (
    add_checkpoint,
    add_filter,
    add_input,
    filter_viewed,
    nothing_written,
    open_input,
    open_model,
)
from recbole_bert4rec.system.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    add_input(parser, "histories to evaluate (default: those in the checkpoint)")
    add = parser.add_argument
    add("--targets", metavar="FILE", help="what came next: a row a user (default: the last item of each history)")
    add("--topk", default="10", help="lengths of the list, separated by commas (default: %(default)s)")
    add_filter(parser, None)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Evaluate, and print the metrics as JSON."""
    try:
        topk = [int(k) for k in options.topk.split(",")]
    except ValueError as error:
        raise UserError(f"--topk={options.topk} must be whole numbers, separated by commas") from error
    from recbole_bert4rec.recommend.bulk import evaluate_file

    model, left_out = open_model(options, cold_items=False), filter_viewed(options)
    if options.input is None:
        if options.targets is not None:
            raise UserError("--targets needs --input, whose histories they follow")
        print(json.dumps(model.evaluate(topk=topk, filter_viewed=left_out)))
        return
    after = None if options.targets is None else open_input(options, model, options.targets)
    metrics, sentences = evaluate_file(model, open_input(options, model), after, topk, left_out)
    print(json.dumps(metrics))
    for sentence in sentences:
        print(sentence, file=sys.stderr)


left_behind = nothing_written
