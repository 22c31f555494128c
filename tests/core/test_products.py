"""Which library multiplies: the faster one, if it is as exact, inside the block alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from recbole_bert4rec.core import topk
from recbole_bert4rec.core.fast import cross_entropy, products
from recbole_bert4rec.core.fast.products import (
    Products,
    by_mkl,
    by_onednn,
    faster_products,
    measured,
    onednn_multiplies,
)
from recbole_bert4rec.plugin import trainer
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.processors import needs_a_switch
from tests.helpers.runs import QUIET


@pytest.mark.parametrize(
    ("found", "wins"),
    [
        (Products(mkl=2.0, onednn=1.0, exact=True), True),
        (Products(mkl=2.0, onednn=1.0, exact=False), False),
        (Products(mkl=1.2, onednn=1.0, exact=True), False),
        (Products(mkl=1.0, onednn=2.0, exact=True), False),
    ],
)
@needs_a_switch
def test_onednn_multiplies_where_it_is_faster_and_in_float32(found: Products, wins: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(products, "measured", lambda: found)
    with faster_products(large=False):
        assert not onednn_multiplies()
    with faster_products(large=True):
        assert onednn_multiplies() == wins
        with by_mkl():
            assert not onednn_multiplies()
        assert onednn_multiplies() == wins
    assert not onednn_multiplies()


@needs_a_switch
def test_products_that_are_rounded_to_bfloat16_are_not_exact(monkeypatch: Any) -> None:
    real = torch.Tensor.__matmul__

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if onednn_multiplies() and left.dtype == torch.float32:
            return real(left.bfloat16().float(), right.bfloat16().float())
        return real(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    found = measured.__wrapped__()
    assert not found.exact
    assert min(found.mkl, found.onednn) > 0


def test_without_a_switch_nothing_changes(monkeypatch: Any) -> None:
    monkeypatch.setattr(products, "_SWITCH", None)
    assert not measured.__wrapped__().onednn_wins
    with by_onednn(), faster_products(large=True):
        assert not onednn_multiplies()


@needs_a_switch
@pytest.mark.parametrize("positions", [1, 1 << 20])
def test_large_batches_train_with_the_faster_library_and_learn_the_same(
    positions: int, write_inter: Any, seen_in_training: Any, monkeypatch: Any
) -> None:
    seen = seen_in_training(onednn_multiplies)
    monkeypatch.setattr(trainer, "_MANY", positions)
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 3, "enable_amp": False}
    results = []
    for wins in (True, False):
        found = Products(2.0 if wins else 1.0, 1.0, exact=True)
        monkeypatch.setattr(products, "measured", lambda found=found: found)
        seen.clear()
        results.append(run(options=options))
        assert seen == {wins and positions == 1}
    losses = [[epoch["train_loss"] for epoch in one.record["epochs"]] for one in results]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@needs_a_switch
@pytest.mark.parametrize("wins", [True, False])
def test_large_softmaxes_and_rankings_use_the_faster_library(wins: bool, monkeypatch: Any) -> None:
    seen: list[bool] = []
    real = products.replaced
    monkeypatch.setattr(
        products, "replaced", lambda *given: (seen.append(given[2] == products._ONEDNN), real(*given))[1]
    )
    monkeypatch.setattr(products, "measured", lambda: Products(2.0 if wins else 1.0, 1.0, exact=True))
    hidden, table, bias = torch.randn(70, 8), torch.randn(300, 8), torch.randn(300)
    for module in (cross_entropy, topk):
        monkeypatch.setattr(module, "_LARGE", 70 * 300)
    cross_entropy.cross_entropy(hidden, table, bias, torch.ones(70, dtype=torch.int64), torch.ones(70))
    assert (True in seen) == wins
    seen.clear()
    topk.best_items(hidden, table, bias, 5)
    assert (True in seen) == wins
