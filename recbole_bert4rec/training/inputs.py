"""Makes the configuration of what a user names: model, data set or log, checkpoint, options; refuses mistakes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
from recbole.config import Config

from recbole_bert4rec import checkpoints
from recbole_bert4rec.checkpoints import ForeignFileError, Opened
from recbole_bert4rec.logs.atomic import check_data_set
from recbole_bert4rec.logs.conversion import SORTED, read_record
from recbole_bert4rec.logs.convert import convert
from recbole_bert4rec.logs.formats import Reading, data_set_name, is_table, names_with_commas
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.options.kinds import literal, misfits
from recbole_bert4rec.options.table import OPTIONS, SHAPES_WEIGHTS
from recbole_bert4rec.options.user_models import Model, chosen, class_name, is_ours, known_models, named_in_file
from recbole_bert4rec.plugin.config import Layers, PluginConfig, flags_of_program
from recbole_bert4rec.plugin.loading import ITEM_ORDER, ItemOrder
from recbole_bert4rec.plugin.warm_start import check_shapes
from recbole_bert4rec.system.constants import DEFAULT_NAMES, FOR_THE_USER, FORMATS, NAMES_OF_COLUMNS, OUR_MODELS
from recbole_bert4rec.system.environment import find_config, shipped
from recbole_bert4rec.system.errors import UserError, nearest, short, short_list
from recbole_bert4rec.system.files import check_output
from recbole_bert4rec.training.screen import say

_OF_LOGS = tuple(field.name for field in fields(Reading) if field.name != "encoding")
"""Options of how a log is read, besides RecBole's ``encoding``."""
OptionFile = str | Mapping[str, Any]
"""A file of options, or what is in one."""


def user_layers(
    options: Mapping[str, Any] | None, config_files: Sequence[OptionFile] | None, flags: Mapping[str, str] | None
) -> Layers:
    """Return the user's options in layers; files are read, and the program's flags if none are given."""
    files = (file if isinstance(file, Mapping) else read_options(find_config(file)) for file in config_files or ())
    if flags is None:
        flags = flags_of_program()
    return Layers(files=tuple(files), options=options or {}, flags=flags)


def configure(model: Model | None, dataset: str | None, layers: Layers, resume: Opened | None = None) -> Config:
    """Return RecBole's configuration of what a user names, or of the checkpoint that a run goes on from."""
    model, dataset, layers = resolve(model, dataset, layers, resume)
    refuse_unknown_model(model)
    if resume is not None:
        refuse_other_models("--resume", model)
    config = PluginConfig(model, dataset, layers)
    if config["warm_start"] is not None:
        refuse_other_models("--warm_start", model)
        if resume is None and layers.stored:
            check_shapes(config, layers.stored)
    if resume is not None:
        config[ITEM_ORDER] = ItemOrder(resume.path, tuple(resume.state["item_tokens"]))
    return config


def check_places(config: Config) -> None:
    """Refuse folders that could not be written to after hours of training, and a data set that is not there."""
    check_output("--checkpoint_dir", config["checkpoint_dir"])
    for name in (f"log/{config['model']}", "log_tensorboard"):  # other processes make them, too
        check_output("the current folder", name)
    if config["trust_pickles"] is not True:  # which may stand for the data
        check_data_set(config)


def refuse_other_models(flag: str, model: Model) -> None:
    """Refuse a flag that only this package's models have."""
    if not is_ours(model):
        raise UserError(f"{flag} works with {', '.join(OUR_MODELS)} only, but the model is {class_name(model)}")


def refuse_unknown_model(model: Model) -> None:
    """Refuse a model that RecBole does not have."""
    known = known_models()
    if isinstance(model, str) and model not in known:
        near = nearest(model, known)
        if "." in model:  # as Python writes a class of a module
            near = ":".join(model.rsplit(".", 1))
        hint = f"did you mean {near}?" if near else f"the models are {', '.join(sorted(known))}"
        raise UserError(f"there is no model {model!r}; {hint}")


