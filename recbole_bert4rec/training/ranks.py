"""Notes the rank of each user's target in the test of any RecBole model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.trainer import Trainer
from torch import Tensor

from recbole_bert4rec.plugin.callbacks import Callback, Metrics, RankedBatch
from recbole_bert4rec.plugin.evaluating import Ranking
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.files import atomic_write

RANK_DEPTH = 50
"""Ranks of test targets are kept down to here (or to the largest ``topk``, if that is deeper)."""
BEYOND = 0
"""Rank of a target that is further down."""


class RankLog(Callback):
    """Notes the rank of each user's target in a test with one target a user.

    Attributes:
        depth: how far down ranks are known; set when the test begins.
    """

    def __init__(self) -> None:
        self.depth = 0
        self._testing = False
        self._k = 0
        self._dataset: Dataset
        self._users: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._ranks: list[Tensor] = []

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """Begin to note ranks; let BERT4Rec, which makes no matrix of scores, rank as deep as is needed."""
        self._dataset, self._k = loader._dataset, max(trainer.config["topk"])
        self.depth = min(max(self._k, RANK_DEPTH), self._dataset.item_num - 1)
        self._testing = True
        if isinstance(trainer, BERT4RecTrainer):
            trainer.ranker.depth = self.depth

    def on_test_end(self, trainer: Trainer, metrics: Metrics) -> None:
        """End to note ranks."""
        self._testing = False

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> None:
        """Note the rank of each target."""
        if not self._testing:
            return
        if isinstance(ranked.scores, Ranking):
            best, deeper = ranked.scores.items[:, : self._k], ranked.scores.items
        else:  # the best in the order that RecBole's collector has them; further down ties may differ from it
            best, deeper = (torch.topk(ranked.scores, depth, dim=-1).indices for depth in (self._k, self.depth))
        targets = ranked.targets.to(deeper.device)
        near, far = _rank(best, targets), _rank(deeper, targets)
        # a target that a tie puts 11th in `best` may stand 9th in `deeper`: RecBole's metrics do not count it
        far = torch.where(far > 0, far.clamp_min(self._k + 1), BEYOND)
        self._ranks.append(torch.where(near > 0, near, far).cpu())
        self._users.append(torch.unique_consecutive(ranked.interaction[self._dataset.uid_field].cpu()))
        self._targets.append(ranked.targets.cpu())

    def by_user(self) -> pd.DataFrame:
        """Return a row a user: external ids of user and target, and the target's rank (from 1; 0: beyond the depth)."""
        users, targets, ranks = torch.cat(self._users), torch.cat(self._targets), torch.cat(self._ranks)
        user_tokens, item_tokens = (
            np.asarray(self._dataset.field2id_token[field])
            for field in (self._dataset.uid_field, self._dataset.iid_field)
        )
        return pd.DataFrame(
            {"user": user_tokens[users.numpy()], "target": item_tokens[targets.numpy()], "rank": ranks.numpy()}
        )


def _rank(items: Tensor, targets: Tensor) -> Tensor:
    """Return the rank of each row's target among its items, from 1; 0 if it is not there."""
    hits = items == targets.unsqueeze(1)
    return torch.where(hits.any(1), hits.int().argmax(1) + 1, 0)


def write_ranks(path: str | Path, ranks: pd.DataFrame) -> None:
    """Write a test's ranks as Parquet, whole or not at all."""
    with atomic_write(path) as temporary:
        ranks.to_parquet(temporary, index=False)
