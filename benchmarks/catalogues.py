"""Catalogues of any size that nobody trained: vectors of items, models that rank them, and histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recbole_bert4rec.core.encoder import EncoderOptions
from recbole_bert4rec.options.table import OPTIONS, RECBOLES, default
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_scorer import TrainedRanker

KINDS = {"gaussian": (1.0, 3), "loose": (0.65, 3), "tight": (0.3, 1)}
"""By kind, the share of the vectors' variance that is within clusters of 500 items, and the clusters of a history."""
MADE = (
    "Made catalogues are like that of a BERT4RecPlus trained on Beauty (54,542 items) in the lengths of the items' and "
    "the histories' vectors, .5 and 27, and in the bias, which is half of a normal distribution (standard deviation "
    ".85). Centres of clusters of 500 items, on the average, and the items around them are drawn from normal "
    "distributions. In `loose`, .65 of the variance is within clusters, and the items of a history are of three; in "
    "`tight`, .3 and one; `gaussian` has no clusters, which is the worst case for lists. Of Beauty's vectors, k-means "
    "with 934 lists leaves .68 of the variance within lists; of normal ones, .80."
)
_FIELDS = {"USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "TIME_FIELD": "timestamp"}


class Made:
    """A catalogue with its clusters.

    Args:
        n_items: of it.
        kind: of :data:`KINDS`.
        hidden_size: of the vectors.

    Attributes:
        vectors: *Shape:* (N - 1, H)
        bias: *Shape:* (N - 1,)
    """

    def __init__(self, n_items: int, kind: str, hidden_size: int = 64) -> None:
        self._draw = np.random.default_rng(0)
        self._n_clusters = max(1, n_items // 500)
        self._clusters = np.sort(self._draw.integers(0, self._n_clusters, n_items))
        (share, self._tastes), scale = KINDS[kind], 0.5 / hidden_size**0.5
        centres = self._normal(self._n_clusters, hidden_size) * (scale * (1 - share) ** 0.5)
        self.vectors = centres[self._clusters] + self._normal(n_items, hidden_size) * (scale * share**0.5)
        popularity = 1.4 * np.abs(self._normal(n_items))
        self.bias: NDArray[np.float32] = popularity - popularity.mean()

    def _normal(self, *shape: int) -> NDArray[np.float32]:
        return self._draw.standard_normal(shape, dtype=np.float32)

    def model(self) -> Recommender:
        """Return BERT4RecPlus's network as it is initialised, with these items and a longer output.

        Its attention starts as an average and its [MASK] is nothing, so the vector of a history is near its items'.
        """
        config = {name: default(name) for name, option in OPTIONS.items() if option.default is not RECBOLES}
        config |= {**_FIELDS, "MAX_ITEM_LIST_LENGTH": 200, "hidden_dropout_prob": 0.0}
        torch.manual_seed(0)
        ranker = TrainedRanker(config, EncoderOptions.from_config(config, len(self.bias) + 1), ())
        ranker.encoder.item_embedding.weight.data[1:] = torch.from_numpy(np.pad(self.vectors, ((0, 1), (0, 0))))
        last_norm = ranker.get_parameter(f"encoder.layers.{config['n_layers'] - 1}.feed_forward.norm.weight")
        last_norm.data *= 27 / self.vectors.shape[1] ** 0.5
        ranker.encoder.output_bias.data[1:] = torch.from_numpy(self.bias)
        tokens = ["[PAD]", *map(str, range(1, len(self.bias) + 1))]
        counts = torch.ones(len(tokens), dtype=torch.int64)
        return Recommender(ranker.eval().requires_grad_(False), config, Items(tokens), counts)

    def histories(self, n_users: int, longest: int = 50) -> list[list[str]]:
        """Return histories of 1 to ``longest`` items, each of the clusters of one user."""
        starts = np.searchsorted(self._clusters, np.arange(self._n_clusters + 1))
        found = []
        for length in self._draw.integers(1, longest + 1, n_users):
            chosen = self._draw.choice(self._draw.integers(0, self._n_clusters, self._tastes), length)
            width = np.maximum(1, starts[chosen + 1] - starts[chosen])
            places = np.minimum(starts[chosen] + self._draw.integers(0, width), len(self.bias) - 1)
            found.append([str(place + 1) for place in places])
        return found


def once(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a row that an earlier call wrote to a file, or make it and write it: a stopped benchmark goes on."""
    if not path.is_file():
        row = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(row))
        print(row, flush=True)
    found: dict[str, Any] = json.loads(path.read_text())
    return found
