"""One run of any RecBole model: configuration, data, training, test, summary and record."""

from __future__ import annotations

import importlib.resources
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from logging import Logger, getLogger
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import URLError

import torch
import yaml
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.data.transform import construct_transform
from recbole.utils import get_environment, get_flops, get_model, get_trainer, init_logger, init_seed, set_color
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from recbole_bert4rec.constants import MODEL_NAME, STOCK_MODEL_NAME
from recbole_bert4rec.datafiles.table import atomic_file, is_table
from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.errors import UserError, nearest
from recbole_bert4rec.options.checks import mistakes_of_metrics
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.recommend.attention import check_picture, write_attention
from recbole_bert4rec.recommend.recommend import check_destination, write_recommendations
from recbole_bert4rec.resources import read_yaml, shipped
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.ranks import RankListener, write_ranks
from recbole_bert4rec.training.record import (
    Clock,
    EpochLog,
    Report,
    earlier_epochs,
    make_record,
    record_path,
    summary,
    write_json,
)
from recbole_bert4rec.training.refit import check_refit, refit, wants_refit
from recbole_bert4rec.training.seen import Interactions, SeenRule

DEFAULT_NAMES = {"model": MODEL_NAME, "dataset": "ml-100k"}
Result = TypeVar("Result")
_MISTAKES = (ValueError, KeyError, TypeError, NotImplementedError, RuntimeError, SyntaxError, AssertionError, OSError)


def run(
    model: str | None = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    recommend: str | None = None,
    k: int = 10,
    attention: str | None = None,
    resume: str | None = None,
    budget: float | None = None,
    ranks: str | None = None,
    report: Report | None = None,
) -> dict[str, Any]:
    """Train, select on validation, test once; RecBole's ``run_recbole`` with a summary and a record.

    Args:
        model, dataset, config_file_list, config_dict: as ``run_recbole``; a model or data set that nobody names is
            BERT4Rec or ml-100k.
        recommend: file for every user's top ``k`` next items (BERT4Rec only).
        attention: picture of where the trained model looks (BERT4Rec only), .png, .pdf or .svg.
        resume: checkpoint of an interrupted run of BERT4Rec to go on from; its options hold unless given anew.
        budget: seconds of training and validation; default: as many epochs as the options say.
        ranks: Parquet file for the rank of every user's test target.
        report: called after every validation.

    Returns:
        RecBole's result dictionary, under ``record`` the path of the JSON record, and with ``refit`` the test of the
        model that was trained with the validation items too under ``refit_result``.

    Raises:
        UserError: something that the caller can mend.
    """
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        model, dataset, files = resolved(model, dataset, config_file_list, config_dict or {}, resume, folder)
        _check_request(model, recommend, k, attention, resume)
        config = explained(lambda: Config(model, dataset, files, config_dict), "the configuration")
    _check_config(config)
    logger = _begun(config)
    trainer, interactions, loaders = _prepared(config, dataset)
    if resume is not None:
        trainer.resume_checkpoint(resume)
    path = record_path(trainer)
    log = EpochLog(trainer, earlier_epochs(path, trainer.start_epoch))
    clock.loaded()
    timed = None if budget is None else Budget(trainer, budget)
    told, show = report and log.after_validation(report), config["show_progress"]
    best_score, best_valid = (timed or trainer).fit(*loaders[:2], show_progress=show, callback_fn=told)
    clock.trained()
    tested = None if ranks is None else RankListener(trainer, loaders[2]._dataset)
    test_result = trainer.evaluate(loaders[2], load_best_model=True, show_progress=show)
    _log_results(config, best_valid, test_result)
    result = {
        "best_valid_score": best_score,
        "valid_score_bigger": config["valid_metric_bigger"],
        "best_valid_result": best_valid,
        "test_result": test_result,
    }
    if config["local_rank"] == 0:
        record = make_record(config, trainer, log, result, clock.seconds())
        if timed is not None:
            record["budget"] = {"seconds": budget, "last_epoch_share": timed.last_epoch_share}
        if tested is not None and ranks is not None:
            write_ranks(ranks, tested.by_user())
            record["variety"] = _variety(tested, interactions, loaders)
        write_json(path, record)
        if wants_refit(config) and trainer.start_epoch < trainer.epochs:
            record["refit"] = refit(config, trainer.best_epoch + 1, lambda other: _prepared(other, dataset))
            result["refit_result"] = record["refit"]["test_result"]
            write_json(path, record)
        if recommend is not None:
            users = write_recommendations(trainer.model, loaders[0]._dataset, recommend, k)
            logger.info(f"up to {k} items for each of {users} users written to {recommend}")
        if attention is not None:
            _draw_attention(trainer, loaders, attention)
        logger.info(summary(record, path))
    return {**result, "record": str(path)}


