"""Why an item is recommended: the influence of each item of the history."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.system.errors import UserError


class Explanation(NamedTuple):
    """Says how much each item of a history has to do with the score of an item.

    Attributes:
        item: the explained item.
        score: its score.
        table: a row for each item of the history that the model sees, oldest first. Columns: ``position`` counts back
            from the end, 0 is the last; ``item``; ``influence``, by how much the score would be lower without it.
    """

    item: str
    score: float
    table: pd.DataFrame


@torch.no_grad()
def explain(ranker: Ranker, items: Items, history: Histories, item: int) -> Explanation:
    """Score an item for a history and for the same history without each of the items that the model sees."""
    if not len(history.items):
        raise UserError("`history` has no item that the model knows, so nothing can be explained by it")
    device = ranker.encoder.output_bias.device

    def score(rows: Tensor, still_seen: Tensor) -> Tensor:
        """Score the item after rows of items, (B, L); ``still_seen``, (B,): whether the history still holds it."""
        lengths = torch.full((len(rows),), rows.shape[1], device=device)
        vectors, sequences = ranker.encode(F.pad(rows, (0, 1)).to(device), lengths)  # not without a column
        candidate = torch.full((len(rows), 1), item, device=device)
        seen = still_seen.nonzero().squeeze(1).to(device)
        return ranker.score_candidates(vectors, sequences, candidate, (seen, candidate[seen, 0])).squeeze(1)

    whole = torch.from_numpy(history.items).long()
    n_times = int((whole == item).sum())
    # the items that are shown, and one before them, which is shown if another is left out
    latest = whole[-ranker.objective.max_length - 1 :]
    visible = min(len(latest), ranker.objective.max_length - ranker.objective.appended)
    places = torch.arange(len(latest))
    left_out = places[-visible:]
    others = latest[places.expand(visible, -1)[places != left_out.unsqueeze(1)].view(visible, -1)]
    of_all = score(latest.unsqueeze(0), torch.tensor([n_times > 0]))
    without = score(others, n_times > (latest[left_out] == item).long())
    columns = {
        "position": np.arange(visible)[::-1],
        "item": items.tokens[latest[left_out].numpy()],
        "influence": (of_all - without).cpu().numpy(),
    }
    return Explanation(str(items.tokens[item]), float(of_all), pd.DataFrame(columns))
