"""From what the user asked for to a configuration: model, data set, files of options, and what is refused at once."""

from __future__ import annotations

import importlib.resources
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from recbole.config import Config

from recbole_bert4rec.constants import MODEL_NAME, OUR_MODELS, RIVAL, STOCK_MODEL_NAME
from recbole_bert4rec.datafiles.table import atomic_file, is_table
from recbole_bert4rec.errors import UserError, nearest
from recbole_bert4rec.options.checks import mistakes_of_values
from recbole_bert4rec.options.evaluation import mistakes_of_metrics
from recbole_bert4rec.options.flags import parse_flags
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.recommend.attention import check_picture
from recbole_bert4rec.recommend.recommend import check_destination
from recbole_bert4rec.resources import find_config, read_yaml, shipped
from recbole_bert4rec.training.build import translate_errors
from recbole_bert4rec.training.refit import check_refit
from recbole_bert4rec.training.request import RunRequest

DEFAULT_NAMES = {"model": MODEL_NAME, "dataset": "ml-100k"}
"""Where nobody names them."""


def configure(request: RunRequest) -> Config:
    """Return RecBole's configuration of a request.

    Raises:
        UserError: the request or its options have a mistake; nothing has been written yet.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, dataset, files = resolve_inputs(
            request.model, request.dataset, request.config_files, request.options, request.resume, folder
        )
        _check_request(request, model)
        config = translate_errors(lambda: Config(model, dataset, files, dict(request.options)), "the configuration")
    if model not in OUR_MODELS and (mistakes := _mistakes_of_another_model(config)):
        raise UserError(" ".join(mistakes))
    check_refit(config)
    return config


def _mistakes_of_another_model(config: Config) -> list[str]:
    """List what is wrong with the options that every model's run reads here; RecBole checks its own."""
    seen = mistakes_of_values(config.final_config_dict, ["exclude_seen"]) if config["exclude_seen"] is not None else []
    return [*mistakes_of_metrics(config), *seen]


def _check_request(request: RunRequest, model: str) -> None:
    """Refuse at once what could not be done after hours of training."""
    check_model(model)
    asked = {"--recommend": request.recommend, "--attention": request.attention, "--resume": request.resume}
    for flag, value in asked.items():
        if value is not None and model not in OUR_MODELS:
            raise UserError(f"{flag} works with {', '.join(OUR_MODELS)} only, but the model is {model}")
    if request.recommend is not None:
        check_destination(request.recommend, request.k)
    if request.attention is not None:
        check_picture(request.attention)


def resolve_inputs(
    model: str | None,
    dataset: str | None,
    config_files: Sequence[str],
    options: Mapping[str, Any],
    resume: str | None,
    folder: str,
) -> tuple[str, str, list[str]]:
    """Find out which model, data set and configuration files a request means.

    Args:
        model: as the user named it; None for what the files or the checkpoint name.
        dataset: a name, or a .csv, .tsv or .parquet log, which is made into an atomic file.
        config_files: paths, or names of properties/recipe; later ones win.
        options: that win over the files.
        resume: checkpoint whose options come before those of the files.
        folder: for files that are made here, which must stay until the configuration is read.

    Raises:
        UserError: a file is missing or damaged, or the data set is no name.
    """
    own = [find_config(name) for name in config_files]
    given = {*options, *parse_flags(sys.argv[1:]), *(name for file in own for name in read_yaml(file))}
    files = [*_stored_options(resume, given, folder), *own]
    named = {**DEFAULT_NAMES, **{key: value for file in files for key, value in read_yaml(file).items()}}
    model, dataset = model or named["model"], dataset or named["dataset"]
    if is_table(dataset):
        dataset, files = _from_table(dataset, model, {**named, **options}, files, folder)
    elif "/" in dataset or os.sep in dataset:
        raise UserError(
            f"--dataset={dataset} is neither a .csv, .tsv or .parquet log nor a name; FOLDER/NAME/NAME.inter is read "
            "with --data_path=FOLDER --dataset=NAME"
        )
    return model, dataset, files


def _stored_options(resume: str | None, given: set[str], folder: str) -> list[str]:
    """Write a checkpoint's options as a configuration file: RecBole evaluates no text of a file.

    The size of a batch that is given anew takes the place of a stored one that counts items.
    """
    if resume is None:
        return []
    file = Path(folder) / "options of the checkpoint.yaml"
    options = checkpoint.without_places(checkpoint.read(resume)["config"])
    if "train_batch_size" in given and "batch_tokens" not in given:
        options.pop("batch_tokens", None)
    file.write_text(yaml.safe_dump(options), encoding="utf-8")
    return [str(file)]


def _from_table(log: str, model: str, given: dict[str, Any], files: list[str], folder: str) -> tuple[str, list[str]]:
    """Make the data set of a CSV or Parquet log; return its name and the files, its options before all others."""
    fields = {"USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "TIME_FIELD": "timestamp"}
    flags = parse_flags(sys.argv[1:])
    names = {field: str(flags.get(field, given.get(field, default))) for field, default in fields.items()}
    if (shipped("dataset") / f"{Path(log).stem}.yaml").is_file():
        raise UserError(
            f"--dataset={log}: {Path(log).stem!r} names a known data set, with settings of its own; rename it"
        )
    atomic = atomic_file(log, *names.values())
    options: dict[str, Any] = {"data_path": str(atomic.parents[1]), "load_col": {"inter": list(names.values())}}
    if model in OUR_MODELS:  # for others the order of the file does it
        options["exact_time"] = True
    file = Path(folder) / "options of the log.yaml"
    file.write_text(yaml.safe_dump({**names, **options}), encoding="utf-8")
    return atomic.stem, [str(file), *files]


def check_model(model: str) -> None:
    """Refuse a model that RecBole does not have.

    Raises:
        UserError: it has none of this name; the nearest name is said.
    """
    folder = importlib.resources.files("recbole") / "properties" / "model"
    known = {Path(file.name).stem for file in folder.iterdir()} | {STOCK_MODEL_NAME, RIVAL, *OUR_MODELS}
    if model not in known:
        near = nearest(model, known)
        hint = f"did you mean {near}?" if near else f"the models are {', '.join(sorted(known))}"
        raise UserError(f"there is no model {model!r}; {hint}")
