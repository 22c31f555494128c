"""One run of any RecBole model: configuration, data, training, test, record and other files."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import psutil
from recbole.utils import get_environment, init_seed, set_color

from recbole_bert4rec.checkpoints import Opened, OtherDataError, best_of
from recbole_bert4rec.options.user_models import Model
from recbole_bert4rec.plugin.callbacks import Callback, Metrics, Observed
from recbole_bert4rec.plugin.config import Layers
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.optimizer import denormals_as_zero
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.recommend.bulk import write_tables
from recbole_bert4rec.system.constants import SHORT
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import locked
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.training.afterwards import (
    check_afterwards,
    data_of_protocols,
    refit,
    test_protocols,
    wants_refit,
    write_recommendations,
)
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Data, build
from recbole_bert4rec.training.inputs import (
    OptionFile,
    check_places,
    configure,
    opened_checkpoint,
    user_layers,
)
from recbole_bert4rec.training.ranks import RankLog, targets_of
from recbole_bert4rec.training.record import (
    Record,
    read_record,
    record_path,
    summary,
    unused,
    write_json,
)
from recbole_bert4rec.training.saving import Saver
from recbole_bert4rec.training.screen import EpochLines, logged, say, show_data, show_plan, shown

_RUNNING = threading.Lock()


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        best_valid_score: value of ``valid_metric`` in the best epoch; infinite if no epoch was validated.
        valid_score_bigger: whether larger values of it are better.
        best_valid_result: all validation metrics of the best epoch; None if no epoch was validated.
        test_result: test metrics of the best epoch; None without a test.
        record: everything about the run, as in its JSON file; docs/operating.md lists its keys.
        record_path: path of the JSON file.
        checkpoint: path of the best epoch's weights.
    """

    best_valid_score: float
    valid_score_bigger: bool
    best_valid_result: Metrics | None
    test_result: Metrics | None
    record: dict[str, Any]
    record_path: Path
    checkpoint: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the entries that RecBole's ``run_recbole`` returns."""
        names = ("best_valid_score", "valid_score_bigger", "best_valid_result", "test_result")
        return {name: getattr(self, name) for name in names}


def run(
    model: Model | None = None,
    dataset: str | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    config_files: Sequence[OptionFile] = (),
    flags: Mapping[str, str] | None = None,
    recommend: str | None = None,
    k: int = 10,
    resume: str | os.PathLike[str] | bool | None = None,
    budget: float | None = None,
    protocols: Sequence[str] = (),
    ranks: str | os.PathLike[str] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    test: bool = True,
    screen: str = SHORT,
) -> RunResult:
    """Train a model, select its best epoch on validation, test it once; any model of RecBole.

    ``run("BERT4Rec", "ml-100k", {"epochs": 3})`` trains for three epochs. A JSON record of the run and the best weights
    are written to the folder ``checkpoint_dir``.

    Args:
        model: RecBole's name of the model; or a class of one's own, itself or as ``module:Class`` (docs/extending.md).
            None: what ``config_files`` or ``resume`` name, or else BERT4Rec.
        dataset: RecBole's name of the data set, or the path of a log (docs/data.md). None: what ``config_files`` or
            ``resume`` name, or else ml-100k.
        options: options of RecBole and of the model; they win over the files.
        config_files: YAML files of options, names of properties/recipe, or dictionaries; later ones win.
        flags: flags of the program that calls this, as texts by name. They win over ``options``. Names that are not
            options are ignored; they may be the program's own. None: RecBole reads them from ``sys.argv``.
        recommend: file (.csv or .parquet) to write every user's best next items to, by a model of this package. They
            leave items of the history out, or not, as :attr:`Recommender.viewed` says of the model.
        k: items a user in ``recommend``.
        resume: checkpoint of an interrupted run of this package's models to go on from; its options hold unless others
            are given. True: the newest one of ``checkpoint_dir`` of the same model and data set; if none fits, a new
            run begins.
        budget: seconds of training and validation. None: as many epochs as the options say.
        protocols: further protocols under which the selected weights are tested: YAML files, or names of
            properties/recipe.
        ranks: Parquet file to write the rank of every user's test target to, under each protocol.
        callbacks: are called while the run goes on, see :mod:`recbole_bert4rec.plugin.callbacks`.
        checkpoint: file for the best epoch's weights, beside which the record lies. None: RecBole's name, in
            ``checkpoint_dir``.
        test: whether the selected weights are tested.
        screen: lines to show: ``short``, a line an epoch and a few others; ``verbose``, all that RecBole logs;
            ``quiet``, warnings alone. The log file has RecBole's lines in any case.

    Returns:
        Metrics, record and checkpoint.

    Raises:
        UserError: a mistake that the caller can mend; or another run is under way in this process.
    """
    for name, value in {"config_files": config_files, "protocols": protocols, "callbacks": callbacks}.items():
        if isinstance(value, (str, Callback)):
            raise UserError(f"run() takes a list for `{name}`, but got {value!r}; write {name}=[...]")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UserError(f"`callbacks` must be instances of Callback, but one is {callback!r}")
    with _alone(), in_program(), shown(screen), warnings.catch_warnings(), denormals_as_zero():
        suppress_dependency_warnings()
        layers = user_layers(options, config_files, flags)
        asked = (recommend, k, budget, protocols, ranks, callbacks, checkpoint, test, screen)
        opened = opened_checkpoint(resume, model, dataset, layers)
        try:
            return _run(model, dataset, layers, opened, resume is not True, *asked)
        except OtherDataError as error:
            if resume is not True:
                raise
            getLogger().warning(f"--resume: {error}. A new run begins")
        return _run(model, dataset, layers, None, True, *asked)