def resolve(
    model: Model | None, dataset: str | None, layers: Layers, resume: Opened | None = None
) -> tuple[Model, str, Layers]:
    """Return the model, the data set and all options that a user names; a log is converted."""
    user_options = layers.from_user if dataset is None else {**layers.from_user, "dataset": dataset}
    warm = user_options.get("warm_start") if resume is None else None
    if warm is not None and "dataset" not in user_options:
        raise UserError("--warm_start needs --dataset, the log as it is now")
    stored = {} if resume is None else _stored_options(resume.state["config"], user_options)
    if warm is not None:
        of_checkpoint = checkpoints.read(str(warm))["config"]
        stored = {name: of_checkpoint[name] for name in ("model", *SHAPES_WEIGHTS) if name in of_checkpoint}
    options = {**DEFAULT_NAMES, **stored, **user_options}
    model = named_model(model, layers)
    if model is None:
        model = named_in_file(str(options["model"]), f"checkpoint {resume.path if resume else warm}")
    dataset = str(options["dataset"])
    of_log: dict[str, Any] = {}
    if is_table(dataset):
        dataset, of_log = _from_table(dataset, model, options, stored)
    else:
        _check_name(dataset, user_options)
    return model, dataset, replace(layers, stored=stored, of_log=of_log)


def named_model(model: Model | None, layers: Layers) -> Model | None:
    """Return the model that the user names; None if a checkpoint, or the default, decides."""
    model = model or layers.direct.get("model")
    if model is not None:
        return chosen(model)
    in_files = layers.in_files
    return named_in_file(str(in_files["model"]), "a configuration file") if "model" in in_files else None


def opened_checkpoint(
    resume: str | os.PathLike[str] | bool | None, model: Model | None, dataset: str | None, layers: Layers
) -> Opened | None:
    """Read the checkpoint to go on from: the one that is named, or the newest one that fits; None if there is none."""
    if isinstance(resume, bool):
        return _newest_checkpoint(model, dataset, layers) if resume else None
    return None if resume is None else Opened(os.fspath(resume), checkpoints.read(resume))


def _newest_checkpoint(model: Model | None, dataset: str | None, layers: Layers) -> Opened | None:
    """Return the newest checkpoint to go on from in ``checkpoint_dir``, of the model and data set that are named."""
    options = layers.from_user
    named = named_model(model, layers)
    refuse_other_models("--resume", named or DEFAULT_NAMES["model"])
    wanted = {name: options.get(name) for name in ("dataset", "warm_start")} | {"model": named and class_name(named)}
    wanted["dataset"] = dataset or wanted["dataset"]
    if wanted["dataset"] and is_table(str(wanted["dataset"])):
        wanted["dataset"] = data_set_name(str(wanted["dataset"]))
    folder = Path(str(options.get("checkpoint_dir", "saved")))
    for file in sorted(folder.glob(f"*{checkpoints.LAST}"), key=lambda file: file.stat().st_mtime, reverse=True):
        if (opened := begun_training(file)) is not None:
            config = opened.state["config"]
            found = {**config, "model": class_name(config["model"])}
            if all(value is None or found.get(name) == value for name, value in wanted.items()):
                return opened
    getLogger().warning(f"--resume finds no run in {folder} of this model and data set; a new one begins")
    return None


def begun_training(weights: str | os.PathLike[str]) -> Opened | None:
    """Open the state that a training goes on from, or else its best epoch; a damaged file is named and left out."""
    for file in (checkpoints.last_of(weights), checkpoints.best_of(weights)):
        if os.path.isfile(file):
            try:
                return Opened(file, checkpoints.read(file))
            except UserError as error:
                if not isinstance(error, ForeignFileError):
                    getLogger().warning(f"not resumed: {error}")
    return None


def _check_name(dataset: str, options: Mapping[str, Any]) -> None:
    """Refuse a path that is not a log, and options of logs without a log."""
    if "/" in dataset or os.sep in dataset:
        raise UserError(
            f"--dataset={dataset} is neither a log ({FORMATS}) nor a name; FOLDER/NAME/NAME.inter is read with "
            "--data_path=FOLDER --dataset=NAME"
        )
    for name in _OF_LOGS:
        if options.get(name) and not options.get("conversion"):  # the log of a comparison is converted before its runs
            raise UserError(f"`{name}` says how to read a log; it needs --dataset=FILE ({FORMATS}), not {dataset}")


