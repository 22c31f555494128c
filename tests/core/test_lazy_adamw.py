"""Lazy AdamW equals AdamW where every row is touched, and its own definition elsewhere."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn, optim

from recbole_bert4rec.core.fast.lazy_adamw import LazyAdamW, clip

RATES = [0.01, 0.05, 0.002, 0.03, 0.03, 0.01, 0.04]
DECAY = 0.2


def step(table: nn.Parameter, optimizer: optim.Optimizer, rows: list[int], rate: float, sparse: bool) -> None:
    optimizer.zero_grad()
    optimizer.param_groups[0]["lr"] = rate
    vectors = F.embedding(torch.tensor(rows), table, sparse=sparse)
    (vectors * torch.linspace(-1, 2, vectors.numel()).view_as(vectors)).square().sum().backward()
    optimizer.step()


def table(seed: int = 0) -> nn.Parameter:
    return nn.Parameter(torch.randn(5, 3, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize(("rows", "sparse"), [([3, 0, 1, 4, 2, 3], True), ([1, 2], False)])
def test_where_every_step_touches_every_row_or_gradients_are_dense_it_is_adamw(rows: list[int], sparse: bool) -> None:
    ours, theirs = table(), table()
    lazy, dense = LazyAdamW([ours], lr=0.1, weight_decay=DECAY), optim.AdamW([theirs], lr=0.1, weight_decay=DECAY)
    for rate in RATES:
        step(ours, lazy, rows, rate, sparse=sparse)
        step(theirs, dense, rows, rate, sparse=False)
    torch.testing.assert_close(ours, theirs)


def test_a_row_follows_its_definition_step_by_step_and_one_that_no_step_touches_decays_once() -> None:
    ours, before = table(), table()
    lazy = LazyAdamW([ours], lr=0.1, weight_decay=DECAY)
    row, mean, square = before[1].detach().double(), torch.zeros(3).double(), torch.zeros(3).double()
    touched = [True, False, False, True, True, False, True]
    for number, (rate, now) in enumerate(zip(RATES, touched, strict=True), start=1):
        weights = torch.linspace(-1, 2, 3).double() if now else torch.zeros(3).double()
        step(ours, lazy, [1] if now else [0], rate, sparse=True)
        gradient = 2 * row * weights.square()
        row = row * (1 - rate * DECAY)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient.square()
        if now:
            row = row - rate * (mean / (1 - 0.9**number)) / ((square / (1 - 0.999**number)).sqrt() + 1e-8)
    torch.testing.assert_close(ours[3:], before[3:])
    for _ in range(2):
        lazy.catch_up()
        torch.testing.assert_close(ours[1].double(), row, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours[3:], before[3:] * math.prod(1 - rate * DECAY for rate in RATES))


def test_a_stored_state_goes_on_as_if_never_stopped() -> None:
    whole, stopped = table(), table()
    first, second = LazyAdamW([whole], lr=0.1, weight_decay=DECAY), LazyAdamW([stopped], lr=0.1, weight_decay=DECAY)
    for rows, rate in (([0, 1], 0.1), ([1], 0.2)):
        step(whole, first, rows, rate, sparse=True)
        step(stopped, second, rows, rate, sparse=True)
    third = LazyAdamW([stopped], lr=0.1, weight_decay=DECAY)
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    for rows, rate in (([0], 0.1), ([1, 2], 0.3)):
        step(whole, first, rows, rate, sparse=True)
        step(stopped, third, rows, rate, sparse=True)
    assert torch.equal(whole, stopped)


def test_hooks_run_once_a_step_and_see_sparse_gradients() -> None:
    ours, seen = table(), []
    lazy = LazyAdamW([ours], lr=0.1)
    lazy.register_step_pre_hook(lambda *_: seen.append(ours.grad is not None and ours.grad.is_sparse))
    step(ours, lazy, [0], 0.1, sparse=True)
    assert seen == [True]


def test_gradients_are_clipped_sparse_ones_too() -> None:
    dense, sparse = torch.nn.Parameter(torch.ones(3)), torch.nn.Embedding(5, 2, sparse=True)
    (3 * dense.sum() + 4 * sparse(torch.tensor([1, 1, 4])).sum()).backward()
    whole = math.sqrt(3 * 9 + 2 * 64 + 2 * 16)  # row 1 counts twice before the norm is taken
    clip([dense, sparse.weight], max_norm=1.0)
    torch.testing.assert_close(dense.grad, torch.full((3,), 3 / whole))
    assert sparse.weight.grad is not None
    torch.testing.assert_close(sparse.weight.grad.to_dense()[1], torch.full((2,), 8 / whole))
    clip([dense, sparse.weight], max_norm=9.0)
    torch.testing.assert_close(dense.grad, torch.full((3,), 3 / whole))
