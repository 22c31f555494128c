"""One run of any RecBole model: configuration, data, training, test, summary and record."""

from __future__ import annotations

import importlib.resources
import os
import sys
import time
import traceback
from collections.abc import Callable
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.transform import construct_transform
from recbole.utils import get_environment, get_flops, get_model, get_trainer, init_logger, init_seed, set_color

from recbole_bert4rec.apps.recommend import check_destination, write_recommendations
from recbole_bert4rec.apps.record import EpochLog, environment, peak_memory_mb, plain_values, write_json
from recbole_bert4rec.config import nearest
from recbole_bert4rec.constants import MODEL_NAME, STOCK_MODEL_NAME
from recbole_bert4rec.errors import UserError

Result = TypeVar("Result")
_MISTAKES = (ValueError, KeyError, TypeError, NotImplementedError, RuntimeError, SyntaxError, AssertionError, OSError)


def run(
    model: str = MODEL_NAME,
    dataset: str = "ml-100k",
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    recommend: str | None = None,
    k: int = 10,
    resume: str | None = None,
) -> dict[str, Any]:
    """Train, select on validation, test once; RecBole's ``run_recbole`` with a summary and a record.

    Args:
        model, dataset, config_file_list, config_dict: as ``run_recbole``.
        recommend: file for every user's top ``k`` next items (BERT4Rec only).
        resume: checkpoint of an interrupted run to go on from.

    Returns:
        RecBole's result dictionary, and under ``record`` the path of the JSON record.

    Raises:
        UserError: something that the caller can mend.
    """
    began = time.perf_counter()
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    _check_model(model)
    if recommend is not None:
        _check_recommend(model, recommend, k)
    config = _explained(lambda: Config(model, dataset, config_file_list, config_dict), "the configuration")
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    logger = getLogger()
    logger.info(sys.argv)
    logger.info(config)
    full_dataset, loaders = _explained(lambda: _load(config), f"data set {dataset!r}")
    train_data, valid_data, test_data = loaders
    init_seed(config["seed"] + config["local_rank"], config["reproducibility"])
    net = get_model(config["model"])(config, train_data._dataset).to(config["device"])
    logger.info(net)
    flops = get_flops(net, full_dataset, config["device"], logger, construct_transform(config))
    logger.info(set_color("FLOPs", "blue") + f": {flops}")
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, net)
    if resume is not None:
        trainer.resume_checkpoint(resume)
    log = EpochLog(trainer)
    loaded = time.perf_counter()
    best_score, best_valid = trainer.fit(train_data, valid_data, saved=True, show_progress=config["show_progress"])
    trained = time.perf_counter()
    test_result = trainer.evaluate(test_data, load_best_model=True, show_progress=config["show_progress"])
    logger.info("The running environment of this training is as follows:\n" + get_environment(config).draw())
    logger.info(set_color("best valid ", "yellow") + f": {best_valid}")
    logger.info(set_color("test result", "yellow") + f": {test_result}")
    if recommend is not None:
        users = write_recommendations(net, train_data._dataset, recommend, k)
        logger.info(f"top {k} of {users} users written to {recommend}")
    result = {
        "best_valid_score": best_score,
        "valid_score_bigger": config["valid_metric_bigger"],
        "best_valid_result": best_valid,
        "test_result": test_result,
    }
    seconds = {"load": loaded - began, "train": trained - loaded, "total": time.perf_counter() - began}
    record = _record(config, trainer, log, result, seconds, started)
    path = Path(trainer.saved_model_file).with_suffix(".json")
    write_json(path, record)
    logger.info(_summary(record, path))
    return {**result, "record": str(path)}


def _load(config: Config) -> tuple[Any, tuple[Any, Any, Any]]:
    dataset = create_dataset(config)
    getLogger().info(dataset)
    return dataset, data_preparation(config, dataset)


def _check_model(name: str) -> None:
    folder = importlib.resources.files("recbole") / "properties" / "model"
    known = {Path(file.name).stem for file in folder.iterdir()} | {STOCK_MODEL_NAME}
    if name not in known:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else f"the models are {', '.join(sorted(known))}"
        raise UserError(f"there is no model {name!r}; {hint}")


def _check_recommend(model: str, path: str, k: int) -> None:
    if model != MODEL_NAME:
        raise UserError(f"--recommend works with --model={MODEL_NAME} only, but the model is {model}")
    check_destination(path, k)


def _explained(step: Callable[[], Result], what: str) -> Result:
    """Run a step of RecBole; a mistake that RecBole itself noticed becomes one line."""
    try:
        return step()
    except UserError:
        raise
    except _MISTAKES as error:
        last_frame = traceback.extract_tb(error.__traceback__)[-1].filename
        if f"{os.sep}recbole{os.sep}" not in last_frame:
            raise
        raise UserError(f"{what}: {str(error) or type(error).__name__}") from error


def _record(
    config: Config, trainer: Any, log: EpochLog, result: dict[str, Any], seconds: dict[str, float], started: str
) -> dict[str, Any]:
    return {
        "model": config["model"],
        "dataset": config["dataset"],
        "seed": config["seed"],
        "started": started,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "peak_memory_mb": round(peak_memory_mb(), 1),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        "best_epoch": log.best_epoch(config["valid_metric_bigger"]),
        "best_valid_score": float(result["best_valid_score"]),
        "best_valid_result": dict(result["best_valid_result"] or {}),
        "test_result": {name: float(value) for name, value in (result["test_result"] or {}).items()},
        "checkpoint": str(trainer.saved_model_file),
        "epochs": log.epochs,
        "config": plain_values(config),
        **environment(),
    }


def _summary(record: dict[str, Any], path: Path) -> str:
    def line(values: dict[str, float]) -> str:
        return "    ".join(f"{name} {value:.4f}" for name, value in values.items()) or "none"

    seconds = record["seconds"]
    return (
        f"\n{record['model']} on {record['dataset']}, seed {record['seed']}: "
        f"best epoch {record['best_epoch']} of {len(record['epochs'])} (epochs count from 0)\n"
        f"  valid       {line(record['best_valid_result'])}\n"
        f"  test        {line(record['test_result'])}\n"
        f"  time        {seconds['total']:.1f} s, of which training {seconds['train']:.1f} s\n"
        f"  memory      {record['peak_memory_mb']:.0f} MB at its peak\n"
        f"  checkpoint  {record['checkpoint']}\n"
        f"  record      {path}"
    )
