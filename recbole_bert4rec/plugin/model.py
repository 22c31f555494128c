"""BERT4Rec as a RecBole model: calculate_loss, predict and full_sort_predict around the encoder."""

from __future__ import annotations

from typing import Any

import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.utils import FeatureType, InputType
from torch import Tensor, nn

from recbole_bert4rec.constants import PADDING, SAMPLED_LOSSES, UNCALIBRATED_LOSSES
from recbole_bert4rec.data.batching import epoch_generator
from recbole_bert4rec.data.cloze import append_mask, cloze
from recbole_bert4rec.data.negatives import SharedNegatives, items_outside
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.cross_entropy import LogitOffset, Workspace, cross_entropy
from recbole_bert4rec.nn.encoder import BERT4RecEncoder, EncoderOptions
from recbole_bert4rec.nn.losses import (
    binary_cross_entropy,
    bpr,
    gbce_exponent,
    mask_weights,
    sampled_scores,
    sampled_softmax,
    smoothing,
)
from recbole_bert4rec.nn.time_bias import visible_times
from recbole_bert4rec.nn.topk import Change, best_items
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.segments import pair_keys

Pairs = tuple[Tensor, Tensor]
"""Rows and items of some scores; each pair stands once. *Shape:* (P,) each."""


class BERT4Rec(SequentialRecommender):
    """BERT4Rec (Sun et al., CIKM 2019), trained on the Cloze task.

    Sun, Liu, Wu, Pei, Lin, Ou, Jiang: BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations
    from Transformer. CIKM 2019.

    Args:
        config: RecBole's configuration with the options of ``properties/model/BERT4Rec.yaml``.
        dataset: gives the number of items, their counts in training and their features.
    """

    input_type = InputType.POINTWISE  # a row is a sequence; losses that need negatives draw them

    def __init__(self, config: Config, dataset: BERT4RecDataset) -> None:
        super().__init__(config, dataset)
        self.loss_type: str = config["loss_type"]
        self.loss_mean: str = config["loss_mean"]
        self.seed: int = config["seed"]
        self.TIME_SEQ: str | None = config["TIME_FIELD"] + config["LIST_SUFFIX"] if config["time_bias"] else None
        self.masking = {
            "mask_ratio": config["mask_ratio"],
            "ft_ratio": config["ft_ratio"],
            "mask_count": config["mask_count"],
            "recency": config["mask_recency"],
            "prefix": config["ft_prefix"],
            "random_share": config["mask_random_share"],
            "keep_share": config["mask_keep_share"],
        }
        self.mask_token: int = self.n_items
        self.label_smoothing: float = config["label_smoothing"]
        self.n_negatives: int = config["n_negatives"]
        self.gbce_t: float = config["gbce_t"]
        sampled, at_frequencies = self.loss_type in SAMPLED_LOSSES, config["bias_init"] == "frequency"
        tau: float = config["logit_adjustment"]
        counts: Any = dataset.training_counts() if sampled or at_frequencies or tau else None
        self.negatives = SharedNegatives(counts, config["negatives"]) if sampled else None
        self.seen_bias = nn.Parameter(torch.zeros(())) if config["seen_bias"] else None
        self.encoder = BERT4RecEncoder(EncoderOptions.from_config(config, self.n_items, _features(config, dataset)))
        if at_frequencies:
            self.encoder.init_output_bias_(counts)
        self.adjustment: Tensor | None
        self.register_buffer("adjustment", tau * torch.log(counts + 1.0) if tau else None, persistent=False)
        self._workspace = Workspace()
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch: its masks and negatives depend on the seed and the epoch alone."""
        self._epoch = epoch
        self._generator: torch.Generator | None = None

    def _generator_on(self, device: torch.device) -> torch.Generator:
        """Return the generator of this epoch, made where it is first needed."""
        if self._generator is None:
            self._generator = epoch_generator(self.seed, self._epoch, device)
        return self._generator

    def forward(self, item_seq: Tensor, times: Tensor | None = None) -> Tensor:
        """Return the output vectors of all positions.

        *Shape:* (B, L) -> (B, L, H)
        """
        return self.encoder.output(self.encoder(item_seq, times=times))

    def calculate_loss(self, interaction: Interaction) -> Tensor:
        """Mask a batch of sequences and return the mean loss at the masked positions (section 3.6).

        Args:
            interaction: whole sequences, ``item_id_list`` (B, L) and ``item_length`` (B,).

        Returns:
            A scalar.
        """
        sequences, lengths = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        generator = self._generator_on(sequences.device)
        masked = cloze(sequences, lengths, self.mask_token, generator, **self.masking)
        times = None
        if self.TIME_SEQ:
            visible = sequences != PADDING
            visible[masked.rows, masked.columns] = False
            times = visible_times(interaction[self.TIME_SEQ], visible)
        vectors = self.encoder.output(self.encoder(masked.item_seq, (masked.rows, masked.columns), times))  # (M, H)
        weights = mask_weights(masked.rows, len(sequences), self.loss_mean)
        scored = vectors, self.encoder.output_embedding, self.encoder.output_bias, masked.labels
        if self.loss_type == "BPR":
            return bpr(*scored, items_outside(sequences[masked.rows], self.n_items, generator), weights)
        if self.loss_type == "CE":
            offset = self._history_offset(masked.item_seq, masked.rows)
            loss = cross_entropy(*scored, weights, offset, self._workspace)
            return loss + smoothing(*scored, weights, offset, self.label_smoothing) if self.label_smoothing else loss
        if self.negatives is None:
            raise NotImplementedError(f"loss_type {self.loss_type} has no branch in calculate_loss")
        negatives = self.negatives.draw(self.n_negatives, masked.labels, generator)
        scores = sampled_scores(*scored, negatives.items, self.encoder.options.sparse_update)
        if self.loss_type == "sampled_softmax":
            return sampled_softmax(scores, negatives.log_expected, weights)
        if self.loss_type not in UNCALIBRATED_LOSSES:
            raise NotImplementedError(f"loss_type {self.loss_type} has no branch in calculate_loss")
        t = self.gbce_t if self.loss_type == "gBCE" else 0.0
        return binary_cross_entropy(scores, weights, gbce_exponent(len(negatives.items), self.n_items, t))

    def _unique_input_items(self, item_seq: Tensor) -> Tensor:
        """Sort each sequence without its masks and keep each item once; 0 elsewhere.

        *Shape:* (B, L) in, out
        """
        items = item_seq.masked_fill(item_seq == self.mask_token, PADDING).sort(1).values
        repeated = torch.zeros_like(items, dtype=torch.bool)
        repeated[:, 1:] = items[:, 1:] == items[:, :-1]
        return items.masked_fill(repeated, PADDING)

    def _history_offset(
        self, item_seq: Tensor, rows: Tensor | None = None, seen: Pairs | None = None
    ) -> LogitOffset | None:
        """Return ``seen_bias`` at the items of each history; None if the option is off.

        Not in the paper. An item of the input scores high because its embedding is part of the hidden states; without
        this number, attention would have to learn whether items repeat.

        Args:
            item_seq: sequences with their masks. *Shape:* (B, L)
            rows: sequence of each row of scores; by default row i of the scores is sequence i. *Shape:* (M,)
            seen: rows and items of whole histories. A negative bias applies to the whole history, a positive one only
                to the input window.
        """
        if self.seen_bias is None:
            return None
        if seen is not None and self.seen_bias < 0:
            return LogitOffset(self.seen_bias, *seen)
        items = self._unique_input_items(item_seq)
        items = items if rows is None else items[rows]
        row, column = items.nonzero(as_tuple=True)
        return LogitOffset(self.seen_bias, row, items[row, column])

    @property
    def ranking_bias(self) -> Tensor:
        """Output bias minus ``logit_adjustment`` times log(n + 1), n an item's count in training.

        *Shape:* (N,)

        Not in the paper. The model learns p(item | history). If the target stands among candidates that are drawn from
        q, the candidate with the highest p / q is most likely the target (Bayes' rule). As a remedy against popularity
        bias this is the logit adjustment of Menon et al., ICLR 2021.
        """
        bias = self.encoder.output_bias
        return bias if self.adjustment is None else bias - self.adjustment

    def histories(self, interaction: Interaction) -> tuple[Tensor, ...]:
        """Return items, lengths and, with ``time_bias``, times of the rows, as :meth:`encode` takes them."""
        fields = (self.ITEM_SEQ, self.ITEM_SEQ_LEN, *([self.TIME_SEQ] if self.TIME_SEQ else []))
        return tuple(interaction[field] for field in fields)

    def masked(
        self, item_seq: Tensor, lengths: Tensor, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append [MASK] to each history.

        Args:
            item_seq: histories padded on the right. *Shape:* (B, L)
            lengths: items of each history. *Shape:* (B,)
            times: timestamps of the items. *Shape:* (B, L)

        Returns:
            Sequences, the position of each [MASK], and the visible times; L' is at most ``MAX_ITEM_LIST_LENGTH``.
            *Shape:* (B, L'), (B,), (B, L')
        """
        sequences, last = append_mask(item_seq, lengths, self.mask_token, self.max_seq_length)
        if times is not None:
            times, _ = append_mask(times, lengths, 0, self.max_seq_length)
            times = visible_times(times, (sequences != PADDING) & (sequences != self.mask_token))
        return sequences, last, times

    def encode(self, item_seq: Tensor, lengths: Tensor, times: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the output vector of a [MASK] after each history, and the sequences with that [MASK].

        *Shape:* (B, L), (B,), (B, L) -> (B, H), (B, L')
        """
        sequences, last, times = self.masked(item_seq, lengths, times)
        hidden = self.encoder(sequences, (torch.arange(len(last), device=last.device), last), times)
        return self.encoder.output(hidden), sequences

    def score_candidates(self, vectors: Tensor, sequences: Tensor, items: Tensor, seen: Pairs | None = None) -> Tensor:
        """Score each row's own candidates.

        Args:
            vectors: from :meth:`encode`. *Shape:* (B, H)
            sequences: from :meth:`encode`. *Shape:* (B, L)
            items: candidates of each row. *Shape:* (B, C)
            seen: rows and items of whole histories, for a negative ``seen_bias``.

        Returns:
            *Shape:* (B, C)
        """
        scores = torch.bmm(self.encoder.catalogue[items], vectors.unsqueeze(2)).squeeze(2)
        scores = scores + self.ranking_bias[items]
        offset = self._history_offset(sequences, seen=seen)
        if offset is None:
            return scores
        row = torch.arange(len(items), device=items.device).unsqueeze(1)
        changed = pair_keys(offset.rows, offset.items, self.n_items)
        return scores + offset.value * torch.isin(pair_keys(row, items, self.n_items), changed)

    def best_items(
        self, interaction: Interaction, k: int, removed: Pairs, seen: Pairs | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the k best items of each row, in memory that does not grow with the catalogue.

        Args:
            interaction: rows with their histories, such as ``item_id_list`` (B, L) and ``item_length`` (B,).
            k: number of items.
            removed: rows and items that are not recommended. *Shape:* (P,), (P,)
            seen: rows and items of whole histories, for a negative ``seen_bias``.

        Returns:
            Scores and items, best first. *Shape:* (B, k) each.
        """
        vectors, sequences = self.encode(*self.histories(interaction))
        changes: list[Change] = [(*removed, -torch.inf)]
        offset = self._history_offset(sequences, seen=seen)
        if offset is not None:
            changes.append((offset.rows, offset.items, offset.value))
        return best_items(vectors, self.encoder.catalogue, self.ranking_bias, k, changes)

    def predict(self, interaction: Interaction) -> Tensor:
        """Score the given item of each row; equal histories are encoded once.

        *Shape:* (B,)
        """
        items, lengths, *times = self.histories(interaction)
        rows = torch.cat([lengths.unsqueeze(1), items, *times], dim=1)  # float64 if there are times
        unique, which = torch.unique(rows, dim=0, return_inverse=True)
        width = 1 + items.shape[1]
        vectors, sequences = self.encode(
            unique[:, 1:width].long(), unique[:, 0].long(), *([unique[:, width:]] if times else [])
        )
        items = interaction[self.ITEM_ID].unsqueeze(1)
        return self.score_candidates(vectors[which], sequences[which], items).squeeze(1)

    def full_sort_predict(self, interaction: Interaction, seen: Pairs | None = None) -> Tensor:
        """Score all items for each row.

        Args:
            interaction: rows with their histories.
            seen: rows and items of whole histories, for a negative ``seen_bias``.

        Returns:
            *Shape:* (B, N)
        """
        vectors, sequences = self.encode(*self.histories(interaction))
        scores = self.encoder.scores(vectors, self.ranking_bias)
        offset = self._history_offset(sequences, seen=seen)
        if offset is None:
            return scores
        return scores.index_put((offset.rows, offset.items), offset.value, accumulate=True)


def _features(config: Config, dataset: Dataset) -> tuple[tuple[Tensor, int], ...]:
    """Return the tables of ``selected_features``: a row for each item, and an empty one for [MASK].

    Raises:
        UserError: a feature is missing or is not categorical.
    """
    if not config["selected_features"]:
        return ()
    kinds = (FeatureType.TOKEN, FeatureType.TOKEN_SEQ)
    loaded = [] if dataset.item_feat is None else [f for f in dataset.item_feat.columns if f != dataset.iid_field]
    categorical = [field for field in loaded if dataset.field2type[field] in kinds]
    for field in config["selected_features"]:
        if field in loaded and field not in categorical:
            raise UserError(
                f"`selected_features` must name categorical columns, such as {categorical}, but {field!r} holds numbers"
            )
        if field not in categorical:
            raise UserError(
                f"`selected_features` names {field!r}, but the loaded categorical columns of the .item file are "
                f"{categorical}; name it in load_col: item too, such as {{'item': ['{dataset.iid_field}', '{field}']}}"
            )
    tables = []
    for field in config["selected_features"]:
        values = dataset.item_feat[field].view(dataset.item_num, -1)
        tables.append((torch.cat([values, torch.zeros_like(values[:1])]), dataset.num(field)))
    return tuple(tables)
