"""Collects the data of RecBole's metrics from the best k items of each user, not from the matrix of scores."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from recbole.data.interaction import Interaction
from recbole.evaluator import Collector, DataStruct
from torch import Tensor

from recbole_bert4rec.core.segments import pair_keys, split_keys
from recbole_bert4rec.plugin.distributed import gathered

_OF_USERS = ("rec.topk", "rec.items", "rec.meanrank", "rec.score", "data.label")
"""Names of the data that RecBole collects with one row or more a user."""


class Ranking(NamedTuple):
    """The best items of each user.

    Attributes:
        items: item ids, best first. *Shape:* (B, k)
    """

    items: Tensor


class RankingCollector(Collector):
    """Collect batches as RecBole does; a :class:`Ranking` may take the place of the matrix of scores."""

    @property
    def needs_all_scores(self) -> bool:
        """Whether a metric (GAUC, AUC, LogLoss, ...) needs more than the best k items."""
        return self.register.need("rec.meanrank") or self.register.need("rec.score")

    def get_data_struct(self) -> DataStruct:
        """Return the collected data, of the users of all processes."""
        struct: DataStruct = super().get_data_struct()
        if dist.is_initialized():
            for name in _OF_USERS:
                if name in struct:
                    struct.set(name, torch.cat(gathered(struct.get(name))))
        return struct

    def eval_batch_collect(
        self, scores_tensor: Tensor | Ranking, interaction: Interaction, positive_u: Tensor, positive_i: Tensor
    ) -> None:
        """Collect a batch, whose scores are a :class:`Ranking`, or as RecBole has them, (B, N)."""
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
