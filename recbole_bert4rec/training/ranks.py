"""What a test gave each user: the rank of the target, and how varied the recommended items are; any RecBole model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from recbole.data.dataset import Dataset
from torch import Tensor

from recbole_bert4rec.constants import RANK_DEPTH
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.plugin.ranking import Ranking

BEYOND = 0
"""Rank of a target that is further down."""


class RankListener:
    """Listens to a trainer while it tests, with one target a user, and keeps what became of it.

    Attributes:
        depth: how far down ranks are known.
    """

    def __init__(self, trainer: Any, dataset: Dataset) -> None:
        self._dataset, self._k = dataset, max(trainer.config["topk"])
        self.depth = min(max(self._k, RANK_DEPTH), dataset.item_num - 1)
        self._users: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._ranks: list[Tensor] = []
        self._best: list[Tensor] = []
        if hasattr(trainer, "ranking_depth"):  # ours, which makes no matrix of scores
            trainer.ranking_depth = self.depth
        for name in ("_full_sort_batch_eval", "_neg_sample_batch_eval"):
            setattr(trainer, name, self._listening(getattr(trainer, name)))

    def _listening(self, rank: Any) -> Any:
        def ranked(batched_data: Any) -> Any:
            interaction, scores, positive_u, positive_i = rank(batched_data)
            if isinstance(scores, Ranking):
                best, deeper = scores.items[:, : self._k], scores.items
            else:  # the best in the order that RecBole's collector has them; further down ties may differ from it
                best, deeper = (torch.topk(scores, depth, dim=-1).indices for depth in (self._k, self.depth))
            targets = positive_i.to(deeper.device)
            near, far = _rank(best, targets), _rank(deeper, targets)
            # a target that a tie puts 11th in `best` may stand 9th in `deeper`: RecBole's metrics do not count it
            far = torch.where(far > 0, far.clamp_min(self._k + 1), BEYOND)
            self._ranks.append(torch.where(near > 0, near, far).cpu())
            self._best.append(best.cpu())
            self._users.append(torch.unique_consecutive(interaction[self._dataset.uid_field].cpu()))
            self._targets.append(positive_i.cpu())
            return interaction, scores, positive_u, positive_i

        return ranked

    def by_user(self) -> pd.DataFrame:
        """A row a user: external ids of user and target, and the target's rank (from 1; 0 is beyond the depth)."""
        users, targets, ranks = torch.cat(self._users), torch.cat(self._targets), torch.cat(self._ranks)
        user_tokens, item_tokens = (
            np.asarray(self._dataset.field2id_token[field])
            for field in (self._dataset.uid_field, self._dataset.iid_field)
        )
        return pd.DataFrame(
            {"user": user_tokens[users.numpy()], "target": item_tokens[targets.numpy()], "rank": ranks.numpy()}
        )

    def variety(self, training_counts: Any) -> dict[str, float]:
        """Share of the catalogue that is recommended to anybody, and how popular the recommended items are.

        Args:
            training_counts: how often each item stands in the training part. *Shape:* (N,)

        Returns:
            coverage@K, and popularity@K: the mean over users and items of the share of the other items that stand
            less often in the training part (0 rarest, 1 most popular); K is the largest ``topk``.
        """
        items = torch.cat(self._best).numpy()
        counts = training_counts[1:]
        below = np.searchsorted(np.sort(counts), training_counts, side="left") / max(1, len(counts) - 1)
        return {
            f"coverage@{self._k}": len(np.unique(items)) / len(counts),
            f"popularity@{self._k}": float(below[items].mean()),
        }


def _rank(items: Tensor, targets: Tensor) -> Tensor:
    """Place of each row's target among its items, from 1; 0 where it is not there."""
    hits = items == targets.unsqueeze(1)
    return torch.where(hits.any(1), hits.int().argmax(1) + 1, 0)


def write_ranks(path: str | Path, ranks: pd.DataFrame) -> None:
    """Write a test's ranks as Parquet, whole or not at all."""
    with atomic_write(path) as temporary:
        ranks.to_parquet(temporary, index=False)