def _draw_attention(trainer: Any, loaders: tuple[Any, Any, Any], file: str) -> None:
    users = write_attention(trainer.model, loaders[2] if len(loaders[2]) else loaders[1], file)
    getLogger().info(f"attention in the mean over {users} users drawn in {file}")


def _check_config(config: Config) -> None:
    """Refuse what RecBole would not notice, or late."""
    if config["model"] != MODEL_NAME:
        _refuse([*mistakes_of_metrics(config), *_mistakes_of_seen(config)])
    check_refit(config)


def _begun(config: Config) -> Logger:
    """RecBole's first lines."""
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    logger = getLogger()
    logger.info(sys.orig_argv)
    logger.info(config)
    return logger


def _variety(tested: RankListener, interactions: Interactions, loaders: tuple[Any, Any, Any]) -> dict[str, float]:
    """Of what is recommended; nothing where candidates are drawn, which say nothing about that."""
    if not isinstance(loaders[2], FullSortEvalDataLoader):
        return {}
    return tested.variety(interactions.training_counts(loaders[1:]))


def _log_results(config: Config, valid: Any, test: Any) -> None:
    """RecBole's last lines."""
    logger = getLogger()
    logger.info("The running environment of this training is as follows:\n" + get_environment(config).draw())
    logger.info(set_color("best valid ", "yellow") + f": {valid}")
    logger.info(set_color("test result", "yellow") + f": {test}")


def _prepared(config: Config, dataset: str) -> tuple[Any, Interactions, tuple[Any, Any, Any]]:
    """Trainer, all interactions and the loaders of training, validation and test, in RecBole's order of seeds."""
    full_dataset, interactions, loaders = explained(lambda: _load(config), f"data set {dataset!r}")
    trainer = _trainer(config, full_dataset, loaders[0])
    if config["model"] != MODEL_NAME and config["exclude_seen"] is not None:
        SeenRule(trainer, config["exclude_seen"], interactions, *loaders[1:])
    return trainer, interactions, loaders


def run_processes(nproc: int, ip: str, port: str, **arguments: Any) -> None:
    """:func:`run` in ``nproc`` processes that train together; the first one writes record and summary.

    Args:
        ip, port: where the first process listens for the others.
        arguments: those of :func:`run`.
    """
    with tempfile.TemporaryDirectory() as folder:  # a log is made into an atomic file once, before there are processes
        names = {name: arguments.get(name) for name in ("model", "dataset", "config_file_list", "resume")}
        resolved(**names, config_dict={}, folder=folder)
    try:
        spawn(_rank, args=(nproc, ip, port, arguments), nprocs=nproc)
    except ProcessRaisedException as error:
        _, found, message = str(error).partition("UserError: ")
        if not found:
            raise
        raise UserError(message.strip()) from error


def _rank(rank: int, nproc: int, ip: str, port: str, arguments: dict[str, Any]) -> None:
    suppress_dependency_warnings()
    network = {"world_size": nproc, "ip": ip, "port": port, "nproc": nproc, "offset": 0, "local_rank": rank}
    run(**arguments, config_dict=network)
    torch.distributed.destroy_process_group()


def resolved(
    model: str | None,
    dataset: str | None,
    config_file_list: list[str] | None,
    config_dict: dict[str, Any],
    resume: str | None,
    folder: str,
) -> tuple[str, str, list[str]]:
    """Model, data set and configuration files (some made in ``folder``) that a request comes to."""
    files = [*_stored_options(resume, folder), *(config_file_list or [])]
    named = {**DEFAULT_NAMES, **{key: value for file in files for key, value in read_yaml(file).items()}}
    model, dataset = model or named["model"], dataset or named["dataset"]
    if is_table(dataset):
        dataset, files = _from_table(dataset, model, {**named, **config_dict}, files, folder)
    elif "/" in dataset or os.sep in dataset:
        raise UserError(
            f"--dataset={dataset} is neither a .csv, .tsv or .parquet log nor a name; FOLDER/NAME/NAME.inter is read "
            "with --data_path=FOLDER --dataset=NAME"
        )
    return model, dataset, files


