"""Top k items of each row, from a catalogue of any size, without the B x N matrix of scores."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recbole_bert4rec.constants import PADDING
from recbole_bert4rec.segments import index_within_segment, pair_keys

_SCORES_AT_ONCE = {"cpu": 1 << 22, "cuda": 1 << 28}  # on a processor, what stays in its cache
_CHUNK = 64

Change = tuple[Tensor, Tensor, "Tensor | float"]
"""Rows, items and the number to add to their scores; -inf excludes an item.

*Shape:* (P,), (P,), scalar
"""


@torch.no_grad()
def best_items(
    vectors: Tensor, catalogue: Tensor, bias: Tensor, k: int, changes: Sequence[Change] = ()
) -> tuple[Tensor, Tensor]:
    """Return the k items with the highest score ``vectors @ catalogue.T + bias``; padding is no item.

    Scores are made block by block, with a running top k. Within a block, the k best items lie in the k chunks of 64
    items whose maxima are highest, so one pass for the maxima replaces a sort of all scores.

    Args:
        vectors: *Shape:* (B, H)
        catalogue: item embeddings, padding first. *Shape:* (N, H)
        bias: of each item. *Shape:* (N,)
        k: number of items, at most N - 1.
        changes: additions to single scores; a pair that is named twice is changed twice.

    Returns:
        Scores and items, best first. *Shape:* (B, k) each.
    """
    n_rows, n_items = len(vectors), len(catalogue)
    at_once = _SCORES_AT_ONCE["cuda" if vectors.is_cuda else "cpu"]
    width = max(2 * _CHUNK * k, at_once // max(1, n_rows)) // _CHUNK * _CHUNK
    changes = [_by_item(*change) for change in changes]
    best = vectors.new_empty(n_rows, 0)
    items = torch.empty(n_rows, 0, dtype=torch.int64, device=vectors.device)
    buffer = vectors.new_empty(n_rows * min(width, n_items))  # new memory for every block would cost a third more
    for start in range(0, n_items, width):
        end = min(start + width, n_items)
        scores = buffer[: n_rows * (end - start)].view(n_rows, end - start)
        torch.addmm(bias[start:end], vectors, catalogue[start:end].T, out=scores)
        if start <= PADDING < end:
            scores[:, PADDING - start] = -torch.inf
        for rows, columns, value in changes:
            low, high = torch.searchsorted(columns, torch.tensor([start, end], device=columns.device)).tolist()
            index = (rows[low:high], columns[low:high] - start)
            scores.index_put_(index, torch.as_tensor(value, dtype=scores.dtype, device=scores.device), accumulate=True)
        top, column = _top_of_block(scores, k)
        best, items = torch.cat([best, top], 1), torch.cat([items, column + start], 1)
        best, order = best.topk(min(k, best.shape[1]), dim=1)
        items = items.gather(1, order)
    return best, items


def _by_item(rows: Tensor, items: Tensor, value: Tensor | float) -> Change:
    """Sort a change by item."""
    items, order = items.sort()
    return rows[order], items, value


def _top_of_block(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return ``scores.topk(k)`` along the items; chunk maxima are used if there are many more chunks than k."""
    n_rows, width = scores.shape
    chunks = width // _CHUNK
    if chunks < 4 * k:
        return scores.topk(min(k, width), dim=1)
    whole = scores[:, : chunks * _CHUNK].view(n_rows, chunks, _CHUNK)
    chosen = whole.amax(-1).topk(k, dim=1).indices  # (B, k)
    candidates = whole.gather(1, chosen.unsqueeze(-1).expand(-1, -1, _CHUNK)).flatten(1)  # (B, 64 k)
    index = (chosen.unsqueeze(-1) * _CHUNK + torch.arange(_CHUNK, device=scores.device)).flatten(1)
    rest = torch.arange(chunks * _CHUNK, width, device=scores.device).expand(n_rows, -1)
    candidates = torch.cat([candidates, scores[:, chunks * _CHUNK :]], 1)
    index = torch.cat([index, rest], 1)
    top, order = candidates.topk(k, dim=1)
    return top, index.gather(1, order)


def best_candidates(users: Tensor, items: Tensor, scores: Tensor, k: int, n_users: int) -> tuple[Tensor, Tensor]:
    """Rank each user's own candidates; if an item is named twice, its last score counts.

    Args:
        users: row of the result to which each candidate belongs. *Shape:* (P,)
        items: candidate items. *Shape:* (P,)
        scores: of each candidate. *Shape:* (P,)
        k: number of ranks. A user with fewer candidates gets padding with score -inf after them.
        n_users: number of rows of the result.

    Returns:
        Scores and items, best first. *Shape:* (n_users, k) each.
    """
    key = pair_keys(users, items, int(items.max()) + 1)
    order = key.argsort(stable=True)
    key = key[order]
    last = order[torch.cat([key[1:] != key[:-1], key.new_ones(1, dtype=torch.bool)])]  # by user, then item
    users, items, scores = users[last], items[last], scores[last]
    count = torch.bincount(users, minlength=n_users)
    column = index_within_segment(users, count)
    width = max(k, int(count.max()))
    table = scores.new_full((n_users, width), -torch.inf)
    names = items.new_full((n_users, width), PADDING)
    table[users, column], names[users, column] = scores, items
    best, rank = table.topk(k, dim=1)
    return best, names.gather(1, rank)
