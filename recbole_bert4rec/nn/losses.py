"""Training losses on the masked positions but the softmax itself: functions of (hidden, item embedding, labels)."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_bert4rec.nn.cross_entropy import Raised


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


def smoothing(
    hidden: Tensor,
    item_embedding: Tensor,
    bias: Tensor,
    labels: Tensor,
    weights: Tensor,
    raised: Raised | None,
    share: float,
) -> Tensor:
    """What label smoothing (Szegedy et al., CVPR 2016) adds to the softmax's loss.

    With the label's probability 1 - e + e / N and every other item's e / N, the loss is that of the label alone plus
    e sum_m w_m (s_m,label - mean_v s_mv): the mean needs no score but that of the mean item.

    Args:
        hidden, item_embedding, bias, labels, weights, raised: as the softmax itself takes them.
        share: e, in (0, 1).
    """
    items = slice(1, len(bias))  # padding is none
    mean = hidden @ item_embedding[items].mean(0) + bias[items].mean()
    label = (hidden * item_embedding[labels]).sum(1) + bias[labels]
    loss = torch.dot((label - mean).float(), weights)
    if raised is not None:
        own = (raised.items == labels[raised.rows]).float() - 1.0 / (len(bias) - 1)
        loss = loss + raised.by * torch.dot(own, weights[raised.rows])
    return share * loss


def bpr(
    hidden: Tensor, item_embedding: Tensor, bias: Tensor, labels: Tensor, negatives: Tensor, weights: Tensor
) -> Tensor:
    """Pairwise loss (Rendle et al., UAI 2009): -sum_m w_m log sigmoid(s_m,label - s_m,negative).

    Args:
        hidden: *Shape:* (M, H)
        item_embedding: *Shape:* (N or more, H)
        bias: *Shape:* (N,)
        labels: *Shape:* (M,)
        negatives: one item a masked position, outside its sequence. *Shape:* (M,)
        weights: *Shape:* (M,)
    """
    difference = item_embedding[labels] - item_embedding[negatives]  # (M, H)
    margin = (hidden * difference).sum(-1) + bias[labels] - bias[negatives]
    return -torch.dot(F.logsigmoid(margin).float(), weights)


class SampledScores(NamedTuple):
    """Scores of each masked position's label and of the negatives; a negative that is the label has -inf.

    Attributes:
        positive: *Shape:* (M,)
        negative: *Shape:* (M, K)
    """

    positive: Tensor
    negative: Tensor


def sampled_scores(
    hidden: Tensor, item_embedding: Tensor, bias: Tensor, labels: Tensor, negatives: Tensor, sparse: bool = False
) -> SampledScores:
    """What the sampled losses compare.

    Args:
        hidden, item_embedding, bias, labels: as in :func:`bpr`.
        negatives: items that all positions share. *Shape:* (K,)
        sparse: the gradient of ``item_embedding`` is a sparse tensor.
    """
    positive = (hidden * F.embedding(labels, item_embedding, sparse=sparse)).sum(1) + bias[labels]
    negative = hidden @ F.embedding(negatives, item_embedding, sparse=sparse).T + bias[negatives]
    return SampledScores(positive.float(), negative.float().masked_fill(labels.unsqueeze(1) == negatives, -torch.inf))


def sampled_softmax(scores: SampledScores, log_expected: Tensor, weights: Tensor) -> Tensor:
    """Softmax over the label and K drawn items.

    sum_m w_m (log(e^s_m,label + sum_k e^(s_mk - log_expected_k)) - s_m,label)

    With the correction by ``log_expected`` (Bengio and Senecal, 2008; Yi et al., RecSys 2019) the sum estimates the
    one over all other items without bias. Without it, negatives drawn by popularity teach the scores of popular
    items down until all are alike: a model on its first plateau, which knows no more than popularity, has then
    nothing to learn, and ranks at random.

    Args:
        log_expected: see :class:`Negatives`. *Shape:* (K,)
        weights: *Shape:* (M,)
    """
    everything = torch.cat([scores.positive.unsqueeze(1), scores.negative - log_expected], 1)
    return torch.dot(everything.logsumexp(1) - scores.positive, weights)


def binary_cross_entropy(scores: SampledScores, weights: Tensor, exponent: float = 1.0) -> Tensor:
    """BCE, and gBCE (Petrov and Macdonald, RecSys 2023) with K negatives.

    -sum_m w_m (beta log sigmoid(s_m,label) + sum_k log(1 - sigmoid(s_mk))) / (K + 1)

    Args:
        weights: *Shape:* (M,)
        exponent: beta; 1 is BCE, :func:`gbce_exponent` gives gBCE's.
    """
    logs = exponent * F.logsigmoid(scores.positive) + F.logsigmoid(-scores.negative).sum(1)
    return -torch.dot(logs, weights) / (scores.negative.shape[1] + 1)


def gbce_exponent(n_negatives: int, n_items: int, t: float) -> float:
    """beta = alpha (t (1 - 1 / alpha) + 1 / alpha), with the sampling rate alpha = K / (items but the label).

    Args:
        n_negatives: K.
        n_items: N, padding counted.
        t: 0 is BCE, 1 makes the scores those of a softmax over all items.
    """
    rate = min(1.0, n_negatives / max(1, n_items - 2))
    return rate * (t * (1 - 1 / rate) + 1 / rate)