def _stored_options(resume: str | None, folder: str) -> list[str]:
    """A checkpoint's options as a configuration file: RecBole evaluates no string of a file."""
    if resume is None:
        return []
    file = Path(folder) / "options of the checkpoint.yaml"
    file.write_text(yaml.safe_dump(checkpoint.without_places(checkpoint.read(resume)["config"])), encoding="utf-8")
    return [str(file)]


def _from_table(log: str, model: str, given: dict[str, Any], files: list[str], folder: str) -> tuple[str, list[str]]:
    """The data set made from a CSV or Parquet log, and the configuration files with its options before all others."""
    fields = {"USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "TIME_FIELD": "timestamp"}
    flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:] if flag.startswith("--") and "=" in flag)
    names = {field: str(flags.get(field, given.get(field, default))) for field, default in fields.items()}
    if (shipped("dataset") / f"{Path(log).stem}.yaml").is_file():
        raise UserError(
            f"--dataset={log}: {Path(log).stem!r} names a known data set, with settings of its own; rename it"
        )
    atomic = atomic_file(log, *names.values())
    options: dict[str, Any] = {"data_path": str(atomic.parents[1]), "load_col": {"inter": list(names.values())}}
    if model == MODEL_NAME:  # for others the order of the file does it
        options["exact_time"] = True
    file = Path(folder) / "options of the log.yaml"
    file.write_text(yaml.safe_dump({**names, **options}), encoding="utf-8")
    return atomic.stem, [str(file), *files]


def _trainer(config: Config, dataset: Any, train_data: Any) -> Any:
    logger = getLogger()
    init_seed(config["seed"] + config["local_rank"], config["reproducibility"])
    model = get_model(config["model"])(config, train_data._dataset).to(config["device"])
    logger.info(model)
    flops = get_flops(model, dataset, config["device"], logger, construct_transform(config))
    logger.info(set_color("FLOPs", "blue") + f": {flops}")
    return get_trainer(config["MODEL_TYPE"], config["model"])(config, model)


def _load(config: Config) -> tuple[Any, Interactions, tuple[Any, Any, Any]]:
    dataset = create_dataset(config)
    interactions = Interactions(dataset.inter_feat, dataset)
    getLogger().info(dataset)
    return dataset, interactions, data_preparation(config, dataset)


def _check_request(model: str, recommend: str | None, k: int, attention: str | None, resume: str | None) -> None:
    """Refuse at once what could not be done after hours of training."""
    check_model(model)
    for flag, value in (("--recommend", recommend), ("--attention", attention), ("--resume", resume)):
        if value is not None and model != MODEL_NAME:
            raise UserError(f"{flag} works with --model={MODEL_NAME} only, but the model is {model}")
    if recommend is not None:
        check_destination(recommend, k)
    if attention is not None:
        check_picture(attention)


def check_model(model: str) -> None:
    """Raise a :class:`UserError` where RecBole has no such model."""
    folder = importlib.resources.files("recbole") / "properties" / "model"
    known = {Path(file.name).stem for file in folder.iterdir()} | {STOCK_MODEL_NAME}
    if model not in known:
        near = nearest(model, known)
        hint = f"did you mean {near}?" if near else f"the models are {', '.join(sorted(known))}"
        raise UserError(f"there is no model {model!r}; {hint}")


def _mistakes_of_seen(config: Config) -> list[str]:
    given = config["exclude_seen"]
    return [] if given in (None, True, False) else [f"`exclude_seen` must be True or False, but is {given!r} instead."]


def _refuse(mistakes: list[str]) -> None:
    if mistakes:
        raise UserError(" ".join(mistakes))


def explained(step: Callable[[], Result], what: str) -> Result:
    """Run a step of RecBole; a mistake that RecBole itself noticed becomes one line."""
    try:
        return step()
    except UserError:
        raise
    except URLError as error:
        raise UserError(
            f"{what} is not here and cannot be downloaded ({error.reason}); put NAME.inter into a folder NAME of "
            "`data_path`"
        ) from error
    except _MISTAKES as error:
        last_frame = traceback.extract_tb(error.__traceback__)[-1].filename
        if f"{os.sep}recbole{os.sep}" not in last_frame:
            raise
        raise UserError(f"{what}: {str(error) or type(error).__name__}") from error
