"""The flags that several commands have: for the model, the data and the files of options."""

from __future__ import annotations

import argparse
import os
from typing import Any

from recbole_bert4rec.options.user_models import named_in_file
from recbole_bert4rec.system.constants import DEFAULT_NAMES, FORMATS, QUIET, SHORT, VERBOSE
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import read_yaml


def add_names(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the flags that name model, data set and files of options."""
    add = parser.add_argument_group("model and data").add_argument
    text = f"name of the model (default: {DEFAULT_NAMES['model']}), or MODULE:CLASS of one of your own"
    add("--model", "-m", help=text + more)
    text = f"name of the data set (default: {DEFAULT_NAMES['dataset']}), or a log: {FORMATS}"
    add("--dataset", "-d", help=text)
    add(
        "--config_files",
        help="YAML files, or names of properties/recipe, separated by spaces; or one file; later ones win",
    )


def add_screen(parser: argparse.ArgumentParser, one_run: bool = False) -> None:
    """Add the flags about the lines on the screen."""
    add = (
        parser.add_argument_group("the screen (log files have everything)").add_mutually_exclusive_group().add_argument
    )
    add("--quiet", dest="screen", action="store_const", const=QUIET, default=SHORT, help="warnings and mistakes alone")
    if one_run:
        add("--verbose", dest="screen", action="store_const", const=VERBOSE, help="all that RecBole logs")


def add_protocols(parser: argparse._ActionsContainer) -> None:
    """Add the flag that names further protocols."""
    text = "YAML files, or names of properties/recipe: protocols that the selected model is tested under, too"
    parser.add_argument("--protocols", help=text)


def paths_of(names: str | None) -> tuple[str, ...]:
    """Return the paths of several names, or that of one file whose name has spaces."""
    listed = [names] if names is not None and os.path.isfile(names) else (names or "").split()
    return tuple(map(find_config, listed))


def model_in_files(options: argparse.Namespace) -> Any:
    """Return the model, or several, that the files of options name; BERT4Rec if they name none."""
    models: Any = DEFAULT_NAMES["model"]
    for file in paths_of(options.config_files):
        models = read_yaml(file).get("model") or models
    for name in models if isinstance(models, list) else str(models).split(","):
        named_in_file(str(name).strip(), "a configuration file")
    return models


def models_of(options: argparse.Namespace) -> list[str]:
    """Return the names of the models; several are separated by commas."""
    models = options.model or model_in_files(options)
    names = [str(name).strip() for name in (models if isinstance(models, list) else str(models).split(","))]
    if not all(names):
        raise UserError(f"--model={models} has an empty name")
    return names
