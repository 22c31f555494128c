"""Answer parts of the users in actors of Ray Data, each with its own model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from packaging.version import Version

from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.ray.cluster import check_workers, start_ray
from recbole_bert4rec.recommend.bulk import Count, Part, Question
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError

_OLDEST = Version("2.10")
"""The Data of Ray 2.6 cannot be imported beside today's setuptools."""


class _Answering:
    """An actor, which loads a model and answers parts."""

    def __init__(self, question: Question, load: Callable[[], Recommender], parts: list[Part]) -> None:
        self._question, self._model, self._parts = question, load(), parts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Answer the one part of a batch."""
        (number,) = batch["item"]
        return _row_of(lambda: self._question.ask(self._model, self._parts[number]))


class _Dividing:
    """A task, which divides some of the files, a share, into parts of the users."""

    def __init__(self, shares: list[InteractionFile], folder: Path, count: int) -> None:
        self._shares, self._folder, self._count = shares, folder, count

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Divide the one share of a batch."""
        (number,) = batch["item"]

        def divide() -> Count:
            self._shares[number].divide(self._folder / f"{number:05d}", self._count)
            return Count()

        return _row_of(divide)


def _row_of(work: Callable[[], Count]) -> dict[str, Any]:
    """Return a row of Ray's with the count of some work, or the mistake that the user can mend."""
    try:
        count, mistake = work(), ""
    except UserError as error:
        count, mistake = Count(), str(error)
    return {**{name: [number] for name, number in count._asdict().items()}, "mistake": [mistake]}


@contextmanager
def on_ray(
    question: Question, load: Callable[[], Recommender], workers: int, address: str | None
) -> Iterator[RayEngine]:
    """Join a cluster, or start Ray for this machine alone, for as long as parts are answered."""
    if Version(ray.__version__) < _OLDEST:
        raise UserError(
            f"--engine=ray recommends with Ray {_OLDEST} or later, but {ray.__version__} is installed; "
            "`pip install --upgrade ray` brings today's"
        )
    from ray.data import DataContext  # which an old Ray cannot import

    start_ray(address)
    try:
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        DataContext.get_current().enable_progress_bars = False
        yield RayEngine(question, load, workers, check_workers(workers))
    finally:
        ray.shutdown()


class RayEngine:
    """Answers parts in actors; a part whose actor is lost is answered again as a whole."""

    def __init__(self, question: Question, load: Callable[[], Recommender], workers: int, on_gpu: bool) -> None:
        self._question, self._load, self._workers, self._on_gpu = question, load, workers, on_gpu

    def divide(self, source: InteractionFile, folder: Path) -> list[list[Path]]:
        """Divide as many shares of the files at once as there are actors."""
        shares = source.shares(self._workers)
        list(_each(len(shares), _Dividing(shares, folder, source.n_parts)))
        by_part: dict[str, list[Path]] = {}
        for file in sorted(folder.glob("*/*.arrow")):
            by_part.setdefault(file.name, []).append(file)
        return [by_part[name] for name in sorted(by_part)]

    def answer(self, parts: list[Part]) -> Iterator[Count]:
        """Answer each part by the next free actor."""
        actors: dict[str, Any] = {
            "compute": ray.data.ActorPoolStrategy(size=self._workers),
            "fn_constructor_args": (self._question, self._load, parts),
        }
        if self._on_gpu:
            actors["num_gpus"] = 1
        return _each(len(parts), _Answering, **actors)


def _each(count: int, work: Any, **how: Any) -> Iterator[Count]:
    """Do the work on each number below ``count``; yield the counts as they come."""
    if not count:
        return
    queue = ray.data.from_items([{"item": number} for number in range(count)], override_num_blocks=count)
    for row in queue.map_batches(work, batch_size=1, **how).iter_rows():
        if row["mistake"]:
            raise UserError(row["mistake"])
        yield Count(*(row[name] for name in Count._fields))
