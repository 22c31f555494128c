"""The memory counts what its definition says, in parts as in one, and adds what followed the history alone."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_bert4rec.core import memory
from recbole_bert4rec.core.memory import FADING, SPAN, Memory, count_transitions
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.recommend.torch_backend import TrainedRanker
from recbole_bert4rec.system.errors import UserError

N_ITEMS = 12


def flat(histories: list[list[int]]) -> tuple[Any, Any]:
    lengths = np.array([len(history) for history in histories])
    return np.array([*chain(*histories)], np.int32), np.concatenate([[0], lengths.cumsum()])


def naive(histories: list[list[int]], power: float = 0.5) -> Any:
    counts = np.bincount(np.array([*chain(*histories)]), minlength=N_ITEMS)
    pairs = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        for p, i in enumerate(history):
            for q in range(p + 1, min(p + SPAN, len(history) - 1) + 1):
                pairs[i, history[q]] += (q - p) ** -power * (history[q] != i)
    return np.log(1 + pairs / np.sqrt(0.25 + counts[:, None] * counts / counts.sum()))


histories_of_all = st.lists(st.lists(st.integers(1, N_ITEMS - 1), min_size=1, max_size=30), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None)
@given(histories=histories_of_all, at_once=st.sampled_from([1, 60, 1 << 23]))
def test_the_table_is_that_of_its_definition_however_it_is_counted(histories: list[list[int]], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_PAIRS_AT_ONCE", at_once)
        table = count_transitions(*flat(histories), N_ITEMS, False)
    assert np.allclose(table.toarray(), naive(histories), rtol=1e-3)


def test_on_a_dense_log_far_pairs_count_less() -> None:
    histories = [[1 + (step * (1 + start)) % (N_ITEMS - 1) for step in range(25)] for start in range(9)]
    table = count_transitions(*flat(histories), N_ITEMS, True)
    assert np.allclose(table.toarray(), naive(histories, power=1), rtol=1e-3)


def test_a_table_has_no_more_entries_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_ENTRIES", 3 * N_ITEMS)
    table = count_transitions(*flat([[*range(1, N_ITEMS)]]), N_ITEMS, False)
    assert np.diff(table.indptr).max() == 3


@settings(max_examples=40, deadline=None)
@given(histories=histories_of_all)
def test_the_strongest_followers_of_an_item_are_kept(histories: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "KEPT", 2)
        whole, table = naive(histories), count_transitions(*flat(histories), N_ITEMS, False)
    for i in range(N_ITEMS):
        kept = table.indices[table.indptr[i] : table.indptr[i + 1]]
        assert len(kept) == min(2, np.count_nonzero(whole[i]))
        left_out = np.delete(whole[i], kept)
        assert not len(kept) or whole[i, kept].min() >= left_out.max() - 1e-12


@settings(max_examples=40, deadline=None)
@given(histories=histories_of_all, later=st.integers(0, N_ITEMS - 1))
def test_a_history_adds_what_followed_its_items_the_latest_most_whatever_comes_later(
    histories: list[list[int]], later: int
) -> None:
    table = count_transitions(*flat(histories), N_ITEMS, False)
    whole, width = table.toarray(), max(map(len, histories))
    item_seq = np.array([history + [later] * (width - len(history)) for history in histories])
    rows, items, values = Memory(table, 1.5).additions(item_seq, np.array([*map(len, histories)]))
    additions = np.zeros((len(histories), N_ITEMS))
    additions[rows, items] = values
    for row, history in enumerate(histories):
        latest = history[::-1][:SPAN]
        wanted = sum(FADING**age * whole[i] for age, i in enumerate(latest)) / sum(FADING ** np.arange(len(latest)))
        assert np.allclose(additions[row], 1.5 * wanted, atol=1e-6)


ITEM_SEQ = np.array([[1, 2, 3, 0], [4, 0, 0, 0], [11, 10, 11, 2]])
LENGTHS = np.array([3, 1, 4])


@pytest.fixture
def memory_of_three() -> Memory:
    return Memory(count_transitions(*flat([[1, 2, 3, 4], [2, 5, 4, 6, 7], [3, 1, 11, 2, 9]]), N_ITEMS, False), 1.5)


def ranker_of(seen_bias: float | None) -> TrainedRanker:
    defaults = {name: option.default for name, option in OPTIONS.items()}
    chosen = {"hidden_size": 8, "inner_size": 16, "hidden_dropout_prob": 0.0, "MAX_ITEM_LIST_LENGTH": 5}
    options = {**defaults, **chosen, "seen_bias": seen_bias is not None}
    ranker = TrainedRanker(options, EncoderOptions.from_config(options, N_ITEMS), map(str, range(N_ITEMS)))
    ranker.eval().requires_grad_(False)
    for weight in ranker.parameters():
        weight += 0.3 * torch.randn_like(weight)
    if ranker.seen_bias is not None:
        ranker.seen_bias.fill_(seen_bias)
    return ranker


@pytest.mark.parametrize("seen_bias", [None, -2.0, 2.0])
def test_all_ways_to_score_add_the_same(memory_of_three: Memory, seen_bias: float | None) -> None:
    ranker, near = ranker_of(seen_bias), partial(torch.testing.assert_close, atol=1e-6, rtol=1e-5)
    vectors, shown = ranker.encode(torch.from_numpy(ITEM_SEQ), torch.from_numpy(LENGTHS))
    wanted = ranker.scores_of(vectors, shown)
    ranker.memory = memory_of_three
    rows, items, additions = map(torch.from_numpy, memory_of_three.additions(ITEM_SEQ, LENGTHS))
    wanted[rows, items] += additions
    near(ranker.scores_of(vectors, shown), wanted)
    candidates = torch.stack([torch.randperm(N_ITEMS - 1)[:7] + 1 for _ in LENGTHS])
    near(ranker.score_candidates(vectors, shown, candidates), wanted.gather(1, candidates))
    removed, chosen = (torch.tensor([0, 2]), torch.tensor([4, 9])), torch.tensor([2, 4, 5, 9])
    wanted[removed] = -torch.inf
    best, ranked = ranker.catalogue().best(vectors, N_ITEMS - 2, ranker.changes(shown, removed))
    near(best, wanted[:, 1:].sort(1, descending=True).values[:, :-1])
    near(best, wanted.gather(1, ranked))
    best, ranked = ranker.catalogue(chosen).best(vectors, 4, ranker.changes(shown, removed))
    near(best, wanted[:, chosen].sort(1, descending=True).values)


def test_a_memory_comes_back_as_it_was_for_its_own_catalogue_alone(memory_of_three: Memory) -> None:
    again = Memory.from_state(memory_of_three.state(), N_ITEMS)
    assert all(map(np.array_equal, memory_of_three.additions(ITEM_SEQ, LENGTHS), again.additions(ITEM_SEQ, LENGTHS)))
    with pytest.raises(UserError, match=r"`memory`.* 11 .* 12"):
        Memory.from_state(memory_of_three.state(), N_ITEMS + 1)
