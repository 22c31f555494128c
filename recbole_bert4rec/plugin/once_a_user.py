"""Score candidates of RecBole's models with one encoding of each user's history, not one for each candidate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from recbole.data.interaction import Interaction
from recbole.utils import EvaluatorType
from torch import Tensor

from recbole_bert4rec.options.user_models import SHIPPED

ENCODED_ONCE = ("Caser", "FPMC", "GRU4Rec", "SASRec", *SHIPPED)
"""Models whose ``predict`` gives an item the score that ``full_sort_predict`` gives it."""

Batch = tuple[Interaction, Tensor, Tensor, Tensor]
"""Rows of users and candidates, the user of each, and users and items of the targets."""


def score_candidates(original: Callable[..., Any], self: Any, batched_data: Batch) -> Any:
    """Score a batch of users' candidates; the scores are RecBole's up to rounding."""
    interaction, users, positive_u, positive_i = batched_data
    if self.config["model"] not in ENCODED_ONCE or self.config["eval_type"] != EvaluatorType.RANKING:
        return original(self, batched_data)
    n_users = int(positive_u[-1]) + 1
    if len(positive_u) != n_users:  # each target of a user has its own history
        return original(self, batched_data)
    first = torch.searchsorted(users, torch.arange(n_users))
    whole = self.model.full_sort_predict(interaction[first].to(self.device)).view(n_users, -1)
    items = interaction[self.config["ITEM_ID_FIELD"]]
    scores = torch.full_like(whole, -torch.inf)
    scores[users, items] = whole[users, items]
    return interaction, scores, positive_u, positive_i
