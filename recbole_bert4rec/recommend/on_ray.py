"""Answers parts of the users in actors of Ray Data, each with its own model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext

from recbole_bert4rec.recommend.bulk import Answering, Count, Part, Question
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.ray_cluster import check_workers, start_ray


class _Actor:
    """Loads a model and answers parts."""

    def __init__(self, question: Question, load: Callable[[], Recommender], parts: list[Part]) -> None:
        self._question, self._model, self._parts = question, load(), parts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Answer the one part of a batch; return its count, or the mistake that the user can mend."""
        (number,) = batch["number"]
        try:
            count, mistake = self._question.ask(self._model, self._parts[number]), ""
        except UserError as error:  # which Ray would raise as an error of its own, or try again
            count, mistake = Count(), str(error)
        return {name: [value] for name, value in {**count._asdict(), "mistake": mistake}.items()}


@contextmanager
def on_ray(
    question: Question, load: Callable[[], Recommender], workers: int, address: str | None
) -> Iterator[Answering]:
    """Join a cluster, or start Ray for this machine alone, for as long as parts are answered.

    A part whose actor is lost is answered again as a whole.
    """
    start_ray(address)
    try:
        on_gpu = check_workers(workers)
        DataContext.get_current().enable_progress_bars = False

        def answer(parts: list[Part]) -> Iterator[Count]:
            if not parts:
                return
            numbers = ray.data.from_items(
                [{"number": number} for number in range(len(parts))], override_num_blocks=len(parts)
            )
            rows = numbers.map_batches(
                _Actor,
                fn_constructor_args=(question, load, parts),
                batch_size=1,
                compute=ActorPoolStrategy(size=workers),
                num_gpus=int(on_gpu),
            )
            for row in rows.iter_rows():
                if mistake := row.pop("mistake"):
                    raise UserError(mistake)
                yield Count(**row)

        yield answer
    finally:
        ray.shutdown()
