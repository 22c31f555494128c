"""One run of any RecBole model: configuration, data, training, test, record and other files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from typing import Any, NamedTuple, cast

from recbole.config import Config
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.utils import get_environment, init_logger, init_seed, set_color

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import locked
from recbole_bert4rec.plugin.checkpoint import best_of
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.recommend.attention import write_attention
from recbole_bert4rec.recommend.recommend import write_recommendations
from recbole_bert4rec.training.budget import Budget
from recbole_bert4rec.training.build import Data, Experiment, build
from recbole_bert4rec.training.callbacks import Callback, Metrics, Observed
from recbole_bert4rec.training.epochs import EpochLog
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.newest import newest_checkpoint
from recbole_bert4rec.training.ranks import RankLog, write_ranks
from recbole_bert4rec.training.record import (
    Clock,
    RunRecord,
    make_record,
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
        UserError: something that the caller can mend.
    """
    request = resolved(RunRequest.of(request, fields))
    watch = _Watch(request)
    config = configure(request)
    protocols = protocols_of(request, config)
    _log_configuration(config)
    experiment = build(config, watch.callbacks, count_flops=True)
    with _own_files(experiment.trainer, request.checkpoint):
        again = _looks_again(experiment.trainer)
        scores = _train_and_test(experiment, watch)
        record = watch.record(experiment, scores)
        if protocols:
            record["also"] = {name: test_result(build(one), record["checkpoint"]) for name, one in protocols.items()}
        path = record_path(experiment.trainer)
        path = unused(path) if again else path
        if config["local_rank"] == 0:
            _write_files(request, experiment, watch.ranks, record, path, may_refit=not again)
    return RunResult(
        best_valid_score=scores.best_score,
        valid_score_bigger=config["valid_metric_bigger"],
        best_valid_result=scores.best_metrics,
        test_result=scores.test_metrics,
        refit_test_result=record["refit"]["test_result"] if "refit" in record else None,
        record=record,
        record_path=path,
        checkpoint=Path(record["checkpoint"]),
    )


def resolved(request: RunRequest) -> RunRequest:
    """Return a request that names the checkpoint that it goes on from, if any."""
    if not isinstance(request.resume, bool):
        return request
    return replace(request, resume=newest_checkpoint(request) if request.resume else None)


class _Scores(NamedTuple):
    best_score: float
    best_metrics: Metrics | None
    test_metrics: Metrics | None


class _Watch:
    """The clock and the callbacks of a run, and what they say about it in its record."""

    def __init__(self, request: RunRequest) -> None:
        self.clock, self.log, self.saver = Clock(), EpochLog(), Saver()
        self.ranks = None if request.ranks is None else RankLog()
        self._budget = None if request.budget is None else Budget(request.budget)
        self._of_user = request.callbacks

    @property
    def callbacks(self) -> list[Callback]:
        """In the order that ``callbacks.py`` promises; the budget ends the training after all others were told."""
        own = [callback for callback in (self.ranks, self._budget, self.saver) if callback is not None]
        return [self.log, *self._of_user, *own]

    def record(self, experiment: Experiment, scores: _Scores) -> RunRecord:
        """Return the record of the run so far."""
        seconds = self.clock.seconds(self.log.before)
        record = make_record(experiment.data.config, experiment.trainer, self.log, seconds, *scores)
        if self._budget is not None:
            record["budget"] = {"seconds": self._budget.seconds, "last_epoch_share": self._budget.last_epoch_share}
        if self.ranks is not None:
            record["variety"] = _variety(self.ranks, experiment.data)
        return record


def _log_configuration(config: Config) -> None:
    """Write RecBole's first lines."""
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    logger = getLogger()
    logger.info(sys.orig_argv)
    logger.info(config)


@contextmanager
def _own_files(trainer: Observed, resume: str | None) -> Iterator[None]:
    """Go on from a checkpoint, if there is one; keep other runs away from this one's files.

    Raises:
        UserError: another run writes the same files.
    """
    with ExitStack() as stack:
        if trainer.config["local_rank"] == 0:
            file = Path(trainer.saved_model_file if resume is None else best_of(resume))
            lock = file.with_name(f".{file.stem}.lock")
            stack.enter_context(locked(lock, "run", "--checkpoint_dir", file))
        if resume is not None:
            trainer.resume_checkpoint(resume)
        yield


def _looks_again(trainer: Observed) -> bool:
    """Tell whether the training is finished and recorded, so that this run only ranks in another way, or recommends."""
    if not getattr(trainer, "finished", False):
        return False
    try:
        record = read_record(record_path(trainer))
    except UserError:
        return trainer.start_epoch > trainer.epochs or record_path(trainer).exists()
    return trainer.start_epoch > trainer.epochs or "refit" in record or not wants_refit(trainer.config)


def _train_and_test(experiment: Experiment, watch: _Watch) -> _Scores:
    data, trainer, show = experiment.data, experiment.trainer, experiment.data.config["show_progress"]
    watch.clock.loaded()
    best_score, best_metrics = watch.saver.fit(trainer, data.train, data.valid, show_progress=show)
    watch.clock.trained()
    test_metrics = trainer.evaluate(data.test, load_best_model=True, show_progress=show)
    _log_results(data.config, best_metrics, test_metrics)
    return _Scores(best_score, best_metrics, test_metrics)


def _log_results(config: Config, valid: Metrics | None, test: Metrics | None) -> None:
    """Write RecBole's last lines."""
    logger = getLogger()
    logger.info("The running environment of this training is as follows:\n" + get_environment(config).draw())
    logger.info(set_color("best valid ", "yellow") + f": {valid}")
    logger.info(set_color("test result", "yellow") + f": {test}")


def _variety(ranks: RankLog, data: Data) -> dict[str, float]:
    """Return the variety of what is recommended; nothing where candidates are drawn, which say nothing about it."""
    if not isinstance(data.test, FullSortEvalDataLoader):
        return {}
    return ranks.variety(data.interactions.training_counts(data.train, (data.valid, data.test)))


def _write_files(
    request: RunRequest, experiment: Experiment, ranks: RankLog | None, record: RunRecord, path: Path, may_refit: bool
) -> None:
    """Write the record and whatever else is asked for; the record first, for the rest takes time."""
    data, logger = experiment.data, getLogger()
    if ranks is not None and request.ranks is not None:
        write_ranks(request.ranks, ranks.by_user())
    write_json(path, record)
    if may_refit and wants_refit(data.config):
        best_epoch = record["best_epoch"]
        assert best_epoch is not None  # `check_refit` saw to it that epochs are trained and validated
        record["refit"] = refit(data.config, best_epoch + 1)
        write_json(path, record)
    if request.recommend is not None:
        users = write_recommendations(
            cast(BERT4Rec, experiment.model),
            data.train._dataset,
            request.recommend,
            request.k,
            data.config["exclude_seen"],
        )
        logger.info(f"up to {request.k} items for each of {users} users written to {request.recommend}")
    if request.attention is not None:
        loader = data.test if len(data.test) else data.valid
        users = write_attention(cast(BERT4Rec, experiment.model), loader, request.attention)
        logger.info(f"attention in the mean over {users} users drawn in {request.attention}")
    logger.info(summary(record, path))
