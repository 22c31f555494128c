"""Training losses on the masked positions: pure functions of (hidden, item embedding, labels)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def mask_weights(rows: Tensor, n_sequences: int, loss_mean: str) -> Tensor:
    """The weight of each masked position in the loss; they sum to 1.

    Args:
        rows: sequence of each masked position. *Shape:* (M,)
        n_sequences: B.
        loss_mean: ``mask`` averages over all masked positions (the authors' code);
            ``sequence`` averages over those of a sequence, then over the sequences (the paper's equation 8).
    """
    if loss_mean == "mask":
        return torch.full((len(rows),), 1.0 / len(rows), device=rows.device)
    masks = torch.bincount(rows, minlength=n_sequences)
    return 1.0 / (masks[rows] * n_sequences)


def cross_entropy(
    hidden: Tensor,
    item_embedding: Tensor,
    bias: Tensor,
    labels: Tensor,
    weights: Tensor,
    seen_bias: Tensor | None = None,
) -> Tensor:
    """Softmax over the whole catalogue (equations 7 and 8): sum_m w_m (logsumexp_v s_mv - s_m,label).

    Padding (item 0) is no item: it takes no part in the softmax.

    Args:
        hidden: *Shape:* (M, H)
        item_embedding: rows of the N items, padding first. *Shape:* (N, H)
        bias: *Shape:* (N,)
        labels: *Shape:* (M,)
        weights: *Shape:* (M,)
        seen_bias: added to the logits, where given. *Shape:* (M, N)
    """
    logits = F.linear(hidden, item_embedding[1:], bias[1:])  # (M, N - 1)
    if seen_bias is not None:
        logits = logits + seen_bias[:, 1:]
    return torch.dot(F.cross_entropy(logits, labels - 1, reduction="none").float(), weights)


def bpr(
    hidden: Tensor, item_embedding: Tensor, bias: Tensor, labels: Tensor, negatives: Tensor, weights: Tensor
) -> Tensor:
    """Pairwise loss (Rendle et al., UAI 2009): -sum_m w_m log sigmoid(s_m,label - s_m,negative).

    Args:
        negatives: one item a masked position, outside its sequence. *Shape:* (M,)
        The others as in :func:`cross_entropy`.
    """
    difference = item_embedding[labels] - item_embedding[negatives]  # (M, H)
    margin = (hidden * difference).sum(-1) + bias[labels] - bias[negatives]
    return -torch.dot(F.logsigmoid(margin).float(), weights)
