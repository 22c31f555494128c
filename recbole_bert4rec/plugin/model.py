"""BERT4Rec as a RecBole model: calculate_loss, predict and full_sort_predict around the encoder."""

from __future__ import annotations

from typing import Any

import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.utils import InputType
from torch import Tensor

from recbole_bert4rec.core.batching import epoch_generator
from recbole_bert4rec.core.losses import (
    binary_cross_entropy,
    bpr,
    gbce_exponent,
    mask_weights,
    sampled_scores,
    sampled_softmax,
)
from recbole_bert4rec.core.objectives import TrainingBatch, seen_pairs
from recbole_bert4rec.core.ranker import Pairs, Ranker
from recbole_bert4rec.core.sampling import SharedNegatives, items_outside
from recbole_bert4rec.core.softmax import LogitOffset, cross_entropy
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.system.constants import PADDING, SAMPLED_LOSSES, UNCALIBRATED_LOSSES


class BERT4Rec(Ranker, SequentialRecommender):
    """BERT4Rec (Sun et al., CIKM 2019), trained on the Cloze task or another ``objective``.

    Sun, Liu, Wu, Pei, Lin, Ou, Jiang: BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations
    from Transformer. CIKM 2019.
    """

    device: torch.device
    input_type = InputType.POINTWISE  # a row is a sequence; losses that need negatives draw them
    n_averaged: int | None = None
    """How many labels, or sequences, the last loss is the mean of; None if a user's own loss does not count them."""

    def __init__(self, config: Config, dataset: BERT4RecDataset) -> None:
        super().__init__(config, dataset)
        self.loss_type: str = config["loss_type"]
        self.loss_mean: str = config["loss_mean"]
        self.seed: int = config["seed"]
        self.n_negatives: int = config["n_negatives"]
        self.gbce_t: float = 0.0 if self.loss_type == "BCE" else config["gbce_t"]
        sampled, at_frequencies = self.loss_type in SAMPLED_LOSSES, config["bias_init"] == "frequency"
        needs_counts = sampled or at_frequencies or config["logit_adjustment"]
        counts: Any = dataset.training_counts() if needs_counts else None
        self.negatives = SharedNegatives(counts, config["negatives"]) if sampled else None
        columns = config["selected_features"]
        features = dataset.item_features(columns) if columns else ()
        contents = dataset.contents[0] if columns or config["item_vectors"] else None
        encoder = EncoderOptions.from_config(config, self.n_items, features, contents)
        self._init_ranker(config, encoder, dataset.field2token_id[self.ITEM_ID])
        self.adjust(config["logit_adjustment"], counts)
        if at_frequencies:
            self.encoder.init_output_bias_(counts)
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch, from 0: its masks and negatives depend on the seed and the epoch alone."""
        self._epoch = epoch
        self._generator: torch.Generator | None = None

    def _generator_on(self, device: torch.device) -> torch.Generator:
        """Return the generator of this epoch, made when it is first needed."""
        if self._generator is None:
            self._generator = epoch_generator(self.seed, self._epoch, device)
        return self._generator

    def forward(self, item_seq: Tensor) -> Tensor:
        """Return the output vectors of all positions, which see the same items as in ranking; (B, L) -> (B, L, H)."""
        two_sided = self.objective.two_sided((item_seq != PADDING).sum(1))
        return self.encoder.output(self.encoder(item_seq, two_sided=two_sided))

    def calculate_loss(self, interaction: Interaction) -> Tensor:
        """Label sequences by the objective and return the mean loss of the labels; Cloze masks them (section 3.6)."""
        sequences, lengths = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        generator = self._generator_on(sequences.device)
        batch = self.objective.label(sequences, lengths, generator)
        self.n_averaged = len(sequences) if self.loss_mean == "sequence" else len(batch.labels)
        read = (batch.rows, batch.columns)
        if batch.two_sided is None:
            hidden = self.encoder(batch.item_seq, read)
        else:  # nearly all are read
            hidden = self.encoder(batch.item_seq, two_sided=batch.two_sided)[read]
        return self.loss_of(self.encoder.output(hidden), batch, sequences)

    def loss_of(self, vectors: Tensor, batch: TrainingBatch, sequences: Tensor) -> Tensor:
        """Return the mean loss of the labels; a subclass with another loss overrides it.

        *Shape:* vectors (M, H), sequences (B, L)
        """
        generator = self._generator_on(sequences.device)
        weights = mask_weights(batch.rows, len(sequences), self.loss_mean)
        offset = self._seen_offset(batch)
        encoder, labels = self.encoder, batch.labels
        if self.loss_type == "CE":
            table, bias = encoder.output_embedding, encoder.output_bias
            return cross_entropy(vectors, table, bias, labels, weights, offset)
        if self.loss_type == "BPR":
            outside = self._negatives_outside(sequences, batch, generator)
            return bpr(vectors, encoder.outputs, labels, outside, weights)
        if self.negatives is not None:
            negatives = self.negatives.draw(self.n_negatives, generator)
            scores = sampled_scores(vectors, encoder.outputs, labels, negatives.items, offset)
            if self.loss_type == "sampled_softmax":
                return sampled_softmax(scores, negatives.log_expected, weights)
            if self.loss_type in UNCALIBRATED_LOSSES:
                exponent = gbce_exponent(self.n_negatives, self.n_items, self.gbce_t)
                return binary_cross_entropy(scores, weights, exponent)
        raise NotImplementedError(f"loss_type {self.loss_type} has no branch in loss_of")

    def logits_of(self, vectors: Tensor, batch: TrainingBatch) -> Tensor:
        """Return the logits of all items, for losses that need each of them: padding has -inf, ``seen_bias`` is added.

        *Shape:* (M, H) -> (M, N)
        """
        logits = self.encoder.scores(vectors)
        offset = self._seen_offset(batch)
        if offset is not None:
            logits = logits.index_put((offset.rows, offset.items), offset.value, accumulate=True)
        return logits.index_fill(1, torch.tensor([PADDING], device=logits.device), -torch.inf)

    def _negatives_outside(self, sequences: Tensor, batch: TrainingBatch, generator: torch.Generator) -> Tensor:
        """Draw an item for each label (M,) that is neither the label nor in its history, masked items included."""
        items = sequences[batch.rows]
        if batch.two_sided is not None:  # what comes after the label is the future
            end = torch.maximum(batch.columns + 2, batch.two_sided[batch.rows]).unsqueeze(1)
            items = items.masked_fill(torch.arange(items.shape[1], device=items.device) >= end, PADDING)
        return items_outside(items, self.n_items, generator)

    def _seen_offset(self, batch: TrainingBatch) -> LogitOffset | None:
        """Return ``seen_bias`` at the items that each read position sees; None if the option is off.

        It is not in the paper. An item of the input scores high because its embedding is part of the hidden states;
        without this number, attention would have to learn whether items repeat.
        """
        return None if self.seen_bias is None else LogitOffset(self.seen_bias, *seen_pairs(batch, self.mask_token))

    def histories(self, interaction: Interaction) -> tuple[Tensor, Tensor]:
        """Return items and lengths of the rows, as :meth:`encode` takes them."""
        return interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]

    def best_items(
        self, interaction: Interaction, k: int, removed: Pairs, seen: Pairs | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the k best items of each row, in memory that does not grow with the catalogue.

        *Shape:* removed (P,), (P,) -> (B, k) each
        """
        vectors, sequences = self.encode(*self.histories(interaction))
        return self.catalogue().best(vectors, k, self.changes(sequences, removed, seen))

    def predict(self, interaction: Interaction) -> Tensor:
        """Score the given item of each row; equal histories are encoded once."""
        items, lengths = self.histories(interaction)
        rows = torch.cat([lengths.unsqueeze(1), items], dim=1)
        unique, unique_row = torch.unique(rows, dim=0, return_inverse=True)
        vectors, sequences = self.encode(unique[:, 1:], unique[:, 0])
        items = interaction[self.ITEM_ID].unsqueeze(1)
        return self.score_candidates(vectors[unique_row], sequences[unique_row], items).squeeze(1)

    def full_sort_predict(self, interaction: Interaction, seen: Pairs | None = None) -> Tensor:
        """Score all items for each row, (B, N)."""
        if not len(interaction):  # RecBole's case study asks for users without a row, too
            return torch.empty(0, self.n_items, device=self.device)
        vectors, sequences = self.encode(*self.histories(interaction))
        return self.scores_of(vectors, sequences, seen)


class BERT4RecPlus(BERT4Rec):
    """The same model with two-sided and next-item training; see ``properties/model/BERT4RecPlus.yaml``."""


class SASRecPlus(BERT4Rec):
    """The causal rival on the same encoder: SASRec (Kang and McAuley, ICDM 2018), trained with a softmax."""
