"""Losses at the masked positions as functions of hidden states; the full softmax is in softmax.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_bert4rec.core.segments import index_within_segment
from recbole_bert4rec.core.softmax import LogitOffset

ItemOutputs = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Looks up the output embeddings and the biases of items. *Shape:* (K,) -> (K, H), (K,)"""


def mask_weights(rows: Tensor, n_sequences: int, loss_mean: str) -> Tensor:
    """Return the weight w_m of each masked position in the loss; the weights sum to 1.

    ``mask`` averages over all masked positions (the authors' code), ``sequence`` over those of each sequence, then over
    the sequences (equation 8).

    *Shape:* (M,) -> (M,)
    """
    if loss_mean == "mask":
        return torch.full((len(rows),), 1.0 / len(rows), device=rows.device)
    masks = torch.bincount(rows, minlength=n_sequences)
    return 1.0 / (masks[rows] * n_sequences)


def bpr(hidden: Tensor, outputs: ItemOutputs, labels: Tensor, negatives: Tensor, weights: Tensor) -> Tensor:
    """Return the pairwise loss BPR (Rendle et al., UAI 2009, section 4.1) without its regularisation.

    -sum_m w_m log sigmoid(s_m,label - s_m,negative)

    *Shape:* (M, H), (M,), (M,), (M,) -> scalar
    """
    (of_label, label_bias), (of_negative, negative_bias) = outputs(labels), outputs(negatives)
    margin = (hidden * (of_label - of_negative)).sum(-1) + label_bias - negative_bias
    return -torch.dot(F.logsigmoid(margin).float(), weights)


class SampledScores(NamedTuple):
    """Scores of each masked position's label and of the negatives.

    Attributes:
        positive: score of the label. *Shape:* (M,)
        negative: scores of the negatives; -inf for a negative that is the label. *Shape:* (M, K)
    """

    positive: Tensor
    negative: Tensor


def sampled_scores(
    hidden: Tensor,
    outputs: ItemOutputs,
    labels: Tensor,
    negatives: Tensor,
    offset: LogitOffset | None = None,
) -> SampledScores:
    """Score the labels and the negatives, which all masked positions share.

    *Shape:* (M, H), (M,), (K,)
    """
    (of_label, label_bias), (drawn, drawn_bias) = outputs(labels), outputs(negatives)
    positive = (hidden * of_label).sum(1) + label_bias
    negative = F.linear(hidden, drawn) + drawn_bias
    if offset is not None:
        label_rows = offset.rows[offset.items == labels[offset.rows]]
        positive = positive.index_put((label_rows,), offset.value, accumulate=True)
        negative = negative.index_put(_drawn(offset, negatives), offset.value, accumulate=True)
    return SampledScores(positive.float(), negative.float().masked_fill(labels.unsqueeze(1) == negatives, -torch.inf))


def _drawn(offset: LogitOffset, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Return row and column among the negatives of each pair whose item was drawn, as often as it was drawn.

    *Shape:* (K,) -> (Q,), (Q,)
    """
    ordered, order = negatives.sort()
    first = torch.searchsorted(ordered, offset.items)
    count = torch.searchsorted(ordered, offset.items, right=True) - first
    pair = torch.repeat_interleave(count)
    return offset.rows[pair], order[first[pair] + index_within_segment(pair, count)]


def sampled_softmax(scores: SampledScores, log_expected: Tensor, weights: Tensor) -> Tensor:
    """Return the cross-entropy of a softmax over the label and K drawn items.

    sum_m w_m (log(e^s_m,label + sum_k e^(s_mk - log_expected_k)) - s_m,label)

    With the correction by ``log_expected`` (Bengio and Senecal, 2008; Yi et al., RecSys 2019) the sum over the
    negatives is an unbiased estimate of the sum over all other items. Without the correction, negatives that are drawn
    by popularity push the scores of popular items down until all items score alike. A model on its first plateau,
    which knows nothing but popularity, would then rank at random and have nothing to learn.

    *Shape:* (K,), (M,) -> scalar
    """
    everything = torch.cat([scores.positive.unsqueeze(1), scores.negative - log_expected], 1)
    return torch.dot(everything.logsumexp(1) - scores.positive, weights)


def binary_cross_entropy(scores: SampledScores, weights: Tensor, exponent: float) -> Tensor:
    """Return gBCE with K negatives (Petrov and Macdonald, RecSys 2023).

    -sum_m w_m (beta log sigmoid(s_m,label) + sum_k log(1 - sigmoid(s_mk))) / (K + 1), with the exponent beta

    *Shape:* (M,) -> scalar
    """
    logs = exponent * F.logsigmoid(scores.positive) + F.logsigmoid(-scores.negative).sum(1)
    return -torch.dot(logs, weights) / (scores.negative.shape[1] + 1)


def bpr_max(scores: SampledScores, weights: Tensor, penalty: float) -> Tensor:
    """Return BPR-max with its regularisation (Hidasi and Karatzoglou, CIKM 2018, equation 10).

    sum_m w_m (-log sum_k a_mk sigmoid(s_m,label - s_mk) + penalty sum_k a_mk s_mk^2), where a_m is the softmax of the
    negatives' scores. A negative that is the label does not count; a label without any other negative has no loss.

    *Shape:* (M,) -> scalar
    """
    counted = scores.negative > -torch.inf
    negative = scores.negative.masked_fill(~counted, torch.finfo(scores.negative.dtype).min)
    share = negative.log_softmax(1)  # log a
    margin = scores.positive.unsqueeze(1) - negative
    ranking = -(share + F.logsigmoid(margin)).logsumexp(1)
    squares = (share.exp() * negative.masked_fill(~counted, 0.0) ** 2).sum(1)
    return torch.dot(torch.where(counted.any(1), ranking + penalty * squares, 0.0), weights)


def gbce_exponent(n_negatives: int, n_items: int, t: float) -> float:
    """Return gBCE's exponent beta = alpha (t (1 - 1 / alpha) + 1 / alpha).

    alpha is the sampling rate: K divided by the number of items other than the label. With t 0 it is BCE; with 1 the
    sigmoids of the scores are probabilities.
    """
    rate = min(1.0, n_negatives / max(1, n_items - 2))
    return rate * (t * (1 - 1 / rate) + 1 / rate)
