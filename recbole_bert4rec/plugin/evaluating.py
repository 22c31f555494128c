"""How BERT4Rec's trainer ranks the rows of an evaluation: the best k items of each, without a table of all scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.evaluator import Collector, DataStruct
from torch import Tensor

from recbole_bert4rec.core.ranker import Pairs
from recbole_bert4rec.core.segments import pair_keys, split_keys
from recbole_bert4rec.core.topk import best_candidates
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import gathered
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.constants import PADDING, TARGET_POSITION
from recbole_bert4rec.system.errors import UserError

_OF_USERS = ("rec.topk", "rec.items", "rec.meanrank", "rec.score", "data.label")
"""Names of collected data with one row or more for each user."""


class Ranking(NamedTuple):
    """The best items of each user."""

    items: Tensor  # ids, best first, (B, k)


class RankingCollector(Collector):
    """Collect batches as RecBole does; a :class:`Ranking` may replace the matrix of scores."""

    def get_data_struct(self) -> DataStruct:
        """Return the data collected of the users of all processes."""
        struct: DataStruct = super().get_data_struct()
        if dist.is_initialized():
            for name in _OF_USERS:
                if name in struct:
                    struct.set(name, torch.cat(gathered(struct.get(name))))
        return struct

    def eval_batch_collect(
        self, scores_tensor: Tensor | Ranking, interaction: Interaction, positive_u: Tensor, positive_i: Tensor
    ) -> None:
        """Collect a batch whose scores are a :class:`Ranking`, or a matrix (B, N) as in RecBole."""
        if not isinstance(scores_tensor, Ranking):
            super().eval_batch_collect(scores_tensor, interaction, positive_u, positive_i)
            return
        items = scores_tensor.items[:, : max(self.topk)]
        if self.register.need("rec.items"):
            self.data_struct.update_tensor("rec.items", items)
        if self.register.need("rec.topk"):
            users = torch.arange(len(items), device=items.device)
            n_items = int(max(items.max(), positive_i.max())) + 1
            targets = torch.unique(pair_keys(positive_u.to(items.device), positive_i.to(items.device), n_items))
            hits = torch.isin(pair_keys(users.unsqueeze(1), items, n_items), targets)
            count = torch.bincount(split_keys(targets, n_items)[0], minlength=len(items))
            self.data_struct.update_tensor("rec.topk", torch.cat([hits, count.unsqueeze(1)], dim=1).int())


class EvaluationRanker:
    """Rankings that encode each history once and hold no matrix of all scores."""

    dataset: BERT4RecDataset  # whose rows are ranked
    depth: int  # number of ranks kept of each row

    def __init__(
        self, config: Config, model: BERT4Rec, collector: RankingCollector, diverged: Callable[[str], UserError]
    ) -> None:
        self._exclude_seen: bool = config["exclude_seen"]
        self._model, self._diverged, self._device = model, diverged, config["device"]
        of_all_items = ("rec.meanrank", "rec.score")  # for GAUC, AUC, LogLoss, ...
        self._best_suffice = not any(map(collector.register.need, of_all_items))
        self.depth = max(config["topk"])

    def _seen(self, interaction: Interaction) -> tuple[Pairs, Pairs]:
        """Return rows and items of the histories, and those that ``exclude_seen`` takes out; empty if not needed.

        A repeated target stays, as in the authors' code.
        """
        nothing = torch.empty(0, dtype=torch.int64, device=self._device)
        if not self._exclude_seen and self._model.seen_bias is None:
            return (nothing, nothing), (nothing, nothing)
        dataset = self.dataset
        rows, items = dataset.sequences.seen(dataset.sequence_of(interaction), interaction[TARGET_POSITION])
        kept = (items != interaction[dataset.iid_field][rows]).to(self._device)
        rows, items = rows.to(self._device), items.to(self._device)
        return (rows, items), (rows[kept], items[kept]) if self._exclude_seen else (nothing, nothing)

    def _check(self, scores: Tensor) -> None:
        """Refuse scores that cannot be ranked; NaN and infinity would stand first."""
        if not (scores < math.inf).all():
            raise self._diverged("scores are not finite")

    def rank_catalogue(self, batched_data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Rank the catalogue for each row; the matrix of all scores is made only if a metric needs it."""
        interaction, _, positive_u, positive_i = batched_data
        (seen, removed), moved = self._seen(interaction), interaction.to(self._device)
        if self._best_suffice:
            best, items = self._model.best_items(moved, self.depth, removed, seen)
            self._check(best[:, 0])
            return interaction, Ranking(items), positive_u, positive_i
        scores = self._model.full_sort_predict(moved, seen)
        self._check(scores)
        scores[:, PADDING] = -torch.inf
        scores[removed] = -torch.inf
        return interaction, scores, positive_u, positive_i

    def rank_candidates(self, batched_data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Rank each user's candidates (see :class:`CandidateDataLoader`), or score labelled rows by a sigmoid."""
        interaction, candidates, positive_u, positive_i = batched_data
        moved = interaction.to(self._device)
        if candidates is None:
            return interaction, torch.sigmoid(self._model.predict(moved)), positive_u, positive_i
        owner, items = candidates[0].to(self._device), candidates[1].to(self._device)
        n_users, n_items = int(owner[-1]) + 1, self._model.n_items
        vectors, sequences = self._model.encode(*self._model.histories(moved))
        seen, removed = self._seen(interaction)
        scores = self._model.score_candidates(vectors, sequences, items, seen).T.flatten()
        self._check(scores)
        rows = torch.arange(len(items), device=self._device).repeat(items.shape[1])
        users, items = owner[rows], items.T.flatten()  # for each user in RecBole's order: candidate by candidate
        if self._exclude_seen:
            out = torch.isin(pair_keys(rows, items, n_items), pair_keys(*removed, n_items))
            targets = pair_keys(positive_u.to(self._device), positive_i.to(self._device), n_items)
            scores[out & ~torch.isin(pair_keys(users, items, n_items), targets)] = -torch.inf
        if self._best_suffice:
            _, best = best_candidates(users, items, scores, self.depth, n_users)
            return interaction, Ranking(best), positive_u, positive_i
        everything = torch.full((n_users, n_items), -torch.inf, device=self._device)
        everything[users, items] = scores
        return interaction, everything, positive_u, positive_i
