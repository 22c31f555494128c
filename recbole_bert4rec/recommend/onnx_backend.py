"""Score with a model that was exported to a folder, by onnxruntime, without torch and RecBole."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.segments import pair_keys, split_keys
from recbole_bert4rec.recommend.answers import Floats, check_scores
from recbole_bert4rec.recommend.histories import Pairs
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError, short

FORMAT = "recbole_bert4rec export 6"
GRAPH, OPTIONS, CATALOGUE, MEMORY = "model.onnx", "options.json", "items.json", "memory.npz"
"""Files of an exported folder."""


class OnnxBackend:
    """Computes the scores of torch's backend: those of the graph, to which ``seen_bias`` and ``memory`` are added."""

    makes_all_scores = True

    def __init__(self, folder: Path, options: dict[str, Any], counts: NDArray[np.int64]) -> None:
        need("an exported model", "onnxruntime")
        import onnxruntime

        self._folder, self.counts = folder, counts
        try:
            self._graph = onnxruntime.InferenceSession(folder / GRAPH, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises many types for damaged files
            raise UserError(f"{folder / GRAPH} cannot be read: {str(error).splitlines()[0]}") from error
        self.hidden_size: int = self._graph.get_outputs()[0].shape[1]
        self.longest: int = options["max_items"]
        self.seen_bias: float | None = options["seen_bias"]
        self._memory: Memory | None = None
        if options["memory"]:
            with np.load(folder / MEMORY) as state:
                self._memory = Memory.from_state(state, len(counts))

    def best(
        self, items: NDArray[np.int64], seen: Pairs, k: int, removed: Pairs, allowed: NDArray[np.int64] | None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Return the k best of the allowed items, without removed ones. *Shape:* (B, L), (C,) -> (B, k) each."""
        scores = self.scores(items, seen)
        check_scores(scores)  # NaN has no order
        scores[removed] = -np.inf
        if allowed is not None:
            scores = scores[:, allowed]
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(scores, best, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        best = np.take_along_axis(best, order, 1)
        return np.take_along_axis(values, order, 1), best if allowed is None else allowed[best]

    def scores(self, items: NDArray[np.int64], seen: Pairs) -> Floats:
        """Score all items after histories; padding has -inf. *Shape:* (B, L) -> (B, N)."""
        scores: Floats = self._graph.run(["scores"], {"items": items})[0]
        if self.seen_bias is not None and self.seen_bias < 0:
            scores[seen] += self.seen_bias
        elif self.seen_bias is not None:  # a positive one is added only to the items that the model reads
            keys = np.unique(pair_keys(np.arange(len(items))[:, None], items, len(self.counts)))
            scores[split_keys(keys, len(self.counts))] += self.seen_bias
        if self._memory is not None:
            rows, others, additions = self._memory.additions(items, (items != PADDING).sum(1))
            scores[rows, others] += additions
        return scores

    def vectors(self, items: NDArray[np.int64]) -> Floats:
        """Return the vector from which the next item of each history is read. *Shape:* (B, L) -> (B, H)."""
        vectors: Floats = self._graph.run(["vectors"], {"items": items})[0]
        return vectors

    @property
    def ranker(self) -> NoReturn:
        """Refuse what the graph lacks: a network of torch, and vectors of items."""
        raise UserError(
            f"{self._folder} is an exported model, without network and vectors of items; ask its checkpoint"
        )

    item_vectors = similar = ranker


def model_of_folder(folder: str | os.PathLike[str]) -> tuple[OnnxBackend, Items, dict[str, Any]]:
    """Return what a Recommender is made of, from a folder that ``export`` wrote."""
    path = Path(folder)
    try:
        options, catalogue = (json.loads((path / name).read_text("utf-8")) for name in (OPTIONS, CATALOGUE))
        if options["format"] != FORMAT:
            raise UserError(f"{folder} has the format {short(options['format'])}, but this version reads {FORMAT!r}")
        items, counts = Items(catalogue["ids"]), np.array(catalogue["counts"], dtype=np.int64)
        return OnnxBackend(path, options, counts), items, options["config"]
    except (OSError, LookupError, TypeError, EOFError, zipfile.BadZipFile, json.JSONDecodeError) as error:
        raise UserError(f"{folder} is not a folder that `export` wrote: {type(error).__name__}, {error}") from error
