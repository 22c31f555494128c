"""A trained model of a checkpoint: all answers of an exported one, and similar items, vectors, reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_bert4rec.core.ranker import Catalogue, Ranker
from recbole_bert4rec.options.kinds import whole
from recbole_bert4rec.recommend.answers import Vectors, check
from recbole_bert4rec.recommend.base import BATCH_SIZE, BaseRecommender
from recbole_bert4rec.recommend.histories import Dates, Histories
from recbole_bert4rec.recommend.ids import Ids, Items
from recbole_bert4rec.recommend.torch_scorer import TorchScorer
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.explanation import Explanation


class Recommender(BaseRecommender):
    """A trained model with the ids of its items; :func:`recbole_bert4rec.load` makes one of a checkpoint.

    Histories are lists of external item ids, oldest first; a dictionary of such lists by user; or a frame with columns
    of users, items and, optionally, times, which then give the order. Ids may be numbers. The columns have the names
    of :attr:`fields`. Interactions with items that the model does not know are left out and counted in a warning. For
    a history without a known item, items are ranked by how often they stand in training; its scores are the
    logarithms of these counts plus 1.

    Args:
        ranker: in evaluation mode, on its device.
        config: the options that it was trained with.
        items: external ids by internal id, padding first.
        counts: how often each item stands in training. *Shape:* (N,)
        stored: the histories that came with the model, if there are any.
        batch_size: histories that are encoded at once.

    Attributes:
        fields: names of the columns of users, items and times.
        dates: how dates among the times are read: as in the training log.
    """

    def __init__(
        self,
        ranker: Ranker,
        config: Mapping[str, Any],
        items: Items,
        counts: Tensor,
        stored: Histories | None = None,
        batch_size: int = BATCH_SIZE,
    ) -> None:
        self.ranker, self.config, self.counts = ranker, config, counts
        self._torch = TorchScorer(ranker, counts)
        self._in_order = bool(config.get("in_order"))
        user, item, time = (config[field] for field in NAMES_OF_COLUMNS)
        dates = Dates(config.get("date_format"), config.get("timezone"))
        super().__init__(
            self._torch, items, (user, item, time), dates, bool(config["exclude_seen"]), stored, batch_size
        )

    @torch.no_grad()
    def similar_items(self, items: Ids, k: int = 10) -> pd.DataFrame:
        """Return the k items whose vectors have the highest cosine with an item's, the item itself left out.

        Args:
            items: external ids.
            k: items for each.

        Returns:
            Columns target_ITEM, ITEM (the name in :attr:`fields`), rank from 1, and score, the cosine.

        Raises:
            UserError: the model does not know one of the items.
        """
        check("k", k, whole(1))
        targets = torch.from_numpy(self._items.known(items, "items")).to(self._torch.device)
        vectors = F.normalize(self.ranker.encoder.catalogue, dim=1)
        bias = vectors.new_zeros(len(vectors))
        k = min(k, len(vectors) - 2)
        best = []
        for some in targets.split(self.batch_size):
            itself = torch.arange(len(some), device=some.device), some
            best.append(Catalogue(vectors, bias).best(vectors[some], k, [(*itself, -torch.inf)]))
        cosines, others = (torch.cat(part).cpu().numpy() for part in zip(*best, strict=True))
        rows, columns = np.isfinite(cosines).nonzero()
        field = self.fields[1]
        names = self._items.tokens[targets.cpu().numpy()]
        return pd.DataFrame(
            {
                f"target_{field}": names[rows],
                field: self._items.tokens[others[rows, columns]],
                "rank": columns + 1,
                "score": cosines[rows, columns],
            }
        )

    @torch.no_grad()
    def item_vectors(self, with_bias: bool = False) -> Vectors:
        """Return the vector of each item.

        Args:
            with_bias: add the item's bias as a last number. The product with :meth:`user_vectors` of the same kind is
                then the score that items are ranked by, but for ``seen_bias``.
        """
        catalogue = self.ranker.catalogue()
        vectors = torch.cat([catalogue.vectors, catalogue.bias.unsqueeze(1)], 1) if with_bias else catalogue.vectors
        return Vectors(self._items.tokens[1:], vectors[1:].float().cpu().numpy())

    def explain(self, history: Ids, item: object) -> Explanation:
        """Say how much each item of a history has to do with the score of an item.

        Args:
            history: items of one user, oldest first.
            item: to explain.

        Returns:
            The score, and a table of influences.

        Raises:
            UserError: the model does not know the item, or no item of the history.
        """
        from recbole_bert4rec.recommend.explanation import explain

        return explain(self.ranker, self._items, self.read([history]), int(self._items.known([item], "item")[0]))
