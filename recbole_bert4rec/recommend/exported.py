"""A trained model that was exported to a folder, asked through onnxruntime: no torch, no RecBole."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from logging import getLogger
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recbole_bert4rec.options.kinds import Real, SomeOf, Switch, Whole, or_null
from recbole_bert4rec.recommend.answers import (
    NobodyError,
    Vectors,
    ViewedRule,
    check,
    check_names_of_columns,
    metrics_of,
    needs_times,
    no_scores,
    nothing_left,
    ranks_of,
    viewed_rule,
)
from recbole_bert4rec.recommend.given import ByUser, Dates, Given, Ids, Items, by_user, places_of, read_given
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short
from recbole_bert4rec.system.extras import need
from recbole_bert4rec.system.files import digest_of

FORMAT = "recbole_bert4rec export 3"
GRAPH, OPTIONS, CATALOGUE = "model.onnx", "options.json", "items.json"
"""Files of an exported folder."""
BATCH_SIZE = 256
_SCORES_AT_ONCE = 1 << 25
_INPUTS = ("items", "times", "history")
"""What a graph may take."""
_OF_CHECKPOINTS = ("build_index", "explain", "item_vectors", "rank_of", "similar_items")
"""What a :class:`Recommender` can be asked besides."""
_RULES: dict[str, Callable[[Any], bool]] = {
    "fields": lambda value: SomeOf().accepts(value) and len(value) == 3,
    "dates": lambda value: (
        isinstance(value, list) and len(value) == 3 and all(one is None or isinstance(one, str) for one in value)
    ),
    "max_items": Whole(1).accepts,
    "exclude_seen": Switch().accepts,
    "seen_bias": or_null(Real(-math.inf, brackets="()")).accepts,
    "inputs": SomeOf(_INPUTS).accepts,
    "sha256": lambda value: isinstance(value, dict) and {GRAPH, CATALOGUE, OPTIONS} <= set(value),
}
"""Which values of the options asking can work with."""


class ExportedModel:
    """An exported model; :func:`recbole_bert4rec.load` makes one of a folder.

    Its answers are those of :class:`~recbole_bert4rec.Recommender`, whose methods of the same names say what histories
    and other arguments may be. It computes on the processor.

    Args:
        folder: that ``export`` wrote.
        batch_size: histories that are scored at once.

    Attributes:
        options: what the export says of itself.
        fields: names of the columns of users, items and times.
        viewed: what ``filter_viewed="auto"`` does.

    Raises:
        UserError: the folder is not an export, something in it is damaged, or onnxruntime is missing.
    """

    def __init__(self, folder: str | os.PathLike[str], batch_size: int = BATCH_SIZE) -> None:
        check("batch_size", batch_size, Whole(1))
        self.batch_size = batch_size
        self._folder = Path(folder)
        self.options = _read(self._folder / OPTIONS, {"format": lambda value: isinstance(value, str)})
        if self.options["format"] != FORMAT:
            found = short(self.options["format"])
            raise UserError(f"{folder} has the format {found}, but this version reads {FORMAT!r}")
        self.options = _read(self._folder / OPTIONS, _RULES)
        _check_digests(self._folder, self.options)
        catalogue = _read(self._folder / CATALOGUE, {"ids": SomeOf().accepts, "counts": _are_counts})
        self._items = Items(catalogue["ids"])
        self._counts = np.array(catalogue["counts"], dtype=np.int64)
        if len(self._counts) != len(self._items.tokens):
            raise UserError(f"{folder}: {CATALOGUE} has {len(catalogue['ids'])} ids, but counts of {len(self._counts)}")
        user, item, time = self.options["fields"]
        self.fields: tuple[str, str, str] = (user, item, time)
        self.viewed: ViewedRule = viewed_rule(self.options["seen_bias"], self.options["exclude_seen"])
        self._session = _session(self._folder / GRAPH)

    @property
    def items(self) -> list[str]:
        """External ids of the catalogue."""
        return list(self._items.tokens[1:])

    def __getattr__(self, name: str) -> Any:
        if name in _OF_CHECKPOINTS:
            raise AttributeError(f"an exported model has no {name}; load the checkpoint that it was made of")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def recommend(
        self,
        histories: ByUser | pd.DataFrame,
        k: int = 10,
        filter_viewed: bool | Literal["auto"] = "auto",
        items_to_recommend: Ids | None = None,
        exclude: Ids | Mapping[Any, Ids] | None = None,
        times: ByUser | None = None,
    ) -> pd.DataFrame:
        """Return the k best next items of each history, as :meth:`Recommender.recommend` does."""
        check("k", k, Whole(1))
        left_out = self.viewed.decide(filter_viewed)
        known = self._given(histories, times)
        allowed = self._allowed(items_to_recommend, None if isinstance(exclude, Mapping) else exclude)
        excluded = self._excluded(exclude, known.users) if isinstance(exclude, Mapping) else {}
        k = min(k, int(allowed.sum()))
        items = np.zeros((len(known.users), k), dtype=np.int64)
        scores = np.full((len(known.users), k), -np.inf, dtype=np.float32)
        for batch, all_scores in self._scored(known):
            all_scores[:, ~allowed] = -np.inf
            if left_out:
                all_scores[batch.seen] = -np.inf
            for place in set(batch.rows.tolist()) & set(excluded):
                all_scores[np.flatnonzero(batch.rows == place), excluded[place]] = -np.inf
            best = np.argpartition(-all_scores, k - 1, axis=1)[:, :k]
            values = np.take_along_axis(all_scores, best, 1)
            order = np.argsort(-values, axis=1, kind="stable")
            items[batch.rows] = np.take_along_axis(best, order, 1)
            scores[batch.rows] = np.take_along_axis(values, order, 1)
        rows, places = np.isfinite(scores).nonzero()
        user, item, _ = self.fields
        check_names_of_columns(user, item)
        columns = {user: known.users[rows], item: self._items.tokens[items[rows, places]], "rank": places + 1}
        return pd.DataFrame({**columns, "score": scores[rows, places]}).infer_objects()

    def score(self, histories: ByUser | pd.DataFrame, items: Ids, times: ByUser | None = None) -> pd.DataFrame:
        """Score some items for each history, as :meth:`Recommender.score` does."""
        chosen, known = self._items.known(items, "items"), self._given(histories, times)
        scores = np.empty((len(known.users), len(chosen)), dtype=np.float32)
        for batch, all_scores in self._scored(known):
            scores[batch.rows] = all_scores[:, chosen]
        user, item, _ = self.fields
        columns = {user: known.users.repeat(len(chosen)), item: np.tile(self._items.tokens[chosen], len(known.users))}
        return pd.DataFrame({**columns, "score": scores.ravel()}).infer_objects()

    def evaluate(
        self,
        histories: ByUser | pd.DataFrame,
        topk: Sequence[int] = (10,),
        filter_viewed: bool | None = None,
        times: ByUser | None = None,
    ) -> dict[str, float]:
        """Return the metrics of the last item of each history after those before, as :meth:`Recommender.evaluate`."""
        for k in topk:
            check("topk", k, Whole(1))
        check("filter_viewed", filter_viewed, or_null(Switch()))
        left_out = self.options["exclude_seen"] if filter_viewed is None else filter_viewed
        known, targets = _without_last(self._given(histories, times))
        if not len(targets):
            raise NobodyError
        ranks = np.empty(len(targets))
        for batch, scores in self._scored(known):
            places = targets[batch.rows, None]
            own = np.take_along_axis(scores, places, 1)
            if left_out:
                scores[batch.seen] = -np.inf
            np.put_along_axis(scores, places, -np.inf, 1)
            ranks[batch.rows] = ranks_of((scores > own).sum(1), (scores == own).sum(1))
        return metrics_of(ranks, topk)

    def user_vectors(self, histories: ByUser | pd.DataFrame, times: ByUser | None = None) -> Vectors:
        """Return the vector from which the next item of each history is read, as :meth:`Recommender.user_vectors`."""
        known = self._given(histories, times)
        vectors = np.zeros((len(known.users), self._session.get_outputs()[0].shape[1]), dtype=np.float32)
        for batch in self._batches(known, self.batch_size):
            if batch.inputs is not None:
                vectors[batch.rows] = self._run("vectors", batch.inputs)
        return Vectors(known.users, vectors)

    def _given(self, histories: ByUser | pd.DataFrame, times: ByUser | None) -> Given:
        known = read_given(histories, self._items, self.fields, times, Dates(*self.options["dates"]))
        if known.report is not None:
            getLogger(__name__).warning(known.report)
        if "times" in self.options["inputs"] and known.times is None:
            raise needs_times(self.fields[2])
        return known

    def _allowed(self, items: Ids | None, exclude: Ids | None) -> NDArray[np.bool_]:
        """Return which items may be recommended. *Shape:* (N,)."""
        allowed = np.full(len(self._counts), items is None)
        if items is not None:
            allowed[self._items.those_known(items, "items_to_recommend", needed=True)] = True
        if exclude is not None:
            allowed[self._items.those_known(exclude, "exclude")] = False
        allowed[PADDING] = False
        if not allowed.any():
            raise nothing_left()
        return allowed

    def _excluded(self, exclude: Mapping[Any, Ids], users: NDArray[np.object_]) -> dict[int, NDArray[np.int64]]:
        """Return the items that are not recommended to single users, by the user's place."""
        named, lists = by_user(exclude, "exclude")
        places = places_of(named, users, "exclude")
        found = self._items.ids_of(list(itertools.chain(*lists)))  # an unknown one is padding, which nobody gets
        ends = np.cumsum([len(one) for one in lists])
        return dict(zip(places.tolist(), np.split(found, ends[:-1]), strict=True))

    def _scored(self, known: Given) -> Iterator[tuple[_Batch, NDArray[np.float32]]]:
        """Yield batches, and the scores of all items for them; padding's is -inf."""
        for batch in self._batches(known, max(1, min(self.batch_size, _SCORES_AT_ONCE // len(self._counts)))):
            if batch.inputs is not None:
                found = self._run("scores", batch.inputs)
                if np.isnan(found).any():
                    raise no_scores()
                yield batch, found
                continue
            scores = np.log(self._counts + 1.0).astype(np.float32)
            scores[PADDING] = -np.inf
            yield batch, np.tile(scores, (len(batch.rows), 1))

    def _run(self, output: str, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        try:
            found: NDArray[np.float32] = self._session.run([output], inputs)[0]
        except Exception as error:  # onnxruntime raises many types where options are not the graph's
            graph, options = self._folder / GRAPH, self._folder / OPTIONS
            raise UserError(f"{graph} cannot be asked as {options} says: {' '.join(str(error).split())}") from error
        return found

    def _batches(self, known: Given, size: int) -> Iterator[_Batch]:
        """Yield histories of similar length, the longest first, then those without a known item."""
        lengths = np.bincount(known.owners, minlength=len(known.users))
        ends, longest = np.cumsum(lengths), self.options["max_items"]
        order = np.argsort(-np.minimum(lengths, longest), kind="stable")
        for some in (order[lengths[order] > 0], order[lengths[order] == 0]):
            for start in range(0, len(some), size):
                rows = some[start : start + size]
                yield self._batch(known, rows, ends[rows], lengths[rows], np.minimum(lengths[rows], longest))

    def _batch(
        self,
        known: Given,
        rows: NDArray[np.intp],
        ends: NDArray[np.int64],
        lengths: NDArray[np.int64],
        shown: NDArray[np.int64],
    ) -> _Batch:
        whole = _cut(known.items, ends, lengths)
        seen = (np.arange(len(rows)).repeat(lengths), whole[whole != PADDING])
        if not lengths.any():
            return _Batch(rows, seen, None)
        inputs: dict[str, NDArray[Any]] = {"items": _cut(known.items, ends, shown), "history": whole}
        if known.times is not None:
            inputs["times"] = _cut(known.times, ends, shown)
        return _Batch(rows, seen, {name: inputs[name] for name in self.options["inputs"]})


class _Batch(NamedTuple):
    """Histories that are scored together.

    Attributes:
        rows: their places among all. *Shape:* (B,)
        seen: places among the rows, and items of whole histories.
        inputs: of the graph; None where nothing is known.
    """

    rows: NDArray[np.intp]
    seen: tuple[NDArray[np.intp], NDArray[np.int64]]
    inputs: dict[str, NDArray[Any]] | None


def _cut(values: NDArray[Any], ends: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[Any]:
    """Return the last values of each history, padded on the right with 0. *Shape:* (B, longest)."""
    column = np.arange(lengths.max())
    index = (ends - lengths)[:, None] + column
    inside = column < lengths[:, None]
    return np.where(inside, values[np.where(inside, index, 0)], 0) if len(values) else np.zeros(index.shape, np.int64)


def _without_last(known: Given) -> tuple[Given, NDArray[np.int64]]:
    """Return the histories of two items or more without their last one, and that item."""
    lengths = np.bincount(known.owners, minlength=len(known.users))
    last = np.zeros(len(known.items), dtype=bool)
    last[np.cumsum(lengths)[lengths > 0] - 1] = True
    long = lengths > 1
    kept = ~last & long[known.owners]
    times = None if known.times is None else known.times[kept]
    owners = (np.cumsum(long) - 1)[known.owners[kept]]
    shorter = known._replace(users=known.users[long], owners=owners, items=known.items[kept], times=times)
    return shorter, known.items[last & long[known.owners]]


def _read(path: Path, rules: Mapping[str, Callable[[Any], bool]]) -> dict[str, Any]:
    """Read a file of JSON whose entries follow some rules.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path.parent} is not a folder that `export` wrote: {path.name} ({error})") from error
    wrong = [
        name
        for name, fits in rules.items()
        if not isinstance(found, dict) or name not in found or not fits(found[name])
    ]
    if wrong:
        raise UserError(f"{path} is damaged: {', '.join(wrong)}; export again")
    return dict(found)


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(one, int) and 0 <= one < 1 << 62 for one in values)


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
            why = getattr(error, "strerror", None) or error
            raise UserError(f"{folder} is not whole: {short(name)} cannot be read ({why}); export again") from error
        if not same:
            raise UserError(f"{folder / name} is damaged: its SHA-256 is not that of the export; export again")


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
