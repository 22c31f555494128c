"""From what the user asked for to a configuration: model, data set, files of options, and what is refused at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from logging import getLogger
from typing import Any

import torch
from recbole.config import Config

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.logs.conversion import read_record
from recbole_bert4rec.logs.logs import data_set_name, is_table
from recbole_bert4rec.logs.reading import Reading, names_with_commas
from recbole_bert4rec.logs.spellings import kinds_asked
from recbole_bert4rec.logs.table import convert
from recbole_bert4rec.options.evaluation import mistakes_of_metrics
from recbole_bert4rec.options.flags import literal
from recbole_bert4rec.options.kinds import misfits
from recbole_bert4rec.options.table import OPTIONS, SHAPES_WEIGHTS
from recbole_bert4rec.options.user_models import (
    Model,
    chosen,
    class_name,
    is_ours,
    known_models,
    named_in_file,
)
from recbole_bert4rec.plugin.items import ITEM_ORDER, ItemOrder
from recbole_bert4rec.plugin.layered_config import Layers, layered_config
from recbole_bert4rec.plugin.warm_start import read_for
from recbole_bert4rec.recommend.answers import check_names_of_columns
from recbole_bert4rec.system.constants import DEFAULT_NAMES, FOR_THE_USER, FORMATS, NAMES_OF_COLUMNS, OUR_MODELS
from recbole_bert4rec.system.errors import UserError, nearest, short
from recbole_bert4rec.system.files import check_folder, check_picture, refuse_same
from recbole_bert4rec.system.resources import shipped
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.logs import no_bars, say, screen_now
from recbole_bert4rec.training.recommending import check_destination
from recbole_bert4rec.training.refit import check_refit
from recbole_bert4rec.training.request import RunRequest

_OF_LOGS = tuple(field.name for field in fields(Reading) if field.name != "encoding")
"""Options that say how a log is read, besides RecBole's ``encoding``."""
_LONGEST_NAME = 200
"""Bytes of the name of a log, from which names of files are made."""


def configure(request: RunRequest) -> Config:
    """Return RecBole's configuration of a request.

    Raises:
        UserError: the request or its options have a mistake; nothing has been written yet.
    """
    request = request.opened()
    model, dataset, layers = resolve_inputs(request)
    _check_request(request, model)
    config = translate_errors(lambda: layered_config(model, dataset, layers), "the configuration")
    if not is_ours(model) and (mistakes := mistakes_of_metrics(config)):
        raise UserError(" ".join(mistakes))
    check_refit(config)
    if request.recommend is not None:
        check_names_of_columns(config["USER_ID_FIELD"], config["ITEM_ID_FIELD"])
    if config["warm_start"] is not None:
        check_ours("--warm_start", model)
        if request.checkpoint is None:
            read_for(config)
    if request.checkpoint is not None:
        config[ITEM_ORDER] = ItemOrder(request.checkpoint.path, tuple(request.checkpoint.state["item_tokens"]))
    return config


def check_places(config: Config) -> None:
    """Refuse, before the data are read, folders that could not be written to after hours of training.

    Raises:
        UserError: naming one of them.
    """
    check_folder("--checkpoint_dir", config["checkpoint_dir"])
    for name in ("log", "log_tensorboard"):
        check_folder("the current folder", name)


def _check_request(request: RunRequest, model: Model) -> None:
    """Refuse at once what could not be done after hours of training."""
    if isinstance(model, str):
        check_model(model)
    asked = {"--recommend": request.recommend, "--attention": request.attention, "--resume": request.resume}
    for flag, value in asked.items():
        if value is not None:
            check_ours(flag, model)
    if request.recommend is not None:
        check_destination(request.recommend, request.k)
        if request.dataset is not None and is_table(request.dataset):
            refuse_same("--recommend", request.recommend, "--dataset", request.dataset)
    if request.attention is not None:
        check_picture("--attention", request.attention)


