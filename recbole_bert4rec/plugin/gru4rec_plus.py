"""GRU4Rec+, the system of the BERT4Rec paper's Table 2 that RecBole lacks."""

from __future__ import annotations

from types import MappingProxyType

import torch
from recbole.config import Config
from recbole.data.interaction import Interaction
from torch import Tensor, nn

from recbole_bert4rec.core.losses import bpr_max, mask_weights, sampled_scores, sampled_softmax
from recbole_bert4rec.core.negatives import SharedNegatives
from recbole_bert4rec.core.objectives import next_items
from recbole_bert4rec.options.kinds import one_of, real, whole
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.user_rows import WindowModel
from recbole_bert4rec.system.constants import PADDING


class GRU4RecPlus(WindowModel):
    """GRU4Rec+: a GRU over the items, trained to rank the next one above the batch's labels and drawn items.

    Hidasi, Karatzoglou: Recurrent Neural Networks with Top-k Gains for Session-based Recommendations. CIKM 2018.

    The network is that of RecBole's GRU4Rec (embeddings that input and output share, a GRU, a projection), with biases
    in the GRU and the output. Every position of a user's window predicts the item after it, and its negatives are the
    labels of all positions. The authors' batch has one step of each session and carries the state over, so a session
    is never its own negative.
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
        """Return the mean loss over all positions that have a next item (sections 3.1 to 3.4).

        *Shape:* (B, L + 1) of the items -> scalar
        """
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
        """Return the output vector of the last item of each history.

        *Shape:* (B, ``embedding_size``)
        """
        lengths = interaction[self.ITEM_SEQ_LEN]
        vectors = self.forward(interaction[self.ITEM_SEQ])
        return vectors[torch.arange(len(lengths), device=lengths.device), (lengths - 1).clamp(min=0)]

    def predict(self, interaction: Interaction) -> Tensor:
        """Score the given item of each row.

        *Shape:* (B,)
        """
        items = interaction[self.ITEM_ID]
        scores: Tensor = (self._last(interaction) * self.item_embedding(items)).sum(1) + self.output_bias[items]
        return scores

    def full_sort_predict(self, interaction: Interaction) -> Tensor:
        """Score all items for each row.

        *Shape:* (B, N)
        """
        scores: Tensor = self._last(interaction) @ self.item_embedding.weight.T + self.output_bias
        return scores
