"""What an item is embedded by besides its id: categories that it has, and numbers that say what it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_bert4rec.system.constants import PADDING

_HIDDEN = 0.1
"""Least share of ids that a training batch hides, so that contents alone say something."""


class ItemFeatures(nn.Module):
    """Embed each feature with a table of its own and add the vectors up.

    If an item has several values of a feature, their vectors are averaged, as in RecBole's SASRecF. The values of each
    feature are padded with 0, (N + 1, width); the last row is [MASK], which has none.
    """

    def __init__(self, values: Sequence[Tensor], sizes: Sequence[int], hidden_size: int) -> None:
        super().__init__()
        bags = (nn.EmbeddingBag(size, hidden_size, mode="mean", padding_idx=PADDING) for size in sizes)
        self.tables = nn.ModuleList(bags)
        for number, ids in enumerate(values):
            self.register_buffer(f"values_{number}", ids)

    def forward(self, items: Tensor) -> Tensor:
        """Return the sum of each item's feature vectors.

        *Shape:* (B, L) -> (B, L, H)
        """
        total = torch.zeros((), device=items.device)
        for number, bag in enumerate(self.tables):
            ids = self.get_buffer(f"values_{number}")[items.flatten()]  # (B L, width)
            total = total + bag(ids).view(*items.shape, -1)
        return total


class Contents(NamedTuple):
    """Numbers that say what items are, such as vectors of their titles.

    Attributes:
        vectors: of each item, the last row of [MASK], float16. *Shape:* (N + 1, D)
        shift: is taken from each number before it is read. *Shape:* (D,)
        scale: each is then multiplied by it. *Shape:* (D,)
        counts: how often each item stands in training; [MASK] as often as all items. *Shape:* (N + 1,)
        n_of_files: how many of the D are of ``item_vectors``; the rest are columns of the .item file. *Shape:* ()
    """

    vectors: Tensor
    shift: Tensor
    scale: Tensor
    counts: Tensor
    n_of_files: Tensor


class ItemContents(nn.Module):
    """Embed items by what they are and by their ids. Not in the paper.

    Item j is (1 - g_j) LayerNorm(W v_j) + g_j e_j, where g_j = n_j / (n_j + e^k), n_j is the item's count in training,
    and k is learnt: an item that nobody has had yet is its contents, and one that many had is its id's embedding.

    In training each batch hides ids, with probability 1 - g_j and 0.1 at least: contents learn to stand alone, and ids
    of rare items are not learnt by heart. Biases are not hidden: contents say what is liked, and not how often.
    """

    def __init__(self, contents: Contents, hidden_size: int, layer_norm_eps: float) -> None:
        super().__init__()
        for name, values in contents._asdict().items():
            self.register_buffer(name, values)
        self.projection = nn.Linear(contents.vectors.shape[1], hidden_size)
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.log_half = nn.Parameter(torch.zeros(()))

    def id_weights(self, items: Tensor, draw: int | None) -> Tensor:
        """Return g, with 0 for the ids that ``draw`` hides, the same ones each time; that of [MASK] never is.

        *Shape:* (...) -> (...)
        """
        counts: Tensor = self.get_buffer("counts")
        weights = counts[items] / (counts[items] + self.log_half.exp())
        if draw is None:
            return weights
        hidden = uniform(items, draw) < (1 - weights.detach()).clamp(min=_HIDDEN)
        return weights * (~hidden | (items == len(counts) - 1))

    def forward(self, items: Tensor, embeddings: Tensor, draw: int | None = None) -> Tensor:
        """Return the vectors of items, given the embeddings e of their ids; ``draw`` hides some.

        *Shape:* (...), (..., H) -> (..., H)
        """
        vectors = self.get_buffer("vectors")[items].to(embeddings.dtype)
        weight = self.projection.weight * self.get_buffer("scale")  # W (v - shift) scale, with fewer passes over v
        content: Tensor = self.norm(F.linear(vectors, weight, self.projection.bias - weight @ self.get_buffer("shift")))
        return torch.lerp(content, embeddings, self.id_weights(items, draw).unsqueeze(-1))


def uniform(numbers: Tensor, draw: int) -> Tensor:
    """Return a number in [0, 1) for each, as if it was drawn: the same for equal ones, another with another ``draw``.

    *Shape:* (...) in, out
    """
    mixed = (numbers + draw) * -7046029254386353131  # the constants of SplitMix64 (Steele et al., OOPSLA 2014)
    mixed = (mixed ^ (mixed >> 30)) * -4658895280553007687
    mixed = (mixed ^ (mixed >> 27)) * -7723592293110705685
    return ((mixed ^ (mixed >> 31)) & 0xFFFFFF) / 2**24
