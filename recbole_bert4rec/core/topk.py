"""Top k items of each row, from a catalogue of any size, without the B x N matrix of scores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from recbole_bert4rec.core.segments import index_within_segment, pair_keys
from recbole_bert4rec.system.constants import PADDING

_SCORES_AT_ONCE = {"cpu": 1 << 21, "cuda": 1 << 28}  # on a processor, what stays in its cache
_CHUNK = 64
_FIRST = 63 * _CHUNK
"""Items of the first block; its best scores are the least that items of other blocks must have."""

Change = tuple[Tensor, Tensor, Tensor]
"""Rows, items and what is added to their scores; -inf excludes an item. *Shape:* (P,) each"""


@torch.no_grad()
def best_items(
    vectors: Tensor, catalogue: Tensor, bias: Tensor, k: int, changes: Sequence[Change] = ()
) -> tuple[Tensor, Tensor]:
    """Return the k items with the highest score ``vectors @ catalogue.T + bias``; padding is left out.

    Scores are made block by block. Of a block only scores above the k-th best so far are kept, and looked for only
    in chunks of 64 items whose maximum is above it, which soon are few. What is kept waits, and is merged with the
    best whenever twice as many items have been scored. A block has an odd number of chunks: with a power of two, the
    scores of an item would share few lines of a processor's cache, and changes would take twice as long.

    *Shape:* (B, H), (N, H), (N,) -> (B, k), (B, k) of scores and items, best first
    """
    n_rows, n_items = len(vectors), len(catalogue)
    at_once = _SCORES_AT_ONCE["cuda" if vectors.is_cuda else "cpu"]
    width = max(1, at_once // max(1, n_rows) // _CHUNK - 1 | 1) * _CHUNK
    first = min(width, _FIRST)
    ends = torch.tensor([*range(first, n_items, width), n_items], device=vectors.device)
    blocks = [_by_block(change, ends) for change in changes]
    best = vectors.new_empty(n_rows, 0)
    items = torch.empty(n_rows, 0, dtype=torch.int64, device=vectors.device)
    buffer = vectors.new_empty(n_rows * min(width, n_items))  # new memory for every block would cost a third more
    waiting: list[tuple[Tensor, Tensor, Tensor]] = []
    merged = 0
    for (start, end), *of_block in zip(pairwise([0, *ends.tolist()]), *blocks, strict=True):
        scores = buffer[: n_rows * (end - start)].view(n_rows, end - start)
        torch.addmm(bias[start:end], vectors, catalogue[start:end].T, out=scores)
        if start <= PADDING < end:
            scores[:, PADDING - start] = -torch.inf
        for rows, columns, values in of_block:
            places = pair_keys(rows, columns - start, end - start)
            scores.view(-1).index_add_(0, places, values.to(scores.dtype))  # faster than by pairs
        if best.shape[1] < k:
            block = torch.arange(start, end, device=items.device).expand(n_rows, -1)
            best, order = torch.cat([best, scores], 1).topk(min(k, end), dim=1)
            items, merged = torch.cat([items, block], 1).gather(1, order), end
            continue
        rows, columns, above = _above(scores, best[:, -1:])
        waiting.append((rows, columns + start, above))
        if end >= 2 * merged or end == n_items or sum(len(rows) for rows, _, _ in waiting) > width:
            best, items = _merge(best, items, waiting)
            waiting, merged = [], end
    return best, items


def _by_block(change: Change, ends: Tensor) -> list[Change]:
    """Divide a change into blocks of items."""
    rows, items, values = change
    if (items[1:] < items[:-1]).any():  # those of a memory are in order
        items, order = items.sort()
        rows, values = rows.index_select(0, order), values.index_select(0, order)
    sizes = torch.searchsorted(items, ends).diff(prepend=ends.new_zeros(1)).tolist()
    return list(zip(*(one.split(sizes) for one in (rows, items, values)), strict=True))


def _above(scores: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the scores that exceed the least one of their row, or are no numbers.

    *Shape:* (B, W), (B, 1) -> (P,) each
    """
    n_rows, width = scores.shape
    chunks = width // _CHUNK
    whole = scores[:, : chunks * _CHUNK].view(n_rows, chunks, _CHUNK)
    rows, chunk = (~(whole.amax(-1) <= least)).nonzero(as_tuple=True)  # NaN is in no order
    within = whole[rows, chunk]  # (chunks with such a score, 64)
    hit, column = (~(within <= least[rows])).nonzero(as_tuple=True)
    rows, columns, values = rows[hit], chunk[hit] * _CHUNK + column, within[hit, column]
    rest = scores[:, chunks * _CHUNK :]
    if rest.shape[1]:  # of the last block
        rest_rows, rest_columns = (~(rest <= least)).nonzero(as_tuple=True)
        values = torch.cat([values, rest[rest_rows, rest_columns]])
        rows, columns = torch.cat([rows, rest_rows]), torch.cat([columns, rest_columns + chunks * _CHUNK])
    return rows, columns, values


def _merge(best: Tensor, items: Tensor, waiting: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the k best of the best so far, (B, k) scores and items, and of the rows, items and scores that wait."""
    n_rows, k = best.shape
    rows, new_items, scores = (torch.cat(parts) for parts in zip(*waiting, strict=True))
    rows, order = rows.sort(stable=True)
    table, names = _tables(rows, new_items[order], scores[order], n_rows, 0)
    best, order = torch.cat([best, table], 1).sort(dim=1, descending=True, stable=True)  # what fills up is last
    return best[:, :k], torch.cat([items, names], 1).gather(1, order[:, :k])


def _tables(rows: Tensor, items: Tensor, scores: Tensor, n_rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Return scores and items by row, filled up with -inf and padding; ``rows`` ascend.

    *Shape:* (P,), (P,), (P,) -> (n_rows, W) each, W at least ``width``
    """
    count = torch.bincount(rows, minlength=n_rows)
    place = rows, index_within_segment(rows, count)
    shape = n_rows, max(width, int(count.max()) if n_rows else 0)
    table, names = scores.new_full(shape, -torch.inf), items.new_full(shape, PADDING)
    table[place], names[place] = scores, items
    return table, names


def best_candidates(users: Tensor, items: Tensor, scores: Tensor, k: int, n_users: int) -> tuple[Tensor, Tensor]:
    """Rank each user's own candidates; if an item is named twice, its last score counts.

    A user with fewer candidates than k gets padding with score -inf after them.

    *Shape:* (P,), (P,), (P,) -> (n_users, k), (n_users, k) of scores and items, best first
    """
    key = pair_keys(users, items, int(items.max()) + 1 if len(items) else 1)
    order = key.argsort(stable=True)
    key = key[order]
    last = order[key.diff(append=key.new_full((1,), -1)) != 0]  # by user, then item
    table, names = _tables(users[last], items[last], scores[last], n_users, k)
    best, rank = table.topk(k, dim=1)
    return best, names.gather(1, rank)
