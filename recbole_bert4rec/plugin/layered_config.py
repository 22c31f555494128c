"""RecBole's configuration from layers of options: of a checkpoint, a log, files and the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from recbole.config import Config

from recbole_bert4rec.checkpoints.checkpoint import is_plain, without_places
from recbole_bert4rec.options.kinds import literal
from recbole_bert4rec.options.user_models import Model, named_in_file, source_of
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import FileOptions

_DERIVED = {
    "MODEL_TYPE",
    "MODEL_INPUT_TYPE",
    "eval_type",
    "device",
    "valid_neg_sample_args",
    "test_neg_sample_args",
    "valid_metric_bigger",
    "single_spec",
    "local_rank",
    "world_size",
    "nproc",
    "offset",
    "ip",
    "port",
}
"""Values that RecBole works out by itself, or that belong to one process of a run."""


@dataclass(frozen=True)
class Layers:
    """Options by where they come from; each layer wins over those before it.

    Attributes:
        stored: those of a checkpoint.
        of_log: those with which the data set of a converted log is read.
        files: those of each configuration file.
        options: those of Python, and of this package's command line; texts are the values that they spell.
        flags: those of another program's command line, which has flags of its own among them; all are texts.
    """

    stored: Mapping[str, Any] = field(default_factory=dict)
    of_log: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_files(self) -> dict[str, Any]:
        """The options of the configuration files; later ones win."""
        return {name: value for options in self.files for name, value in options.items()}

    @property
    def spoken(self) -> dict[str, Any]:
        """The user's options from Python or a command line."""
        return {**self.options, **self.flags}

    @property
    def from_user(self) -> dict[str, Any]:
        """The user's options for this run, those of files too."""
        return {**self.in_files, **self.spoken}

    def where(self, name: str) -> str:
        """Return file and line of an option, to begin a message; nothing if no configuration file decides it."""
        options = next((options for options in reversed(self.files) if name in options), None)
        if name in self.spoken or not isinstance(options, FileOptions):
            return ""
        return f"{options.file}, line {options.lines[name]}: " if name in options.lines else f"{options.file}: "

    @property
    def literal_values(self) -> dict[str, Any]:
        """The user's options; a text from Python or a command line is the value that it spells."""
        spoken = {name: literal(value) if isinstance(value, str) else value for name, value in self.spoken.items()}
        return {**self.in_files, **spoken}


class LayeredConfig(Config):
    """A configuration from layers alone, while it is made: no file and no command line is read."""

    def __init__(self, model: Model, dataset: str, layers: Layers) -> None:
        self.option_layers = layers
        super().__init__(model=model, dataset=dataset, config_dict=dict(layers.options))

    def _load_config_files(self, file_list: list[str] | None) -> dict[str, Any]:
        layers = self.option_layers
        return deepcopy({**layers.stored, **layers.of_log, **layers.in_files})

    def _load_cmd_line(self) -> dict[str, Any]:
        return self._convert_config_dict(dict(self.option_layers.flags))


def layered_config(model: Model, dataset: str, layers: Layers) -> Config:
    """Return the configuration of layers, of RecBole's own class: RecBole's models pickle theirs."""
    config = Config.__new__(Config)
    config.__dict__.update(vars(LayeredConfig(model, dataset, layers)))
    del vars(config)["option_layers"]
    return config


def flags_of_program() -> dict[str, str]:
    """Return the flags that RecBole takes for options from the command line of a program that is not ours, as texts."""
    return Config._load_cmd_line(cast(Config, SimpleNamespace(_convert_config_dict=dict)))


def stored_config(values: Mapping[str, Any], **more: Any) -> Config:
    """Return the configuration that a checkpoint stores; its folders are ignored, and options of the caller win."""
    model = named_in_file(str(values["model"]), "the checkpoint")
    return layered_config(model, values["dataset"], Layers(without_places({**values}), more))


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


def refuse(config: Config, mistakes: Iterable[str]) -> None:
    """Refuse a configuration with mistakes, each of which begins with the name of the option, in backticks."""
    layers = config.option_layers if isinstance(config, LayeredConfig) else Layers()
    if lines := [layers.where(mistake.partition("`")[2].partition("`")[0]) + mistake for mistake in mistakes]:
        raise UserError(f"the configuration of {config.model} has mistakes:\n  " + "\n  ".join(lines))
