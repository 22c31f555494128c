"""Ask a trained model about anybody's history, whatever computes its scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from logging import getLogger
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recbole_bert4rec.options.kinds import AUTO, SWITCH, or_auto, or_null, whole
from recbole_bert4rec.recommend.answers import (
    NOBODY,
    Explanation,
    Floats,
    Vectors,
    ViewedRule,
    check,
    check_names_of_columns,
    check_scores,
    most_popular,
    viewed_rule,
)
from recbole_bert4rec.recommend.histories import (
    ByUser,
    Dates,
    Histories,
    Pairs,
    as_pandas,
    excluded_items,
    one_for_each,
    read_histories,
)
from recbole_bert4rec.recommend.ids import Ids, Items
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS, PADDING
from recbole_bert4rec.system.errors import UserError, short

if TYPE_CHECKING:
    from recbole_bert4rec.core.ranker import Ranker
    from recbole_bert4rec.recommend.onnx_backend import OnnxBackend
    from recbole_bert4rec.recommend.torch_backend import TorchBackend

BATCH_SIZE = 256
"""Histories that are encoded at once; more did not make it faster on two cores."""
SCORES_AT_ONCE = 1 << 25


class Recommender:
    """A trained model with the ids of its items; :func:`recbole_bert4rec.load` makes one.

    Histories are lists of external item ids, oldest first; a dictionary of such lists by user; or a table with columns
    of users, items and, optionally, times, which then give the order. Ids may be numbers. The columns have the names
    of :attr:`fields`. Interactions with items that the model does not know are left out and counted in a warning. For
    a history without a known item, items are ranked by how often they occur in training; their scores are the
    logarithms of these counts plus 1.

    Methods raise :class:`UserError` for an argument with a wrong value.

    Attributes:
        config: the options that the model was trained with.
        fields: names of the columns of users, items and times.
        dates: form and time zone by which dates are read: those of the training log.
        stored: the histories that came with the model; None if there are none.
        catalogue: external ids by internal id, padding first.
    """

    def __init__(
        self,
        backend: TorchBackend | OnnxBackend,
        catalogue: Items,
        config: Mapping[str, Any],
        stored: Histories | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        check("batch_size", batch_size, whole(1))
        self.config, self.stored, self.batch_size = config, stored, batch_size
        self.fields: tuple[str, str, str] = tuple(config[name] for name in NAMES_OF_COLUMNS)
        self.dates: Dates = config.get("date_format"), config.get("timezone")
        self._backend, self.catalogue = backend, catalogue
        self._popularity: Floats = np.log(backend.counts + 1.0).astype(np.float32)

    @property
    def items(self) -> list[str]:
        """External ids of the catalogue."""
        return list(self.catalogue.tokens[1:])

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each item occurs in training. *Shape:* (N,)."""
        return self._backend.counts

    @property
    def ranker(self) -> Ranker:
        """The network of a checkpoint."""
        return self._backend.ranker

    @property
    def viewed(self) -> ViewedRule:
        """The rule of ``filter_viewed="auto"``: it follows the learnt ``seen_bias``, or else the metric."""
        return viewed_rule(self._backend.seen_bias, bool(self.config["exclude_seen"]))

    def read(self, histories: ByUser | pd.DataFrame | Histories | None, warn: bool = True) -> Histories:
        """Read histories once, to ask several things about them.

        Args:
            histories: as the class takes them; None for those that came with the model.
            warn: whether to warn of interactions that are left out.
        """
        if isinstance(histories, Histories):
            return histories
        if histories is None:
            if self.stored is None:
                raise UserError(
                    "there are no histories in this model; give some (--input=FILE), or train with "
                    "--keep_histories=True and ask the checkpoint"
                )
            return self.stored
        given, time = as_pandas(histories), self.fields[2]
        if isinstance(given, Mapping) and {*self.fields[:2]} <= given.keys():
            raise UserError("the histories are a dictionary of columns; make a frame of it: pandas.DataFrame(...)")
        known = read_histories(given, self.catalogue, self.fields, self.dates)
        if warn and known.skipped:
            getLogger(__name__).warning(
                f"{known.skipped} of {known.skipped + len(known.items)} interactions are left out: the model does not "
                f"know their items, such as {short(known.example)}"
            )
        if warn and isinstance(given, pd.DataFrame) and time not in given and not self.config.get("in_order"):
            from recbole_bert4rec.logs.times import no_times

            getLogger(__name__).warning(no_times(time))
        return known

    def recommend(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        k: int = 10,
        filter_viewed: bool | Literal["auto"] = "auto",
        items_to_recommend: Ids | None = None,
        exclude: Ids | Mapping[Any, Ids] | None = None,
    ) -> pd.DataFrame:
        """Return the k best next items of each history.

        Args:
            histories: of anybody; None for those that came with the model.
            k: number of items for each history; fewer if fewer are left to recommend.
            filter_viewed: whether to leave out the items of a history; ``auto`` does what :attr:`viewed` says.
            items_to_recommend: the only items to recommend. Default: all.
            exclude: items not to recommend: a list for all, or a dictionary by user.

        Returns:
            Columns user and item (named as in :attr:`fields`), rank from 1, and score; users in the given order, the
            best item first.
        """
        check("k", k, whole(1))
        check("filter_viewed", filter_viewed, or_auto(SWITCH))
        leave_out = self.viewed.left_out if filter_viewed == AUTO else bool(filter_viewed)
        known = self.read(histories)
        for_all, by_user = (None, exclude) if isinstance(exclude, Mapping) else (exclude, None)
        allowed = self._allowed(items_to_recommend, for_all)
        excluded = excluded_items(by_user or {}, known, self.catalogue)
        k = min(k, len(self.catalogue.tokens) - 1 if allowed is None else len(allowed))
        scores = np.full((len(known), k), -np.inf, dtype=np.float32)
        items = np.zeros((len(known), k), dtype=np.int64)
        for rows, has_known in self._batches(known, self._backend.makes_all_scores):
            seen = known.pairs(rows)
            places, taken = np.hstack([excluded.pairs(rows), *[seen] * leave_out])
            if has_known:
                best = self._backend.best(known.latest(rows, self._backend.longest), seen, k, (places, taken), allowed)
            else:
                best = most_popular(self._popularity, len(rows), k, (places, taken), allowed)
            scores[rows], items[rows] = best
        check_scores(scores)
        rows, columns = np.isfinite(scores).nonzero()
        of = self.fields[0], known.users[rows]
        return self._table(*of, items[rows, columns], scores[rows, columns], columns + 1)

    def score(self, histories: ByUser | pd.DataFrame | Histories, items: Ids) -> pd.DataFrame:
        """Score some items for each history; higher is more likely next.

        Args:
            histories: of anybody.
            items: the items to score, the same for all.

        Returns:
            Columns user, item and score, in the given order.
        """
        chosen, known = self.catalogue.known(items, "`items`"), self.read(histories)
        scores = np.empty((len(known), len(chosen)), dtype=np.float32)
        for rows, _, all_scores in self._scored(known):
            scores[rows] = all_scores[:, chosen]
        rows, columns = np.divmod(np.arange(scores.size), max(1, len(chosen)))
        return self._table(self.fields[0], known.users[rows], chosen[columns], scores.ravel())

    def rank_of(
        self,
        histories: ByUser | pd.DataFrame | Histories,
        items: Ids | Mapping[Any, Any],
        filter_viewed: bool | None = None,
    ) -> pd.DataFrame:
        """Return the rank of an item among all items, for each history.

        Args:
            histories: of anybody.
            items: one for each history: a list in their order, or a dictionary by user.
            filter_viewed: whether to leave other items of the history out of the ranking. Default: as in evaluation
                (``exclude_seen``).

        Returns:
            Columns user, item, rank from 1, and score.
        """
        known = self.read(histories)
        targets = one_for_each(items, known, self.catalogue, "items")
        ranks, scores = self._ranks(known, targets, filter_viewed)
        return self._table(self.fields[0], known.users, targets, scores, ranks)

    def evaluate(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        targets: Ids | Mapping[Any, Any] | None = None,
        topk: Sequence[int] = (10,),
        filter_viewed: bool | None = None,
    ) -> dict[str, float]:
        """Return RecBole's metrics of the ranking of all items: the mean over users with one target each.

        Args:
            histories: of anybody; None for those that came with the model.
            targets: what came next: an item for each history in their order, or a dictionary by user. An item that
                the model does not know counts as missed. Default: the last item of each history, after those before.
            topk: lengths of the lists that the metrics read.
            filter_viewed: as in :meth:`rank_of`.

        Returns:
            ``mrr@K``, ``ndcg@K`` and ``hit@K`` for each K, and the number of ``users``.
        """
        for k in topk:
            check("topk", k, whole(1))
        known = self.read(histories)
        if targets is None:
            known, wanted = known.without_last()
        else:
            wanted = one_for_each(targets, known, self.catalogue, "targets", unknown=True)
        if not len(known):
            raise UserError(NOBODY)
        ranks = np.where(wanted == PADDING, np.inf, self._ranks(known, wanted, filter_viewed)[0])
        metrics = {}
        for k in topk:
            hit = ranks <= k
            metrics[f"mrr@{k}"] = float(np.mean(hit / ranks))
            metrics[f"ndcg@{k}"] = float(np.mean(hit / np.log2(ranks + 1)))
            metrics[f"hit@{k}"] = float(np.mean(hit))
        return {**metrics, "users": float(len(ranks))}

    def similar_items(self, items: Ids, k: int = 10) -> pd.DataFrame:
        """Return the k other items whose vectors have the highest cosine with an item's; an exported model has none.

        Args:
            items: external ids.
            k: number of items for each.

        Returns:
            Columns target_ITEM, ITEM (the name in :attr:`fields`), rank from 1, and score, the cosine.
        """
        check("k", k, whole(1))
        targets = self.catalogue.known(items, "`items`")
        cosines, others = self._backend.similar(targets, min(k, len(self.catalogue.tokens) - 2), self.batch_size)
        rows, columns = np.isfinite(cosines).nonzero()
        of = f"target_{self.fields[1]}", self.catalogue.tokens[targets[rows]]
        return self._table(*of, others[rows, columns], cosines[rows, columns], columns + 1)

    def item_vectors(self, with_bias: bool = False) -> Vectors:
        """Return the vector of each item; an exported model has none.

        Args:
            with_bias: whether to add the item's bias as a last number. The product with :meth:`user_vectors` of the
                same kind is then the score that items are ranked by, without ``seen_bias`` and ``memory``.
        """
        return Vectors(self.catalogue.tokens[1:], self._backend.item_vectors(with_bias)[1:])

    def user_vectors(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        with_bias: bool = False,
    ) -> Vectors:
        """Return the vector from which the next item of each history is read; zeros for one without a known item.

        Args:
            histories: of anybody; None for those that came with the model.
            with_bias: whether to add 1 as a last number, for the product with an item's vector and bias.
        """
        known = self.read(histories)
        vectors = np.zeros((len(known), self._backend.hidden_size), dtype=np.float32)
        for rows, has_known in self._batches(known, False):
            if has_known:
                vectors[rows] = self._backend.vectors(known.latest(rows, self._backend.longest))
        if with_bias:
            vectors = np.hstack([vectors, np.ones((len(known), 1), np.float32)])
        return Vectors(known.users, vectors)

    def explain(self, history: Ids, item: object) -> Explanation:
        """Return how much each item of a history influences the score of an item.

        Args:
            history: items of one user, oldest first.
            item: the item to explain.

        Returns:
            The item, its score, and a table with a row for each item of the history that the model reads, oldest
            first: ``position``, counted back from the last item, which is 0; ``item``; and ``influence``, by how much
            the score would be lower without it.
        """
        (target,), whole_history = self.catalogue.known([item], "`item`"), self.read([history]).items
        if not len(whole_history):
            raise UserError("`history` has no item that the model knows, so it explains nothing; give it a known item")
        length = len(whole_history)
        left_out = np.arange(max(0, length - self._backend.longest), length)
        lists = [whole_history, *(np.delete(whole_history, place) for place in left_out)]
        places, offsets = np.arange(len(lists)), np.cumsum([0, *map(len, lists)])
        asked = Histories(places.astype(object), np.concatenate(lists), offsets)
        shown, score = asked.latest(places, self._backend.longest), np.empty(len(lists), np.float32)
        size = self._rows_at_once()
        for rows in np.split(places, range(size, len(lists), size)):
            score[rows] = self._backend.scores(shown[rows], asked.pairs(rows))[:, target]
        influences = {
            "position": np.arange(len(left_out))[::-1],
            "item": self.catalogue.tokens[whole_history[left_out]],
            "influence": score[0] - score[1:],
        }
        return Explanation(str(self.catalogue.tokens[target]), float(score[0]), pd.DataFrame(influences))

    def _allowed(self, items: Ids | None, exclude: Ids | None) -> NDArray[np.int64] | None:
        """Return the items that may be recommended, ascending; None for all."""
        if items is None and exclude is None:
            return None
        allowed = np.arange(1, len(self.catalogue.tokens))
        if items is not None:
            allowed = np.unique(self.catalogue.known(items, "`items_to_recommend`", "one"))
        if exclude is not None:
            allowed = np.setdiff1d(allowed, self.catalogue.known(exclude, "`exclude`", "none"))
        if not len(allowed):
            raise UserError("`items_to_recommend` and `exclude` leave nothing to recommend")
        return allowed

    def _rows_at_once(self) -> int:
        """Return how many histories are scored at once if all their scores are made."""
        return max(1, min(self.batch_size, SCORES_AT_ONCE // len(self.catalogue.tokens)))

    def _batches(self, histories: Histories, all_scores: bool) -> Iterator[tuple[NDArray[np.intp], bool]]:
        """Yield rows of similar length, the longest first, with True; then rows without a known item, with False."""
        lengths = histories.lengths
        order = np.argsort(-np.minimum(lengths, self._backend.longest), kind="stable")
        size = self._rows_at_once() if all_scores else self.batch_size
        for has_known in (True, False):
            some = order[(lengths[order] > 0) == has_known]
            for begin in range(0, len(some), size):
                yield some[begin : begin + size], has_known

    def _scored(self, histories: Histories) -> Iterator[tuple[NDArray[np.intp], Pairs, Floats]]:
        """Yield rows of histories, their pairs, and the scores of all items. *Shape:* (B,), (P,) each, (B, N)."""
        for rows, has_known in self._batches(histories, True):
            seen = histories.pairs(rows)
            if has_known:
                scores = self._backend.scores(histories.latest(rows, self._backend.longest), seen)
            else:
                scores = np.tile(self._popularity, (len(rows), 1))
            check_scores(scores)
            yield rows, seen, scores

    def _ranks(
        self, histories: Histories, targets: NDArray[np.int64], filter_viewed: bool | None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return rank, from 1, and score of each history's target; for a target that is padding they mean nothing.

        Among items with its score, a target is in the middle, or just after it.
        """
        check("filter_viewed", filter_viewed, or_null(SWITCH))
        leave_out = self.config["exclude_seen"] if filter_viewed is None else filter_viewed
        ranks = np.empty(len(histories), dtype=np.int64)
        values = np.empty(len(histories), dtype=np.float32)
        for rows, seen, scores in self._scored(histories):
            columns = targets[rows, None]  # (B, 1)
            target_scores = np.take_along_axis(scores, columns, 1)
            scores[:, PADDING] = -np.inf
            if leave_out:
                scores[seen] = -np.inf
            np.put_along_axis(scores, columns, -np.inf, 1)
            equal = (scores == target_scores).sum(1)
            ranks[rows] = 1 + (scores > target_scores).sum(1) + (equal + 1) // 2
            values[rows] = target_scores[:, 0]
        return ranks, values

    def _table(
        self,
        field: str,
        values: NDArray[np.object_],
        items: NDArray[np.int64],
        scores: Floats,
        ranks: NDArray[np.int64] | None = None,
    ) -> pd.DataFrame:
        """Return a table of users, or items, with items and their scores. *Shape:* (P,) each."""
        check_names_of_columns(field, self.fields[1])
        columns = {field: values, self.fields[1]: self.catalogue.tokens[items]}
        rank = {} if ranks is None else {"rank": ranks}
        return pd.DataFrame({**columns, **rank, "score": scores}).infer_objects()
