"""The configuration of a model of this package: its defaults, the meaning of RecBole's options, and checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Container
from importlib.abc import Traversable
from logging import getLogger
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import torch
import yaml
from recbole.config import Config

from recbole_bert4rec.options.checks import (
    is_known,
    mistakes_of_another_model,
    mistakes_of_options,
    take_numbers,
    unknown_names,
)
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.options.table import SHAPES_DATA
from recbole_bert4rec.options.user_models import is_ours, parent_of, property_files
from recbole_bert4rec.plugin.effects import known_to, without_effect
from recbole_bert4rec.plugin.layered_config import LayeredConfig, refuse
from recbole_bert4rec.system.constants import MODEL_NAME, NAMES_OF_COLUMNS, STOCK_MODEL_NAME
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import shipped
from recbole_bert4rec.system.yaml_files import read_yaml

SEQUENTIAL_SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user"}
"""The split of a sequential model if the user names none; RecBole fills gaps with a random one."""


def lay_defaults(original: Callable[..., None], config: Config, name: str, model_class: type, dataset: str) -> None:
    """Lay a model's defaults, and those of a known data set, over RecBole's."""
    if Path(dataset).name != dataset or dataset == ".." or "\0" in dataset:
        raise UserError(f"the data set {dataset!r} is not a name; put NAME.inter into DATA_PATH/NAME/ and name both")
    parent = parent_of(model_class)
    original(config, MODEL_NAME if parent == STOCK_MODEL_NAME else parent, model_class, dataset)
    internal, user_options = config.internal_config_dict, config.external_config_dict
    if is_ours(model_class):  # a data set that RecBole saved is used again only if these are the same
        arguments = config.parameters["Dataset"]
        arguments += [name for name in (*SHAPES_DATA, "conversion") if name not in arguments]
    _overlay(config, shipped("model") / f"{parent}.yaml")
    for file in property_files(model_class):
        internal.update(read_yaml(str(file)))
    _overlay(config, shipped("dataset") / f"{dataset}.yaml")
    if is_ours(model_class) and user_options.get("loss_type") == "BPR":
        internal["seen_bias"] = False  # BPR cannot learn it


def load_times(config: Config) -> None:
    """Load the column of times if neither the user nor the data set says which columns are loaded."""
    internal, user_options = config.internal_config_dict, config.external_config_dict
    if internal["load_col"] == {"inter": ["user_id", "item_id"]}:  # sample.yaml's
        internal["load_col"] = {"inter": [user_options.get(field, internal[field]) for field in NAMES_OF_COLUMNS]}


def no_negatives_with_softmax(config: Config) -> None:
    """Sample no negatives if the loss is a softmax: RecBole refuses its own default there."""
    internal, user_options = config.internal_config_dict, config.external_config_dict
    if user_options.get("loss_type", internal.get("loss_type")) == "CE":
        internal["train_neg_sample_args"] = None


def _overlay(config: Config, file: Traversable) -> None:
    if file.is_file():
        config.internal_config_dict.update(yaml.load(file.read_text("utf-8"), Loader=config.yaml_loader))  # noqa: S506


def check_options(config: Config) -> None:
    """Check the options of a model of this package, before RecBole looks at them."""
    final = config.final_config_dict
    complete_split(config)
    user_names = understood(config)
    known = known_to(config)
    if is_ours(config.model_class):
        refuse(config, mistakes_of_options(final, user_names, known))
    else:
        model_class: Any = config.model_class
        mistakes = misfits(final, model_class.option_kinds)
        mistakes += mistakes_of_another_model(final, user_names)
        refuse(config, mistakes + ([] if final.get("allow_unknown") else unknown_names(user_names, known)))
    warn_of_no_effect(config)
    choose_device(config)


def understood(config: Config) -> set[str]:
    """Take the options as RecBole's users write them: numpy's numbers, texts that are numbers, ``Adam``."""
    plain_values(config)
    final, user_names = config.final_config_dict, names_given(config)
    take_numbers(final, user_names, config.internal_config_dict)
    if isinstance(final["learner"], str):
        final["learner"] = final["learner"].lower()  # as RecBole compares it
    return user_names


def complete_split(config: Config) -> None:
    """Complete the split of a sequential model."""
    arguments = config.final_config_dict["eval_args"]
    if isinstance(arguments, dict):
        config.final_config_dict["eval_args"] = {**SEQUENTIAL_SPLIT, **arguments}


def plain_values(config: Config) -> None:
    """Turn numpy's numbers and arrays into Python's, and paths and numbers of columns into texts."""
    for values in (config.external_config_dict, config.final_config_dict):
        for name, value in values.items():
            values[name] = _plain(value)
            if name in NAMES_OF_COLUMNS and isinstance(value, int) and not isinstance(value, bool):
                values[name] = str(value)


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (list, tuple)) and any(isinstance(element, np.generic) for element in value):
        return type(value)(map(_plain, value))
    return value


def names_given(config: Config) -> set[str]:
    """Return the names of the options that the user wrote, and keep no others among them.

    RecBole takes every flag of a program for an option. Of a program that is not ours, those that nobody knows are its
    own.
    """
    known = known_to(config)
    written = {*config.file_config_dict, *config.variable_config_dict}
    flags = config.cmd_config_dict.keys() - written
    of_the_program = sorted(name for name in flags if not is_known(name, known))
    if of_the_program:
        getLogger().warning(f"taken for flags of the program, not for options: {', '.join(of_the_program)}")
    for name in of_the_program:  # config[name] is still there, for the program
        del config.external_config_dict[name]
    return written | {name for name in flags if is_known(name, known)}


def warn_of_no_effect(config: Config, but: Container[str] = ()) -> None:
    """Name the options that have no effect, with the reason; `but` lists those to leave out."""
    for name, why in without_effect(config).items():
        if name not in but:
            getLogger().warning(f"option `{name}` {why}")


def choose_device(config: Config) -> None:
    """Compute on the processor with ``use_gpu: False`` or ``gpu_id: -1``; say so if a wanted GPU is not there."""
    final, options = config.final_config_dict, config.external_config_dict
    if "device" in options:
        getLogger().warning(
            f"option `device` ({options['device']!r}) has no effect: the device follows from `use_gpu` and `gpu_id`"
        )
    none = str(final["gpu_id"]) in ("", "-1")
    if final["use_gpu"] is False or none:
        final["gpu_id"] = ""
        return
    stored = config.option_layers.stored if isinstance(config, LayeredConfig) else {}
    wanted = [f"{name}={options[name]!r}" for name in ("use_gpu", "gpu_id") if options.get(name) and name not in stored]
    if wanted and not torch.cuda.is_available():
        getLogger().warning(
            f"{' and '.join(wanted)}: torch finds no GPU ({_why_no_gpu()}), so the processor computes; use_gpu=False "
            "says the same without this line"
        )


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
