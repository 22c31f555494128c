"""RecBole's configuration as this package makes it: layers of options, defaults, checks, and the device.

Our programs make a :class:`PluginConfig`. A ``Config`` of RecBole that names a model of ours gets the same defaults and
checks by the hooks.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from logging import getLogger
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch
from urllib.error import URLError

import numpy as np
import torch
from recbole.config import Config
from recbole.utils import ModelType

from recbole_bert4rec.checkpoints import is_plain, without_places
from recbole_bert4rec.options.checks import (
    is_known,
    known_to_every_model,
    mistakes_of_options,
    take_numbers,
    unknown_names,
)
from recbole_bert4rec.options.kinds import AUTO, literal, misfits
from recbole_bert4rec.options.table import FOLLOWED_BY_ALL, OPTIONS, OURS_ONLY, SHAPES_DATA
from recbole_bert4rec.options.user_models import (
    Model,
    chosen,
    is_ours,
    named_in_file,
    options_read_by,
    parent_of,
    property_files,
    source_of,
)
from recbole_bert4rec.plugin.split import asks_for_global_time
from recbole_bert4rec.system.constants import MODEL_NAME, NAMES_OF_COLUMNS, OUR_MODELS, STOCK_MODEL_NAME
from recbole_bert4rec.system.environment import shipped
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import FileOptions, read_yaml

SEQUENTIAL_SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user"}
"""The split of a sequential model if the user names none; RecBole fills gaps with a random one."""
CAUSAL_MODELS = ("GRU4Rec", "SASRec")
"""RecBole's models whose output at a position depends on nothing after it, and is read by ``gather_indexes``."""
_OF_THE_TRANSFORM = ("mask_ratio", "ft_ratio")
"""Options that RecBole reads for any model, but only if ``transform`` masks the sequences."""
_MISTAKES = (ValueError, KeyError, TypeError, NotImplementedError, RuntimeError, SyntaxError, AssertionError, OSError)
_DERIVED = {"valid_neg_sample_args", "test_neg_sample_args", "valid_metric_bigger", "single_spec"}
_DERIVED |= {"local_rank", "world_size", "nproc", "offset", "ip", "port"}
"""Values that RecBole works out by itself, or that belong to one process of a run."""


@dataclass(frozen=True)
class Layers:
    """Options by where they come from; each layer wins over those before it."""

    stored: Mapping[str, Any] = field(default_factory=dict)  # of a checkpoint
    of_log: Mapping[str, Any] = field(default_factory=dict)  # which the data set of a converted log needs
    files: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # of Python and our command line; texts spell values
    flags: Mapping[str, str] = field(default_factory=dict)  # of another program's command line, its own among them

    @property
    def in_files(self) -> dict[str, Any]:
        """The options of the configuration files; later ones win."""
        return {name: value for options in self.files for name, value in options.items()}

    @property
    def direct(self) -> dict[str, Any]:
        """The user's options from Python or a command line."""
        return {**self.options, **self.flags}

    @property
    def from_user(self) -> dict[str, Any]:
        """The user's options for this run, from whatever source."""
        return {**self.in_files, **self.direct}

    def where(self, name: str) -> str:
        """Return file and line of an option to begin a message with; "" if no configuration file decides it."""
        options = next((options for options in reversed(self.files) if name in options), None)
        if name in self.direct or not isinstance(options, FileOptions):
            return ""
        return f"{options.file}, line {options.lines[name]}: " if name in options.lines else f"{options.file}: "


