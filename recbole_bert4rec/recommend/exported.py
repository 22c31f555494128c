"""A trained model that was exported to a folder; onnxruntime computes it, without torch and RecBole."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.options.kinds import Real, SomeOf, Switch, Whole, or_null
from recbole_bert4rec.recommend.answers import check, no_scores
from recbole_bert4rec.recommend.base import BATCH_SIZE, SCORES_AT_ONCE, BaseRecommender
from recbole_bert4rec.recommend.histories import Dates, Pairs
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.scorer import Batch, Floats
from recbole_bert4rec.system.arrays import UNREADABLE, read_arrays
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.extras import need
from recbole_bert4rec.system.files import digest_of

FORMAT = "recbole_bert4rec export 3"
GRAPH, OPTIONS, CATALOGUE, MEMORY = "model.onnx", "options.json", "items.json", "memory.npz"
"""Files of an exported folder."""
_INPUTS = ("items", "history")
"""Inputs that a graph may have."""
_OF_CHECKPOINTS = ("explain", "item_vectors", "similar_items")
"""Methods that only a :class:`Recommender` has."""
_RULES: dict[str, Callable[[Any], bool]] = {
    "fields": lambda value: SomeOf().accepts(value) and len(value) == 3,
    "dates": lambda value: (
        isinstance(value, list) and len(value) == 2 and all(part is None or isinstance(part, str) for part in value)
    ),
    "max_items": Whole(1).accepts,
    "exclude_seen": Switch().accepts,
    "seen_bias": or_null(Real(-math.inf, brackets="()")).accepts,
    "inputs": SomeOf(_INPUTS).accepts,
    "sha256": lambda value: isinstance(value, dict) and {GRAPH, CATALOGUE, OPTIONS} <= set(value),
}
"""Checks of the options that answers depend on, by name."""


class ExportedModel(BaseRecommender):
    """An exported model; :func:`recbole_bert4rec.load` makes one of a folder.

    Its answers are those of :class:`~recbole_bert4rec.Recommender`, whose methods of the same names say what histories
    and other arguments may be. It computes on the processor.

    Args:
        folder: that ``export`` wrote.
        batch_size: histories that are scored at once.

    Attributes:
        options: those of the export.
        fields: names of the columns of users, items and times.
        viewed: the rule of ``filter_viewed="auto"``.

    Raises:
        UserError: the folder is not an export, something in it is damaged, or onnxruntime is missing.
    """

    def __init__(self, folder: str | os.PathLike[str], batch_size: int = BATCH_SIZE) -> None:
        check("batch_size", batch_size, Whole(1))
        path = Path(folder)
        self.options = _read(path / OPTIONS, {"format": lambda value: isinstance(value, str)})
        if self.options["format"] != FORMAT:
            format_there = short(self.options["format"])
            raise UserError(f"{folder} has the format {format_there}, but this version reads {FORMAT!r}")
        self.options = _read(path / OPTIONS, _RULES)
        _check_digests(path, self.options)
        catalogue = _read(path / CATALOGUE, {"ids": SomeOf().accepts, "counts": _are_counts})
        items, counts = Items(catalogue["ids"]), np.array(catalogue["counts"], dtype=np.int64)
        if len(counts) != len(items.tokens):
            raise UserError(f"{folder}: {CATALOGUE} has {len(catalogue['ids'])} ids, but counts of {len(counts)}")
        user, item, time = self.options["fields"]
        exclude_seen: bool = self.options["exclude_seen"]
        scorer = OnnxScorer(path, self.options, counts)
        super().__init__(
            scorer, items, (user, item, time), Dates(*self.options["dates"]), exclude_seen, None, batch_size
        )

    def __getattr__(self, name: str) -> Any:
        if name in _OF_CHECKPOINTS:
            raise AttributeError(f"an exported model has no {name}; load the checkpoint that it was made of")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class OnnxScorer:
    """The :class:`~recbole_bert4rec.recommend.scorer.Scorer` of an exported graph.

    Args:
        folder: of the export.
        options: of the export.
        counts: how often each item stands in training. *Shape:* (N,)
    """

    def __init__(self, folder: Path, options: Mapping[str, Any], counts: NDArray[np.int64]) -> None:
        self._folder, self._inputs, self._session = folder, options["inputs"], _session(folder / GRAPH)
        self.n_items, self.longest = len(counts), options["max_items"]
        self.hidden_size: int = self._session.get_outputs()[0].shape[1]
        self.seen_bias: float | None = options["seen_bias"]
        self.popularity: Floats = np.log(counts + 1.0).astype(np.float32)
        self.most: int | None = max(1, SCORES_AT_ONCE // self.n_items)
        self._memory = _memory(folder / MEMORY, self.n_items) if MEMORY in options["sha256"] else None

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
        try:
            result: Floats = self._session.run([output], {name: inputs[name] for name in self._inputs})[0]
        except Exception as error:  # onnxruntime raises many types where options are not the graph's
            graph, options = self._folder / GRAPH, self._folder / OPTIONS
            raise UserError(f"{graph} cannot be asked as {options} says: {' '.join(str(error).split())}") from error
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


def _read(path: Path, rules: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any]:
    """Read a file of JSON whose entries follow some rules.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path.parent} is not a folder that `export` wrote: {path.name} ({error})") from error
    wrong = [
        name
        for name, fits in rules.items()
        if not isinstance(values, dict) or name not in values or not fits(values[name])
    ]
    if wrong:
        raise UserError(f"{path} is damaged: {', '.join(wrong)}; export again")
    return dict(values)


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(count, int) and 0 <= count < 1 << 62 for count in values)


def digest_of_options(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an export's options, but for the digests among them, in hexadecimal digits."""
    text = json.dumps({name: value for name, value in options.items() if name != "sha256"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_digests(folder: Path, options: Mapping[str, Any]) -> None:
    """Compare files with what their SHA-256 was when they were exported.

    Raises:
        UserError: one is another, or cannot be read.
    """
    for name, digest in options["sha256"].items():
        if Path(name).name != name:
            raise UserError(f"{folder / OPTIONS} is damaged: sha256 of {short(name)}; export again")
        try:
            same = (digest_of_options(options) if name == OPTIONS else digest_of(folder / name)) == digest
        except (OSError, ValueError) as error:
            raise UserError(
                f"{folder} is not whole: {short(name)} cannot be read ({why(error)}); export again"
            ) from error
        if not same:
            raise UserError(f"{folder / name} is damaged: its SHA-256 is not that of the export; export again")


def _memory(path: Path, n_items: int) -> Memory:
    """Read what items followed which in training.

    Raises:
        UserError: it is damaged.
    """
    try:
        return Memory.from_state(read_arrays(path), n_items)
    except UNREADABLE as error:
        raise UserError(f"{path} cannot be read ({type(error).__name__}); export again") from error


def _session(path: Path) -> Any:
    """Open the graph.

    Raises:
        UserError: it is damaged.
        MissingExtraError: onnxruntime is not installed.
    """
    need("an exported model", "onnxruntime")
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises many types for damaged files
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
