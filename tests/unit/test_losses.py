"""Losses against naive twins written from the equations, gradients too."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_bert4rec.nn.losses import bpr, cross_entropy, mask_weights


def naive_cross_entropy(hidden, embedding, bias, labels, weights):
    total = hidden.new_zeros(())
    for vector, label, weight in zip(hidden, labels.tolist(), weights, strict=True):
        scores = [vector @ embedding[item] + bias[item] for item in range(1, len(embedding))]
        partition = sum(torch.exp(score) for score in scores)
        total = total - weight * torch.log(torch.exp(scores[label - 1]) / partition)
    return total


def naive_bpr(hidden, embedding, bias, labels, negatives, weights):
    total = hidden.new_zeros(())
    for vector, label, negative, weight in zip(hidden, labels.tolist(), negatives.tolist(), weights, strict=True):
        positive_score = vector @ embedding[label] + bias[label]
        negative_score = vector @ embedding[negative] + bias[negative]
        total = total - weight * torch.log(1 / (1 + torch.exp(-(positive_score - negative_score))))
    return total


def problem(seed: int, masked: int, n_items: int, size: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "hidden": torch.randn(masked, size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(),
        "embedding": torch.randn(n_items, size, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(),
        "bias": torch.randn(n_items, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(),
        "labels": torch.randint(1, n_items, (masked,), generator=generator),
        "negatives": torch.randint(1, n_items, (masked,), generator=generator),
        "weights": torch.rand(masked, generator=generator),
    }


def value_and_gradients(loss, names: list[str], tensors: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    value = loss(*(tensors[name] for name in names))
    gradients = torch.autograd.grad(value, [tensors[name] for name in ("hidden", "embedding", "bias")])
    return [value.detach(), *gradients]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(2, 12), st.integers(1, 8), st.booleans())
def test_losses_equal_their_naive_twins_gradients_too(
    seed: int, masked: int, n_items: int, size: int, pairwise: bool
) -> None:
    fast, naive = (bpr, naive_bpr) if pairwise else (cross_entropy, naive_cross_entropy)
    names = ["hidden", "embedding", "bias", "labels", *(["negatives"] if pairwise else []), "weights"]
    exact = value_and_gradients(naive, names, problem(seed, masked, n_items, size, torch.float64))
    plain = value_and_gradients(naive, names, problem(seed, masked, n_items, size, torch.float32))
    ours = value_and_gradients(fast, names, problem(seed, masked, n_items, size, torch.float32))
    for truth, twin, value in zip(exact, plain, ours, strict=True):
        allowed = (twin - truth).abs().max() + 1e-5  # the twin's own rounding in fp32
        assert (value - truth).abs().max() <= allowed


def test_padding_takes_no_part_in_the_softmax() -> None:
    tensors = problem(0, 4, 6, 3, torch.float32)
    names = ["hidden", "embedding", "bias", "labels", "weights"]
    before = value_and_gradients(cross_entropy, names, tensors)
    with torch.no_grad():
        tensors["bias"][0] = 100.0
    after = value_and_gradients(cross_entropy, names, tensors)
    assert torch.equal(before[0], after[0])
    assert after[2][0].abs().sum() == 0


def test_seen_bias_is_added_to_the_logits() -> None:
    tensors = problem(1, 3, 5, 2, torch.float64)
    shift = torch.zeros(3, 5, dtype=torch.float64)
    shift[:, 2] = -1.5
    labels, weights = tensors["labels"], tensors["weights"].double()
    hidden, embedding, bias = tensors["hidden"], tensors["embedding"], tensors["bias"]
    shifted_bias = bias + shift[0]
    wanted = naive_cross_entropy(hidden, embedding, shifted_bias, labels, weights)
    found = cross_entropy(hidden, embedding, bias, labels, weights.float(), shift)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_extreme_scores_give_finite_losses() -> None:
    hidden = torch.tensor([[1000.0], [-1000.0]])
    embedding = torch.tensor([[0.0], [1.0], [-1.0]])
    labels, weights = torch.tensor([2, 1]), torch.full((2,), 0.5)
    bias = torch.zeros(3)
    assert cross_entropy(hidden, embedding, bias, labels, weights).item() == pytest.approx(2000)
    assert bpr(hidden, embedding, bias, labels, torch.tensor([1, 2]), weights).item() == pytest.approx(2000)


def test_mean_over_masks_weighs_every_mask_alike() -> None:
    assert mask_weights(torch.tensor([0, 0, 0, 2]), 3, "mask").tolist() == [0.25] * 4


def test_mean_over_sequences_is_equation_8() -> None:
    weights = mask_weights(torch.tensor([0, 0, 0, 1]), 2, "sequence")
    assert weights.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert math.isclose(weights.sum().item(), 1.0, rel_tol=1e-6)