def check_ours(flag: str, model: Model) -> None:
    """Refuse a flag that only this package's models have.

    Raises:
        UserError: the model is another.
    """
    if not is_ours(model):
        raise UserError(f"{flag} works with {', '.join(OUR_MODELS)} only, but the model is {class_name(model)}")


def resolve_inputs(request: RunRequest) -> tuple[Model, str, Layers]:
    """Find out which model, data set and options a request, whose checkpoint is read, means; a log is converted.

    Raises:
        UserError: a file is missing or damaged, or the data set is no name.
    """
    layers, resume = request.layers(), request.checkpoint
    given = layers.given if request.dataset is None else {**layers.given, "dataset": request.dataset}
    warm = given.get("warm_start") if resume is None else None
    if warm is not None and "dataset" not in given:
        raise UserError("--warm_start needs --dataset, the log as it is now")
    stored = {} if resume is None else _stored_options(resume.state["config"], given)
    if warm is not None:
        stored = _shaping_options(str(warm))
    named = {**DEFAULT_NAMES, **stored, **given}
    model = named_model(request, layers)
    if model is None:
        model = named_in_file(str(named["model"]), f"checkpoint {resume.path if resume else warm}")
    dataset = str(named["dataset"])
    made: dict[str, Any] = {}
    if is_table(dataset):
        dataset, made = _from_table(dataset, model, named, stored)
    else:
        _check_name(dataset, given)
    return model, dataset, replace(layers, stored=stored, made=made)


def named_model(request: RunRequest, layers: Layers) -> Model | None:
    """Return the model that the user names; None where a checkpoint, or the default, decides.

    Raises:
        UserError: there is no such class, or a file names one that the user has not named.
    """
    model = request.model or layers.spoken.get("model")
    if model is not None:
        return chosen(model)
    in_files = layers.in_files
    return named_in_file(str(in_files["model"]), "a configuration file") if "model" in in_files else None


def _check_name(dataset: str, given: Mapping[str, Any]) -> None:
    """Refuse a path that is no log, and options of logs where there is none."""
    if "/" in dataset or os.sep in dataset:
        raise UserError(
            f"--dataset={dataset} is neither a log ({FORMATS}) nor a name; FOLDER/NAME/NAME.inter is read with "
            "--data_path=FOLDER --dataset=NAME"
        )
    for name in _OF_LOGS:
        if given.get(name) and not given.get("conversion"):  # the log of a comparison is converted before its runs
            raise UserError(f"`{name}` says how to read a log; it needs --dataset=FILE ({FORMATS}), not {dataset}")


