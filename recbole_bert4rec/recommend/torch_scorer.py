"""The scores of a checkpoint's network, computed by torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec.core.encoder import EncoderOptions
from recbole_bert4rec.core.ranker import Pairs, Ranker
from recbole_bert4rec.core.topk import Change
from recbole_bert4rec.recommend import histories
from recbole_bert4rec.recommend.scorer import Batch, Floats
from recbole_bert4rec.system.constants import OptionValues


class TrainedRanker(Ranker):
    """A ranker of a checkpoint, without the parts that only training needs."""

    def __init__(self, config: OptionValues, encoder: EncoderOptions, tokens: Iterable[str]) -> None:
        super().__init__()
        self._init_ranker(config, encoder, tokens)


class TorchScorer:
    """The :class:`~recbole_bert4rec.recommend.scorer.Scorer` of a ranker.

    *Shape:* counts (N,)
    """

    most: int | None = None

    def __init__(self, ranker: Ranker, counts: Tensor) -> None:
        self.ranker = ranker
        self.n_items, self.longest = ranker.n_items, ranker.objective.max_length
        self.hidden_size = ranker.encoder.options.hidden_size
        self.popularity: Floats = torch.log(counts + 1.0).cpu().numpy()

    @property
    def device(self) -> torch.device:
        """The device that the network is on."""
        return self.ranker.encoder.output_bias.device

    @property
    def seen_bias(self) -> float | None:
        """The learnt number that is added to the scores of a history's items; None if the option is off."""
        return None if self.ranker.seen_bias is None else self.ranker.seen_bias.item()

    def ranking(self, items: NDArray[np.int64] | None) -> TorchRanking:
        """Make some items, ascending, or all ready to be ranked."""
        return TorchRanking(self, items)

    @torch.no_grad()
    def scores(self, batch: Batch) -> Floats:
        """Score all items after known histories. *Shape:* (B, N)."""
        vectors, shown = self.encode(batch)
        scores: Floats = self.ranker.scores_of(vectors, shown, self.on_device(batch.seen)).cpu().numpy()
        return scores

    @torch.no_grad()
    def vectors(self, batch: Batch) -> Floats:
        """Return the vector from which the next item of each known history is read. *Shape:* (B, H)."""
        vectors: Floats = self.encode(batch)[0].float().cpu().numpy()
        return vectors

    def query(self, batch: Batch, removed: histories.Pairs) -> tuple[Tensor, Sequence[Change]]:
        """Return vectors of histories, (B, H), and changes of single scores, by which a catalogue is ranked."""
        taken_out = self.on_device(removed)
        if not batch.known:
            return torch.zeros(len(batch.rows), self.hidden_size, device=self.device), [(*taken_out, -torch.inf)]
        vectors, shown = self.encode(batch)
        return vectors, self.ranker.changes(shown, taken_out, self.on_device(batch.seen))

    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the vectors of known histories, and the encoder's sequences. *Shape:* (B, H), (B, L)."""
        return self.ranker.encode(*self.on_device((batch.items, batch.lengths)))

    def on_device(self, pairs: histories.Pairs) -> Pairs:
        """Return pairs for the network."""
        rows, items = (torch.from_numpy(part).to(self.device) for part in pairs)
        return rows, items


class TorchRanking:
    """Some items of a :class:`TorchScorer`, ready to be ranked."""

    @torch.no_grad()
    def __init__(self, scorer: TorchScorer, items: NDArray[np.int64] | None) -> None:
        self._scorer = scorer
        chosen = None if items is None else torch.from_numpy(items).to(scorer.device)
        self._catalogue = catalogue = scorer.ranker.catalogue(chosen)
        self.n_items = len(catalogue.bias) - 1
        popularity = torch.from_numpy(scorer.popularity).to(scorer.device)
        self._by_popularity = catalogue._replace(
            bias=popularity if catalogue.items is None else popularity[catalogue.items]
        )

    @torch.no_grad()
    def best(self, batch: Batch, k: int, removed: histories.Pairs) -> tuple[Floats, NDArray[np.int64]]:
        """Return scores and items of the k best, best first. *Shape:* (B, k) each."""
        vectors, changes = self._scorer.query(batch, removed)
        scores, items = (self._catalogue if batch.known else self._by_popularity).best(vectors, k, changes)
        return scores.cpu().numpy(), items.cpu().numpy()
