"""A trained model that is asked about anybody's history: next items, scores, similar items, vectors, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from logging import getLogger
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.core.ranker import Catalogue, Pairs, Ranker
from recbole_bert4rec.core.sequences import Sequences
from recbole_bert4rec.core.topk import Change
from recbole_bert4rec.logs.times import NUMBERS
from recbole_bert4rec.options.kinds import Real, Switch, Whole, or_null
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
from recbole_bert4rec.recommend.given import ByUser, Dates, Ids, Items
from recbole_bert4rec.recommend.histories import Histories, aligned, one_for_each, read_histories
from recbole_bert4rec.recommend.index import Asked, ItemIndex, digest_of_weights
from recbole_bert4rec.recommend.variety import CANDIDATES, cap, diversify
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS, PADDING, OptionValues
from recbole_bert4rec.system.errors import UserError

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.explanation import Explanation

BATCH_SIZE = 256
"""Histories that are encoded at once; more did not make it faster on two cores."""
_SCORES_AT_ONCE = 1 << 25
_SAMPLE = 2000
"""Histories that an index is chosen and measured on."""


class TrainedRanker(Ranker):
    """A ranker of a checkpoint, without what only training needs."""

    def __init__(self, config: OptionValues, n_items: int, features: tuple[tuple[Tensor, int], ...]) -> None:
        super().__init__()
        self._init_ranker(config, n_items, features)


class Recommender:
    """A trained model with the ids of its items; :func:`recbole_bert4rec.load` makes one of a checkpoint.

    Histories are lists of external item ids, oldest first; a dictionary of such lists by user; or a frame with columns
    of users, items and, optionally, times, which then give the order. Ids may be numbers. The columns have the names
    of :attr:`fields`. Interactions with items that the model does not know are left out and counted in a warning. For
    a history without a known item, items are ranked by how often they stand in training; its scores are the
    logarithms of these counts plus 1.

    Args:
        ranker: in evaluation mode, on its device.
        config: the options that it was trained with.
        items: external ids by internal id, padding first.
        counts: how often each item stands in training. *Shape:* (N,)
        stored: the histories that came with the model, if there are any.
        batch_size: histories that are encoded at once.

    Attributes:
        fields: names of the columns of users, items and times.
        dates: how times are read that are dates: as in the training log.
        index: by which :meth:`recommend` finds items; None for exact lists.
    """

    index: ItemIndex | None = None

    def __init__(
        self,
        ranker: Ranker,
        config: Mapping[str, Any],
        items: Items,
        counts: Tensor,
        stored: Histories | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        check("batch_size", batch_size, Whole(1))
        self.ranker, self.config, self.stored, self.batch_size = ranker, config, stored, batch_size
        user, item, time = (config[field] for field in NAMES_OF_COLUMNS)
        self.fields: tuple[str, str, str] = (user, item, time)
        read_before = config.get("date_format_found") or (None if config.get("conversion") else NUMBERS)
        self.dates = Dates(config.get("date_format"), config.get("timezone"), read_before)
        self._items, self._counts = items, counts.to(self._device)

    @property
    def items(self) -> list[str]:
        """External ids of the catalogue."""
        return list(self._items.tokens[1:])

    @property
    def counts(self) -> Tensor:
        """How often each item stands in training, padding first. *Shape:* (N,)."""
        return self._counts

    @property
    def viewed(self) -> ViewedRule:
        """What ``filter_viewed="auto"`` does: it follows the learnt ``seen_bias``, or else the metric."""
        bias = self.ranker.seen_bias
        return viewed_rule(None if bias is None else bias.item(), bool(self.config["exclude_seen"]))

    def read(
        self, histories: ByUser | pd.DataFrame | Histories | None, times: ByUser | None = None, warn: bool = True
    ) -> Histories:
        """Read histories once, to ask several things about them.

        Args:
            histories: as the class takes them; None for those that came with the model.
            times: of the items of lists, in the same form: numbers in the unit of the training log, or dates.
            warn: of interactions that are left out.

        Raises:
            UserError: they have another form, or lack what the model needs.
        """
        if histories is None:
            if self.stored is None:
                raise UserError(
                    "there are no histories in this checkpoint; give some (--input=FILE), "
                    "or train with --keep_histories=True"
                )
            return self.stored
        found = histories
        if not isinstance(found, Histories):
            found = read_histories(found, self._items, self.fields, times, self.dates)
            if warn and found.report is not None:
                getLogger(__name__).warning(found.report)
        if self.config["time_bias"] and found.sequences.times is None:
            raise needs_times(self.fields[2])
        return found

    @torch.no_grad()
    def recommend(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        k: int = 10,
        filter_viewed: bool | Literal["auto"] = "auto",
        items_to_recommend: Ids | None = None,
        exclude: Ids | Mapping[Any, Ids] | None = None,
        times: ByUser | None = None,
        diversity: float = 0.0,
        categories: Mapping[Any, Any] | None = None,
        max_per: int | None = None,
    ) -> pd.DataFrame:
        """Return the k best next items of each history.

        Args:
            histories: of anybody; None for those that came with the model.
            k: items a history. There are fewer where fewer are left to recommend.
            filter_viewed: leave the items of a history out; ``auto`` does what :attr:`viewed` says.
            items_to_recommend: recommend only these. Default: all.
            exclude: items that are not recommended: a list for all, or a dictionary by user.
            times: of the items of lists; see :meth:`read`.
            diversity: from 0 to 1, the share of unlikeness in the choice of each next item; see
                :func:`~recbole_bert4rec.recommend.variety.diversify`. Scores stay the model's.
            categories: of items, for ``max_per``: a category or a list of them by item. Others have none.
            max_per: items of each category in a list, at most. With it, or ``diversity``, a list is chosen from its
                10 k best items, and there are fewer than k where that does not suffice.

        Returns:
            Columns user, item (named as in :attr:`fields`), rank from 1, and score; users in the order in which they
            were given, the best item first.

        Raises:
            UserError: an argument has a value that cannot be.
        """
        check("k", k, Whole(1))
        check("diversity", diversity, Real(0, 1, "[]"))
        check("max_per", max_per, or_null(Whole(1)))
        if (categories is None) != (max_per is None):
            raise UserError("`categories` and `max_per` go together, but only one of them is given")
        left_out = self.viewed.decide(filter_viewed)
        known = self.read(histories, times)
        labels = None if categories is None else torch.from_numpy(self._items.labels(categories)).to(self._device)
        catalogue = self._catalogue(items_to_recommend, None if isinstance(exclude, Mapping) else exclude)
        ranked = catalogue if self.index is None or items_to_recommend is not None else self.index.over(catalogue)
        excluded = (
            aligned(exclude, known, self._items, "exclude", unknown=True) if isinstance(exclude, Mapping) else None
        )
        n_items = len(catalogue.bias) - 1
        k = min(k, n_items)
        depth = min(n_items, CANDIDATES * k) if diversity or max_per else k
        found = _Found(len(known), k)
        for batch in self._encoded(known):
            removed = batch.seen if left_out else _none(self._device)
            if excluded is not None:
                removed = _joined(removed, self._pairs(excluded, batch.rows))
            ranked_by = self._by_popularity(catalogue) if batch.shown is None else ranked
            scores, items = ranked_by.best(batch.vectors, depth, self._changes(batch, removed))
            if scores.isnan().any():
                raise no_scores()
            if labels is not None and max_per is not None:
                scores, place = cap(scores, labels[items], max_per).sort(stable=True, dim=1, descending=True)
                items = items.gather(1, place)
            if diversity:
                vectors = F.normalize(self.ranker.encoder.catalogue[items], dim=2)
                chosen = diversify(scores, vectors, k, diversity)
                scores, items = scores.gather(1, chosen), items.gather(1, chosen)
            found.put(batch.rows, scores[:, :k], items[:, :k])
        return self._table(known, *found.rows())

    @torch.no_grad()
    def build_index(
        self,
        recall: float = 0.99,
        k: int = 20,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        times: ByUser | None = None,
    ) -> ItemIndex:
        """Make an index, by which :meth:`recommend` finds items from here on.

        Items are divided into lists of those that are alike, and only some lists are searched for a history: as many
        as it takes on some of the histories given. What that finds is measured on others.

        Args:
            recall: share to find of the items that :meth:`recommend` would name without an index.
            k: items a history for which this is chosen.
            histories: like those that will be asked about, at least two; 2,000 of them are drawn. Default: those that
                came with the model.
            times: of the items of lists; see :meth:`read`.

        Returns:
            The index, which says how well it does when it is printed.

        Raises:
            UserError: an argument has a value that cannot be, or there are too few histories.
            MissingExtraError: the extra ``[ann]`` is not installed.
        """
        check("recall", recall, Real(0, 1, "(]"))
        check("k", k, Whole(1))
        samples = self.read(histories, times).drawn(_SAMPLE)
        if len(samples) < 2:
            raise UserError("an index is chosen on some histories and measured on others; give at least two")
        asked, others = (self._asked(samples.take(np.arange(half, len(samples), 2))) for half in (0, 1))
        digest = digest_of_weights(self.ranker, self.config["logit_adjustment"])
        catalogue = self.ranker.catalogue()
        self.index = ItemIndex.build(catalogue, digest, asked, others, min(k, len(catalogue.bias) - 1), recall)
        return self.index

    @torch.no_grad()
    def score(
        self, histories: ByUser | pd.DataFrame | Histories, items: Ids, times: ByUser | None = None
    ) -> pd.DataFrame:
        """Score some items for each history; higher is more likely next.

        Args:
            histories: of anybody.
            items: to score, the same for all.
            times: of the items of lists; see :meth:`read`.

        Returns:
            Columns user, item and score, in the order in which they were given.

        Raises:
            UserError: the model does not know one of the items.
        """
        chosen, known = torch.from_numpy(self._items.known(items, "items")), self.read(histories, times)
        scores = np.empty((len(known), len(chosen)), dtype=np.float32)
        for batch, all_scores in self._scored(known):
            scores[batch.rows.numpy()] = all_scores[:, chosen.to(self._device)].cpu().numpy()
        rows, columns = np.divmod(np.arange(scores.size), max(1, len(chosen)))
        table = self._table(known, rows, chosen.numpy()[columns], np.zeros_like(rows), scores.ravel())
        return table.drop(columns="rank")

    def rank_of(
        self,
        histories: ByUser | pd.DataFrame | Histories,
        items: Ids | Mapping[Any, Any],
        filter_viewed: bool | None = None,
        times: ByUser | None = None,
    ) -> pd.DataFrame:
        """Return the place that an item has in the ranking of all items for each history.

        Args:
            histories: of anybody.
            items: one for each history: a list in their order, or a dictionary by user.
            filter_viewed: whether other items of the history are left out of the ranking. Default: as in evaluation
                (``exclude_seen``).
            times: of the items of lists; see :meth:`read`.

        Returns:
            Columns user, item, rank from 1, and score.

        Raises:
            UserError: the model does not know one of the items.
        """
        known = self.read(histories, times)
        targets = one_for_each(items, known, self._items, "items")
        ranks, scores = self._ranks(known, targets, filter_viewed)
        return self._table(known, np.arange(len(known)), targets.numpy(), ranks, scores)

    def evaluate(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        targets: Ids | Mapping[Any, Any] | None = None,
        topk: Sequence[int] = (10,),
        filter_viewed: bool | None = None,
        times: ByUser | None = None,
    ) -> dict[str, float]:
        """Return RecBole's metrics of the ranking of all items: the mean over users with one target each.

        Args:
            histories: of anybody; None for those that came with the model.
            targets: what came next: an item for each history in their order, or a dictionary by user. An item that
                the model does not know counts as missed. Default: the last item of each history, after those before.
            topk: lengths of the list that the metrics look at.
            filter_viewed: as in :meth:`rank_of`.
            times: of the items of lists; see :meth:`read`.

        Returns:
            ``mrr@K``, ``ndcg@K`` and ``hit@K`` for each K, and ``users``, how many there are.

        Raises:
            NobodyError: there is nobody to evaluate.
            UserError: an argument has a value that cannot be.
        """
        for k in topk:
            check("topk", k, Whole(1))
        known = self.read(histories, times)
        if targets is None:
            known, wanted = known.without_last()
        else:
            wanted = one_for_each(targets, known, self._items, "targets", unknown=True)
        if not len(known):
            raise NobodyError
        ranks, _ = self._ranks(known, wanted, filter_viewed)
        return metrics_of(np.where(wanted.numpy() == PADDING, np.inf, ranks.astype(np.float64)), topk)

    @torch.no_grad()
    def similar_items(self, items: Ids, k: int = 10) -> pd.DataFrame:
        """Return the k items whose vectors have the highest cosine with an item's, the item itself left out.

        Args:
            items: external ids.
            k: items for each.

        Returns:
            Columns target_ITEM, ITEM (the name in :attr:`fields`), rank from 1, and score, the cosine.

        Raises:
            UserError: the model does not know one of the items.
        """
        check("k", k, Whole(1))
        targets = torch.from_numpy(self._items.known(items, "items")).to(self._device)
        vectors = F.normalize(self.ranker.encoder.catalogue, dim=1)
        bias = vectors.new_zeros(len(vectors))
        k = min(k, len(vectors) - 2)
        found = _Found(len(targets), k)
        for rows in torch.arange(len(targets)).split(self.batch_size):
            own = torch.arange(len(rows), device=self._device), targets[rows.to(self._device)]
            found.put(rows, *Catalogue(vectors, bias).best(vectors[own[1]], k, [(*own, -torch.inf)]))
        rows, others, ranks, cosines = found.rows()
        field = self.fields[1]
        names = self._items.tokens[targets.cpu().numpy()]
        columns = {f"target_{field}": names[rows], field: self._items.tokens[others], "rank": ranks, "score": cosines}
        return pd.DataFrame(columns)

    @torch.no_grad()
    def item_vectors(self, with_bias: bool = False) -> Vectors:
        """Return the vector of each item.

        Args:
            with_bias: add the item's bias as a last number. The product with :meth:`user_vectors` of the same kind is
                then the score that items are ranked by, but for ``seen_bias``.
        """
        catalogue = self.ranker.catalogue()
        vectors = torch.cat([catalogue.vectors, catalogue.bias.unsqueeze(1)], 1) if with_bias else catalogue.vectors
        return Vectors(self._items.tokens[1:], vectors[1:].float().cpu().numpy())

    @torch.no_grad()
    def user_vectors(
        self,
        histories: ByUser | pd.DataFrame | Histories | None = None,
        times: ByUser | None = None,
        with_bias: bool = False,
    ) -> Vectors:
        """Return the vector from which the next item of each history is read; zeros for one without a known item.

        Args:
            histories: of anybody; None for those that came with the model.
            times: of the items of lists; see :meth:`read`.
            with_bias: add 1 as a last number; see :meth:`item_vectors`.
        """
        known = self.read(histories, times)
        vectors = np.zeros((len(known), self.ranker.encoder.options.hidden_size + with_bias), dtype=np.float32)
        for batch in self._encoded(known):
            vectors[batch.rows.numpy(), : batch.vectors.shape[1]] = batch.vectors.float().cpu().numpy()
        if with_bias:
            vectors[:, -1] = 1.0
        return Vectors(known.users, vectors)

    def explain(self, history: Ids, item: object, times: Ids | None = None) -> Explanation:
        """Say how much each item of a history has to do with the score of an item.

        Args:
            history: items of one user, oldest first.
            item: to explain.
            times: of the history's items.

        Returns:
            A table, and a way to draw it.

        Raises:
            UserError: the model does not know the item, or no item of the history.
        """
        from recbole_bert4rec.recommend.explanation import explain

        known = self.read([history], None if times is None else [times])
        return explain(self.ranker, self._items, known.sequences, int(self._items.known([item], "item")[0]))

    @property
    def _device(self) -> torch.device:
        return self.ranker.encoder.output_bias.device

    def check_known(self, what: str, items: Ids) -> None:
        """Refuse items of which the model knows none.

        Args:
            what: names them.
            items: external ids.

        Raises:
            UserError: with an example of each side.
        """
        self._items.refuse_unknown(what, items)

    def in_spelling(self, items: Ids) -> list[str]:
        """Return ids of items as the training had them, ``12`` for ``12.0``; those of other items as they are."""
        return self._items.in_spelling(items)

    @property
    def _popularity(self) -> Tensor:
        """What items are ranked by without a history. *Shape:* (N,)."""
        return torch.log(self._counts + 1.0)

    def _catalogue(self, items: Ids | None, exclude: Ids | None) -> Catalogue:
        """Return what may be recommended."""
        if items is None and exclude is None:
            return self.ranker.catalogue()
        everything = np.arange(1, self.ranker.n_items)
        chosen = (
            everything
            if items is None
            else np.unique(self._items.those_known(items, "items_to_recommend", needed=True))
        )
        if exclude is not None:
            chosen = np.setdiff1d(chosen, self._items.those_known(exclude, "exclude"))
        if not len(chosen):
            raise nothing_left()
        return self.ranker.catalogue(torch.from_numpy(chosen).to(self._device))

    def _encoded(self, histories: Histories, batch_size: int | None = None) -> Iterator[_Batch]:
        """Yield batches of histories of similar length, the longest first, then those without a known item."""
        lengths, longest = histories.sequences.lengths, self.ranker.objective.max_length
        order = lengths.clamp(max=longest).argsort(descending=True, stable=True)
        n_empty = int((lengths == 0).sum())
        for some in order.split([len(order) - n_empty, n_empty]):
            for rows in some.split(batch_size or self.batch_size) if len(some) else ():
                yield self._encode(histories.sequences, rows)

    def _encode(self, sequences: Sequences, rows: Tensor) -> _Batch:
        ends = sequences.offsets[rows + 1]
        begin, length = sequences.before(rows, ends, self.ranker.objective.max_length)
        width, seen = int(length.max()), self._pairs(sequences, rows)
        if not width:
            empty = torch.zeros(len(rows), self.ranker.encoder.options.hidden_size, device=self._device)
            return _Batch(rows, empty, None, seen)
        asked = [sequences.windows(begin, length, width), length]
        if self.config["time_bias"]:
            asked.append(sequences.times_of(begin, length, width))
        return _Batch(rows, *self.ranker.encode(*(one.to(self._device) for one in asked)), seen)

    def _pairs(self, sequences: Sequences, rows: Tensor) -> Pairs:
        """Return place among the rows and item of all that their sequences hold."""
        places, items = sequences.seen(rows, sequences.offsets[rows + 1])
        return places.to(self._device), items.to(self._device)

    def _by_popularity(self, catalogue: Catalogue) -> Catalogue:
        """Return the items with the bias that those are ranked by of whom nothing is known."""
        return catalogue._replace(
            bias=self._popularity if catalogue.items is None else self._popularity[catalogue.items]
        )

    def _changes(self, batch: _Batch, removed: Pairs) -> list[Change]:
        if batch.shown is None:
            return [(*removed, -torch.inf)]
        return self.ranker.changes(batch.shown, removed, batch.seen)

    def _asked(self, histories: Histories) -> list[Asked]:
        """Return what :meth:`recommend` asks of the catalogue."""
        left_out, nothing = self.viewed.left_out, _none(self._device)
        batches = self._encoded(histories)
        return [(batch.vectors, self._changes(batch, batch.seen if left_out else nothing)) for batch in batches]

    def _scored(self, histories: Histories) -> Iterator[tuple[_Batch, Tensor]]:
        """Yield batches, and the scores of all items for them."""
        at_once = max(1, min(self.batch_size, _SCORES_AT_ONCE // self.ranker.n_items))
        for batch in self._encoded(histories, at_once):
            if batch.shown is None:
                yield batch, self._popularity.expand(len(batch.rows), -1).clone()
                continue
            scores = self.ranker.scores_of(batch.vectors, batch.shown, batch.seen)
            if scores.isnan().any():
                raise no_scores()
            yield batch, scores

    @torch.no_grad()
    def _ranks(
        self, histories: Histories, targets: Tensor, filter_viewed: bool | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return rank, from 1, and score of a target of each history; those of padding mean nothing."""
        check("filter_viewed", filter_viewed, or_null(Switch()))
        left_out = bool(self.config["exclude_seen"]) if filter_viewed is None else filter_viewed
        ranks = np.empty(len(histories), dtype=np.int64)
        values = np.empty(len(histories), dtype=np.float32)
        for batch, scores in self._scored(histories):
            places = targets[batch.rows].unsqueeze(1).to(self._device)  # (B, 1)
            own = scores.gather(1, places)
            scores[:, PADDING] = -torch.inf
            if left_out:
                scores[batch.seen] = -torch.inf
            scores.scatter_(1, places, -torch.inf)
            above, equal = ((scores > own).sum(1), (scores == own).sum(1))
            ranks[batch.rows.numpy()] = ranks_of(above.cpu().numpy(), equal.cpu().numpy())
            values[batch.rows.numpy()] = own.squeeze(1).cpu().numpy()
        return ranks, values

    def _table(
        self,
        histories: Histories,
        rows: NDArray[np.int64],
        items: NDArray[np.int64],
        ranks: NDArray[np.int64],
        scores: NDArray[np.float32],
    ) -> pd.DataFrame:
        user, item, _ = self.fields
        check_names_of_columns(user, item)
        columns = {user: histories.users[rows], item: self._items.tokens[items], "rank": ranks, "score": scores}
        return pd.DataFrame(columns).infer_objects()