def _stored_options(stored: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's options, without those whose place others take that are given anew."""
    options = checkpoint.without_places(stored)
    if "train_batch_size" in given and "batch_sequences" not in given:
        options.pop("batch_sequences", None)
    if not torch.cuda.is_available():  # the checkpoint may come from a machine that has a GPU
        options = {name: value for name, value in options.items() if name not in ("use_gpu", "gpu_id")}
    if {"dataset", "data_path"} & given.keys():
        options.pop("conversion", None)
    return options


def _shaping_options(warm: str) -> dict[str, Any]:
    """Return the model and the options of a checkpoint that its weights can only be taken over with."""
    options = checkpoint.read(warm)["config"]
    return {name: options[name] for name in ("model", *SHAPES_WEIGHTS) if name in options}


def _from_table(
    log: str, model: Model, named: Mapping[str, Any], stored: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Make the data set of a log; return its name and its options, which come after those of a checkpoint."""
    defaults = zip(NAMES_OF_COLUMNS, ("user_id", "item_id", "timestamp"), strict=True)
    names = {field: str(default if named.get(field) is None else named[field]) for field, default in defaults}
    how = {name: _typed(name, named[name]) for name in ("encoding", *_OF_LOGS) if named.get(name) is not None}
    if mistakes := misfits(how, {name: OPTIONS[name].kind for name in how if name in OPTIONS}):
        raise UserError(" ".join(mistakes))
    name = data_set_name(log)
    if name in ("", ".", "..") or len(name.encode()) > _LONGEST_NAME:
        raise UserError(
            f"--dataset={short(log)}: a data set cannot be called {short(name)}; rename the log to one of 1 to "
            f"{_LONGEST_NAME} bytes before its ending"
        )
    if (shipped("dataset") / f"{name}.yaml").is_file():
        raise UserError(f"--dataset={log}: {name!r} names a known data set, with settings of its own; rename it")
    told: list[str] = []
    user, item, time = names.values()
    reading, no_bar = Reading(**how), no_bars(screen_now())
    loaded = _dictionary(named, "load_col")
    filters = _filters(named, [*names.values(), *_listed(loaded.get("item")), *_listed(loaded.get("user"))])
    known = {*names.values(), *filters, *(stored.get(field) for field in NAMES_OF_COLUMNS)}
    more = [name for name in _listed(loaded.get("inter")) if name not in known]
    folder = convert(log, user, item, time, reading, told.append, is_ours(model), no_bar, more, filters)
    found = read_record(folder) or {}
    for text in told:
        say(text, "conversion", found)
    for doubt in found.get("doubts", []):
        getLogger(FOR_THE_USER).warning(f"{found.get('log')}: {doubt}")
    loaded["inter"] = found["made_from"]["columns"]
    options = {**names, "data_path": str(folder.parent), "load_col": loaded, "conversion": found.get("digest")}
    options["date_format_found"] = found.get("date_format")
    if is_ours(model):  # for others the order of the file does it
        options["exact_time"] = True
    return folder.name, options


def _filters(named: Mapping[str, Any], others: Sequence[str]) -> dict[str, list[str] | None]:
    """Return the columns of the log by which rows are filtered: the values that are listed, None for an interval.

    Args:
        named: options by their names.
        others: columns that need not be kept for it.

    Raises:
        UserError: a value that is listed is no text.
    """
    found: dict[str, list[str] | None] = dict.fromkeys(_dictionary(named, "threshold"))
    for column, wanted in _dictionary(named, "val_interval").items():
        found[column] = list(wanted) if isinstance(wanted, (list, tuple)) else None
        for value in found[column] or ():
            if not isinstance(value, str):
                raise UserError(
                    f"`val_interval` of {column!r}: values of a list are texts, but one is {short(value)}; write "
                    f"{[str(value)]}, or an interval such as '[3,5]'"
                )
    return {column: wanted for column, wanted in found.items() if column not in others}


def _listed(columns: object) -> list[str]:
    """Return the columns that ``load_col`` names; none where it says ``*`` or nothing."""
    return list(columns) if isinstance(columns, (list, tuple)) else []


def _dictionary(named: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an option that is a dictionary; an empty one where it is none, which the configuration then refuses."""
    value = named.get(name)
    value = literal(value) if isinstance(value, str) else value
    return dict(value) if isinstance(value, Mapping) else {}


def _typed(name: str, value: Any) -> Any:
    """Return an option of logs as the text that it is, or as True or False, which the command line writes as texts."""
    if name == "clean_ids":
        return ",".join(kinds_asked(value))
    if name == "columns":
        return names_with_commas(value)
    if name not in ("drop_duplicates", "in_order"):
        return str(value)
    return {"true": True, "false": False}.get(str(value).lower(), value)


def check_model(model: str) -> None:
    """Refuse a model that RecBole does not have.

    Raises:
        UserError: it has none of this name, nor has the user; the nearest name is said.
    """
    known = known_models()
    if model not in known:
        near = nearest(model, known)
        if "." in model:  # as Python writes a class of a module
            near = ":".join(model.rsplit(".", 1))
        hint = f"did you mean {near}?" if near else f"the models are {', '.join(sorted(known))}"
        raise UserError(f"there is no model {model!r}; {hint}")
