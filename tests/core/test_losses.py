"""Losses against naive twins written from the equations, gradients too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recbole_bert4rec.core import softmax
from recbole_bert4rec.core.batching import epoch_generator
from recbole_bert4rec.core.losses import (
    binary_cross_entropy,
    bpr,
    bpr_max,
    gbce_exponent,
    sampled_scores,
    sampled_softmax,
)
from recbole_bert4rec.core.sampling import Negatives, SharedNegatives
from recbole_bert4rec.core.softmax import LogitOffset, cross_entropy, mask_weights

ROOT = Path(__file__).parents[2]


NAMES = ("hidden", "embedding", "bias", "labels", "weights")


def outputs_of(embedding: torch.Tensor, bias: torch.Tensor, sparse: bool = False) -> Any:
    return lambda items: (F.embedding(items, embedding, sparse=sparse), bias[items])


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


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_number_of_rows_at_once_gives_the_softmax_with_offsets_too_and_gradients_as_often_as_asked_for(
    data: Any,
) -> None:
    masked, n_items = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 20))
    tensors = problem(data.draw(st.integers(0, 999)), masked, n_items, 3, torch.float64)
    by = torch.tensor(data.draw(st.floats(-30, 30)), dtype=torch.float64, requires_grad=True)
    pairs = data.draw(st.sets(st.tuples(st.integers(0, masked - 1), st.integers(1, n_items - 1))))
    rows, items = (torch.tensor([pair[n] for pair in sorted(pairs)], dtype=torch.int64) for n in (0, 1))
    hidden, embedding, bias, labels, weights = (tensors[name] for name in NAMES)
    leaves = [hidden, embedding, bias, by]
    for leaf in leaves:
        leaf.requires_grad_(data.draw(st.booleans()))
    learnt = [leaf for leaf in leaves if leaf.requires_grad]
    logits = (hidden @ embedding.T + bias).index_put((rows, items), by, accumulate=True)[:, 1:]
    wanted = (logits.logsumexp(1) - logits.gather(1, labels.unsqueeze(1) - 1).squeeze(1)) @ weights.double()
    arguments = [hidden, embedding, bias, labels, weights, LogitOffset(by, rows, items)]
    at_once = {"_LOGITS_AT_ONCE": {"cpu": data.draw(st.integers(1, 60))}, "_LEAST_ROWS": data.draw(st.integers(1, 5))}
    with mock.patch.multiple(softmax, **at_once):
        found = cross_entropy(*arguments)
    torch.testing.assert_close(found, wanted)
    assert found.requires_grad == bool(learnt)
    for times in (1, 3) if learnt else ():
        ours, naive = (torch.autograd.grad(times * one, learnt, retain_graph=True) for one in (found, wanted))
        torch.testing.assert_close(ours, naive)


@pytest.mark.slow
def test_the_softmax_takes_no_memory_that_grows_with_it() -> None:
    program = """
import resource, torch
from recbole_bert4rec.core.softmax import cross_entropy
hidden, table = torch.randn(512, 16, requires_grad=True), torch.randn(400_000, 16, requires_grad=True)
bias, labels = torch.zeros(400_000, requires_grad=True), torch.randint(1, 400_000, (512,))
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
cross_entropy(hidden[:1], table, bias, labels[:1], torch.ones(1)).backward()
before = peak()
cross_entropy(hidden, table, bias, labels, torch.full((512,), 1 / 512)).backward()
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert float(done.stdout) < 200  # MB; the logits alone are 781


def test_under_autocast_products_are_bfloat16_and_the_loss_is_near() -> None:
    tensors = problem(3, 50, 300, 16, torch.float32)
    arguments = [tensors[name] for name in NAMES]
    exact = cross_entropy(*arguments)
    gradients = torch.autograd.grad(exact, arguments[:3])
    with torch.autocast("cpu"):
        rough = cross_entropy(*arguments)
    assert rough.dtype == torch.float32
    assert rough.item() != exact.item()
    torch.testing.assert_close(rough, exact, rtol=1e-2, atol=0)
    for near, gradient in zip(torch.autograd.grad(rough, arguments[:3]), gradients, strict=True):
        assert near.dtype == gradient.dtype
        assert (near - gradient).norm() < 0.03 * gradient.norm()


