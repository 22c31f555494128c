"""Flat sequences: cutting out windows, histories, seen items and training slices."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.sequences import Sequences, order_by_user_and_time

users_items = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=6)


def build(histories: list[list[int]]) -> Sequences:
    items = torch.tensor([item for items in histories for item in items], dtype=torch.int32)
    return Sequences(items, torch.tensor([0, 0, *accumulate(map(len, histories))]))  # nothing is of padding


@given(users_items, st.data())
def test_slices_become_sequences_of_their_own(histories: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(histories) - 1), max_size=8))
    cuts = [data.draw(st.tuples(*[st.integers(0, len(histories[user]))] * 2).map(sorted)) for user in chosen]
    sequences = build(histories)
    starts = [int(sequences.offsets[user + 1]) for user in chosen]
    begin = torch.tensor([start + low for start, (low, _) in zip(starts, cuts, strict=True)], dtype=torch.int64)
    length = torch.tensor([high - low for low, high in cuts], dtype=torch.int64)
    found = sequences.slices(begin, length)
    assert found.lengths.tolist() == length.tolist()
    wanted = [histories[user][low:high] for user, (low, high) in zip(chosen, cuts, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recbole_bert4rec.core.sequences._AT_ONCE", 5)
        counts = sequences.counts_in(begin, length, 31)
    assert counts.tolist() == [sum(items.count(item) for items in wanted) for item in range(31)]
    assert [found.items[found.offsets[n] : found.offsets[n + 1]].tolist() for n in range(len(chosen))] == wanted


@given(users_items, st.integers(1, 15))
def test_histories_are_the_most_recent_items_before_each_target(histories: list[list[int]], width: int) -> None:
    sequences = build(histories)
    rows = [(u, p) for u, items in enumerate(histories, start=1) for p in range(1, len(items) + 1)]
    users = torch.tensor([u for u, _ in rows])
    targets = torch.tensor([int(sequences.offsets[u]) + p for u, p in rows])
    begins, lengths = sequences.before(users, targets, width)
    items = sequences.windows(begins, lengths, width)
    assert items.shape == (len(rows), width)
    for (user, position), row, length in zip(rows, items.tolist(), lengths.tolist(), strict=True):
        wanted = histories[user - 1][max(0, position - width) : position]
        assert row == wanted + [0] * (width - len(wanted))
        assert length == len(wanted)


@given(users_items)
def test_seen_items_are_all_items_before_the_target_uncut(histories: list[list[int]]) -> None:
    sequences = build(histories)
    users = torch.arange(1, len(histories) + 1)
    rows, items = sequences.seen(users, sequences.offsets[users + 1])
    found = [items[rows == row].tolist() for row in range(len(histories))]
    assert found == [sorted(set(history)) for history in histories]
    assert rows.tolist() == sorted(rows.tolist())


def test_of_a_users_prefixes_the_longest_counts_and_of_users_without_any_nothing() -> None:
    sequences = build([[1, 2, 3], [5, 6], [1, 2, 3, 4], [8, 9]])
    rows, users = torch.tensor([1, 2, 3, 4]), torch.tensor([7, 2, 7, 2])
    found = sequences.longest_slices(users, rows, sequences.offsets[rows + 1] - 1)
    assert [t.tolist() for t in found] == [[2, 7], [9, 5], [2, 4]]


times = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf]), st.floats(allow_nan=False, width=32))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("copies", [1, 300])  # torch sorts long integers by radix
@given(rows=st.lists(st.tuples(st.integers(0, 5), times), min_size=1, max_size=40))
def test_the_order_is_that_of_a_stable_sort_by_user_and_time(kind: torch.dtype, copies: int, rows: list) -> None:
    users = torch.tensor([user for user, _ in rows] * copies)
    when = torch.tensor([time for _, time in rows] * copies, dtype=kind)
    found = order_by_user_and_time(users, when)
    assert found.tolist() == np.lexsort((when.numpy(), users.numpy())).tolist()
