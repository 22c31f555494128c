"""Negative items: for training against a few of them, and the candidates that the paper ranks a target among."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.losses import Negatives


def items_outside(sequences: Tensor, n_items: int, generator: torch.Generator) -> Tensor:
    """Draw one item a row, uniformly among those that the row does not hold.

    The r-th item outside a sorted set e_0 < e_1 < ... is r + 1 + #{i : e_i - i <= r + 1}: no rejection, no loop.

    Args:
        sequences: items padded with 0. *Shape:* (M, L)
        n_items: N; items are 1..N-1.

    Returns:
        Item ids. *Shape:* (M,)

    Raises:
        UserError: a row already holds every item of the catalogue.
    """
    held, _ = sequences.sort(dim=1)
    repeated = torch.zeros_like(held, dtype=torch.bool)
    repeated[:, 1:] = held[:, 1:] == held[:, :-1]
    beyond = n_items + sequences.shape[1]  # stays beyond the catalogue after the subtraction below
    held, _ = held.masked_fill(repeated | (held == PADDING), beyond).sort(dim=1)
    outside = n_items - 1 - (held < n_items).sum(1)  # (M,)
    if bool((outside <= 0).any()):
        raise UserError(
            f"BPR needs an item outside the sequence as a negative, but a sequence holds all {n_items - 1} items; "
            "use loss_type: CE"
        )
    draw = torch.rand(len(sequences), generator=generator, device=sequences.device, dtype=torch.float64)
    candidate = torch.minimum((draw * outside).long(), outside - 1) + 1  # rank among the items outside, from 1
    rank = torch.arange(held.shape[1], device=held.device)
    return candidate + (held - rank <= candidate.unsqueeze(1)).sum(1)


class SharedNegatives(nn.Module):
    """Draws, with replacement, the negatives that all masked positions of a batch share.

    Args:
        counts: interactions of each item in training; 0 of padding. *Shape:* (N,)
        how: ``uniform``; ``popularity``, by counts + 1, so that items which training lacks are told apart too; or
            ``batch``, the labels of the batch, which are drawn by their counts.
    """

    cumulative: Tensor
    log_share: Tensor

    def __init__(self, counts: Tensor, how: str) -> None:
        super().__init__()
        weights = {"uniform": torch.ones_like(counts), "popularity": counts + 1, "batch": counts}[how].double()
        weights[PADDING] = 0.0
        self.how = how
        self.register_buffer("cumulative", weights.cumsum(0) / weights.sum(), persistent=False)
        self.register_buffer("log_share", (weights / weights.sum()).log().float(), persistent=False)

    def draw(self, count: int, labels: Tensor, generator: torch.Generator) -> Negatives:
        """``count`` negatives, or as many as ``labels`` in mode ``batch``."""
        items = labels
        if self.how != "batch":
            draw = torch.rand(count, generator=generator, device=labels.device, dtype=torch.float64)
            items = torch.searchsorted(self.cumulative, draw, right=True).clamp(max=len(self.cumulative) - 1)
        return Negatives(items, self.log_share[items] + math.log(len(items)))


class DistinctCandidates:
    """Draws items by weight, none twice and none of a user's own (section 4.2, as the authors' code draws them).

    Drawing with replacement and skipping what was drawn before is drawing without replacement. Where that does not
    come to an end soon, the rest are the items of least ``exponential draw / weight``, which is the same (Efraimidis
    and Spirakis, 2006).

    Args:
        weights: of the items; padding weighs nothing. *Shape:* (N,)
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self._weights = weights
        self._cumulative = np.cumsum(weights)
        self._n_weighted = int(np.count_nonzero(weights))

    def check(self, n_own: int, count: int) -> None:
        """Refuse to draw ``count`` items for a user with ``n_own``.

        Raises:
            UserError: fewer may be drawn.
        """
        if (available := self._n_weighted - n_own) < count:
            raise UserError(f"{count} candidates cannot be drawn: a user has only {available} items left; use fewer")

    def draw(self, own: NDArray[np.int64], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """``count`` items in the order drawn. *Shape:* (count,)

        Args:
            own: distinct items with a weight, which may not be drawn.

        Raises:
            UserError: fewer than ``count`` items may be drawn.
        """
        self.check(len(own), count)
        drawn = np.empty(0, dtype=np.int64)
        for _ in range(4):
            place = generator.random(4 * count) * self._cumulative[-1]
            more = np.searchsorted(self._cumulative, place, side="right")
            drawn = np.concatenate([drawn, more[~np.isin(more, own)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            if len(drawn) >= count:
                return drawn[:count]
        left = self._weights.copy()
        left[own] = left[drawn] = 0.0
        items = np.flatnonzero(left)
        first = np.argsort(generator.exponential(size=len(items)) / left[items])[: count - len(drawn)]
        return np.concatenate([drawn, items[first]])


class AliasDraws:
    """RecBole's candidates, number for number, without its loops: any item but the target, with replacement.

    Args:
        n_items: N.
        table: RecBole's alias table (items, the probability to keep each, its alternative), or None to draw uniformly.
    """

    def __init__(self, n_items: int, table: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]] | None):
        self._n_items = n_items
        self._table = table

    def draw(self, targets: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """``count`` candidates for each target of one user, from numpy's global numbers. *Shape:* (count, targets)"""
        items = self._sample(count * len(targets))
        again = np.flatnonzero(items.reshape(count, -1) == targets)
        while len(again):
            items[again] = self._sample(len(again))
            again = again[items[again] == targets[again % len(targets)]]
        return items.reshape(count, -1)

    def _sample(self, count: int) -> NDArray[np.int64]:
        if self._table is None:
            return np.random.randint(1, self._n_items, count)
        keys, kept, alias = self._table
        place = np.random.randint(0, len(keys), count)
        return np.where(kept[place] > np.random.random(count), keys[place], alias[place])
