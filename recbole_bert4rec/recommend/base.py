"""A trained model that is asked about anybody's history, whatever computes its scores; numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from logging import getLogger
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recbole_bert4rec.logs.times import no_times
from recbole_bert4rec.options.kinds import SWITCH, or_null, whole
from recbole_bert4rec.recommend.answers import (
    NobodyError,
    Vectors,
    ViewedRule,
    check,
    check_names_of_columns,
    metrics_of,
    no_scores,
    nothing_left,
    ranks_of,
    viewed_rule,
)
from recbole_bert4rec.recommend.histories import Dates, Histories, Pairs, aligned, one_for_each, read_histories
from recbole_bert4rec.recommend.ids import ByUser, Ids, Items, as_frame
from recbole_bert4rec.recommend.scorer import Batch, Floats, Scorer
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError

BATCH_SIZE = 256
"""Histories that are encoded at once; more did not make it faster on two cores."""
SCORES_AT_ONCE = 1 << 25


class BaseRecommender:
    """Answers questions about histories, from a checkpoint or an exported model alike.

    Args:
        scorer: computes the scores.
        items: external ids by internal id, padding first.
        fields: names of the columns of users, items and times.
        dates: how dates among the times are read.
        exclude_seen: the option of that name, by which the metric ranked.
        stored: the histories that came with the model, if there are any.
        batch_size: histories that are encoded at once.
    """

    _in_order = False  # whether the training's rows were in the order of time

    def __init__(
        self,
        scorer: Scorer,
        items: Items,
        fields: tuple[str, str, str],
        dates: Dates,
        exclude_seen: bool,
        stored: Histories | None,
        batch_size: int,
    ) -> None:
        check("batch_size", batch_size, whole(1))
        self._scorer, self._items, self.fields, self.dates = scorer, items, fields, dates
        self._exclude_seen, self.stored, self.batch_size = exclude_seen, stored, batch_size

    @property
    def items(self) -> list[str]:
        """External ids of the catalogue."""
        return list(self._items.tokens[1:])

    @property
    def viewed(self) -> ViewedRule:
        """The rule of ``filter_viewed="auto"``: it follows the learnt ``seen_bias``, or else the metric."""
        return viewed_rule(self._scorer.seen_bias, self._exclude_seen)

    def read(self, histories: ByUser | pd.DataFrame | Histories | None, warn: bool = True) -> Histories:
        """Read histories once, to ask several things about them.

        Args:
            histories: as the class takes them; None for those that came with the model.
            warn: of interactions that are left out.

        Raises:
            UserError: they have another form.
        """
        if histories is None:
            if self.stored is None:
                raise UserError(
                    "there are no histories in this checkpoint; give some (--input=FILE), "
                    "or train with --keep_histories=True"
                )
            return self.stored
        if not isinstance(histories, Histories):
            table: Any = as_frame(histories)
            if isinstance(table, Mapping) and {*self.fields[:2]} <= table.keys():
                raise UserError("the histories are a dictionary of columns; make a frame of it: pandas.DataFrame(...)")
            histories = read_histories(table, self._items, self.fields, self.dates)
            in_their_order = isinstance(table, pd.DataFrame) and self.fields[2] not in table and not self._in_order
            for doubt in (histories.report, no_times(self.fields[2]) if in_their_order else None):
                if warn and doubt is not None:
                    getLogger(__name__).warning(doubt)
        return histories

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
            k: items a history. There are fewer if fewer are left to recommend.
            filter_viewed: leave the items of a history out; ``auto`` does what :attr:`viewed` says.
            items_to_recommend: recommend only these. Default: all.
            exclude: items that are not recommended: a list for all, or a dictionary by user.

        Returns:
            Columns user, item (named as in :attr:`fields`), rank from 1, and score; users in the order in which they
            were given, the best item first.

        Raises:
            UserError: an argument has a value that it cannot have.
        """
        check("k", k, whole(1))
        leave_out = self.viewed.decide(filter_viewed)
        known = self.read(histories)
        for_all, by_user = (None, exclude) if isinstance(exclude, Mapping) else (exclude, None)
        ranking = self._scorer.ranking(self._allowed(items_to_recommend, for_all))
        excluded = None if by_user is None else aligned(by_user, known, self._items, "exclude", unknown=True)
        k = min(k, ranking.n_items)
        scores = np.full((len(known), k), -np.inf, dtype=np.float32)
        items = np.zeros((len(known), k), dtype=np.int64)
        for batch in self._batches(known, min(self.batch_size, self._scorer.most or self.batch_size)):
            removed = batch.seen if leave_out else _NOTHING
            if excluded is not None:
                removed = _joined(removed, excluded.pairs(batch.rows))
            best_scores, best_items = ranking.best(batch, k, removed)
            if np.isnan(best_scores).any():
                raise no_scores()
            scores[batch.rows], items[batch.rows] = best_scores, best_items
        rows, columns = np.isfinite(scores).nonzero()
        return self._table(known, rows, items[rows, columns], scores[rows, columns], columns + 1)

    def score(self, histories: ByUser | pd.DataFrame | Histories, items: Ids) -> pd.DataFrame:
        """Score some items for each history; higher is more likely next.

        Args:
            histories: of anybody.
            items: to score, the same for all.

        Returns:
            Columns user, item and score, in the order in which they were given.

        Raises:
            UserError: the model does not know one of the items.
        """
        chosen, known = self._items.known(items, "items"), self.read(histories)
        scores = np.empty((len(known), len(chosen)), dtype=np.float32)
        for batch, all_scores in self._scored(known):
            scores[batch.rows] = all_scores[:, chosen]
        rows, columns = np.divmod(np.arange(scores.size), max(1, len(chosen)))
        return self._table(known, rows, chosen[columns], scores.ravel())

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
            filter_viewed: whether other items of the history are left out of the ranking. Default: as in evaluation
                (``exclude_seen``).

        Returns:
            Columns user, item, rank from 1, and score.

        Raises:
            UserError: the model does not know one of the items.
        """
        known = self.read(histories)
        targets = one_for_each(items, known, self._items, "items")
        ranks, scores = self._ranks(known, targets, filter_viewed)
        return self._table(known, np.arange(len(known)), targets, scores, ranks)

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
            topk: lengths of the list that the metrics look at.
            filter_viewed: as in :meth:`rank_of`.

        Returns:
            ``mrr@K``, ``ndcg@K`` and ``hit@K`` for each K, and ``users``, how many there are.

        Raises:
            NobodyError: there is nobody to evaluate.
            UserError: an argument has a value that it cannot have.
        """
        for k in topk:
            check("topk", k, whole(1))
        known = self.read(histories)
        if targets is None:
            known, wanted = known.without_last()
        else:
            wanted = one_for_each(targets, known, self._items, "targets", unknown=True)
        if not len(known):
            raise NobodyError
        ranks, _ = self._ranks(known, wanted, filter_viewed)
        return metrics_of(np.where(wanted == PADDING, np.inf, ranks.astype(np.float64)), topk)

    def user_vectors(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        with_bias: bool = False,
    ) -> Vectors:
        """Return the vector from which the next item of each history is read; zeros for one without a known item.

        Args:
            histories: of anybody; None for those that came with the model.
            with_bias: add 1 as a last number, for the product with an item's vector and bias.
        """
        known = self.read(histories)
        vectors = np.zeros((len(known), self._scorer.hidden_size + with_bias), dtype=np.float32)
        for batch in self._batches(known, self.batch_size):
            if batch.known:
                vectors[batch.rows, : self._scorer.hidden_size] = self._scorer.vectors(batch)
        if with_bias:
            vectors[:, -1] = 1.0
        return Vectors(known.users, vectors)

    def check_known(self, name: str, items: Ids) -> None:
        """Refuse items of which the model knows none.

        Args:
            name: of the items in messages, such as a flag.
            items: external ids.

        Raises:
            UserError: with an example of each side.
        """
        self._items.refuse_unknown(name, items)

    def in_spelling(self, items: Ids) -> list[str]:
        """Return ids of items as the training had them, ``12`` for ``12.0``; those of other items as they are."""
        return self._items.in_spelling(items)

    def _allowed(self, items: Ids | None, exclude: Ids | None) -> NDArray[np.int64] | None:
        """Return the items that may be recommended, ascending; None for all."""
        if items is None and exclude is None:
            return None
        allowed = np.arange(1, len(self._items.tokens))
        if items is not None:
            allowed = np.unique(self._items.those_known(items, "items_to_recommend", needed=True))
        if exclude is not None:
            allowed = np.setdiff1d(allowed, self._items.those_known(exclude, "exclude"))
        if not len(allowed):
            raise nothing_left()
        return allowed

    def _batches(self, histories: Histories, size: int) -> Iterator[Batch]:
        """Yield batches of histories of similar length, the longest first, then those without a known item."""
        lengths = histories.lengths
        order = np.argsort(-np.minimum(lengths, self._scorer.longest), kind="stable")
        for some in (order[lengths[order] > 0], order[lengths[order] == 0]):
            for begin in range(0, len(some), size):
                yield self._batch(histories, some[begin : begin + size])

    def _batch(self, histories: Histories, rows: NDArray[np.intp]) -> Batch:
        items = histories.latest(rows, self._scorer.longest).astype(np.int64)
        return Batch(rows, items, histories, histories.pairs(rows))

    def _scored(self, histories: Histories) -> Iterator[tuple[Batch, Floats]]:
        """Yield batches, and the scores of all items for them."""
        for batch in self._batches(histories, max(1, min(self.batch_size, SCORES_AT_ONCE // self._scorer.n_items))):
            if not batch.known:
                yield batch, np.tile(self._scorer.popularity, (len(batch.rows), 1))
                continue
            scores = self._scorer.scores(batch)
            if np.isnan(scores).any():
                raise no_scores()
            yield batch, scores

    def _ranks(
        self, histories: Histories, targets: NDArray[np.int64], filter_viewed: bool | None
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return rank, from 1, and score of each history's target; those of a target that is padding mean nothing."""
        check("filter_viewed", filter_viewed, or_null(SWITCH))
        leave_out = self._exclude_seen if filter_viewed is None else filter_viewed
        ranks = np.empty(len(histories), dtype=np.int64)
        values = np.empty(len(histories), dtype=np.float32)
        for batch, scores in self._scored(histories):
            columns = targets[batch.rows, None]  # (B, 1)
            target_scores = np.take_along_axis(scores, columns, 1)
            scores[:, PADDING] = -np.inf
            if leave_out:
                scores[batch.seen] = -np.inf
            np.put_along_axis(scores, columns, -np.inf, 1)
            ranks[batch.rows] = ranks_of((scores > target_scores).sum(1), (scores == target_scores).sum(1))
            values[batch.rows] = target_scores[:, 0]
        return ranks, values

    def _table(
        self,
        histories: Histories,
        rows: NDArray[np.intp],
        items: NDArray[np.int64],
        scores: Floats,
        ranks: NDArray[np.int64] | None = None,
    ) -> pd.DataFrame:
        user, item, _ = self.fields
        check_names_of_columns(user, item)
        columns = {user: histories.users[rows], item: self._items.tokens[items]}
        rank = {} if ranks is None else {"rank": ranks}
        return pd.DataFrame({**columns, **rank, "score": scores}).infer_objects()


_NOTHING: Pairs = (np.empty(0, np.int64), np.empty(0, np.int64))


def _joined(some: Pairs, others: Pairs) -> Pairs:
    return np.concatenate([some[0], others[0]]), np.concatenate([some[1], others[1]])