def negatives_of(problem: dict[str, torch.Tensor], log_expected: float = 0.3) -> Negatives:
    items = torch.cat([problem["negatives"], problem["labels"][:1]])  # a label is among them
    return Negatives(items, torch.linspace(-log_expected, log_expected, len(items)))


def naive_sampled(hidden, embedding, bias, labels, weights, negatives, exponent):
    """``exponent`` None: softmax; else (g)BCE."""
    total = hidden.new_zeros(())
    for vector, label, weight in zip(hidden, labels.tolist(), weights, strict=True):
        positive = vector @ embedding[label] + bias[label]
        others = [
            (vector @ embedding[item] + bias[item], shift)
            for item, shift in zip(negatives.items.tolist(), negatives.log_expected, strict=True)
            if item != label
        ]
        if exponent is None:
            below = torch.exp(positive) + sum(torch.exp(score - shift) for score, shift in others)
            total = total - weight * torch.log(torch.exp(positive) / below)
        else:
            logs = exponent * torch.log(torch.sigmoid(positive))
            logs = logs + sum(torch.log(1 - torch.sigmoid(score)) for score, _ in others)
            total = total - weight * logs / (len(negatives.items) + 1)
    return total


def naive_bpr_max(hidden, embedding, bias, labels, weights, negatives, penalty):
    total = hidden.new_zeros(())
    for vector, label, weight in zip(hidden, labels.tolist(), weights, strict=True):
        positive = vector @ embedding[label] + bias[label]
        others = [vector @ embedding[item] + bias[item] for item in negatives.tolist() if item != label]
        if others:
            shares = [torch.exp(score) / sum(torch.exp(other) for other in others) for score in others]
            won = sum(a * torch.sigmoid(positive - score) for a, score in zip(shares, others, strict=True))
            squares = sum(a * score**2 for a, score in zip(shares, others, strict=True))
            total = total + weight * (-torch.log(won) + penalty * squares)
    return total


SAMPLED = [
    ("softmax", 0.0),
    ("gBCE", 1.0),
    ("gBCE", 0.4),
    ("BPR-max", 0.0),
    ("BPR-max", 1.0),
    ("BPR-max", 0.3),
    ("BPR", 0.0),
]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(1, 9), st.integers(2, 12), st.sampled_from(SAMPLED), st.booleans())
@example(seed=0, masked=2, n_items=2, loss=("BPR-max", 1.0), sparse=False)  # every negative is the label
def test_sampled_losses_equal_their_naive_twins_gradients_too(
    seed: int, masked: int, n_items: int, loss: tuple[str, float], sparse: bool
) -> None:
    tensors = problem(seed, masked, n_items, 3, torch.float64)
    arguments = [tensors[name] for name in NAMES[:4]]
    weights, negatives, (kind, number) = tensors["weights"], negatives_of(tensors), loss
    outputs = outputs_of(*arguments[1:3], sparse)
    scores = sampled_scores(arguments[0], outputs, arguments[3], negatives.items)
    if kind == "BPR":
        wanted = naive_bpr(*arguments, tensors["negatives"], weights)
        found = bpr(arguments[0], outputs, arguments[3], tensors["negatives"], weights)
    elif kind == "BPR-max":
        wanted = naive_bpr_max(*arguments, weights.double(), negatives.items, number)
        found = bpr_max(scores, weights, number)
    elif kind == "gBCE":
        wanted = naive_sampled(*arguments, weights.double(), negatives, number)
        found = binary_cross_entropy(scores, weights, number)
    else:
        wanted = naive_sampled(*arguments, weights.double(), negatives, None)
        found = sampled_softmax(scores, negatives.log_expected, weights)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)
    ours, naive = torch.autograd.grad(found, arguments[:3]), [torch.zeros_like(leaf) for leaf in arguments[:3]]
    if wanted.requires_grad:
        naive = torch.autograd.grad(wanted, arguments[:3])
    assert [gradient.is_sparse for gradient in ours] == [False, sparse, False]
    for one, twin in zip(ours, naive, strict=True):
        torch.testing.assert_close(one.to_dense(), twin, rtol=1e-3, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.integers(1, 9), st.integers(2, 12), st.floats(-3, 3))