class PluginConfig(Config):
    """A configuration from layers alone: no file and no command line is read."""

    def __init__(self, model: Model, dataset: str, layers: Layers) -> None:
        self.option_layers = layers
        model = chosen(model)
        with explained("the configuration"):
            super().__init__(model=model, dataset=dataset, config_dict=dict(layers.options))

    def __reduce__(self) -> Any:
        """Pickle as RecBole's own class: RecBole's models store their configuration, which others read without us."""
        plain = Config.__new__(Config)
        vars(plain).update({name: value for name, value in vars(self).items() if name != "option_layers"})
        return plain.__reduce_ex__(1)

    def _load_config_files(self, file_list: list[str] | None) -> dict[str, Any]:
        layers = self.option_layers
        return deepcopy({**layers.stored, **layers.of_log, **layers.in_files})

    def _load_cmd_line(self) -> dict[str, Any]:
        return self._convert_config_dict(dict(self.option_layers.flags))

    def _convert_config_dict(self, config_dict: dict[str, Any]) -> dict[str, Any]:
        """Turn texts into the values that they spell; RecBole runs them as code (configurator.py:131).

        The name of a column stays a text, whatever it spells.
        """
        for key, value in config_dict.items():
            if isinstance(value, str):
                parsed = literal(value)
                is_name = key in NAMES_OF_COLUMNS and isinstance(parsed, (bool, int, float))
                config_dict[key] = value if is_name else parsed
        return config_dict

    def _init_device(self) -> None:
        """Let several processes train on the CPU, with gloo, and keep existing connections.

        RecBole needs nccl and a GPU for each process (configurator.py:498).
        """
        final, connected = self.final_config_dict, torch.distributed.is_initialized()
        if "local_rank" not in final:
            super()._init_device()
            return
        local_rank, rank = final["local_rank"], final["local_rank"] + final["offset"]
        if torch.cuda.is_available() and final["gpu_id"]:
            connect = (lambda **options: None) if connected else torch.distributed.init_process_group
            with patch.object(torch.distributed, "init_process_group", connect):
                super()._init_device()
        else:
            del final["local_rank"]
            super()._init_device()  # as for a single process on the CPU
            if not connected:
                address = f"tcp://{final['ip']}:{final['port']}"
                torch.distributed.init_process_group("gloo", address, rank=rank, world_size=final["world_size"])
            final.update(local_rank=local_rank, single_spec=False)
        if rank != 0:
            final.update(state="error", show_progress=False, verbose=False)


@contextmanager
def explained(name: str, file: str | None = None) -> Iterator[None]:
    """Turn a mistake that RecBole itself notices inside the block into one line."""
    try:
        yield
    except URLError as error:
        raise UserError(
            f"{name} is not here and cannot be downloaded ({error.reason}); put it into {file or 'its folder'}"
        ) from error
    except _MISTAKES as error:
        if f"{os.sep}recbole{os.sep}" not in traceback.extract_tb(error.__traceback__)[-1].filename:
            raise
        raise UserError(f"{name}: {str(error) or type(error).__name__}") from error


def flags_of_program() -> dict[str, str]:
    """Return, as texts, the flags of the user's own program that RecBole takes for options."""
    with explained("the command line"):
        return Config._load_cmd_line(cast(Config, SimpleNamespace(_convert_config_dict=dict)))


def stored_config(values: Mapping[str, Any], **more: Any) -> PluginConfig:
    """Return the configuration that a checkpoint stores, without its folders; options of the caller win."""
    model = named_in_file(str(values["model"]), "the checkpoint")
    return PluginConfig(model, values["dataset"], Layers(without_places({**values}), options=more))


def plain_config(config: Config) -> dict[str, Any]:
    """Return the values from which :func:`stored_config` makes the same configuration again."""
    of_the_program = config.cmd_config_dict.keys() - config.external_config_dict.keys()
    left_out = {*_DERIVED, *of_the_program}
    values = {key: value for key, value in config.final_config_dict.items() if key not in left_out and is_plain(value)}
    before_dataset_name = {**config.internal_config_dict, **config.external_config_dict}
    values["model"] = source_of(config.model_class)
    values["data_path"] = before_dataset_name.get("data_path")
    negatives = values.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        values["train_neg_sample_args"] = None
    return without_places(values)


def _layers(config: Config) -> Layers:
    """Return the layers of a configuration of our programs; those of a user's own program have none."""
    return config.option_layers if isinstance(config, PluginConfig) else Layers()


def is_served(config: Config) -> bool:
    """Tell whether a configuration belongs to one of our programs or models; nothing changes for others."""
    own_options = hasattr(config.model_class, "option_kinds")  # of a WindowModel
    return isinstance(config, PluginConfig) or is_ours(config.model_class) or own_options


