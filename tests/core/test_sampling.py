"""Negatives for BPR are uniform among the items outside a sequence; the paper's candidates follow popularity."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.batching import epoch_generator
from recbole_bert4rec.core.sampling import DistinctCandidates, items_outside
from recbole_bert4rec.system.errors import UserError
from tests.helpers.data import padded


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


def test_a_sequence_that_holds_the_catalogue_is_refused() -> None:
    with pytest.raises(UserError, match="all 3 items"):
        items_outside(torch.tensor([[3, 1, 2, 2]]), 4, epoch_generator(0, 0))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=30), st.sets(st.integers(0, 29)), st.integers(1, 8))
def test_distinct_candidates_have_weight_are_not_the_users_and_come_once(
    weights: list[int], own: set[int], count: int
) -> None:
    weighted = {item for item, weight in enumerate(weights) if weight}
    held, allowed = np.array(sorted(weighted & own), dtype=np.int64), weighted - own
    candidates = DistinctCandidates(np.array(weights, dtype=np.float64))
    if len(allowed) < count:
        with pytest.raises(UserError, match=f" {len(allowed)} items"):
            candidates.draw(held, count, np.random.default_rng(0))
        return
    drawn = candidates.draw(held, count, np.random.default_rng(0)).tolist()
    assert len(set(drawn)) == len(drawn) == count
    assert set(drawn) <= allowed


@pytest.mark.parametrize(
    ("weights", "own", "first", "second"),
    [
        ([0.0, 1.0, 2.0, 3.0, 4.0], [3], [0, 1 / 7, 2 / 7, 0, 4 / 7], {4: [0, 1 / 3, 2 / 3, 0, 0]}),
        ([0.0, 1e12, 3.0, 1.0, 1.0], [], [0, 1, 0, 0, 0], {1: [0, 0, 0.6, 0.2, 0.2]}),  # extreme, and few left
    ],
)
def test_candidates_follow_the_weights_of_those_that_are_left(
    weights: list[float], own: list[int], first: list[float], second: dict[int, list[float]]
) -> None:
    candidates, held = DistinctCandidates(np.array(weights)), np.array(own, dtype=np.int64)
    draws = [candidates.draw(held, 3 - len(own), np.random.default_rng(n)) for n in range(4000)]
    shares = np.bincount([draw[0] for draw in draws], minlength=5) / 4000
    np.testing.assert_allclose(shares, first, atol=0.03)
    for item, wanted in second.items():
        after = np.bincount([draw[1] for draw in draws if draw[0] == item], minlength=5)
        np.testing.assert_allclose(after / after.sum(), wanted, atol=0.03)
