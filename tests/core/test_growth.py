"""Rows for another catalogue equal those of a loop over its items."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recbole_bert4rec.core.growth import rows_for
from recbole_bert4rec.core.sequences import Sequences
from recbole_bert4rec.system.constants import PADDING


def naive_rows(table: Tensor, source: list[int], beside: list[tuple[int, int]]) -> Tensor:
    rows = []
    for item, row in enumerate(source):
        near = [table[known] for new, known in beside if new == item]
        if item == PADDING or row != PADDING:
            rows.append(table[row])
        else:
            rows.append(torch.stack(near or list(table[1:])).mean(0))
    return torch.stack(rows)


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[int, list[int], list[tuple[int, int]]]:
    """Items of a table, the rows of another catalogue in it, and neighbours of its new items."""
    n_items = draw(st.integers(1, 6))
    kept = draw(st.lists(st.integers(1, n_items), unique=True))
    source = [PADDING, *draw(st.permutations([*kept, *[PADDING] * draw(st.integers(0, 4))]))]
    new = [item for item, row in enumerate(source) if item and row == PADDING]
    pair = st.tuples(st.sampled_from(new or [0]), st.integers(1, n_items))
    return n_items, source, draw(st.lists(pair, max_size=12)) if new else []


@settings(max_examples=60, deadline=None)  # the first call of torch takes long
@given(catalogues(), st.sampled_from([(), (3,)]))
def test_kept_rows_stay_and_new_ones_are_the_mean_of_their_neighbours(
    catalogue: tuple[int, list[int], list[tuple[int, int]]], width: tuple[int, ...]
) -> None:
    n_items, source, pairs = catalogue
    table = torch.randn(n_items + 1, *width, generator=torch.Generator().manual_seed(n_items))
    beside = tuple(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T)
    found, wanted = rows_for(table, torch.tensor(source), (beside[0], beside[1])), naive_rows(table, source, pairs)
    torch.testing.assert_close(found, wanted)
    kept = [item for item, row in enumerate(source) if row != PADDING or item == PADDING]
    assert torch.equal(found[kept], wanted[kept])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 9), max_size=5), min_size=1, max_size=6))
def test_adjacent_items_are_those_that_follow_each_other_in_one_sequence(lists: list[list[int]]) -> None:
    flat = torch.tensor([item for items in lists for item in items], dtype=torch.int32)
    offsets = torch.tensor([0, *map(len, lists)]).cumsum(0)
    earlier, later = Sequences(flat, offsets).adjacent()
    wanted = [pair for items in lists for pair in pairwise(items)]
    assert list(zip(earlier.tolist(), later.tolist(), strict=True)) == wanted
