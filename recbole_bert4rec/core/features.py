"""Embeddings of categorical item features, which are added to the item embedding at the input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from recbole_bert4rec.system.constants import PADDING


class ItemFeatures(nn.Module):
    """Embed each feature with a table of its own and add the vectors up.

    If an item has several values of a feature, their vectors are averaged, as in RecBole's SASRecF.

    Args:
        values: for each feature, the ids of every item's values, padded with 0. The last row is [MASK], which has no
            values. *Shape:* (N + 1, width) each
        sizes: number of ids of each feature, padding included.
        hidden_size: H.
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
