"""``export``: a model in a folder of its own, for onnxruntime."""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.cli.trained import add_adjustment, add_checkpoint, nothing_written, open_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)
    text = "to make: the graph in ONNX, the items and the options"
    parser.add_argument("--output", required=True, metavar="FOLDER", help=text)
    add_adjustment(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Write the folder."""
    from recbole_bert4rec.recommend.export import export

    model = open_model(options, logit_adjustment=options.logit_adjustment)
    export(model, options.output)
    print(
        f"exported to {options.output}; load({options.output!r}) needs onnxruntime in place of torch", file=sys.stderr
    )


left_behind = nothing_written
