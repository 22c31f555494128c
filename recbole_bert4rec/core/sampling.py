"""Items that are drawn: negatives of a loss, and the candidates among which the paper ranks a target."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError


def items_outside(sequences: Tensor, n_items: int, generator: torch.Generator) -> Tensor:
    """Draw one item for each row, uniformly from the items that the row lacks.

    With the row's items sorted, e_0 < e_1 < ..., the r-th item outside of them (r = 1, 2, ...) is
    r + #{i : e_i - i <= r}. So one draw of r is enough: there is no rejection and no loop.

    *Shape:* (M, L) -> (M,)
    """
    items, _ = sequences.sort(dim=1)
    repeated = torch.zeros_like(items, dtype=torch.bool)
    repeated[:, 1:] = items[:, 1:] == items[:, :-1]
    beyond = n_items + sequences.shape[1]  # more than any item, even after the subtraction below
    items, _ = items.masked_fill(repeated | (items == PADDING), beyond).sort(dim=1)
    outside = n_items - 1 - (items < n_items).sum(1)  # (M,)
    if bool((outside <= 0).any()):
        raise UserError(
            f"BPR needs a negative item outside the sequence, but one sequence holds all {n_items - 1} items; "
            "use loss_type: CE"
        )
    draw = torch.rand(len(sequences), generator=generator, device=sequences.device, dtype=torch.float64)
    candidate = torch.minimum((draw * outside).long(), outside - 1) + 1  # rank among the items outside, from 1
    rank = torch.arange(items.shape[1], device=items.device)
    return candidate + (items - rank <= candidate.unsqueeze(1)).sum(1)


class Negatives(NamedTuple):
    """Negatives that all masked positions of a batch share.

    Attributes:
        items: drawn item ids. *Shape:* (K,)
        log_expected: log of the expected number of times that each is drawn among K draws. *Shape:* (K,)
    """

    items: Tensor
    log_expected: Tensor


class SharedNegatives(nn.Module):
    """Draw, with replacement, the negatives that all masked positions of a batch share.

    ``uniform`` draws all items alike; ``popularity`` draws by counts + 1, so that items without a training interaction
    are negatives too. With the ``power`` 0 all are alike again (Hidasi and Karatzoglou, CIKM 2018, section 3.2).
    """

    cumulative: Tensor
    log_share: Tensor

    def __init__(self, counts: Tensor, how: str, power: float = 1.0) -> None:
        super().__init__()
        weights = {"uniform": torch.ones_like(counts), "popularity": counts + 1}[how].double() ** power
        weights[PADDING] = 0.0
        self.register_buffer("cumulative", weights.cumsum(0) / weights.sum(), persistent=False)
        self.register_buffer("log_share", (weights / weights.sum()).log().float(), persistent=False)

    def draw(self, count: int, generator: torch.Generator | None = None) -> Negatives:
        """Draw K negatives, ``count``, on the module's device; without a generator by torch's own of that device."""
        items = self.draw_items(count, generator)
        return Negatives(items, self.log_share[items] + math.log(count))

    def draw_items(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw items alone.

        *Shape:* (K,)
        """
        draw = torch.rand(count, generator=generator, device=self.cumulative.device, dtype=torch.float64)
        return torch.searchsorted(self.cumulative, draw, right=True).clamp(max=len(self.cumulative) - 1)


class DistinctCandidates:
    """Draw items by weight, without replacement and without the user's items (section 4.2 and the authors' code).

    Items are drawn with replacement, and items that were drawn before are skipped, which is a draw without
    replacement. If four rounds do not give enough, the rest are the items with the least ``exponential draw /
    weight``, which has the same distribution (Efraimidis and Spirakis, 2006).
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self._weights = weights
        self._cumulative = np.cumsum(weights)
        self._n_weighted = int(np.count_nonzero(weights))

    def check(self, n_user_items: int, count: int) -> None:
        """Refuse a draw for which too few items are left."""
        if (available := self._n_weighted - n_user_items) < count:
            raise UserError(
                f"cannot draw {count} candidates: a user has only {available} items left; use fewer candidates"
            )

    def draw(
        self, user_items: NDArray[np.integer[Any]], count: int, generator: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw items for one user in their order; ``user_items``, distinct and each with a weight, are not drawn.

        *Shape:* (count,)
        """
        self.check(len(user_items), count)
        drawn = np.empty(0, dtype=np.int64)
        for _ in range(4):
            draw = generator.random(4 * count) * self._cumulative[-1]
            more = np.searchsorted(self._cumulative, draw, side="right")
            drawn = np.concatenate([drawn, more[~np.isin(more, user_items)]])
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            if len(drawn) >= count:
                return drawn[:count]
        left = self._weights.copy()
        left[user_items] = left[drawn] = 0.0
        items = np.flatnonzero(left)
        first = np.argsort(generator.exponential(size=len(items)) / left[items])[: count - len(drawn)]
        return np.concatenate([drawn, items[first]])
