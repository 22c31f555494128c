"""Why an item is recommended: the influence of each item of the history, and where the model looks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from recbole_bert4rec.data.sequences import Sequences
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write, check_picture
from recbole_bert4rec.ranker import Ranker
from recbole_bert4rec.recommend.histories import Items


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
def explain(ranker: Ranker, items: Items, history: Sequences, item: int) -> Explanation:
    """Score an item for a history and for the same history without each of its items.

    Args:
        ranker: in evaluation mode.
        items: external ids.
        history: of one user.
        item: internal id.

    Raises:
        UserError: the history is empty.
    """
    device = ranker.encoder.output_bias.device
    length = min(len(history.items), ranker.objective.max_length)
    if not length:
        raise UserError("`history` has no item that the model knows, so nothing can be explained by it")
    latest = slice(len(history.items) - length, None)
    whole = history.items[latest].long().to(device)
    times = None if history.times is None else history.times[latest].to(device)
    every = torch.arange(length, device=device)
    kept = torch.stack([torch.cat([every[:n], every[n + 1 :], every[n : n + 1]]) for n in range(length)])  # (L, L)
    rows = torch.cat([every.unsqueeze(0), kept])  # (1 + L, L); the last one of all but the first is no longer there
    lengths = torch.full((1 + length,), length - 1, device=device)
    lengths[0] = length
    shown = whole[rows].masked_fill(every >= lengths.unsqueeze(1), 0)
    time_bias = ranker.encoder.options.time_bias
    of_rows = None if times is None or not time_bias else times[rows].masked_fill(every >= lengths.unsqueeze(1), 0.0)
    vectors, sequences = ranker.encode(shown, lengths, of_rows)
    candidate = torch.full((len(rows), 1), item, device=device)
    had = torch.cat([whole.new_zeros(1), (whole == item).long()])  # by each row that lacks an item
    seen = (int((history.items == item).sum()) > had).nonzero().squeeze(1)
    scores = ranker.score_candidates(vectors, sequences, candidate, (seen, candidate[seen, 0])).squeeze(1)
    asked, asked_times = ranker.ask(shown[:1], lengths[:1], None if of_rows is None else of_rows[:1])
    weights = ranker.encoder.attention(asked.item_seq, asked_times, asked.two_sided)[0]  # (layers, heads, L', L')
    looked = weights[..., int(asked.last), :].mean((0, 1))
    n_visible = int((asked.item_seq != ranker.mask_token).sum())  # the Cloze task shows one item less
    visible = slice(length - n_visible, None)
    influence = scores[0] - scores[1:]
    table = pd.DataFrame(
        {
            "position": np.arange(length)[::-1],
            "item": items.tokens[whole.cpu().numpy()],
            "influence": influence.cpu().numpy(),
        }
    )[visible].reset_index(drop=True)
    table["attention"] = looked[:n_visible].cpu().numpy()
    return Explanation(str(items.tokens[item]), float(scores[0]), table)
