"""Attention in blocks of sequences is equation 2: values, and gradients of its inputs and of the bias."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.core.fast import attention as module
from recbole_bert4rec.core.fast.attention import Mask, attention
from recbole_bert4rec.core.fast.products import by_onednn, onednn_multiplies
from tests.helpers.processors import needs_a_switch


def naive(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, n_heads: int, mask: Mask) -> torch.Tensor:
    """Equation 2, a sequence, a head and a query at a time."""
    found = torch.zeros_like(query)
    size = query.shape[2] // n_heads
    allowed = mask.allowed.expand(len(query), 1, query.shape[1], key.shape[1])
    rows = []
    for b in range(len(query)):
        heads = []
        for a in range(n_heads):
            part = slice(a * size, (a + 1) * size)
            of_queries = []
            for q in range(query.shape[1]):
                logits = key[b, :, part] @ query[b, q, part] / size**0.5
                if mask.bias is not None:
                    logits = logits + mask.bias.expand(len(query), -1, -1, -1)[b, a, q]
                weights = torch.softmax(logits.masked_fill(~allowed[b, 0, q], -torch.inf), 0)
                of_queries.append(weights @ value[b, :, part])
            heads.append(torch.stack(of_queries))
        rows.append(torch.cat(heads, 1))
    return torch.stack(rows) if rows else found


def inputs_of(batch: int, queries: int, keys: int, biased: int, causal: bool, seed: int) -> tuple[Any, ...]:
    """Query, key, value (two heads of 3), who may be attended to, and a bias of ``biased`` sequences, or None."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, requires_grad=True)

    allowed = torch.rand(batch, 1, queries if causal else 1, keys, generator=generator) < 0.6
    allowed[..., 0] = True
    bias = draw(batch if biased == 2 else 1, 2, queries, keys) if biased else None
    return draw(batch, queries, 6), draw(batch, keys, 6), draw(batch, keys, 6), allowed, bias


def with_gradients(make: Any, query: Any, key: Any, value: Any, allowed: Any, bias: Any) -> list[torch.Tensor]:
    found = make(query, key, value, 2, Mask(allowed, bias))
    factor = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    asked = [query, key, value, *([] if bias is None else [bias])]
    return [found, *torch.autograd.grad((found * factor).sum(), asked)]


@given(
    onednn=st.booleans(),
    batch=st.integers(1, 5),
    queries=st.integers(1, 5),
    keys=st.integers(1, 6),
    biased=st.integers(0, 2),
    causal=st.booleans(),
    block=st.integers(1, 200),
    seed=st.integers(0, 3),
)
def test_attention_is_equation_2_whichever_library_multiplies_and_however_large_a_block_is(
    onednn: bool, batch: int, queries: int, keys: int, biased: int, causal: bool, block: int, seed: int
) -> None:
    inputs = inputs_of(batch, queries, keys, biased, causal, seed)
    with pytest.MonkeyPatch.context() as patch, by_onednn() if onednn else nullcontext():
        patch.setattr(module, "_BLOCK", block)
        found = with_gradients(attention, *inputs)
    for own, plain in zip(found, with_gradients(naive, *inputs), strict=True):
        assert torch.allclose(own, plain, rtol=1e-4, atol=1e-5)


@needs_a_switch
def test_blocks_are_multiplied_by_mkl_and_in_float32(monkeypatch: Any) -> None:
    seen = []
    real = module._weights
    monkeypatch.setattr(module, "_weights", lambda *given: (seen.append(onednn_multiplies()), real(*given))[1])
    query, key, value, allowed, _ = inputs_of(3, 4, 4, 0, False, 0)
    low = [one.detach().bfloat16().requires_grad_() for one in (query, key, value)]
    with by_onednn(), torch.autocast("cpu", torch.bfloat16):
        found = attention(*low, 2, Mask(allowed))
        found.sum().backward()
        assert onednn_multiplies()
    assert seen == [False, False]
    assert found.dtype == low[0].grad.dtype == torch.bfloat16
    exact = naive(*[one.detach().float() for one in low], 2, Mask(allowed))
    assert (found.float() - exact).abs().max() < 2**-7  # the result alone is rounded


@needs_a_switch
def test_dropout_of_the_weights_is_torchs() -> None:
    query, key, value, allowed, _ = inputs_of(2, 3, 3, 0, False, 0)
    with by_onednn():
        torch.manual_seed(0)
        first = attention(query, key, value, 2, Mask(allowed), dropout=0.5)
        torch.manual_seed(1)
        assert not torch.equal(first, attention(query, key, value, 2, Mask(allowed), dropout=0.5))


@pytest.mark.parametrize("biased", [0, 1, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_of_some_queries_is_theirs_and_lets_the_rest_attend_everywhere(biased: int, causal: bool) -> None:
    *_, allowed, bias = inputs_of(3, 5, 5, biased, causal, 0)
    rows, columns, index = torch.tensor([0, 0, 2]), torch.tensor([4, 1, 3]), torch.tensor([0, 1, 0])
    found = Mask(allowed, bias).at(rows, columns, index, 2)
    merged = found.merged().expand(3, 2, 2, 5)
    whole = Mask(allowed, bias).merged().expand(3, 2, 5, 5)
    assert torch.equal(merged[rows, :, index], whole[rows, :, columns])
    if causal:
        assert found.allowed[1].all()
