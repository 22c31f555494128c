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

from recbole_bert4rec.core.objectives import Asked
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write, check_picture


@dataclass(frozen=True)
class Explanation:
    """What each item of a history has to do with the score of an item.

    Attributes:
        item: that is explained.
        score: of it.
        table: a row for each item that the model sees of the history, oldest first. ``position`` counts back from the
            end, 0 is the last; ``item``; ``influence``, by how much the score would be lower without it; ``attention``,
            the mean over layers and heads from the position that is read.
    """

    item: str
    score: float
    table: pd.DataFrame

    def draw(self, path: str | os.PathLike[str], most: int = 20) -> None:
        """Draw influence and attention side by side.

        Args:
            path: of the picture (.png, .pdf or .svg).
            most: rows to show, those of the greatest influence.

        Raises:
            UserError: the ending or the folder is wrong.
        """
        check_picture("path", str(path))
        from matplotlib.figure import Figure

        strongest = self.table["influence"].abs().nlargest(most).index
        shown = self.table.loc[sorted(strongest, reverse=True)]
        figure = Figure(figsize=(9, 1.4 + 0.28 * len(shown)), layout="constrained")
        figure.suptitle(f"why {self.item}: score {self.score:.2f}")
        names = [f"{item}  ({position})" for item, position in zip(shown["item"], shown["position"], strict=True)]
        for axes, column in zip(figure.subplots(1, 2, sharey=True), ("influence", "attention"), strict=True):
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
    timed = ranker.encoder.options.time_bias and history.times is not None
    times = torch.from_numpy(history.times) if timed else None
    whole = _Shown(ranker, torch.from_numpy(history.items).long(), times)
    # what is shown, and one item more, which is shown where another is left out
    latest = torch.arange(len(whole.items))[-ranker.objective.max_length - 1 :]
    asked, asked_times = whole.ask(latest.unsqueeze(0))
    visible = int((asked.item_seq != ranker.mask_token).sum())
    left_out = latest[-visible:]
    kept = latest.expand(visible, -1)[latest != left_out.unsqueeze(1)].view(visible, -1)
    had = int((whole.items == item).sum())
    score = whole.score(latest.unsqueeze(0), item, torch.tensor([had > 0]))
    without = whole.score(kept, item, had > (whole.items[left_out] == item).long())
    weights = ranker.encoder.attention(asked.item_seq, asked_times, asked.two_sided)[0]  # (layers, heads, L, L)
    columns = {
        "position": np.arange(visible)[::-1],
        "item": items.tokens[whole.items[left_out].numpy()],
        "influence": (score - without).cpu().numpy(),
        "attention": weights[..., int(asked.last), :visible].mean((0, 1)).cpu().numpy(),
    }
    return Explanation(str(items.tokens[item]), float(score), pd.DataFrame(columns))


class _Shown(NamedTuple):
    """A history, of which some items are shown.

    Attributes:
        ranker: to which.
        items: internal ids. *Shape:* (T,)
        times: of the items, for ``time_bias``. *Shape:* (T,)
    """

    ranker: Ranker
    items: Tensor
    times: Tensor | None

    def _arguments(self, places: Tensor) -> tuple[Tensor, ...]:
        """Return what the ranker takes to be shown the items at some places, (B, L)."""
        columns = (self.items,) if self.times is None else (self.items, self.times)
        items, *times = (F.pad(column[places], (0, 1)) for column in columns)  # not without a column
        lengths = torch.full((len(places),), places.shape[1])
        return tuple(one.to(self.ranker.encoder.output_bias.device) for one in (items, lengths, *times))

    def ask(self, places: Tensor) -> tuple[Asked, Tensor | None]:
        """Return what the encoder is shown of the items at some places."""
        return self.ranker.ask(*self._arguments(places))

    def score(self, places: Tensor, item: int, had: Tensor) -> Tensor:
        """Score an item after the items at some places; ``had`` says whether the whole history still holds it.

        *Shape:* (B, L), (B,) -> (B,)
        """
        vectors, sequences = self.ranker.encode(*self._arguments(places))
        candidate = torch.full((len(places), 1), item, device=vectors.device)
        rows = had.nonzero().squeeze(1).to(vectors.device)
        return self.ranker.score_candidates(vectors, sequences, candidate, (rows, candidate[rows, 0])).squeeze(1)
