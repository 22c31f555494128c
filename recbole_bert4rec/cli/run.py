"""The command line of run.py and ``python -m recbole_bert4rec``: RecBole's flags, and mistakes in one line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from recbole_bert4rec.comparison.compare import compare
from recbole_bert4rec.comparison.comparison import Comparison
from recbole_bert4rec.comparison.study import Study, read_study
from recbole_bert4rec.constants import MODEL_NAME
from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.flags import parse_flags
from recbole_bert4rec.resources import find_config, read_yaml
from recbole_bert4rec.training.budget import seconds_of
from recbole_bert4rec.training.inputs import DEFAULT_NAMES
from recbole_bert4rec.training.processes import run_processes
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import run

_KEPT = "the best checkpoint so far is kept (BERT4Rec goes on with --resume=FILE)"
_SEED = 2020
"""RecBole's default."""


def main(arguments: list[str] | None = None) -> int:
    """Parse, run, and turn a user's mistake into one line.

    Returns:
        The exit code: 0, 2 for a user's mistake, 130 after Ctrl-C.
    """
    suppress_dependency_warnings()
    several = False
    try:
        options, overrides = _parse(sys.argv[1:] if arguments is None else arguments)
        sys.argv = [sys.argv[0], *overrides]  # Config reads `--key=value` from here
        models = _models(options)
        several = len(models) > 1 or options.seeds is not None or options.study is not None
        if several:
            _compare(options, models, overrides)
        else:
            _run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        how = "finished runs are kept, the same command does the rest and writes the reports" if several else _KEPT
        print(f"interrupted; {how}", file=sys.stderr)
        return 130
    return 0


def _run(options: argparse.Namespace) -> None:
    """One model, one run."""
    request = RunRequest(
        model=options.model,
        dataset=options.dataset,
        config_files=tuple(_files(options) or ()),
        recommend=options.recommend,
        k=10 if options.k is None else options.k,
        attention=options.attention,
        resume=options.resume,
        budget=None if options.budget is None else seconds_of(options.budget),
    )
    if options.output_dir is not None:
        raise UserError("--output_dir is for several models or --seeds; a single run writes to `checkpoint_dir`")
    if options.nproc > 1:
        if options.attention is not None:
            raise UserError("--attention works in one process only; leave --nproc out")
        if request.budget is not None:
            raise UserError("--budget works in one process only; leave --nproc out")
        run_processes(request, options.nproc, options.ip, options.port)
    else:
        run(request)


def _compare(options: argparse.Namespace, models: list[str], flags: list[str]) -> None:
    """Several models or several seeds."""
    for name in ("recommend", "attention", "resume", "k"):
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for a single run of one model, not for several models, --seeds or --study")
    if options.study is not None and options.model not in (None, MODEL_NAME):
        raise UserError(f"--study varies {MODEL_NAME}, but --model is {options.model}; a variant may name its `model`")
    if options.nproc > 1:
        raise UserError("models are compared in one process each; leave --nproc out")
    count, first = (1 if options.seeds is None else options.seeds), _first_seed(options, flags)
    if count < 1:
        raise UserError(f"--seeds={count} must be at least 1")
    dataset = options.dataset or _named(options).get("dataset") or DEFAULT_NAMES["dataset"]
    folder = Path(options.output_dir or f"{_kind_of(options)}-{Path(dataset).stem}")
    study = Study() if options.study is None else read_study(find_config(options.study, "study"))
    comparison = Comparison(
        models=tuple(study.variants or models),
        dataset=dataset,
        config_files=tuple(_files(options) or ()),
        flags=tuple(flags),
        seeds=tuple(range(first, first + count)),
        budget=None if options.budget is None else seconds_of(options.budget),
        study=study,
    )
    compare(comparison, folder)


def _kind_of(options: argparse.Namespace) -> str:
    return "compare" if options.study is None else Path(options.study).stem


def _first_seed(options: argparse.Namespace, flags: list[str]) -> int:
    """The seed that the options name, or RecBole's."""
    given = parse_flags(flags).get("seed", _named(options).get("seed", _SEED))
    try:
        return int(given)
    except (TypeError, ValueError):
        raise UserError(f"--seed={given} must be a whole number") from None


def _files(options: argparse.Namespace) -> list[str] | None:
    return [find_config(name) for name in options.config_files.split()] if options.config_files else None


def _named(options: argparse.Namespace) -> dict[str, Any]:
    """What the configuration files say; later ones win."""
    return {key: value for file in _files(options) or [] for key, value in read_yaml(file).items()}


def _models(options: argparse.Namespace) -> list[str]:
    """Names of the models; several are separated by commas."""
    given = options.model or _named(options).get("model") or DEFAULT_NAMES["model"]
    names = [str(name).strip() for name in (given if isinstance(given, list) else str(given).split(","))]
    if not all(names):
        raise UserError(f"--model={given} has an empty name")
    return names


def add_names(parser: argparse.ArgumentParser, more: str = "") -> None:
    """The flags that say which model, which data and which files of options; run_hyper.py has them too."""
    parser.add_argument("--model", "-m", help=f"name of the model (default: {DEFAULT_NAMES['model']}){more}")
    what = f"name of the data set (default: {DEFAULT_NAMES['dataset']}), or a .csv, .tsv or .parquet log"
    parser.add_argument("--dataset", "-d", help=what)
    parser.add_argument(
        "--config_files", help="YAML files, separated by spaces, or names of properties/recipe; later ones win"
    )


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Train and test a recommender with RecBole. Any option of RecBole or of the model can be given "
        "as --key=value; BERT4Rec's are in properties/model/BERT4Rec.yaml.",
        allow_abbrev=False,
    )
    add_names(parser, "; several, separated by commas, are compared")
    parser.add_argument("--recommend", metavar="FILE", help="write every user's top k next items (.csv or .parquet)")
    parser.add_argument("--attention", metavar="FILE", help="draw where each layer and head looks (.png, .pdf or .svg)")
    parser.add_argument("--k", type=int, help="items a user for --recommend (default: 10)")
    parser.add_argument("--resume", metavar="CHECKPOINT", help="go on from an interrupted run's checkpoint")
    parser.add_argument(
        "--study", metavar="FILE", help="YAML file of variants to compare, or a name of properties/study"
    )
    parser.add_argument("--seeds", type=int, help="runs of each model, with seeds that count up from `seed`")
    parser.add_argument("--budget", help="time of training and validation, such as 10m, in place of early stopping")
    parser.add_argument(
        "--output_dir", help="folder of a comparison (default: compare-DATASET) or study (STUDY-DATASET)"
    )
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
