"""The rank of each user's target in the test of any RecBole model, and one rule about seen items for all of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader
from recbole.data.dataset import Dataset
from recbole.trainer import Trainer
from scipy.sparse import csr_array
from torch import Tensor

from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, RankedBatch
from recbole_bert4rec.plugin.evaluating import Ranking
from recbole_bert4rec.plugin.split import earlier_interactions
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.errors import UserError

RANK_DEPTH = 50
"""Ranks of test targets are kept down to here (or to the largest ``topk``, if that is deeper)."""
PHASES = ("valid", "test")
Ids = NDArray[np.int64]
"""Internal ids of users or items."""


class RankLog(Callback):
    """Notes the rank of each user's target in a test with one target a user."""

    _dataset: Dataset

    def __init__(self) -> None:
        self._k = self._depth = 0
        self._batches: list[tuple[Tensor, Tensor, Tensor]] = []

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """Begin to note ranks; let BERT4Rec, which makes no matrix of scores, rank as deep as is needed."""
        self._dataset, self._k = loader._dataset, max(trainer.config["topk"])
        self._depth = min(max(self._k, RANK_DEPTH), self._dataset.item_num - 1)
        if isinstance(trainer, BERT4RecTrainer):
            trainer.ranker.depth = self._depth

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> None:
        """Note the rank of each target, in the test alone."""
        if not self._depth:
            return
        if isinstance(ranked.scores, Ranking):
            items, twice = ranked.scores.items, 0
        else:  # the best come first as RecBole's collector has them: a deeper order may have ties in another way
            orders = [torch.topk(ranked.scores, depth, dim=1).indices for depth in (self._k, self._depth)]
            items, twice = torch.cat(orders, dim=1), self._k
        hits = items == ranked.targets.to(items.device).unsqueeze(1)
        places = hits.int().argmax(dim=1)
        # a target that a tie puts 11th there may stand 9th in the deeper order: RecBole's metrics do not count it
        places = torch.where(places < self._k, places, (places - twice).clamp_min(self._k))
        users = torch.unique_consecutive(ranked.interaction[self._dataset.uid_field].cpu())
        self._batches.append((users, ranked.targets.cpu(), torch.where(hits.any(dim=1), places + 1, 0).cpu()))

    def by_user(self, protocol: str = "") -> pd.DataFrame:
        """Return a row a user: protocol, ids in the log of user and target, the target's rank from 1 (0: beyond)."""
        users, targets, ranks = (torch.cat(parts).numpy() for parts in zip(*self._batches, strict=True))
        tokens = self._dataset.field2id_token
        user, target = np.asarray(tokens[self._dataset.uid_field]), np.asarray(tokens[self._dataset.iid_field])
        return pd.DataFrame({"protocol": protocol, "user": user[users], "target": target[targets], "rank": ranks})


class SeenRule(Callback):
    """Lets RecBole's models follow ``exclude_seen`` in full rankings; this package's do so themselves.

    RecBole's sequential models rank the items of the history, its general models leave them out. With this callback
    both rank them, or neither does; a target that the user had before stays.
    """

    def __init__(
        self, exclude: bool, interactions: pd.DataFrame, valid_data: AbstractDataLoader, test_data: AbstractDataLoader
    ) -> None:
        loaders = (valid_data, test_data)
        # among candidates RecBole draws by rules of its own, and the paper's are never seen items
        self._ranks_all = [isinstance(loader, FullSortEvalDataLoader) for loader in loaders]
        needed = exclude and any(self._ranks_all)
        self._seen = seen_items(interactions, *loaders) if needed else None
        self._phase = 0

    def on_validation_begin(self, trainer: Trainer, epoch: int, loader: AbstractDataLoader) -> None:
        """Note whose histories count."""
        self._phase = 0

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """Note whose histories count."""
        self._phase = 1

    def on_ranking_begin(self, trainer: Trainer, batch: EvalBatch) -> EvalBatch | None:
        """Let RecBole score all items: it takes the history out for general models."""
        return batch._replace(excluded=None) if self._ranks_all[self._phase] else None

    def on_ranking_end(self, trainer: Trainer, ranked: RankedBatch) -> None:
        """Take the history out, if the rule says so; targets stay."""
        if self._seen is None or not self._ranks_all[self._phase]:
            return
        interaction, scores, *targets = ranked
        users = np.asarray(interaction[trainer.config["USER_ID_FIELD"]])
        rows, items = self._seen[self._phase][users].nonzero()
        target_scores = scores[tuple(targets)]
        scores[torch.from_numpy(rows).long(), torch.from_numpy(items).long()] = -torch.inf
        scores[tuple(targets)] = target_scores


def seen_items(
    interactions: pd.DataFrame, valid_data: AbstractDataLoader, test_data: AbstractDataLoader
) -> list[csr_array]:
    """Count the items that each user had before the target of validation, and before that of the test.

    *Shape:* (U, N) each
    """
    dataset = test_data._dataset
    users, items = (np.asarray(interactions[field]) for field in (dataset.uid_field, dataset.iid_field))
    targets = [targets_of(*pair) for pair in zip((valid_data, test_data), PHASES, strict=True)]

    def count(users: Ids, items: Ids) -> csr_array:
        ones = np.ones(len(users), dtype=np.int32)
        return csr_array((ones, (users, items)), shape=(dataset.user_num, dataset.item_num))  # equal pairs are summed

    if not hasattr(dataset, "histories"):
        before_test = count(users, items) - count(*targets[1])
        return [before_test - count(*targets[0]), before_test]
    # split at one moment for all users
    order = np.lexsort((np.asarray(interactions[dataset.time_field], dtype=np.float32), users))
    users, items = users[order], items[order]
    number = earlier_interactions(users, firsts_are_rows=True)
    counts = []
    for loader, (tested, _) in zip((valid_data, test_data), targets, strict=True):
        lengths = np.zeros(dataset.user_num, dtype=np.int64)
        lengths[tested] = loader._dataset.histories.numpy()
        early = number < lengths[users]
        counts.append(count(users[early], items[early]))
    return counts


def targets_of(loader: AbstractDataLoader, phase: str) -> tuple[Ids, Ids]:
    """Return user and target of each row of an evaluation loader."""
    dataset = loader._dataset
    users, items = (np.asarray(dataset.inter_feat[field]) for field in (dataset.uid_field, dataset.iid_field))
    if len(np.unique(users)) != len(users):
        raise UserError(
            f"some users have several {phase} targets; this needs one a user: `eval_args` with split "
            "{'LS': 'valid_and_test'}, or GT; or `exclude_seen` False, which needs no history"
        )
    return users, items
