"""What RecBole's metrics need, collected from the best k items of each user instead of from all scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from recbole.evaluator import Collector
from torch import Tensor


class Ranking(NamedTuple):
    """The best items of each user, best first. *Shape:* (B, k)"""

    items: Tensor


class RankingCollector(Collector):
    """RecBole's collector, which also takes a :class:`Ranking` in place of the matrix of scores."""

    @property
    def needs_all_scores(self) -> bool:
        """Whether a metric (GAUC, AUC, LogLoss, ...) looks at more than the best k items."""
        return self.register.need("rec.meanrank") or self.register.need("rec.score")

    def eval_batch_collect(self, scores_tensor: Any, interaction: Any, positive_u: Tensor, positive_i: Tensor) -> None:
        """Collect a batch; arguments as RecBole's, ``scores_tensor`` may be a :class:`Ranking`."""
        if not isinstance(scores_tensor, Ranking):
            super().eval_batch_collect(scores_tensor, interaction, positive_u, positive_i)
            return
        items = scores_tensor.items[:, : max(self.topk)]
        if self.register.need("rec.items"):
            self.data_struct.update_tensor("rec.items", items)
        if self.register.need("rec.topk"):
            users = torch.arange(len(items), device=items.device)
            beyond = int(max(items.max(), positive_i.max())) + 1
            targets = torch.unique(positive_u.to(items.device) * beyond + positive_i.to(items.device))
            hits = torch.isin(users.unsqueeze(1) * beyond + items, targets)
            count = torch.bincount(targets // beyond, minlength=len(items))
            self.data_struct.update_tensor("rec.topk", torch.cat([hits, count.unsqueeze(1)], dim=1).int())
