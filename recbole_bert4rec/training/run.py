"""One run of any RecBole model: configuration, data, training, test, record and other files."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from recbole.config import Config
from recbole.utils import get_environment, init_seed, set_color

from recbole_bert4rec.checkpoints import Opened, OtherDataError, best_of
from recbole_bert4rec.core.fast.denormals import denormals_as_zero
from recbole_bert4rec.logs.formats import is_table
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.options.user_models import Model, is_ours
from recbole_bert4rec.plugin.callbacks import Callback, Metrics, Observed
from recbole_bert4rec.plugin.compat import trust
from recbole_bert4rec.plugin.config import Layers, plain_config, stored_config
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer, transitions_of
from recbole_bert4rec.recommend.answers import check_names_of_columns
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import FOR_THE_USER, SHORT
from recbole_bert4rec.system.environment import find_config, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import TABLES, atomic_write, check_output, locked, refuse_same
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.system.scoped import replaced
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Data, build, load_data
from recbole_bert4rec.training.inputs import (
    OptionFile,
    check_places,
    configure,
    opened_checkpoint,
    refuse_other_models,
    user_layers,
)
from recbole_bert4rec.training.ranks import RankLog
from recbole_bert4rec.training.record import (
    Record,
    finite_values,
    read_record,
    record_path,
    summary,
    unused,
    write_json,
)
from recbole_bert4rec.training.saving import Saver
from recbole_bert4rec.training.screen import EpochLines, logged, say, show_data, show_plan, shown, silence

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
    with _alone(), in_program(), shown(screen), warnings.catch_warnings(), denormals_as_zero():
        suppress_dependency_warnings()
        layers = user_layers(options, config_files, flags)

        def go(opened: Opened | None, any_data: bool) -> RunResult:
            asked = (recommend, k, budget, protocols, ranks, callbacks, checkpoint, test, screen)
            return _run(model, dataset, layers, opened, any_data, *asked)

        try:
            return go(opened_checkpoint(resume, model, dataset, layers), any_data=resume is not True)
        except OtherDataError as error:
            if resume is not True:
                raise
            getLogger().warning(f"--resume: {error}. A new run begins")
        return go(None, any_data=True)


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
    if recommend is not None:
        _check_recommend(recommend, k, dataset)
    config = configure(model, dataset, layers, opened)
    if recommend is not None:
        refuse_other_models("--recommend", config.model_class)
        check_names_of_columns(config["USER_ID_FIELD"], config["ITEM_ID_FIELD"])
    _check_refit(config)
    check_places(config)
    others = {Path(file).name: _protocol(file, model, dataset, layers, opened, config) for file in protocols}
    # a budget ends the training after all others have heard of the event
    last = [callback for callback in (rank_log, limit, saver) if callback is not None]
    watching = [record, EpochLines(record, limit), *callbacks, *last]
    with logged(config, screen) as log_file:
        about = f"{config['model']} on {config['dataset']}, seed {config['seed']}"
        say(f"{about}; options, model and details: {log_file}")
        _log_configuration(config)
        data, trainer = build(config, watching)
        if checkpoint is not None:
            trainer.saved_model_file = os.fspath(checkpoint)
        with _locked_files(trainer, opened, any_data):
            only_evaluated = _is_only_evaluated(trainer)
            record.path = unused(record_path(trainer)) if only_evaluated else record_path(trainer)
            show_data(data)
            show_plan(data, trainer)
            test_metrics = _train_and_test(data, trainer, saver, test)
            if limit is not None:
                record.more["budget"] = {"seconds": limit.seconds, "last_epoch_share": limit.last_epoch_share}
            tables = [] if rank_log is None or not test else [rank_log.by_user()]
            for name, other in others.items():
                log = RankLog()
                metrics = test_weights(other, trainer.saved_model_file, *([] if ranks is None else [log]))
                record.more.setdefault("also", {})[name] = metrics
                tables += [] if ranks is None else [log.by_user(name)]
            if rank_of(config) == 0:
                if ranks is not None and tables:
                    with atomic_write(ranks) as temporary:
                        pd.concat(tables, ignore_index=True).to_parquet(temporary, index=False)
                write_json(record.path, record.of(trainer, test_metrics))
                if _wants_refit(config) and not only_evaluated:
                    record.more["refit"] = _refit(trainer)
                    write_json(record.path, record.of(trainer, test_metrics))
                if recommend is not None:
                    users = _write_recommendations(data, trainer, recommend, k)
                    say(f"up to {k} items for each of {users} users written to {recommend}")
                say(summary(record.of(trainer, test_metrics), record.path))
    return RunResult(
        best_valid_score=trainer.best_valid_score,
        valid_score_bigger=config["valid_metric_bigger"],
        best_valid_result=trainer.best_valid_result,
        test_result=test_metrics,
        record=record.of(trainer, test_metrics),
        record_path=record.path,
        checkpoint=Path(trainer.saved_model_file),
    )


def _log_configuration(config: Config) -> None:
    """Write RecBole's first lines."""
    psutil.cpu_percent()  # the next call returns the mean since this one
    init_seed(config["seed"], config["reproducibility"])
    logger = getLogger()
    logger.info(sys.orig_argv)
    logger.info(config)


