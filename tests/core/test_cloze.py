"""The Cloze task: what is masked, what is shown, what is to be predicted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core import reference
from recbole_bert4rec.core.batching import epoch_generator
from recbole_bert4rec.core.objectives import append_mask, cloze, cloze_positions
from tests.helpers.data import padded

MASK = 31
sequences_strategy = st.lists(st.lists(st.integers(1, MASK - 1), min_size=1, max_size=50), min_size=1, max_size=8)


@given(
    sequences_strategy,
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
    st.sampled_from(["bernoulli", "exact"]),
    st.integers(0, 1000),
)
def test_every_mask_has_its_label_and_every_sequence_a_mask(
    sequences: list[list[int]], mask_ratio: float, ft_ratio: float, mask_count: str, seed: int
) -> None:
    item_seq, lengths = padded(sequences)
    generator = epoch_generator(seed, 0)
    masked = cloze(item_seq, lengths, MASK, generator, mask_ratio, ft_ratio, mask_count)
    is_mask = masked.item_seq == MASK
    assert is_mask.any(1).all()
    assert (is_mask & (item_seq == 0)).sum() == 0  # never padding
    assert is_mask.sum() == len(masked.labels)  # no mask without a label
    restored = masked.item_seq.clone()
    restored[masked.rows, masked.columns] = masked.labels
    assert torch.equal(restored, item_seq)


@pytest.mark.parametrize(
    ("how", "rho", "length", "wanted"),
    [
        ("bernoulli", 0.3, 10, 0.3 + 0.7**10 / 10),  # a sequence that drew nothing masks one position at random
        ("exact", 0.25, 8, 0.25),
    ],
)
def test_each_position_the_first_included_is_masked_with_probability_rho(
    how: str, rho: float, length: int, wanted: float
) -> None:
    masked = cloze_positions(torch.full((20_000,), length), length, rho, 0.0, how, epoch_generator(0, 0))
    assert (masked.float().mean(0) - wanted).abs().max() < 0.015


@pytest.mark.parametrize(
    ("rho", "length", "wanted"), [(0.2, 10, 2), (0.2, 2, 1), (0.5, 3, 2), (1.0, 7, 7), (0.01, 50, 1)]
)
def test_exact_masks_max_1_round_rho_n_positions(rho: float, length: int, wanted: int) -> None:
    masked = cloze_positions(torch.tensor([length, 50]), 50, rho, 0.0, "exact", epoch_generator(1, 1))
    assert masked[0].sum() == wanted


def test_ft_ratio_one_masks_the_last_item_only_and_zero_never_forces_it() -> None:
    lengths = torch.tensor([1, 4, 9])
    last = cloze_positions(lengths, 9, 0.5, 1.0, "bernoulli", epoch_generator(0, 0))
    assert last.nonzero().tolist() == [[0, 0], [1, 3], [2, 8]]
    many = torch.full((10_000,), 9)
    share = cloze_positions(many, 9, 0.2, 0.3, "bernoulli", epoch_generator(0, 0)).float().mean(0)
    assert abs(share[-1] - (0.3 + 0.7 * 0.217)) < 0.02
    assert (share[:-1] - 0.7 * 0.217).abs().max() < 0.02


def test_shares_of_bert_show_mask_random_and_own_item() -> None:
    item_seq = torch.full((2000, 50), 5)
    lengths = torch.full((2000,), 50)
    masked = cloze(item_seq, lengths, MASK, epoch_generator(0, 0), 0.5, random_share=0.1, keep_share=0.1)
    shown = masked.item_seq[masked.rows, masked.columns]
    assert abs((shown == MASK).float().mean() - 0.8) < 0.01
    assert abs((shown == 5).float().mean() - (0.1 + 0.1 / 30)) < 0.01
    random_items = shown[(shown != MASK) & (shown != 5)]
    assert random_items.min() >= 1
    assert random_items.max() < MASK
    assert (masked.labels == 5).all()


@given(sequences_strategy, st.integers(2, 60))
def test_append_mask_shows_the_latest_items_as_the_paper_does(sequences: list[list[int]], max_length: int) -> None:
    sequences = [*sequences, []]
    item_seq, lengths = padded(sequences)
    shown, position = append_mask(item_seq, lengths, MASK, max_length)
    latest, _ = padded([sequence[-(max_length - 1) :] for sequence in sequences])
    wanted = reference.append_mask(latest, MASK)
    assert torch.equal(shown, wanted)
    assert torch.equal(position, (wanted == MASK).nonzero()[:, 1])
