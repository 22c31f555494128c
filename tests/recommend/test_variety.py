"""Maximal marginal relevance and caps of categories, each against a loop."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_bert4rec.recommend.variety import NO_LABEL, cap, diversify


def naive(scores: list[float], vectors: torch.Tensor, k: int, share: float) -> list[int]:
    there = [score for score in scores if score > -torch.inf]
    spread = max(max(there) - min(there), 1e-12)
    chosen: list[int] = []
    for _ in range(k):
        left = [n for n in range(len(scores)) if n not in chosen]
        known = [n for n in left if scores[n] > -torch.inf]

        def value(n: int) -> float:
            alike = max((float(vectors[n] @ vectors[other]) for other in chosen), default=-1.0)
            return (1 - share) * (scores[n] - min(there)) / spread - share * alike

        chosen.append(max(known, key=value) if known else left[0])
    return chosen


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.data(), st.floats(0, 0.99), st.integers(0, 2**16))
def test_the_choice_is_that_of_a_loop(rows: int, width: int, data: st.DataObject, share: float, seed: int) -> None:
    k = data.draw(st.integers(1, width))
    torch.manual_seed(seed)
    scores = torch.randn(rows, width, dtype=torch.float64)
    scores[:, 1:] = scores[:, 1:].masked_fill(torch.rand(rows, width - 1) < 0.2, -torch.inf)
    vectors = F.normalize(torch.randn(rows, width, 5, dtype=torch.float64), dim=2)
    chosen = diversify(scores, vectors, k, share)
    for row in range(rows):
        wanted = naive(scores[row].tolist(), vectors[row], k, share)
        known = [n for n in wanted if scores[row, n] > -torch.inf]
        assert chosen[row].tolist()[: len(known)] == known
        assert len(set(chosen[row].tolist())) == k


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_at_its_ends_the_share_means_scores_alone_or_unlikeness_alone(share: float) -> None:
    scores = torch.tensor([[3.0, 2.9, 0.0]])
    vectors = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])
    second = diversify(scores, vectors, 3, share)[0].tolist()
    assert second[:2] == ([0, 1] if share == 0.0 else [0, 2])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 12), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**16))
def test_a_cap_keeps_what_a_loop_keeps(rows: int, width: int, several: int, most: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, width, generator=draw).sort(1, descending=True).values
    scores = scores.masked_fill(torch.rand(rows, width, generator=draw) < 0.2, -torch.inf)
    labels = torch.rand(rows, width, 5, generator=draw).argsort(2)[:, :, :several]
    labels = labels.masked_fill(torch.rand(rows, width, several, generator=draw) < 0.3, NO_LABEL)
    kept = cap(scores, labels, most)
    for row in range(rows):
        taken: list[int] = []
        for place in range(width):
            own = [label for label in labels[row, place].tolist() if label != NO_LABEL]
            fits = scores[row, place] > -torch.inf and all(taken.count(label) < most for label in own)
            taken += own if fits else []
            assert kept[row, place] == (scores[row, place] if fits else -torch.inf)
