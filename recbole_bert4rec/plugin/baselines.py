"""Rivals on equal terms: RecBole's SASRec and GRU4Rec on whole windows, GRU4Rec+, and counting alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar

import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.utils import InputType
from torch import Tensor, nn

from recbole_bert4rec.core.batching import covering_windows
from recbole_bert4rec.core.losses import bpr_max, sampled_scores, sampled_softmax
from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.objectives import next_items
from recbole_bert4rec.core.sampling import SharedNegatives
from recbole_bert4rec.core.softmax import mask_weights
from recbole_bert4rec.options.kinds import Kind, one_of, real, whole
from recbole_bert4rec.plugin.config import CAUSAL_MODELS
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.trainer import transitions_of
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError


class WindowModel(SequentialRecommender):
    """A model that is always trained on whole windows; its loss takes the rows of :class:`UserRowsDataLoader`."""

    input_type = InputType.POINTWISE  # a row is a sequence; the loss draws its negatives
    option_kinds: ClassVar[Mapping[str, Kind]]  # the values that its options take


def has_user_rows(config: Config) -> bool:
    """Tell whether a model of RecBole is trained on whole windows."""
    if issubclass(config.model_class, WindowModel):
        return True
    if config["training_rows"] is None or config.model_class.__name__ not in CAUSAL_MODELS:
        return False
    if config["loss_type"] != "CE":
        raise UserError(f"`training_rows` user needs `loss_type` CE, but the loss is {config['loss_type']}.")
    return True


class UserRowsDataLoader(WindowDataLoader):
    """Windows that hold each label of a user once, in batches of about ``train_batch_size`` items.

    A batch of RecBole has that many rows, each with one label.
    """

    def _extra_items(self) -> int:
        return 1

    def _cut_windows(self) -> None:
        owner, self.begin, self.length = covering_windows(self.begin, self.length, self.width)
        self.users = self.users[owner]

    def _batch_sizes(self) -> tuple[int, None]:
        return self.config["train_batch_size"], None


def loss_of_windows(
    loss_of: Callable[[Interaction], Tensor], model: SequentialRecommender, interaction: Interaction
) -> Tensor:
    """Return the mean loss over every prefix of whole sequences; rows with a label are RecBole's own."""
    if model.POS_ITEM_ID in interaction.columns:
        return loss_of(interaction)
    sequences, lengths = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
    shown = next_items(sequences, lengths, None)

    def gather_everywhere(output: Tensor, last: Tensor) -> Tensor:
        """Return the output at every item, (M, H), though RecBole reads only that of the last, (B, H)."""
        return output[shown.rows, shown.columns]

    rows = {model.ITEM_SEQ: shown.item_seq, model.ITEM_SEQ_LEN: lengths - 1, model.POS_ITEM_ID: shown.labels}
    model.gather_indexes = gather_everywhere
    try:
        return loss_of(rows)
    finally:
        del model.gather_indexes  # the class has its own


