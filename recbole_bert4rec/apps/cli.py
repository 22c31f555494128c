"""The command line of run.py and ``python -m recbole_bert4rec``: RecBole's flags, and mistakes in one line."""

from __future__ import annotations

import argparse
import sys

from recbole_bert4rec.apps.run import DEFAULT_NAMES, run, run_processes
from recbole_bert4rec.compat import quieten
from recbole_bert4rec.constants import MODEL_NAME
from recbole_bert4rec.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and turn a user's mistake into one line.

    Returns:
        The exit code: 0, 2 for a user's mistake, 130 after Ctrl-C.
    """
    quieten()
    try:
        options, overrides = _parse(sys.argv[1:] if arguments is None else arguments)
        sys.argv = [sys.argv[0], *overrides]  # Config reads `--key=value` from here
        request = {
            "model": options.model,
            "dataset": options.dataset,
            "config_file_list": options.config_files.split() if options.config_files else None,
            "recommend": options.recommend,
            "k": 10 if options.k is None else options.k,
            "resume": options.resume,
        }
        if options.nproc > 1:
            run_processes(options.nproc, options.ip, options.port, **request)
        else:
            run(**request)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the best checkpoint so far is kept (BERT4Rec goes on with --resume=FILE)", file=sys.stderr)
        return 130
    return 0


def add_names(parser: argparse.ArgumentParser) -> None:
    """The flags that say which model, which data and which files of options; run_hyper.py has them too."""
    parser.add_argument("--model", "-m", help=f"name of the model (default: {DEFAULT_NAMES['model']})")
    what = f"name of the data set (default: {DEFAULT_NAMES['dataset']}), or a .csv, .tsv or .parquet log"
    parser.add_argument("--dataset", "-d", help=what)
    parser.add_argument("--config_files", help="YAML files, separated by spaces; later ones win")


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Train and test a recommender with RecBole. Any option of RecBole or of the model can be given "
        "as --key=value; BERT4Rec's are in properties/model/BERT4Rec.yaml.",
        allow_abbrev=False,
    )
    add_names(parser)
    parser.add_argument("--recommend", metavar="FILE", help="write every user's top k next items (.csv or .parquet)")
    parser.add_argument("--k", type=int, help="items a user for --recommend (default: 10)")
    parser.add_argument("--resume", metavar="CHECKPOINT", help="go on from an interrupted run's checkpoint")
    parser.add_argument("--nproc", type=int, default=1, help="processes that train together (default: %(default)s)")
    parser.add_argument("--ip", default="localhost", help="address of the first process (default: %(default)s)")
    parser.add_argument("--port", default="5678", help="port of the first process (default: %(default)s)")
    options, rest = parser.parse_known_args(arguments)
    if options.k is not None and options.recommend is None:
        if options.model in (None, MODEL_NAME):
            raise UserError("--k says how many items --recommend=FILE writes; give that too")
        rest.append(f"--k={options.k}")  # an option of some models of RecBole
    for argument in rest:
        if not argument.startswith("--") or "=" not in argument:
            raise UserError(f"argument {argument!r} is not understood; options are written --key=value")
        if argument.count("=") > 1:
            raise UserError(f"argument {argument!r}: RecBole takes no '=' inside a value; put it into a config file")
    return options, rest
