"""A trained model that was exported to a folder; onnxruntime computes it, without torch and RecBole."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.recommend.answers import no_scores
from recbole_bert4rec.recommend.base import BATCH_SIZE, SCORES_AT_ONCE, BaseRecommender
from recbole_bert4rec.recommend.histories import Dates, Pairs
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.scorer import Batch, Floats
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError, short

FORMAT = "recbole_bert4rec export 4"
GRAPH, OPTIONS, CATALOGUE, MEMORY = "model.onnx", "options.json", "items.json", "memory.npz"
"""Files of an exported folder."""


class ExportedModel(BaseRecommender):
    """An exported model; :func:`recbole_bert4rec.load` makes one of a folder.

    Its answers are those of :class:`~recbole_bert4rec.Recommender`, whose methods of the same names say what histories
    and other arguments may be. It computes on the processor.

    Attributes:
        options: those of the export.
        fields: names of the columns of users, items and times.
        viewed: the rule of ``filter_viewed="auto"``.
    """

    def __init__(self, folder: str | os.PathLike[str], batch_size: int = BATCH_SIZE) -> None:
        path = Path(folder)
        self.options = _read(path / OPTIONS)
        if self.options.get("format") != FORMAT:
            format_there = short(self.options.get("format"))
            raise UserError(f"{folder} has the format {format_there}, but this version reads {FORMAT!r}")
        catalogue = _read(path / CATALOGUE)
        items, counts = Items(catalogue["ids"]), np.array(catalogue["counts"], dtype=np.int64)
        user, item, time = self.options["fields"]
        exclude_seen: bool = self.options["exclude_seen"]
        scorer = OnnxScorer(path, self.options, counts)
        super().__init__(
            scorer, items, (user, item, time), Dates(*self.options["dates"]), exclude_seen, None, batch_size
        )


class OnnxScorer:
    """The :class:`~recbole_bert4rec.recommend.scorer.Scorer` of an exported graph.

    *Shape:* counts (N,)
    """

    def __init__(self, folder: Path, options: Mapping[str, Any], counts: NDArray[np.int64]) -> None:
        self._inputs, self._session = options["inputs"], _session(folder / GRAPH)
        self.n_items, self.longest = len(counts), options["max_items"]
        self.hidden_size: int = self._session.get_outputs()[0].shape[1]
        self.seen_bias: float | None = options["seen_bias"]
        self.popularity: Floats = np.log(counts + 1.0).astype(np.float32)
        self.most: int | None = max(1, SCORES_AT_ONCE // self.n_items)
        self._memory = _memory(folder / MEMORY, self.n_items) if options["memory"] else None

    def ranking(self, items: NDArray[np.int64] | None) -> OnnxRanking:
        """Make some items, ascending, or all ready to be ranked."""
        return OnnxRanking(self, items)

    def scores(self, batch: Batch) -> Floats:
        """Score all items after known histories; padding has -inf. *Shape:* (B, N)."""
        scores = self._run("scores", batch)
        if self._memory is not None:
            rows, items, additions = self._memory.additions(batch.items, batch.lengths)
            scores[rows, items] += additions
        return scores

    def vectors(self, batch: Batch) -> Floats:
        """Return the vector from which the next item of each known history is read. *Shape:* (B, H)."""
        return self._run("vectors", batch)

    def _run(self, output: str, batch: Batch) -> Floats:
        whole = batch.histories.latest(batch.rows) if "history" in self._inputs else None
        inputs = {"items": batch.items, "history": whole}
        result: Floats = self._session.run([output], {name: inputs[name] for name in self._inputs})[0]
        return result


class OnnxRanking:
    """Some items of an :class:`OnnxScorer`, ready to be ranked."""

    def __init__(self, scorer: OnnxScorer, items: NDArray[np.int64] | None) -> None:
        self._scorer = scorer
        self._allowed = np.full(scorer.n_items, items is None)
        self._allowed[[] if items is None else items] = True
        self._allowed[PADDING] = False
        self.n_items = int(self._allowed.sum())

    def best(self, batch: Batch, k: int, removed: Pairs) -> tuple[Floats, NDArray[np.int64]]:
        """Return scores and items of the k best, best first. *Shape:* (B, k) each."""
        known, popularity = batch.known, self._scorer.popularity
        scores = self._scorer.scores(batch) if known else np.tile(popularity, (len(batch.rows), 1))
        if np.isnan(scores).any():
            raise no_scores()
        scores[:, ~self._allowed] = -np.inf
        scores[removed] = -np.inf
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(scores, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        return np.take_along_axis(values, order, 1), np.take_along_axis(best, order, 1)


def _read(path: Path) -> dict[str, Any]:
    """Read a file of JSON."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise UserError(f"{path.parent} is not a folder that `export` wrote: {path.name} ({error})") from error


def _memory(path: Path, n_items: int) -> Memory:
    """Read what items followed which in training."""
    try:
        with np.load(path) as state:
            return Memory.from_state(state, n_items)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); export again") from error


def _session(path: Path) -> Any:
    """Open the graph."""
    need("an exported model", "onnxruntime")
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many types for damaged files
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
