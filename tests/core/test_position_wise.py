"""Layers of each position, in blocks, are torch's own: values and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.encoder import ACTIVATIONS
from recbole_bert4rec.core.fast import layers
from recbole_bert4rec.core.fast.layers import Linear, feed_forward, linear
from recbole_bert4rec.core.fast.products import by_onednn
from tests.helpers.processors import needs_a_switch

pytestmark = needs_a_switch
Tensors = list[torch.Tensor]


def draw(*shapes: tuple[int, ...], seed: int = 0) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def with_gradients(make: Callable[..., torch.Tensor], inputs: Tensors) -> Tensors:
    found = make(*inputs)
    factor = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    exact_enough = torch.promote_types(found.dtype, torch.float32)
    return [found, *torch.autograd.grad((found.to(exact_enough) * factor).sum(), inputs)]


def assert_same(make: Callable[..., torch.Tensor], naive: Callable[..., torch.Tensor], inputs: Tensors) -> None:
    with by_onednn():
        found = with_gradients(make, inputs)
    exact = with_gradients(naive, [tensor.detach().double().requires_grad_() for tensor in inputs])
    for own, plain, truth in zip(found, with_gradients(naive, inputs), exact, strict=True):
        assert own.dtype == plain.dtype
        # sums of thousands of rows differ by their order: then, as near the truth as the twin is
        as_near = (own - truth).abs().max() <= 2 * (plain - truth).abs().max() if own.numel() else True
        assert torch.allclose(own, plain, rtol=1e-4, atol=1e-4) or as_near


def layer_of(weight: torch.Tensor, bias: torch.Tensor) -> Linear:
    """Return a layer whose weights are these tensors themselves, so that their gradients can be asked for."""
    layer = Linear(1, 1)
    del layer.weight, layer.bias
    layer.weight, layer.bias = weight, bias  # type: ignore[assignment]
    return layer


@given(rows=st.integers(0, 200), block=st.integers(1, 90), last=st.integers(1, 70))
def test_a_linear_layer_is_torchs_for_any_number_of_positions(rows: int, block: int, last: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "_BLOCK", block)
        patch.setattr(layers, "_LAST", last)
        assert_same(linear, F.linear, draw((rows, 5), (3, 5), (3,)))


@pytest.mark.parametrize("outputs", [None, slice(2), slice(2, None)])
def test_some_outputs_of_a_layer_are_those_of_the_whole(outputs: slice | None) -> None:
    def naive(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w, b)[..., outputs or slice(None)]

    inputs = draw((2, 4, 5), (3, 5), (3,))
    assert_same(lambda x, w, b: layer_of(w, b)(x, outputs), naive, inputs)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(4, 7), (1,), (3000,), (2, 0)])
def test_a_feed_forward_network_is_equation_3(activation: str, shape: tuple[int, ...]) -> None:
    act = ACTIVATIONS[activation]

    def naive(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
        return act(x @ w1.T + b1) @ w2.T + b2

    inputs = draw((*shape, 6), (8, 6), (8,), (6, 8), (6,))

    def fast(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor, b2: torch.Tensor) -> torch.Tensor:
        return feed_forward(x, layer_of(w1, b1), act, layer_of(w2, b2))

    assert_same(fast, naive, inputs)


def test_autocast_is_torchs() -> None:
    inputs = draw((150, 16), (32, 16), (32,))
    with torch.autocast("cpu", torch.bfloat16):
        wanted = with_gradients(F.linear, inputs)
        with by_onednn():
            found = with_gradients(linear, inputs)
    assert found[0].dtype == torch.bfloat16
    assert all(torch.equal(one, plain) for one, plain in zip(found, wanted, strict=True))