@contextmanager
def _locked_files(trainer: Any, resume: Opened | None, any_data: bool) -> Iterator[None]:
    """Go on from a checkpoint, if there is one; keep other runs away from this one's files."""
    with ExitStack() as stack:
        if rank_of(trainer.config) == 0:
            file = Path(trainer.saved_model_file if resume is None else best_of(resume.path))
            lock = file.with_name(f".{file.stem}.lock")
            stack.enter_context(locked(lock, "run", "--checkpoint_dir", file))
        if resume is not None:
            trainer.resume_checkpoint(resume.path, resume.state, any_data)
            resume.state.clear()  # its weights are the model's now
        yield


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
    return not record.get("unfinished") and ("refit" in record or not _wants_refit(trainer.config))


def _train_and_test(data: Data, trainer: Observed, saver: Saver, test: bool) -> Metrics | None:
    show = data.config["show_progress"]
    _, best_metrics = saver.fit(trainer, data.train, data.valid, show_progress=show)
    if not test:
        return None
    try:
        test_metrics: Metrics | None = trainer.evaluate(data.test, load_best_model=True, show_progress=show)
    except Interrupted as stop:
        file = trainer.saved_model_file
        stop.left_behind = f"the training is finished; the same command with --resume={file} tests it"
        raise
    _log_results(data.config, best_metrics, test_metrics)
    return test_metrics


def _log_results(config: Config, valid: Metrics | None, test: Metrics | None) -> None:
    """Write RecBole's last lines.

    RecBole waits a second to measure how busy the processor is; here it is the mean since the run began.
    """
    busy = psutil.cpu_percent()
    with replaced(psutil, "cpu_percent", lambda interval: busy):
        environment = get_environment(config).draw()
    logger = getLogger()
    logger.info("The running environment of this training is as follows:\n" + environment)
    logger.info(set_color("best valid ", "yellow") + f": {valid}")
    logger.info(set_color("test result", "yellow") + f": {test}")


def test_weights(config: Config, weights: str | os.PathLike[str], *callbacks: Callback) -> dict[str, float]:
    """Return the test metrics of trained weights under a configuration, which may be another than they were trained by."""
    trust(os.fspath(weights))
    data, trainer = build(config, callbacks)
    trainer.eval_collector.data_collect(data.train)  # as trainer.fit does
    metrics = trainer.evaluate(data.test, load_best_model=True, model_file=os.fspath(weights))
    return {name: float(value) for name, value in (metrics or {}).items()}