def _stored_options(stored: dict[str, Any], from_user: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's options, without those that the user's options replace under another name."""
    options = checkpoints.without_places(stored)
    if "train_batch_size" in from_user and "batch_sequences" not in from_user:
        options.pop("batch_sequences", None)
    if not torch.cuda.is_available():  # the checkpoint may come from a machine that has a GPU
        options = {name: value for name, value in options.items() if name not in ("use_gpu", "gpu_id")}
    if {"dataset", "data_path"} & from_user.keys():
        options.pop("conversion", None)
    return options


def _from_table(
    log: str, model: Model, options: Mapping[str, Any], stored: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Make the data set of a log; return its name and its options, which come after those of a checkpoint."""
    defaults = zip(NAMES_OF_COLUMNS, ("user_id", "item_id", "timestamp"), strict=True)
    names = {field: str(default if options.get(field) is None else options[field]) for field, default in defaults}
    how_read = {name: _typed(name, options[name]) for name in ("encoding", *_OF_LOGS) if options.get(name) is not None}
    if mistakes := misfits(how_read, {name: OPTIONS[name].kind for name in how_read if name in OPTIONS}):
        raise UserError(" ".join(mistakes))
    name = data_set_name(log)
    if name in ("", ".", ".."):
        raise UserError(f"--dataset={log}: a data set cannot be called {name!r}; rename the log")
    if (shipped("dataset") / f"{name}.yaml").is_file():
        raise UserError(f"--dataset={log}: {name!r} names a known data set, with settings of its own; rename it")
    texts: list[str] = []
    user, item, time = names.values()
    reading = Reading(**how_read)
    loaded = _dictionary(options, "load_col")
    # it may be `*`, or missing
    listed = {source: columns for source, columns in loaded.items() if isinstance(columns, (list, tuple))}
    filters = _filters(options, [*names.values(), *listed.get("item", ()), *listed.get("user", ())])
    known = {*names.values(), *filters, *(stored.get(field) for field in NAMES_OF_COLUMNS)}
    more = [name for name in listed.get("inter", ()) if name not in known]
    folder = convert(log, user, item, time, reading, texts.append, is_ours(model), more, filters)
    record: dict[str, Any] = read_record(folder) or {}
    for text in texts:
        say(text)
    for doubt in record.get("doubts", []):
        getLogger(FOR_THE_USER).warning(f"{record.get('log')}: {doubt}")
    loaded["inter"] = record["made_from"]["columns"]
    digest = record[SORTED if is_ours(model) and SORTED in record else "digest"]
    of_log = {**names, "data_path": str(folder.parent), "load_col": loaded, "conversion": digest}
    if is_ours(model):  # for others the order of the file does it
        of_log["exact_time"] = True
    return folder.name, of_log


def _filters(options: Mapping[str, Any], kept_anyway: Sequence[str]) -> dict[str, str]:
    """Return the columns of the log that filter rows: ``texts``, by a list, or ``numbers``, by an interval."""
    filters = {column: "numbers" for column in _dictionary(options, "threshold") if column not in kept_anyway}
    for column, wanted in _dictionary(options, "val_interval").items():
        if column in kept_anyway:
            continue
        is_list = isinstance(wanted, (list, tuple))
        if is_list and column in filters:
            raise UserError(
                f"`threshold` reads {column!r} as numbers, so `val_interval` must be an interval such as '[4,5]', not "
                f"{short(wanted)}"
            )
        if is_list and not all(isinstance(value, str) for value in wanted):
            raise UserError(
                f"`val_interval` of {column!r}: values of a list are texts, but it is {short(wanted)}; write "
                f"{short_list(map(str, wanted))}, or an interval such as '[3,5]'"
            )
        filters[column] = "texts" if is_list else "numbers"
    return filters


def _dictionary(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an option that is a dictionary; an empty one if it is not, which the configuration then refuses."""
    value = options.get(name)
    value = literal(value) if isinstance(value, str) else value
    return dict(value) if isinstance(value, Mapping) else {}


def _typed(name: str, value: Any) -> Any:
    """Return an option of logs as a text, or as True or False, which the command line writes as texts."""
    if name == "columns":
        return names_with_commas(value)
    if name not in ("drop_duplicates", "in_order"):
        return str(value)
    return {"true": True, "false": False}.get(str(value).lower(), value)