def test_an_offset_moves_the_labels_and_negatives_that_it_names_as_often_as_they_were_drawn(
    seed: int, masked: int, n_items: int, value: float
) -> None:
    tensors, generator = problem(seed, masked, n_items, 3, torch.float64), torch.Generator().manual_seed(seed)
    hidden, embedding, item_bias, labels = (tensors[name] for name in NAMES[:4])
    negatives = negatives_of(tensors).items
    changed = torch.rand(masked, n_items, generator=generator) < 0.4
    bias = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    looked_up = hidden, outputs_of(embedding, item_bias), labels, negatives
    found = sampled_scores(*looked_up, LogitOffset(bias, *changed.nonzero(as_tuple=True)))
    plain = sampled_scores(*looked_up)
    named = bias.float() * changed
    wanted = plain.positive + named[range(masked), labels], plain.negative + named[:, negatives]
    torch.testing.assert_close((found.positive, found.negative), wanted)
    weights, finite = torch.randn(len(negatives), generator=generator), found.negative.isfinite()
    ours, naive = (
        torch.autograd.grad(positive.sum() + (weights * negative)[finite].sum(), bias)[0]
        for positive, negative in ((found.positive, found.negative), wanted)
    )
    torch.testing.assert_close(ours, naive, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("how", "counts", "power", "wanted"),
    [
        ("popularity", [0, 8, 0, 1], 1.0, [9, 1, 2]),
        ("popularity", [0, 15, 3, 0], 0.5, [4, 2, 1]),
        ("uniform", [0, 8, 0, 1], 1.0, [1, 1, 1]),
    ],
)
def test_negatives_are_drawn_alike_or_by_a_power_of_the_counts_those_that_training_lacks_too(
    how: str, counts: list[int], power: float, wanted: list[int]
) -> None:
    items, log_expected = SharedNegatives(torch.tensor(counts), how, power).draw(60_000, epoch_generator(0, 0))
    shares = torch.tensor([0, *wanted]) / sum(wanted)
    torch.testing.assert_close(torch.bincount(items) / 60_000, shares, atol=0.01, rtol=0)
    torch.testing.assert_close(log_expected, (60_000 * shares[items]).log(), rtol=1e-5, atol=0)


def test_the_exponent_of_gbce_is_1_at_t_0_and_the_sampling_rate_at_t_1() -> None:
    assert gbce_exponent(10, 1002, 0.0) == pytest.approx(1.0)
    assert gbce_exponent(10, 1002, 1.0) == pytest.approx(10 / 1000)
    assert gbce_exponent(5000, 102, 0.5) == pytest.approx(1.0)


def test_extreme_scores_give_finite_losses() -> None:
    hidden = torch.tensor([[1000.0], [-1000.0]])
    embedding = torch.tensor([[0.0], [1.0], [-1.0]])
    labels, weights = torch.tensor([2, 1]), torch.full((2,), 0.5)
    bias = torch.zeros(3)
    assert cross_entropy(hidden, embedding, bias, labels, weights).item() == pytest.approx(2000)
    assert bpr(hidden, outputs_of(embedding, bias), labels, torch.tensor([1, 2]), weights).item() == pytest.approx(2000)


def test_masks_weigh_alike_or_as_in_equation_8() -> None:
    rows = torch.tensor([0, 0, 0, 1])
    assert mask_weights(rows, 2, "mask").tolist() == [0.25] * 4
    assert mask_weights(rows, 2, "sequence").tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
