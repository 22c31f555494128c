"""One run of any RecBole model: configuration, data, training, test, record and other files."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from typing import Any, cast

import psutil
from recbole.config import Config
from recbole.trainer import Trainer
from recbole.utils import get_environment, init_seed, set_color

from recbole_bert4rec.checkpoints import Opened, OtherDataError, best_of
from recbole_bert4rec.core.fast.denormals import denormals_as_zero
from recbole_bert4rec.plugin.callbacks import Callback, Metrics
from recbole_bert4rec.plugin.config import flags_of_program
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import locked
from recbole_bert4rec.system.interrupts import Interrupted
from recbole_bert4rec.system.scoped import replaced
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Experiment, build, translate_errors
from recbole_bert4rec.training.epochs import EpochLog
from recbole_bert4rec.training.inputs import check_places, configure
from recbole_bert4rec.training.logs import logged, no_bars, say, shown
from recbole_bert4rec.training.newest import newest_checkpoint
from recbole_bert4rec.training.ranks import RankLog, write_ranks
from recbole_bert4rec.training.recommending import write_recommendations
from recbole_bert4rec.training.record import (
    RecordWriter,
    RunRecord,
    read_record,
    record_path,
    summary,
    unused,
    write_json,
)
from recbole_bert4rec.training.refit import refit, wants_refit
from recbole_bert4rec.training.request import RunRequest, RunResult
from recbole_bert4rec.training.retest import protocols_of, test_result
from recbole_bert4rec.training.saving import Saver
from recbole_bert4rec.training.screen import EpochLines, show_data, show_plan

_RUNNING = threading.Lock()


def run(request: RunRequest | None = None, **fields: Any) -> RunResult:
    """Train a model, select its best epoch on validation, test it once; any model of RecBole.

    ``run(model="BERT4Rec", dataset="ml-100k", options={"epochs": 3})`` trains for three epochs. A JSON record of the
    run and the best weights are written to the folder ``checkpoint_dir``.

    Args:
        request: what to run.
        **fields: fields of :class:`~recbole_bert4rec.training.request.RunRequest`, in place of a request or of some
            of its fields.

    Returns:
        Metrics, record and checkpoint.

    Raises:
        UserError: a mistake that the caller can mend; or another run is under way in this process.
    """
    request = RunRequest.of(request, fields)
    with _alone(), in_program(), shown(request.screen), warnings.catch_warnings(), denormals_as_zero():
        suppress_dependency_warnings()
        opened = resolved(request)
        try:
            return _logged_run(opened, any_data=request.resume is not True)
        except OtherDataError as error:
            if request.resume is not True:
                raise
            getLogger().warning(f"--resume: {error}. A new run begins")
        return _logged_run(replace(request, resume=None))


@contextmanager
def _alone() -> Iterator[None]:
    """Allow one run at a time: all runs of a process share its generators of random numbers."""
    if not _RUNNING.acquire(blocking=False):
        raise UserError("another run is under way in this process, with the same random numbers; start it in its own")
    try:
        yield
    finally:
        _RUNNING.release()


def _logged_run(request: RunRequest, any_data: bool = True) -> RunResult:
    """Run a request; ``any_data``: a finished run may be evaluated on other data than it was trained on."""
    watch = _Watch(request)
    config = configure(request)
    protocols = protocols_of(request, config)
    check_places(config)
    with logged(config) as log_file:
        about = f"{config['model']} on {config['dataset']}, seed {config['seed']}"
        say(f"{about}; options, model and details: {log_file}")
        return _run(request, watch, config, protocols, any_data)


def _run(
    request: RunRequest, watch: _Watch, config: Config, protocols: Mapping[str, Config], any_data: bool
) -> RunResult:
    _log_configuration(config)
    experiment = build(config, watch.callbacks, count_flops=True)
    trainer = experiment.trainer
    with _locked_files(trainer, request.checkpoint, any_data):
        only_evaluated = _is_only_evaluated(trainer)
        watch.writer.path = unused(record_path(trainer)) if only_evaluated else record_path(trainer)
        show_data(experiment.data)
        show_plan(experiment)
        test_metrics = _train_and_test(experiment, watch)
        record = watch.record(experiment, test_metrics)
        if protocols:
            weights = record["checkpoint"]
            record["also"] = {name: test_result(build(protocol), weights) for name, protocol in protocols.items()}
        if rank_of(config) == 0:
            _write_files(request, experiment, watch, record, may_refit=not only_evaluated)
    return RunResult(
        best_valid_score=trainer.best_valid_score,
        valid_score_bigger=config["valid_metric_bigger"],
        best_valid_result=trainer.best_valid_result,
        test_result=test_metrics,
        refit_test_result=record["refit"]["test_result"] if "refit" in record else None,
        record=record,
        record_path=watch.writer.path,
        checkpoint=Path(record["checkpoint"]),
    )


def resolved(request: RunRequest) -> RunRequest:
    """Return a request with the flags of the program, and with the checkpoint that it goes on from, if any."""
    if request.flags is None:
        request = replace(request, flags=translate_errors(flags_of_program, "the configuration"))
    if not isinstance(request.resume, bool):
        return request.opened()
    return replace(request, resume=newest_checkpoint(request) if request.resume else None)


class _Watch:
    """The callbacks of a run, and the record that they make of it."""

    def __init__(self, request: RunRequest) -> None:
        self._log, self.saver = EpochLog(), Saver()
        self.writer = RecordWriter(self._log)
        self.ranks = None if request.ranks is None else RankLog()
        self._budget = None if request.budget is None else Budget(request.budget)
        self._lines = EpochLines(self._log, self._budget)
        self._of_user = request.callbacks

    @property
    def callbacks(self) -> list[Callback]:
        """All of them, in the order that ``callbacks.py`` promises; the budget ends the training after the others."""
        watchers = [callback for callback in (self.ranks, self._budget, self.saver) if callback is not None]
        return [self._log, self.writer, self._lines, *self._of_user, *watchers]

    def record(self, experiment: Experiment, test_metrics: Metrics | None) -> RunRecord:
        """Return the record of the run so far."""
        record = self.writer.record(experiment.trainer, test_metrics)
        if self._budget is not None:
            record["budget"] = {"seconds": self._budget.seconds, "last_epoch_share": self._budget.last_epoch_share}
        return record


def _log_configuration(config: Config) -> None:
    """Write RecBole's first lines."""
    psutil.cpu_percent()  # the next call returns the mean since this one
    init_seed(config["seed"], config["reproducibility"])
    logger = getLogger()
    logger.info(sys.orig_argv)
    logger.info(config)


