"""Lists of different items: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), caps of categories."""

from __future__ import annotations

import torch
from torch import Tensor

NO_LABEL = -1
CANDIDATES = 10
"""A varied list of k items is chosen from this many times k."""


def diversify(scores: Tensor, vectors: Tensor, k: int, share: float) -> Tensor:
    """Choose k candidates of each row, one by one: those with a high score that are unlike the chosen ones.

    The next one has the highest (1 - share) * relevance - share * similarity. Relevance is the score, scaled to 0..1
    among the row's candidates. Similarity is the highest cosine with a chosen item.

    Args:
        scores: of the candidates; -inf is chosen last. *Shape:* (B, C)
        vectors: of the candidates, of length 1. *Shape:* (B, C, H)
        k: number of items, at most C.
        share: of similarity, from 0 to 1.

    Returns:
        Columns of the chosen candidates, in their order. *Shape:* (B, k)
    """
    finite = scores.isfinite()
    low = scores.masked_fill(~finite, torch.inf).amin(1, keepdim=True)
    high = scores.masked_fill(~finite, -torch.inf).amax(1, keepdim=True)
    relevance = ((scores - low) / (high - low).clamp(min=1e-12)).masked_fill(~finite, -torch.inf)
    value, nearest = relevance, torch.full_like(scores, -1.0)
    # made once: memory in pieces between those of each step would never be given back
    chosen, products = scores.new_empty((len(scores), k), dtype=torch.int64), torch.empty_like(vectors)
    left = torch.ones_like(finite)
    for rank in range(k):
        # of those that are left, even one without a score is better than one that was chosen
        best = value.clamp(min=-1e30).masked_fill(~left, -torch.inf).argmax(1, keepdim=True)  # (B, 1)
        left.scatter_(1, best, False)
        chosen[:, rank] = best.squeeze(1)
        newest = vectors.gather(1, best.unsqueeze(2).expand(-1, -1, vectors.shape[2]))  # (B, 1, H)
        nearest = torch.maximum(nearest, torch.mul(vectors, newest, out=products).sum(2))
        value = (1 - share) * relevance - share * nearest
    return chosen


def cap(scores: Tensor, labels: Tensor, most: int) -> Tensor:
    """Take out each candidate before which ``most`` others with one of its labels were kept.

    Args:
        scores: of the candidates, best first; those of -inf are not kept. *Shape:* (B, C)
        labels: of each candidate, different ones, :data:`NO_LABEL` after them. *Shape:* (B, C, M)
        most: candidates to keep of each label.

    Returns:
        The scores, -inf where a candidate is taken out. *Shape:* (B, C)
    """
    kept, n_before = scores > -torch.inf, torch.zeros_like(labels)
    for column in range(scores.shape[1]):
        kept[:, column] &= (n_before[:, column] < most).all(1)
        column_labels = labels[:, column].unsqueeze(1).unsqueeze(1)  # (B, 1, 1, M)
        shared = (labels.unsqueeze(3) == column_labels).any(3) & (labels != NO_LABEL)
        n_before += shared & kept[:, column].view(-1, 1, 1)
    return scores.masked_fill(~kept, -torch.inf)
