"""Flags that several commands share, the types of their values, and options among the words of a command."""

from __future__ import annotations

import argparse
import inspect
import os
import re
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from recbole_bert4rec.system.constants import DEFAULT_NAMES, FORMATS, MODEL_NAME, OUR_MODELS, QUIET, SHORT, VERBOSE
from recbole_bert4rec.system.environment import find_config, folder_of_recbole, need
from recbole_bert4rec.system.errors import UserError, nearest

_UNITS = {"s": 1, "m": 60, "h": 3600}
HELP = ("-h", "--help")


class Parser(argparse.ArgumentParser):
    """A parser that takes only full names, and whose mistakes are one line without the usage before it."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse the flags; argparse calls it with its message."""
        raise UserError(f"{message}; `{self.prog} --help` lists the flags")


Commands = argparse._SubParsersAction  # of `Parser`; argparse has no other name for what holds the commands


def add_command(commands: Commands[Parser], name: str, purpose: str, *parents: Parser, **defaults: Any) -> Parser:
    """Add a command; ``execute`` is called with its flags, and ``left_behind`` is printed if it is interrupted."""
    parser = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", parents=parents)
    parser.set_defaults(**defaults)
    parser.add_argument("--debug", action="store_true", help="show the traceback of whatever goes wrong")
    return parser


def seconds(text: str) -> float:
    """Return the seconds of a time such as ``90s``, ``10m`` or ``1.5h``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write for instance 90s, 10m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


def from_1(text: str) -> int:
    """Return a whole number that is at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 on")
    return int(text)


def files(text: str) -> list[str]:
    """Return the paths of several configuration files, or of one whose name has spaces."""
    try:
        return [find_config(name) for name in ([text] if os.path.isfile(text) else text.split())]
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def of_training(can_be_verbose: bool = False) -> Parser:
    """Return the flags of commands that train: model, data, options, and what the screen shows."""
    parser = Parser(add_help=False)
    parser.set_defaults(takes_options=True)
    add = parser.add_argument_group("model and data").add_argument
    text = f"name of the model (default: {DEFAULT_NAMES['model']}), or MODULE:CLASS of one of your own; several names "
    text += "with commas are compared, the first with each other one"
    add("--model", "-m", help=text)
    text = f"name of the data set (default: {DEFAULT_NAMES['dataset']}), or a log: {FORMATS}"
    add("--dataset", "-d", help=text)
    text = "YAML files, or names of properties/recipe, separated by spaces; or one file; later ones win"
    add("--config_files", type=files, default=[], metavar="FILES", help=text)
    text = "time for training and validation, such as 10m, whatever the epochs; without early stopping"
    add("--budget", type=seconds, metavar="TIME", help=text)
    add = parser.add_mutually_exclusive_group().add_argument
    text = "show only warnings and mistakes; log files have everything"
    add("--quiet", dest="screen", action="store_const", const=QUIET, default=SHORT, help=text)
    if can_be_verbose:
        add("--verbose", dest="screen", action="store_const", const=VERBOSE, help="show all that RecBole logs")
    return parser


def of_several_runs() -> Parser:
    """Return the flags of a comparison, which ``run`` also has."""
    parser = Parser(add_help=False)
    add = parser.add_argument_group("how many runs, tested how").add_argument
    add("--seeds", type=int, help="runs of each model, with seeds that count up from `seed`; the runs are compared")
    text = "YAML files, or names of properties/recipe: protocols that the selected model is tested under, too"
    add("--protocols", type=files, default=[], metavar="FILES", help=text)
    text = "of a comparison (default: compare-DATASET) or study (STUDY-DATASET)"
    add("--output_dir", dest="folder", metavar="FOLDER", help=text)
    return parser


def of_ray() -> Parser:
    """Return the flags that hand a command's work to Ray."""
    parser = Parser(add_help=False)
    add = parser.add_argument_group("several processes or machines, by Ray").add_argument
    add("--engine", choices=["ray"], help="work in processes of Ray, which must find all files under the same names")
    add("--num_workers", type=from_1, help="with --engine=ray: processes (default: 1)")
    add("--ray_address", help="with --engine=ray: of a running cluster (default: start Ray on this machine)")
    return parser


def refuse_without(flag: str, given: object, arguments: argparse.Namespace, *names: str) -> None:
    """Refuse flags that are about another flag, if that is not given."""
    alone = [f"--{name}" for name in names if vars(arguments).get(name) is not None]
    if given is None and alone:
        raise UserError(f"{', '.join(alone)}: of use with {flag} only; give that too")


def uses_ray(arguments: argparse.Namespace) -> bool:
    """Tell whether Ray does the work."""
    refuse_without("--engine=ray", arguments.engine, arguments, "num_workers", "ray_address")
    if arguments.engine is not None:
        need("--engine=ray", "ray")
    return arguments.engine is not None