class GRU4RecPlus(WindowModel):
    """GRU4Rec+: a GRU over the items, trained to rank the next one above the batch's labels and drawn items.

    Hidasi, Karatzoglou: Recurrent Neural Networks with Top-k Gains for Session-based Recommendations. CIKM 2018.

    The network is that of RecBole's GRU4Rec (embeddings that input and output share, a GRU, a projection), with biases
    in the GRU and the output. Every position of a user's window predicts the item after it, and its negatives are the
    labels of all positions. The authors' batch has one step of each session, so there a session is never its own
    negative.
    """

    option_kinds = MappingProxyType(
        {
            "embedding_size": whole(1),
            "hidden_size": whole(1),
            "num_layers": whole(1),
            "dropout_prob": real(0, 1),
            "loss_type": one_of("BPR-max", "CE"),
            "n_sample": whole(0),
            "sample_alpha": real(0, 1, "[]"),
            "bpreg": real(0),
            "training_rows": one_of("user"),
        }
    )

    def __init__(self, config: Config, dataset: BERT4RecDataset) -> None:
        super().__init__(config, dataset)
        embedding_size, hidden_size = config["embedding_size"], config["hidden_size"]
        self.loss_type: str = config["loss_type"]
        self.n_sample: int = config["n_sample"]
        self.bpreg: float = config["bpreg"]
        self.negatives = SharedNegatives(dataset.training_counts(), "popularity", config["sample_alpha"])
        self.item_embedding = nn.Embedding(self.n_items, embedding_size, padding_idx=PADDING)
        self.output_bias = nn.Parameter(torch.zeros(self.n_items))
        self.dropout = nn.Dropout(config["dropout_prob"])
        self.gru = nn.GRU(embedding_size, hidden_size, config["num_layers"], batch_first=True)
        self.dense = nn.Linear(hidden_size, embedding_size)
        nn.init.xavier_normal_(self.item_embedding.weight)
        with torch.no_grad():
            self.item_embedding.weight[PADDING].zero_()

    def forward(self, item_seq: Tensor) -> Tensor:
        """Return the output vector of each position, which has seen the items up to it.

        *Shape:* (B, L) -> (B, L, ``embedding_size``)
        """
        self.gru.flatten_parameters()  # cuDNN wants the weights in one piece
        hidden, _ = self.gru(self.dropout(self.item_embedding(item_seq)))
        vectors: Tensor = self.dense(hidden)
        return vectors

    def calculate_loss(self, interaction: Interaction) -> Tensor:
        """Return the mean loss over all positions that have a next item (sections 3.1 to 3.4)."""
        sequences, lengths = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        shown = next_items(sequences, lengths, None)
        vectors = self.forward(shown.item_seq)[shown.rows, shown.columns]  # (M, H)
        negatives = torch.cat([shown.labels, self.negatives.draw_items(self.n_sample)])  # (K,)
        scores = sampled_scores(vectors, self._outputs, shown.labels, negatives)
        weights = mask_weights(shown.rows, len(sequences), "mask")
        if self.loss_type == "CE":
            return sampled_softmax(scores, torch.zeros(len(negatives), device=vectors.device), weights)
        return bpr_max(scores, weights, self.bpreg)

    def _outputs(self, items: Tensor) -> tuple[Tensor, Tensor]:
        return self.item_embedding(items), self.output_bias[items]

    def _last(self, interaction: Interaction) -> Tensor:
        """Return the output vector of the last item of each history, (B, ``embedding_size``)."""
        lengths = interaction[self.ITEM_SEQ_LEN]
        vectors = self.forward(interaction[self.ITEM_SEQ])
        return vectors[torch.arange(len(lengths), device=lengths.device), (lengths - 1).clamp(min=0)]

    def predict(self, interaction: Interaction) -> Tensor:
        """Score the given item of each row."""
        items = interaction[self.ITEM_ID]
        scores: Tensor = (self._last(interaction) * self.item_embedding(items)).sum(1) + self.output_bias[items]
        return scores

    def full_sort_predict(self, interaction: Interaction) -> Tensor:
        """Score all items for each row."""
        scores: Tensor = self._last(interaction) @ self.item_embedding.weight.T + self.output_bias
        return scores


class Transitions(WindowModel):
    """Counting alone: the items that followed those of the history in training, without anything to learn.

    The scores are those of the memory that BERT4RecPlus has beside its encoder, and a little popularity, which decides
    between those that are nearly equal. A sequential model that is not better has learnt no more than which item
    follows which (Petrov et al., RecSys 2026).
    """

    option_kinds = MappingProxyType({"training_rows": one_of("user")})

    def __init__(self, config: Config, dataset: BERT4RecDataset) -> None:
        super().__init__(config, dataset)
        self.memory = Memory(transitions_of(dataset), weight=1.0)
        counts = dataset.training_counts()
        self.register_buffer("popularity", 1e-4 * counts / counts.max(), persistent=False)
        self.nothing = nn.Parameter(torch.zeros(()))  # RecBole's optimizer wants a parameter

    def calculate_loss(self, interaction: Interaction) -> Tensor:
        """Return 0."""
        return 0 * self.nothing

    def predict(self, interaction: Interaction) -> Tensor:
        """Score the given item of each row."""
        return self.full_sort_predict(interaction).gather(1, interaction[self.ITEM_ID].unsqueeze(1)).squeeze(1)

    def full_sort_predict(self, interaction: Interaction) -> Tensor:
        """Score all items for each row."""
        histories = (interaction[name].cpu().numpy() for name in (self.ITEM_SEQ, self.ITEM_SEQ_LEN))
        rows, items, values = map(torch.from_numpy, self.memory.additions(*histories))
        scores: Tensor = self.popularity.repeat(len(interaction), 1)
        scores[rows, items] += values.to(scores.device)
        return scores
