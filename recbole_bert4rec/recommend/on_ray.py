"""Answer the parts of a file in actors of Ray Data, each with its own model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import ray
from numpy.typing import NDArray
from ray.data import ActorPoolStrategy, DataContext
from tqdm import tqdm

from recbole_bert4rec.recommend.bulk import Answer, answer_part
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.ray_cluster import check_workers, start_ray


class _Actor:
    """Loads a model and answers parts."""

    def __init__(self, load: Callable[[], Recommender], how: Mapping[str, Any]) -> None:
        self._model, self._how = load(), how

    def __call__(self, part: pd.DataFrame) -> dict[str, NDArray[np.object_]]:
        """Return a part's answer, or a ``UserError``, which Ray would raise as an error of its own."""
        answer = np.empty(1, dtype=object)
        try:
            answer[0] = answer_part(self._model, self._how, part)
        except UserError as error:
            answer[0] = error
        return {"answer": answer}


@contextmanager
def answer_on_ray(
    load: Callable[[], Recommender], how: Mapping[str, Any], workers: int, address: str | None
) -> Iterator[Answer]:
    """Join a cluster, or start Ray on this machine, while the parts of a file are answered.

    Ray keeps the parts, on the disk if memory does not hold them. If an actor is lost, its part is answered again.
    """
    start_ray(address)
    try:
        on_gpu = check_workers(workers)
        context = DataContext.get_current()
        context.enable_progress_bars, context.execution_options.preserve_order = False, True

        def answer(parts: Iterable[pd.DataFrame]) -> Iterator[tuple[pd.DataFrame, Counter[str]]]:
            blocks: list[Any] = [ray.put(part) for part in parts]
            answers = ray.data.from_pandas_refs(blocks).map_batches(
                _Actor,
                fn_constructor_args=(load, how),
                batch_size=None,
                batch_format="pandas",
                compute=ActorPoolStrategy(size=workers),
                num_gpus=int(on_gpu),
            )
            for row in tqdm(answers.iter_rows(), "answers", len(blocks), ncols=100, disable=None):
                if isinstance(row["answer"], UserError):
                    raise row["answer"]
                yield row["answer"]

        yield answer
    finally:
        ray.shutdown()
