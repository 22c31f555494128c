"""Negatives for BPR: uniform among the items that a sequence does not hold."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.data.batching import epoch_generator
from recbole_bert4rec.data.negatives import items_outside
from recbole_bert4rec.errors import UserError
from tests.conftest import padded


@given(st.lists(st.lists(st.integers(1, 9), max_size=20), min_size=1, max_size=10), st.integers(0, 999))
def test_a_negative_is_an_item_that_the_sequence_does_not_hold(sequences: list[list[int]], seed: int) -> None:
    sequences = [sequence if len(set(sequence)) < 9 else [1, 1, 2] for sequence in sequences]
    rows = padded([sequence or [0] for sequence in sequences])[0]
    for sequence, negative in zip(sequences, items_outside(rows, 10, epoch_generator(seed, 0)).tolist(), strict=True):
        assert 1 <= negative <= 9
        assert negative not in sequence


def test_all_items_outside_are_equally_likely() -> None:
    rows = torch.tensor([[3, 3, 1, 7, 0]]).repeat(60_000, 1)
    counts = torch.bincount(items_outside(rows, 10, epoch_generator(0, 0)), minlength=10)
    assert counts[[0, 1, 3, 7]].sum() == 0
    assert (counts[[2, 4, 5, 6, 8, 9]] - 10_000).abs().max() < 500


def test_the_only_item_outside_is_found() -> None:
    rows = torch.tensor([[1, 2, 4, 5]] * 50)
    assert items_outside(rows, 6, epoch_generator(0, 0)).unique().tolist() == [3]


def test_a_sequence_that_holds_the_catalogue_is_refused_in_words() -> None:
    with pytest.raises(UserError, match="holds all 3 items; use loss_type: CE"):
        items_outside(torch.tensor([[3, 1, 2, 2]]), 4, epoch_generator(0, 0))