def lay_defaults(config: Config, original: Callable[..., None], model_class: Any, dataset: str) -> None:
    """Lay the defaults of a model and of a known data set over RecBole's and below the user's options."""
    if Path(dataset).name != dataset or dataset == ".." or "\0" in dataset:
        raise UserError(
            f"the data set {dataset!r} is not a name; put NAME.inter into DATA_PATH/NAME/, and give --dataset=NAME "
            "--data_path=DATA_PATH"
        )
    parent = parent_of(model_class)
    original(MODEL_NAME if parent == STOCK_MODEL_NAME else parent, model_class, dataset)
    internal, user_options = config.internal_config_dict, config.external_config_dict
    if is_ours(model_class):  # a data set that RecBole saved is used again only if these are the same
        arguments = config.parameters["Dataset"]
        arguments += [name for name in (*SHAPES_DATA, "conversion") if name not in arguments]
    ours, of_data = shipped("model") / f"{parent}.yaml", shipped("dataset") / f"{dataset}.yaml"
    for file in (ours, *property_files(model_class), of_data):
        if file.is_file():
            internal.update(read_yaml(str(file)))
    if is_ours(model_class) and user_options.get("loss_type") == "BPR":
        internal["seen_bias"] = False  # BPR cannot learn it
    sequential = model_class.type == ModelType.SEQUENTIAL
    # RecBole refuses its own default with a softmax; Pop would count sampled negatives as interactions (pop.py:47)
    softmax = sequential and user_options.get("loss_type", internal.get("loss_type")) == "CE"
    if softmax or parent == "Pop":
        internal["train_neg_sample_args"] = None
    needs_times = sequential or asks_for_global_time(user_options.get("eval_args"))
    if needs_times and internal["load_col"] == {"inter": ["user_id", "item_id"]}:  # sample.yaml's
        internal["load_col"] = {"inter": [user_options.get(field, internal[field]) for field in NAMES_OF_COLUMNS]}


def check_options(original: Callable[[Config], None], config: Config) -> None:
    """Check the options of our models, and in our programs those of all; RecBole checks no option of a model.

    A user's own program may have keys of its own: there only those close to a known option are refused.
    """
    if not is_served(config):
        return original(config)
    final, model_class = config.final_config_dict, cast(Any, config.model_class)
    arguments = final["eval_args"]
    if final["MODEL_TYPE"] == ModelType.SEQUENTIAL and isinstance(arguments, dict):
        final["eval_args"] = {**SEQUENTIAL_SPLIT, **arguments}
    written = _normalise(config)
    mistakes = misfits(final, getattr(model_class, "option_kinds", {}))  # GRU4RecPlus has some of its own
    mistakes += mistakes_of_options(final, written, config.internal_config_dict, is_ours(model_class))
    if not final.get("allow_unknown"):  # a checkpoint's were accepted when it was made
        new = written - _layers(config).stored.keys()
        mistakes += unknown_names(new, known_to(config), refuse_all=isinstance(config, PluginConfig))
    refuse(config, mistakes)
    warn_of_no_effect(config)
    _choose_device(config)
    return original(config)


def _normalise(config: Config) -> set[str]:
    """Turn numpy's numbers, texts of numbers and ``Adam`` into the options meant; return the names that users wrote.

    RecBole takes every flag of a user's own program for an option; unknown ones are the program's.
    """
    final, options = config.final_config_dict, config.external_config_dict
    for values in (options, final):
        for name, value in values.items():
            values[name] = plain_value(value)
            if name in NAMES_OF_COLUMNS and isinstance(value, int) and not isinstance(value, bool):
                values[name] = str(value)
    written, known = {*config.file_config_dict, *config.variable_config_dict}, known_to(config)
    of_the_program = {name for name in config.cmd_config_dict.keys() - written if not is_known(name, known)}
    if of_the_program:
        getLogger().warning(f"taken for flags of the program, not for options: {', '.join(sorted(of_the_program))}")
    for name in of_the_program:  # config[name] is still there, for the program
        del options[name]
    written |= config.cmd_config_dict.keys() - of_the_program
    take_numbers(final, written, config.internal_config_dict)
    if isinstance(final["learner"], str):
        final["learner"] = final["learner"].lower()  # as RecBole compares it
    return written