class _Batch(NamedTuple):
    """Histories that were encoded together.

    Attributes:
        rows: their places among all. *Shape:* (B,)
        vectors: zeros where nothing is known. *Shape:* (B, H)
        shown: what the encoder was shown; None where nothing is known. *Shape:* (B, L)
        seen: places among the rows, and items of whole histories.
    """

    rows: Tensor
    vectors: Tensor
    shown: Tensor | None
    seen: Pairs


class _Found:
    """The items that were found for each row."""

    def __init__(self, n_rows: int, k: int) -> None:
        self._scores = np.full((n_rows, k), -np.inf, dtype=np.float32)
        self._items = np.zeros((n_rows, k), dtype=np.int64)

    def put(self, rows: Tensor, scores: Tensor, items: Tensor) -> None:
        """Keep the best items of some rows."""
        self._scores[rows.numpy()], self._items[rows.numpy()] = scores.cpu().numpy(), items.cpu().numpy()

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return row, item, rank from 1 and score, by row and rank; what was taken out is left out."""
        rows, places = np.isfinite(self._scores).nonzero()
        return rows, self._items[rows, places], places + 1, self._scores[rows, places]


def _none(device: torch.device) -> Pairs:
    nothing = torch.empty(0, dtype=torch.int64, device=device)
    return nothing, nothing


def _joined(one: Pairs, other: Pairs) -> Pairs:
    return torch.cat([one[0], other[0]]), torch.cat([one[1], other[1]])
