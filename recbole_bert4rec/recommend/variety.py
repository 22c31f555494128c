"""Lists of different items: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), caps of categories."""

from __future__ import annotations

import torch
from torch import Tensor

NO_LABEL = -1
CANDIDATES = 10
"""Items that a different list is chosen from, for each of its places."""


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
    there = scores.isfinite()
    low = scores.masked_fill(~there, torch.inf).amin(1, keepdim=True)
    high = scores.masked_fill(~there, -torch.inf).amax(1, keepdim=True)
    relevance = ((scores - low) / (high - low).clamp(min=1e-12)).masked_fill(~there, -torch.inf)
    value, nearest = relevance, torch.full_like(scores, -1.0)
    # made once: memory in pieces between those of each step would never be given back
    chosen, products = scores.new_empty((len(scores), k), dtype=torch.int64), torch.empty_like(vectors)
    left = torch.ones_like(there)
    for rank in range(k):
        # of those that are left, even what has no score is better than one that was chosen
        place = value.clamp(min=-1e30).masked_fill(~left, -torch.inf).argmax(1, keepdim=True)  # (B, 1)
        left.scatter_(1, place, False)
        chosen[:, rank] = place.squeeze(1)
        newest = vectors.gather(1, place.unsqueeze(2).expand(-1, -1, vectors.shape[2]))  # (B, 1, H)
        nearest = torch.maximum(nearest, torch.mul(vectors, newest, out=products).sum(2))
        value = (1 - share) * relevance - share * nearest
    return chosen


def cap(scores: Tensor, labels: Tensor, most: int) -> Tensor:
    """Take out each candidate before which as many of one of its labels were kept as may be.

    Args:
        scores: of the candidates, best first; -inf is not kept. *Shape:* (B, C)
        labels: of each candidate, different ones, :data:`NO_LABEL` after them. *Shape:* (B, C, M)
        most: candidates of a label.

    Returns:
        The scores, -inf where a candidate is taken out. *Shape:* (B, C)
    """
    kept, before = scores > -torch.inf, torch.zeros_like(labels)
    for place in range(scores.shape[1]):
        kept[:, place] &= (before[:, place] < most).all(1)
        own = labels[:, place].unsqueeze(1).unsqueeze(1)  # (B, 1, 1, M)
        shared = (labels.unsqueeze(3) == own).any(3) & (labels != NO_LABEL)
        before += shared & kept[:, place].view(-1, 1, 1)
    return scores.masked_fill(~kept, -torch.inf)
