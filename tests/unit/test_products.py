"""Which library multiplies: the faster one, if it is as exact, inside the block alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from recbole_bert4rec.nn import products
from recbole_bert4rec.nn.products import Products, by_mkl, by_onednn, faster_products, measured, onednn_multiplies
from recbole_bert4rec.training.run import run
from tests.conftest import QUIET
from tests.unit.test_resume import CYCLE

needs_a_switch = pytest.mark.skipif(products._SWITCH is None, reason="torch has no switch between the libraries")


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
    with faster_products():
        assert onednn_multiplies() == wins
        with by_mkl():
            assert not onednn_multiplies()
        assert onednn_multiplies() == wins
    assert not onednn_multiplies()


@needs_a_switch
def test_an_error_puts_the_library_back() -> None:
    with pytest.raises(ZeroDivisionError), by_onednn():
        raise ZeroDivisionError
    assert not onednn_multiplies()


@needs_a_switch
def test_what_is_measured_is_a_time_of_both() -> None:
    found = measured.__wrapped__()
    assert found.mkl > 0
    assert found.onednn > 0


@needs_a_switch
def test_products_that_are_rounded_to_bfloat16_are_not_exact(monkeypatch: Any) -> None:
    real = torch.Tensor.__matmul__

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if onednn_multiplies() and left.dtype == torch.float32:
            return real(left.bfloat16().float(), right.bfloat16().float())
        return real(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not measured.__wrapped__().exact


def test_without_a_switch_nothing_changes(monkeypatch: Any) -> None:
    monkeypatch.setattr(products, "_SWITCH", None)
    assert not measured.__wrapped__().onednn_wins
    with by_onednn(), faster_products():
        assert not onednn_multiplies()


@needs_a_switch
def test_a_run_trains_and_evaluates_with_the_faster_library_and_learns_the_same(
    write_inter: Any, monkeypatch: Any
) -> None:
    from recbole_bert4rec.nn.encoder import BERT4RecEncoder

    seen: set[tuple[bool, bool]] = set()
    forward = BERT4RecEncoder.forward

    def watched(self: BERT4RecEncoder, *args: Any, **named: Any) -> Any:
        seen.add((self.training, onednn_multiplies()))
        return forward(self, *args, **named)

    monkeypatch.setattr(BERT4RecEncoder, "forward", watched)
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 3, "enable_amp": False}
    results = []
    for wins in (True, False):
        found = Products(2.0 if wins else 1.0, 1.0, exact=True)
        monkeypatch.setattr(products, "measured", lambda found=found: found)
        seen.clear()
        results.append(run(options=options))
        seen.discard((False, False))  # RecBole counts a forward pass's multiplications before
        assert seen == ({(True, True), (False, True)} if wins else {(True, False)})
    losses = [[epoch["train_loss"] for epoch in one.record["epochs"]] for one in results]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