@contextmanager
def _locked_files(trainer: Trainer, resume: Opened | None, any_data: bool) -> Iterator[None]:
    """Go on from a checkpoint, if there is one; keep other runs away from this one's files."""
    with ExitStack() as stack:
        if rank_of(trainer.config) == 0:
            file = Path(trainer.saved_model_file if resume is None else best_of(resume.path))
            lock = file.with_name(f".{file.stem}.lock")
            stack.enter_context(locked(lock, "run", "--checkpoint_dir", file))
        if resume is not None:
            cast(BERT4RecTrainer, trainer).resume_checkpoint(resume.path, resume.state, any_data)
            resume.state.clear()  # its weights are the model's now
        yield


def _is_only_evaluated(trainer: Trainer) -> bool:
    """Tell whether the training is finished and recorded, so that this run only tests or recommends."""
    if not isinstance(trainer, BERT4RecTrainer) or not trainer.finished:
        return False
    try:
        record = read_record(record_path(trainer))
    except UserError:
        return trainer.start_epoch > trainer.epochs or record_path(trainer).exists()
    if record.get("unfinished"):
        return trainer.start_epoch > trainer.epochs
    return trainer.start_epoch > trainer.epochs or "refit" in record or not wants_refit(trainer.config)


def _train_and_test(experiment: Experiment, watch: _Watch) -> Metrics | None:
    data, trainer, show = experiment.data, experiment.trainer, experiment.data.config["show_progress"]
    _, best_metrics = watch.saver.fit(trainer, data.train, data.valid, show_progress=show)
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


def _write_files(
    request: RunRequest, experiment: Experiment, watch: _Watch, record: RunRecord, may_refit: bool
) -> None:
    """Write the record, then all other files that the request names, which take time."""
    data, path = experiment.data, watch.writer.path
    if watch.ranks is not None and request.ranks is not None:
        write_ranks(request.ranks, watch.ranks.by_user())
    write_json(path, record)
    if may_refit and wants_refit(data.config):
        best_epoch = record["best_epoch"]
        assert best_epoch is not None  # `check_refit` saw to it that epochs are trained and validated
        record["refit"] = refit(data.config, best_epoch + 1, cast(BERT4Rec, experiment.model).memory)
        write_json(path, record)
    if request.recommend is not None:
        users = write_recommendations(
            cast(BERT4Rec, experiment.model),
            data.train._dataset,
            request.recommend,
            request.k,
            data.config["show_progress"] and not no_bars(request.screen),
        )
        say(f"up to {request.k} items for each of {users} users written to {request.recommend}")
    say(summary(record, path))