def flags_for(function: Callable[..., Any], arguments: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Return the arguments of a function for which flags of the same name, or ``more``, have values."""
    given = vars(arguments) | more
    return {name: given[name] for name in inspect.signature(function).parameters if name in given}


def models_of(arguments: argparse.Namespace) -> list[str]:
    """Return the models of ``--model``, or those of the configuration files; commas separate several."""
    from recbole_bert4rec.options.user_models import named_in_file
    from recbole_bert4rec.system.yaml_files import read_yaml

    in_files = filter(None, (read_yaml(file).get("model") for file in arguments.config_files))
    models = [DEFAULT_NAMES["model"], *in_files][-1] if arguments.model is None else arguments.model
    names = [str(name).strip() for name in (models if isinstance(models, list) else str(models).split(","))]
    if not all(names):
        raise UserError(f"--model={models} has an empty name")
    if arguments.model is None:
        for name in names:
            named_in_file(name, "a configuration file")
    return names


def options_in(words: list[str], own_flags: Collection[str]) -> dict[str, str]:
    """Return the options among the words by name; refuse other words, and misspelt flags of the command.

    Misspelt options are reported with all other mistakes of the configuration.
    """
    from recbole_bert4rec.options.checks import known_to_recbole
    from recbole_bert4rec.options.table import OPTIONS

    known = {*OPTIONS, *known_to_recbole()}
    names = sorted(known.union(flag.removeprefix("--") for flag in own_flags))
    options: dict[str, str] = {}
    mistakes = []
    for word in words:
        flag, equals, value = word.partition("=")
        name = flag.removeprefix("--")
        if not flag.startswith("--") or not equals:
            mistakes.append(f"argument {word!r} is not understood; options are written --key=value")
        elif "=" in value:
            mistakes.append(f"argument {word!r}: RecBole takes no '=' inside a value; put it into a config file")
        elif options.setdefault(name, value) != value:
            mistakes.append(f"`{flag}` is given twice, as {options[name]} and as {value}")
        elif name not in known and (near := f"--{nearest(name.replace('-', '_'), names)}") in own_flags:
            mistakes.append(f"`{flag}`: did you mean `{near}`?")
    if mistakes:
        raise UserError("; ".join(mistakes))
    return options


def joined(words: list[str], written: list[str]) -> list[str]:
    """Write options as RecBole reads them: ``--epochs 3`` becomes ``--epochs=3``, and a switch alone means True.

    Words are joined only if they are side by side in what the user has ``written``.
    """
    from recbole_bert4rec.options.kinds import SWITCH
    from recbole_bert4rec.options.table import OPTIONS

    options: list[str] = []
    pairs = {pair for pair in pairwise(written) if re.fullmatch("--[^=]+", pair[0]) and not pair[1].startswith("--")}
    for word in words:
        if options and (options[-1], word) in pairs:
            options[-1] += f"={word}"
        else:
            options.append(word)
    switches = {name for name, option in OPTIONS.items() if option.kind is SWITCH}
    switches |= {name for name, (default, _) in _recboles(MODEL_NAME).items() if default in ("True", "False")}
    return [f"{word}=True" if word.removeprefix("--") in switches else word for word in options]


def _recboles(model: str) -> dict[str, tuple[str, str]]:
    """Return defaults and comments of RecBole's options, of one model and of all."""
    from recbole_bert4rec.options.checks import described_in

    root = folder_of_recbole() / "properties"
    files = (root / "overall.yaml", root / "dataset" / "sample.yaml", root / "model" / f"{model}.yaml")
    return described_in(filter(Path.is_file, files))


def add_documented(parser: argparse.ArgumentParser, words: list[str]) -> None:
    """Add the options of the model to the output of ``--help``, in groups and with defaults."""
    from recbole_bert4rec.options.checks import described_in
    from recbole_bert4rec.options.table import MODEL_DEFAULTS, RECBOLES, SECTIONS
    from recbole_bert4rec.options.user_models import known_as, options_read_by, parent_of, property_files

    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [--option=value ...]"
    model_parser = Parser(add_help=False)
    model_parser.add_argument("--model", "-m", default=MODEL_NAME)
    named = known_as(model_parser.parse_known_args(words)[0].model.split(",")[0])
    model, recboles = parent_of(named), _recboles(parent_of(named))
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    if named != model:
        read = dict.fromkeys(sorted(options_read_by(named)), ("", "")) | described_in(property_files(named))
        groups[f"options of {named}, as --key=value; those of {model} follow"] = read
    if model not in OUR_MODELS:
        groups[f"options of RecBole's {model}, as --key=value"] = recboles
    for title, rows in SECTIONS.items() if model in OUR_MODELS else ():
        described = groups[f"{title}, as --key=value"] = {}
        for name, option in rows.items():
            default = MODEL_DEFAULTS[model].get(name, option.default)
            described[name] = (recboles.get(name, ("",))[0] if default is RECBOLES else str(default), option.help)
    for title, described in groups.items():
        group = parser.add_argument_group(title)
        for name, (default, about) in described.items():
            if f"--{name}" not in parser._option_string_actions:
                text = f"{about} (default: {default})" if default else about
                group.add_argument(f"--{name}", metavar="VALUE", help=text.replace("%", "%%"))