@contextmanager
def _alone() -> Iterator[None]:
    """Allow one run at a time: all runs of a process share its generators of random numbers."""
    if not _RUNNING.acquire(blocking=False):
        raise UserError("another run is under way in this process, with the same random numbers; start it in its own")
    try:
        yield
    finally:
        _RUNNING.release()


def _run(
    model: Model | None,
    dataset: str | None,
    layers: Layers,
    opened: Opened | None,
    any_data: bool,  # whether a finished run may be evaluated on other data than it was trained on
    recommend: str | None,
    k: int,
    budget: float | None,
    protocols: Sequence[str],
    ranks: str | os.PathLike[str] | None,
    callbacks: Sequence[Callback],
    checkpoint: str | os.PathLike[str] | None,
    test: bool,
    screen: str,
) -> RunResult:
    record, saver = Record(), Saver()
    limit = None if budget is None else Budget(budget)
    rank_log = None if ranks is None else RankLog()
    config = configure(model, dataset, layers, opened)
    check_afterwards(config, recommend, k, dataset)
    check_places(config)
    others = data_of_protocols(protocols, model, dataset, layers, opened, config)
    # a budget ends the training after all others have heard of the event
    last = [callback for callback in (rank_log, limit, saver) if callback is not None]
    with logged(config, screen) as log_file:
        say(f"{config['model']} on {config['dataset']}, seed {config['seed']}; options, model and details: {log_file}")
        psutil.cpu_percent()  # the next call returns the mean since this one
        init_seed(config["seed"], config["reproducibility"])
        getLogger().info(sys.orig_argv)
        getLogger().info(config)
        data, trainer = build(config, [record, EpochLines(record, limit), *callbacks, *last])
        if checkpoint is not None:
            trainer.saved_model_file = os.fspath(checkpoint)
        with _locked_files(trainer, opened, any_data, saver):
            only_evaluated = _is_only_evaluated(trainer)
            record.path = unused(record_path(trainer)) if only_evaluated else record_path(trainer)
            show_data(data)
            show_plan(data, trainer)
            test_metrics = _train_and_test(data, trainer, saver, test, ranked=ranks is not None)
            written = record.of(trainer, test_metrics)
            if limit is not None:
                written["budget"] = {"seconds": limit.seconds, "last_epoch_share": limit.last_epoch_share}
            of_users = None if rank_log is None else [rank_log.by_user()] if test else []
            if others:
                written["also"] = test_protocols(others, trainer.saved_model_file, of_users)
            if rank_of(config) == 0:
                if ranks is not None and of_users:
                    write_tables([pd.concat(of_users)], os.fspath(ranks))
                write_json(record.path, written)  # from now on the run is no longer unfinished
                if wants_refit(config) and not only_evaluated:
                    written["refit"] = refit(trainer)
                    write_json(record.path, written)
                if recommend is not None:
                    write_recommendations(data, trainer, recommend, k)
                say(summary(written, record.path))
    return RunResult(
        best_valid_score=trainer.best_valid_score,
        valid_score_bigger=config["valid_metric_bigger"],
        best_valid_result=trainer.best_valid_result,
        test_result=test_metrics,
        record=written,
        record_path=record.path,
        checkpoint=Path(trainer.saved_model_file),
    )


@contextmanager
def _locked_files(trainer: Any, resume: Opened | None, any_data: bool, saver: Saver) -> Iterator[None]:
    """Go on from a checkpoint, if there is one; keep other runs away from this one's files."""
    with ExitStack() as stack:
        if rank_of(trainer.config) == 0:
            file = Path(trainer.saved_model_file if resume is None else best_of(resume.path))
            lock = file.with_name(f".{file.stem}.lock")
            stack.enter_context(locked(lock, "run", "--checkpoint_dir", file))
        if resume is not None:
            trainer.resume_checkpoint(resume.path, resume.state, any_data)
            resume.state.clear()  # its weights are the model's now
        try:
            yield
        except Interrupted as stop:
            if saver.is_over:
                file = trainer.saved_model_file
                goes_on = f"; the same command with --resume={file} does the rest"
                stop.left_behind = f"the training is finished, its best epoch is in {file}"
                stop.left_behind += goes_on if isinstance(trainer, BERT4RecTrainer) else ""
            raise


def _is_only_evaluated(trainer: Observed) -> bool:
    """Tell whether the training is finished and recorded, so that this run only tests or recommends."""
    if not isinstance(trainer, BERT4RecTrainer) or not trainer.finished:
        return False
    if trainer.start_epoch > trainer.epochs:
        return True
    try:
        record = read_record(record_path(trainer))
    except UserError:
        return record_path(trainer).exists()
    return not record.get("unfinished") and ("refit" in record or not wants_refit(trainer.config))


def _train_and_test(data: Data, trainer: Observed, saver: Saver, test: bool, ranked: bool) -> Metrics | None:
    """Train, test the selected weights, and write RecBole's last lines.

    RecBole waits a second to measure how busy the processor is; here it is the mean since the run began.
    """
    if ranked and test:
        targets_of(data.test, "test")  # refuses several a user
    show = data.config["show_progress"]
    _, best_metrics = saver.fit(trainer, data.train, data.valid, show_progress=show)
    if not test:
        return None
    test_metrics: Metrics | None = trainer.evaluate(data.test, load_best_model=True, show_progress=show)
    busy, logger = psutil.cpu_percent(), getLogger()
    with patch.object(psutil, "cpu_percent", lambda interval: busy):
        environment = get_environment(data.config).draw()
    logger.info("The running environment of this training is as follows:\n" + environment)
    logger.info(set_color("best valid ", "yellow") + f": {best_metrics}")
    logger.info(set_color("test result", "yellow") + f": {test_metrics}")
    return test_metrics
