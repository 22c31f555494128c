"""The rank of each user's target in the test of any RecBole model, and one rule about seen items for all of them."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader
from recbole.data.dataset import Dataset
from recbole.trainer import Trainer
from scipy.sparse import csr_array
from torch import Tensor

from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, Metrics, RankedBatch
from recbole_bert4rec.plugin.evaluating import Ranking
from recbole_bert4rec.plugin.split import earlier_interactions
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write

RANK_DEPTH = 50
"""Ranks of test targets are kept down to here (or to the largest ``topk``, if that is deeper)."""
BEYOND = 0
"""Rank of a target that is further down."""
PHASES = ("valid", "test")
Ids = NDArray[np.int64]
"""Internal ids of users or items."""


class RankLog(Callback):
    """Notes the rank of each user's target in a test with one target a user."""

    def __init__(self) -> None:
        self._testing = False
        self._k = self._depth = 0
        self._dataset: Dataset
        self._batches: list[tuple[Tensor, Tensor, Tensor]] = []

    def on_test_begin(self, trainer: Trainer, loader: AbstractDataLoader) -> None:
        """Begin to note ranks; let BERT4Rec, which makes no matrix of scores, rank as deep as is needed."""
        self._dataset, self._k = loader._dataset, max(trainer.config["topk"])
        self._depth = min(max(self._k, RANK_DEPTH), self._dataset.item_num - 1)
        self._testing = True
        if isinstance(trainer, BERT4RecTrainer):
            trainer.ranker.depth = self._depth

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
            best, deeper = (torch.topk(ranked.scores, depth, dim=-1).indices for depth in (self._k, self._depth))
        targets = ranked.targets.to(deeper.device)
        near, far = _rank(best, targets), _rank(deeper, targets)
        # a target that a tie puts 11th in `best` may stand 9th in `deeper`: RecBole's metrics do not count it
        far = torch.where(far > 0, far.clamp_min(self._k + 1), BEYOND)
        users = torch.unique_consecutive(ranked.interaction[self._dataset.uid_field].cpu())
        self._batches.append((users, ranked.targets.cpu(), torch.where(near > 0, near, far).cpu()))

    def by_user(self, protocol: str = "") -> pd.DataFrame:
        """Return a row a user: protocol, external ids of user and target, and the target's rank from 1.

        A rank of 0 is beyond the depth.
        """
        users, targets, ranks = (torch.cat(parts).numpy() for parts in zip(*self._batches, strict=True))
        tokens = self._dataset.field2id_token
        user, target = np.asarray(tokens[self._dataset.uid_field]), np.asarray(tokens[self._dataset.iid_field])
        return pd.DataFrame({"protocol": protocol, "user": user[users], "target": target[targets], "rank": ranks})


def write_ranks(path: str | os.PathLike[str], of_users: list[pd.DataFrame]) -> None:
    """Write the ranks of the tests as Parquet, whole or not at all."""
    with atomic_write(path) as temporary:
        pd.concat(of_users, ignore_index=True).to_parquet(temporary, index=False)


def _rank(items: Tensor, targets: Tensor) -> Tensor:
    """Return the rank of each row's target among its items, from 1; 0 if it is not there."""
    hits = items == targets.unsqueeze(1)
    return torch.where(hits.any(1), hits.int().argmax(1) + 1, 0)


def needs_seen_rule(config: Config) -> bool:
    """Tell whether ``exclude_seen`` is set for a model of RecBole's; this package's models follow it by themselves."""
    return not is_ours(config.model_class) and config["exclude_seen"] is not None


class SeenRule(Callback):
    """Lets RecBole's models follow ``exclude_seen``; BERT4Rec does so itself.

    RecBole's sequential models rank the items of the history, its general models leave them out. With this callback
    both rank them, or neither does. A target that the user had before stays, as in
    :class:`~recbole_bert4rec.plugin.trainer.BERT4RecTrainer`. It acts in full ranking only: RecBole draws candidates by
    rules of its own, and the paper's candidates are never seen items.
    """

    def __init__(
        self, exclude: bool, interactions: pd.DataFrame, valid_data: AbstractDataLoader, test_data: AbstractDataLoader
    ) -> None:
        loaders = (valid_data, test_data)
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
    columns = [np.asarray(interactions[field]) for field in (dataset.uid_field, dataset.iid_field)]
    targets = [targets_of(*pair) for pair in zip((valid_data, test_data), PHASES, strict=True)]

    def count(users: Ids, items: Ids) -> csr_array:
        ones = np.ones(len(users), dtype=np.int32)
        return csr_array((ones, (users, items)), shape=(dataset.user_num, dataset.item_num))  # equal pairs are summed

    if hasattr(dataset, "histories"):  # split at one moment for all users
        order = np.lexsort((np.asarray(interactions[dataset.time_field], dtype=np.float32), columns[0]))
        users, items = (column[order] for column in columns)
        number = earlier_interactions(users, firsts_are_rows=True)
        counts = []
        for loader, (tested, _) in zip((valid_data, test_data), targets, strict=True):
            lengths = np.zeros(dataset.user_num, dtype=np.int64)
            lengths[tested] = loader._dataset.histories.numpy()
            early = number < lengths[users]
            counts.append(count(users[early], items[early]))
        return counts
    before_test = count(*columns) - count(*targets[1])
    counts = [before_test - count(*targets[0]), before_test]
    for one in counts:
        one.eliminate_zeros()
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