def plain_value(value: object) -> object:
    """Return Python's value of numpy's numbers and arrays, and a path as a text."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (list, tuple)) and any(isinstance(element, np.generic) for element in value):
        return type(value)(map(plain_value, value))
    return value


def refuse(config: Config, mistakes: Iterable[str]) -> None:
    """Refuse a configuration with mistakes; each begins with the name of its option in backticks."""
    layers = _layers(config)
    if lines := [layers.where(re.split("[`:]", mistake)[1]) + mistake for mistake in mistakes]:
        raise UserError(f"the configuration of {config.model} has mistakes:\n  " + "\n  ".join(lines))


def known_to(config: Config) -> set[str]:
    """Collect the options that the model of a configuration reads."""
    return {*config.internal_config_dict, *options_read_by(config.model_class)}.union(*config.parameters.values())


def warn_of_no_effect(config: Config, but: Iterable[str] = ()) -> None:
    """Warn of the options that have no effect, with the reason, except those in ``but``."""
    for name, why in without_effect(config).items():
        if name not in but:
            getLogger().warning(f"option `{name}` {why}")


def without_effect(config: Config, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return, by name, why options have no effect on the model; by default those that the user chose."""
    if names is None:
        written, usual = config.external_config_dict, {**config.internal_config_dict, **_layers(config).stored}
        names = [name for name in written if name not in usual or written[name] != usual[name]]
    known = known_to(config)
    reasons = {name: _why_no_effect(name, config.model_class, config.final_config_dict, known) for name in names}
    return {name: why for name in sorted(reasons) if (why := reasons[name]) is not None}


def _why_no_effect(name: str, model_class: Any, config: Mapping[str, Any], known: AbstractSet[str]) -> str | None:
    """Return why an option has no effect on a model; None if it has one."""
    model = model_class.__name__
    if name == "device":
        return f"({config[name]!r}) has no effect: the device follows from `use_gpu` and `gpu_id`"
    if is_ours(model_class):
        if (unmet := _unmet_need(name, model_class, config)) is not None:
            return unmet
        if name == "train_neg_sample_args":
            return "has no effect: the losses draw their own negatives"
        if name == "train_batch_size" and config["batch_sequences"] is not None:
            return f"has no effect beside batch_sequences, which is {config['batch_sequences']}"
    elif name in OURS_ONLY:
        return f"is for {', '.join(OUR_MODELS)} and has no effect on {model}"
    elif name in _OF_THE_TRANSFORM and not config.get("transform"):
        return f"is another model's and has no effect on {model}"
    if name == "training_rows" and model not in CAUSAL_MODELS and not hasattr(model_class, "option_kinds"):
        return f"is for {', '.join(CAUSAL_MODELS)} and has no effect on {model}"
    if is_known(name) and name not in known and name not in FOLLOWED_BY_ALL | known_to_every_model():
        return f"is another model's and has no effect on {model}"
    return None


def _unmet_need(name: str, model_class: Any, config: Mapping[str, Any]) -> str | None:
    """Say which value of another option an option needs; None if the other has it, or the data decide it."""
    if name not in OPTIONS or (needs := OPTIONS[name].needs) is None:
        return None
    other, values = needs
    own_loss = other == "loss_type" and not model_class.loss_of.__module__.startswith("recbole_bert4rec.")
    if own_loss or config[other] in (AUTO, *values):
        return None
    return f"is for {other} {' or '.join(values)} and has no effect with {config[other]}"


def _choose_device(config: Config) -> None:
    """Use the processor with ``use_gpu: False`` or ``gpu_id: -1``; warn if a wanted GPU is missing."""
    final, options = config.final_config_dict, config.external_config_dict
    if final["use_gpu"] is False or str(final["gpu_id"]) in ("", "-1"):
        final["gpu_id"] = ""
        return
    stored = _layers(config).stored
    wanted = [f"{name}={options[name]!r}" for name in ("use_gpu", "gpu_id") if options.get(name) and name not in stored]
    if wanted and not torch.cuda.is_available():
        getLogger().warning(
            f"{' and '.join(wanted)}: torch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU, so the "
            "processor computes; use_gpu=False avoids this warning"
        )
