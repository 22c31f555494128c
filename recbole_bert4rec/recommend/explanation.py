"""Why an item is recommended: the influence of each item of the history, and where the model looks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
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
from recbole_bert4rec.system.files import atomic_write, check_picture


@dataclass(frozen=True)
class Explanation:
    """Says how much each item of a history has to do with the score of an item.

    Attributes:
        item: the explained item.
        score: its score.
        table: a row for each item of the history that the model sees, oldest first. Columns: ``position`` counts back
            from the end, 0 is the last; ``item``; ``influence``, by how much the score would be lower without it;
            ``attention`` from the position that is read, the mean over layers and heads; ``memory``, the part of the
            score that ``memory`` adds because users who had the item went on to the explained one.
    """

    item: str
    score: float
    table: pd.DataFrame

    def draw(self, path: str | os.PathLike[str], most: int = 20) -> None:
        """Draw the columns side by side; the memory only if it says something.

        Args:
            path: of the picture (.png, .pdf or .svg).
            most: number of rows; those of the greatest influence are shown.

        Raises:
            UserError: the ending or the folder is wrong.
        """
        check_picture("path", str(path))
        from matplotlib.figure import Figure

        strongest = self.table["influence"].abs().nlargest(most).index
        shown = self.table.loc[sorted(strongest, reverse=True)]
        columns = ["influence", "attention", *(["memory"] if self.table["memory"].any() else [])]
        figure = Figure(figsize=(9, 1.4 + 0.28 * len(shown)), layout="constrained")
        figure.suptitle(f"why {self.item}: score {self.score:.2f}")
        names = [f"{item}  ({position})" for item, position in zip(shown["item"], shown["position"], strict=True)]
        for axes, column in zip(figure.subplots(1, len(columns), sharey=True), columns, strict=True):
            axes.barh(np.arange(len(shown)), shown[column])
            axes.set_yticks(np.arange(len(shown)), names, fontsize=8)
            axes.axvline(0, color="black", linewidth=0.6)
            axes.set_xlabel(column)
        with atomic_write(path) as temporary:
            figure.savefig(temporary, dpi=150, format=Path(path).suffix[1:])


@torch.no_grad()
def explain(ranker: Ranker, items: Items, history: Histories, item: int) -> Explanation:
    """Score an item for a history and for the same history without each of the items that the model sees.

    Args:
        ranker: in evaluation mode.
        items: external ids.
        history: of one user.
        item: internal id.

    Raises:
        UserError: the history is empty.
    """
    if not len(history.items):
        raise UserError("`history` has no item that the model knows, so nothing can be explained by it")
    whole = _Shown(ranker, torch.from_numpy(history.items).long())
    # the items that are shown, and one before them, which is shown if another is left out
    latest = torch.arange(len(whole.items))[-ranker.objective.max_length - 1 :]
    inputs = ranker.objective.ask(*whole.arguments(latest.unsqueeze(0)))
    visible = int((inputs.item_seq != ranker.mask_token).sum())
    left_out = latest[-visible:]
    others = latest.expand(visible, -1)[latest != left_out.unsqueeze(1)].view(visible, -1)
    n_times = int((whole.items == item).sum())
    score = whole.score(latest.unsqueeze(0), item, torch.tensor([n_times > 0]))
    without = whole.score(others, item, n_times > (whole.items[left_out] == item).long())
    weights = ranker.encoder.attention(inputs.item_seq, inputs.two_sided)[0]  # (layers, heads, L, L)
    shown = whole.items[left_out].numpy()
    columns = {
        "position": np.arange(visible)[::-1],
        "item": items.tokens[shown],
        "influence": (score - without).cpu().numpy(),
        "attention": weights[..., int(inputs.last), :visible].mean((0, 1)).cpu().numpy(),
        "memory": np.zeros(visible) if ranker.memory is None else ranker.memory.shares(shown, item),
    }
    return Explanation(str(items.tokens[item]), float(score), pd.DataFrame(columns))


class _Shown(NamedTuple):
    """A history of which a ranker is shown some items.

    Attributes:
        ranker: in evaluation mode.
        items: internal ids. *Shape:* (T,)
    """

    ranker: Ranker
    items: Tensor

    def arguments(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ranker's arguments for the items at some positions, (B, L)."""
        device = self.ranker.encoder.output_bias.device
        items = F.pad(self.items[positions], (0, 1))  # not without a column
        return items.to(device), torch.full((len(positions),), positions.shape[1], device=device)

    def score(self, positions: Tensor, item: int, still_seen: Tensor) -> Tensor:
        """Score an item after the items at some positions; ``still_seen``: whether the history still holds the item.

        *Shape:* (B, L), (B,) -> (B,)
        """
        vectors, sequences = self.ranker.encode(*self.arguments(positions))
        candidate = torch.full((len(positions), 1), item, device=vectors.device)
        rows = still_seen.nonzero().squeeze(1).to(vectors.device)
        return self.ranker.score_candidates(vectors, sequences, candidate, (rows, candidate[rows, 0])).squeeze(1)
