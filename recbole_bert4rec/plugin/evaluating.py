"""How BERT4Rec's trainer ranks the rows of an evaluation: the whole catalogue, or each row's candidates."""

from __future__ import annotations

from typing import Any

import torch
from recbole.data.interaction import Interaction
from torch import Tensor

from recbole_bert4rec.core.ranker import Pairs
from recbole_bert4rec.core.segments import pair_keys
from recbole_bert4rec.core.topk import best_candidates
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.faults import FaultyTrainer
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.ranking import Ranking, RankingCollector
from recbole_bert4rec.system.constants import PADDING, TARGET_POSITION


class EvaluatingTrainer(FaultyTrainer):
    """RecBole's trainer with rankings that encode each history once and hold no matrix of all scores.

    Attributes:
        ranking_depth: ranks that are kept of each row.
        evaluated_rows: rankings made in the evaluation that goes on.
    """

    model: BERT4Rec
    eval_collector: RankingCollector
    ranking_depth: int
    evaluated_rows: int
    _eval_dataset: BERT4RecDataset

    def _seen(self, interaction: Interaction) -> tuple[Pairs, Pairs]:
        """Return rows and items of the histories, and those of them that ``exclude_seen`` takes out.

        A repeated target stays, as in the authors' code. Both are empty where neither ``exclude_seen`` nor
        ``seen_bias`` needs them.
        """
        nothing = torch.empty(0, dtype=torch.int64, device=self.device)
        if not self.config["exclude_seen"] and self.model.seen_bias is None:
            return (nothing, nothing), (nothing, nothing)
        dataset = self._eval_dataset
        rows, items = dataset.sequences.seen(dataset.sequence_of(interaction), interaction[TARGET_POSITION])
        kept = (items != interaction[dataset.iid_field][rows]).to(self.device)
        rows, items = rows.to(self.device), items.to(self.device)
        return (rows, items), (rows[kept], items[kept]) if self.config["exclude_seen"] else (nothing, nothing)

    def _full_sort_batch_eval(
        self, batched_data: tuple[Interaction, object, Tensor, Tensor]
    ) -> tuple[Interaction, Any, Tensor, Tensor]:
        """Rank the catalogue for each row; the matrix of all scores is made only where a metric needs it."""
        interaction, _, positive_u, positive_i = batched_data
        self.evaluated_rows += len(interaction)
        (seen, removed), moved = self._seen(interaction), interaction.to(self.device)
        if not self.eval_collector.needs_all_scores:
            best, items = self.model.best_items(moved, self.ranking_depth, removed, seen)
            self._check_scores(best[:, 0])
            return interaction, Ranking(items), positive_u, positive_i
        scores = self.model.full_sort_predict(moved, seen)
        self._check_scores(scores)
        scores[:, PADDING] = -torch.inf
        scores[removed] = -torch.inf
        return interaction, scores, positive_u, positive_i

    def _neg_sample_batch_eval(
        self, batched_data: tuple[Interaction, tuple[Tensor, Tensor] | None, Tensor, Tensor]
    ) -> tuple[Interaction, Any, Tensor, Tensor]:
        """Rank each user's candidates (see :class:`CandidateDataLoader`), or score labelled rows by a sigmoid."""
        interaction, candidates, positive_u, positive_i = batched_data
        moved = interaction.to(self.device)
        if candidates is None:
            self.evaluated_rows += len(interaction)
            return interaction, torch.sigmoid(self.model.predict(moved)), positive_u, positive_i
        owner, items = candidates[0].to(self.device), candidates[1].to(self.device)
        n_users, n_items = int(owner[-1]) + 1, self.model.n_items
        self.evaluated_rows += n_users  # a user's rows are one ranking here
        vectors, sequences = self.model.encode(*self.model.histories(moved))
        seen, removed = self._seen(interaction)
        scores = self.model.score_candidates(vectors, sequences, items, seen).T.flatten()
        self._check_scores(scores)
        rows = torch.arange(len(items), device=self.device).repeat(items.shape[1])
        users, items = owner[rows], items.T.flatten()  # for each user in RecBole's order: candidate by candidate
        if self.config["exclude_seen"]:
            out = torch.isin(pair_keys(rows, items, n_items), pair_keys(*removed, n_items))
            targets = pair_keys(positive_u.to(self.device), positive_i.to(self.device), n_items)
            scores[out & ~torch.isin(pair_keys(users, items, n_items), targets)] = -torch.inf
        if not self.eval_collector.needs_all_scores:
            _, best = best_candidates(users, items, scores, self.ranking_depth, n_users)
            return interaction, Ranking(best), positive_u, positive_i
        everything = torch.full((n_users, n_items), -torch.inf, device=self.device)
        everything[users, items] = scores
        return interaction, everything, positive_u, positive_i

    def _map_reduce(self, result: dict[str, float], num_sample: int) -> dict[str, float]:
        """Return the metrics as they are: the collector has the users of all processes."""
        return result
