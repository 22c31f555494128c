"""The best items, found block by block, are those of the whole matrix of scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_bert4rec.core import topk
from recbole_bert4rec.core.topk import best_candidates, best_items


def dense(vectors: torch.Tensor, catalogue: torch.Tensor, bias: torch.Tensor, changes: list) -> torch.Tensor:
    scores = vectors @ catalogue.T + bias
    scores[:, 0] = -torch.inf
    for change in changes:
        for row, item, value in zip(*change, strict=True):
            scores[row, item] += value
    return scores


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(2, 3000), st.integers(1, 12), st.integers(0, 40), st.integers(0, 2**16))
def test_best_items_are_those_of_the_matrix(rows: int, n_items: int, k: int, n_changes: int, seed: int) -> None:
    torch.manual_seed(seed)
    k = min(k, n_items - 1)
    vectors, catalogue, bias = torch.randn(rows, 8), torch.randn(n_items, 8), torch.randn(n_items)
    pairs = [(torch.randint(0, rows, (n_changes,)), torch.randint(1, n_items, (n_changes,))) for _ in range(2)]
    changes = [(*pairs[0], torch.full((n_changes,), -3.0)), (*pairs[1], torch.full((n_changes,), -torch.inf))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(topk._SCORES_AT_ONCE, "cpu", 700 * rows)  # several blocks
        scores, items = best_items(vectors, catalogue, bias, k, changes)
    everything = dense(vectors, catalogue, bias, changes)
    torch.testing.assert_close(scores, everything.topk(k).values, atol=1e-5, rtol=1e-5)
    finite = torch.isfinite(scores)
    torch.testing.assert_close(everything.gather(1, items)[finite], scores[finite], atol=1e-5, rtol=1e-5)
    assert all(len(set(row)) == k for row in items.tolist())


@pytest.mark.parametrize("left", [0, 1, 5, 20])
def test_a_row_with_few_items_left_names_each_once_and_no_other_row_is_changed(left: int) -> None:
    torch.manual_seed(0)
    vectors, catalogue, bias = torch.randn(3, 8), torch.randn(9000, 8), torch.randn(9000)
    order = torch.randperm(8999) + 1
    kept, removed = order[:left], order[left:].sort().values
    change = torch.ones_like(removed), removed, torch.full(removed.shape, -torch.inf)
    scores, items = best_items(vectors, catalogue, bias, 10, [change])
    assert torch.isfinite(scores).sum(1).tolist() == [10, min(left, 10), 10]
    assert set(items[1, : min(left, 10)].tolist()) <= set(kept.tolist())
    assert all(len(set(row)) == 10 for row in items.tolist())
    wanted = dense(vectors, catalogue, bias, [])[::2].topk(10)
    torch.testing.assert_close((scores[::2], items[::2]), tuple(wanted))


@pytest.mark.parametrize("place", [3, 8999])
def test_a_score_that_is_no_number_comes_first_wherever_it_is_and_equal_ones_are_named_once(place: int) -> None:
    catalogue = torch.randn(9000, 8)
    catalogue[place] = torch.nan
    scores, items = best_items(torch.zeros(3, 8), catalogue, torch.arange(9000.0).clamp(max=100), 5)
    assert scores[:, 0].isnan().all()
    assert (items[:, 0] == place).all()
    assert (scores[:, 1:] == 100).all()
    assert all(len(set(row)) == 5 and min(row[1:]) >= 100 for row in items.tolist())


def test_no_block_is_larger_than_it_may_be_and_scores_that_only_rise_wait_for_no_more_than_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, waited, above, merge = [], [], topk._above, topk._merge
    monkeypatch.setitem(topk._SCORES_AT_ONCE, "cpu", 4 * 640)  # 640 items a block
    monkeypatch.setattr(topk, "_above", lambda scores, *given: (sizes.append(scores.numel()), above(scores, *given))[1])
    monkeypatch.setattr(
        topk, "_merge", lambda *given: (waited.append(sum(len(rows) for rows, _, _ in given[2])), merge(*given))[1]
    )
    scores, items = best_items(torch.zeros(4, 8), torch.randn(30_000, 8), torch.arange(30_000.0), 10)
    assert items.tolist() == [list(range(29_999, 29_989, -1))] * 4
    assert torch.equal(scores, items.float())
    assert max(sizes) <= 4 * 640
    assert max(waited) <= 640 + 4 * 640


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(-50, 50)), min_size=1), st.integers(1, 12))
def test_best_candidates_are_a_users_own_and_the_last_score_counts(rows: list[tuple[int, int, int]], k: int) -> None:
    users, items, scores = (torch.tensor(column) for column in zip(*rows, strict=True))
    values, best = best_candidates(users, items, scores.float(), k, n_users=4)
    for user in range(4):
        own = {item: score for who, item, score in rows if who == user}
        wanted = sorted(own.values(), reverse=True)[:k]
        assert values[user, : len(wanted)].tolist() == wanted
        assert values[user, len(wanted) :].isinf().all()
        assert [own[item] for item in best[user, : len(wanted)].tolist()] == wanted
        assert not best[user, len(wanted) :].any()