def _protocol(
    file: str, model: Model | None, dataset: str | None, layers: Layers, opened: Opened | None, config: Config
) -> Config:
    """Return the configuration under a further protocol, which wins over all options; its data are read once."""
    protocol = read_options(find_config(file))
    options, flags = (
        {name: value for name, value in layer.items() if name not in protocol}
        for layer in (layers.options, layers.flags)
    )
    options["eval_args"] = {**config["eval_args"], **protocol.get("eval_args", {})}
    changed = replace(layers, files=(*layers.files, protocol), options=options, flags=flags)
    with silence(FOR_THE_USER):  # the run will say of this log what is to be said
        other = configure(model, dataset, changed, opened)
        for name in ("split", "order", "group_by"):
            if other["eval_args"][name] != config["eval_args"][name]:
                raise UserError(
                    f"--protocols={file}: its {name} is {other['eval_args'][name]}, but the training's is "
                    f"{config['eval_args'][name]}; a model is tested on the split that it was trained on"
                )
        load_data(other)  # raises its errors now and not after hours of training
    return other


def _wants_refit(config: Config) -> bool:
    """Tell whether the option is set; it is this package's models'."""
    return is_ours(config.model_class) and config["refit"] is not None


def _check_refit(config: Config) -> None:
    """Refuse ``refit`` if there is nothing more to train with, or no epoch is chosen."""
    if not _wants_refit(config):
        return
    split = config["eval_args"]["split"]
    if config["refit"] == "train+valid" and split != {"LS": "valid_and_test"}:
        raise UserError(
            "`refit` train+valid trains with each user's validation item and needs `eval_args` split "
            f"{{'LS': 'valid_and_test'}}, but the split is {split}"
        )
    if config["benchmark_filename"]:
        raise UserError(
            "`refit` splits the whole log again, but `benchmark_filename` gives parts; leave one of them out"
        )
    if not config["single_spec"]:
        raise UserError("`refit` works in one process only; leave --nproc out")
    if most_epochs(config) < 1 or config["eval_step"] < 1:
        raise UserError("`refit` trains for the epochs that validation chose; `epochs` and `eval_step` must be above 0")


def _refit(trainer: Any) -> dict[str, Any]:
    """Train again for the selected epochs, on all but the test items, which are tested; or on everything."""
    config, epochs, memory = trainer.config, trainer.best_epoch + 1, trainer.model.memory
    split = {"RS": [1, 0, 0]} if config["refit"] == "all" else {"LS": "test_only"}
    values = plain_config(config) | {"epochs": epochs, "valid_users": None}
    values["eval_args"] = {**config["eval_args"], "split": split, "group_by": "user"}
    data, again = build(stored_config(values, checkpoint_dir=config["checkpoint_dir"]))
    again.saved_model_file = f"{trainer.saved_model_file.removesuffix('.pth')}.refit.pth"
    again.fit(data.train, saved=False, show_progress=config["show_progress"])
    if memory is not None:
        again.model.memory = replace(memory, transitions=transitions_of(data.train._dataset))
    again._save_checkpoint(epochs - 1)
    result = again.evaluate(data.test, load_best_model=True, show_progress=config["show_progress"])
    getLogger().info(set_color(f"refit on {config['refit']}, test result", "yellow") + f": {result}")
    return {"epochs": epochs, "test_result": finite_values(result), "checkpoint": again.saved_model_file}


def _check_recommend(recommend: str, k: int, dataset: str | None) -> None:
    """Refuse at once arguments with which the recommendations could not be made or written at the end."""
    if k < 1:
        raise UserError(f"--k must be at least 1, but is {k}")
    check_output("--recommend", recommend, TABLES)
    if dataset is not None and is_table(dataset):
        refuse_same("--recommend", recommend, "--dataset", dataset)


def _write_recommendations(data: Data, trainer: Observed, path: str, k: int) -> int:
    """Write user, item, rank (from 1) and score of all users' best next items; return how many users have some."""
    training = data.train._dataset
    told = training.all_histories()  # with the items of validation and test
    users = np.array(told["users"], dtype=object)
    histories = Histories(users, told["items"].numpy(), told["offsets"].numpy())
    options, items = training.config.final_config_dict, Items(item_tokens(training))
    recommender = Recommender(trainer.model.eval(), options, items, training.training_counts(), histories)
    getLogger().info(f"recommending: {recommender.viewed.why}")
    table = recommender.recommend(k=k)
    with atomic_write(path) as temporary:
        if Path(path).suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
    return int(table[training.uid_field].nunique())
