"""The encoder against the layers of core/reference.py; padding, positions, initialisation, dropout."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from recbole_bert4rec.core import reference
from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.core.transformer import ACTIVATIONS, Dropout, EncoderOptions, attention
from recbole_bert4rec.system.constants import ABLATABLE

OPTIONS = EncoderOptions(
    n_items=20,
    max_length=8,
    hidden_size=12,
    inner_size=24,
    n_layers=2,
    n_heads=3,
    position="start",
    output_projection=True,
)


def naive_around(sublayer: Any, options: EncoderOptions, hidden: torch.Tensor, made_of: Any) -> torch.Tensor:
    """Equation 4 and its variants."""
    norm = (lambda x: x) if "layer_norm" in options.ablate else sublayer.norm
    rest = torch.zeros_like(hidden) if "residual" in options.ablate else hidden
    return rest + made_of(norm(hidden)) if options.norm == "pre" else norm(rest + made_of(hidden))


def by_the_paper(twin: torch.nn.Module, layer: torch.nn.Module, *inputs: torch.Tensor, **more: Any) -> torch.Tensor:
    """Apply a layer of core/reference.py with the weights of one of ours."""
    return functional_call(twin, dict(layer.named_parameters()), inputs, more)


def naive_encoder(encoder: BERT4RecEncoder, item_seq: torch.Tensor) -> torch.Tensor:
    options, present = encoder.options, item_seq != 0
    position = torch.arange(item_seq.shape[1]).expand_as(item_seq)
    if options.position == "end":
        position = (present.sum(1, keepdim=True) - 1 - position).clamp(min=0)
    hidden = encoder.item_embedding(item_seq)
    if options.position != "none":
        hidden = hidden + encoder.position_embedding(position)
    hidden = encoder.embedding_norm(hidden)
    attention = reference.MultiHeadAttention(options.hidden_size, options.n_heads)  # equations 1 and 2
    for layer in encoder.layers:
        attend = partial(by_the_paper, attention, layer.attention, present=present)
        hidden = naive_around(layer.attention, options, hidden, attend)
        if "feed_forward" not in options.ablate:
            own = layer.feed_forward
            network = partial(by_the_paper, reference.FeedForward(options.hidden_size, options.inner_size), own)
            if options.hidden_act != "gelu":  # equation 3 with another activation
                network = lambda x, own=own: own.output(own.activation(own.inner(x)))  # noqa: E731
            hidden = naive_around(own, options, hidden, network)
    return encoder.last_norm(hidden) if options.norm == "pre" else hidden


def naive_heads(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Equation 2 for two heads, a sequence, a head and a query at a time."""
    mask = mask.expand(len(query), 2, query.shape[1], key.shape[1])
    found = []
    for b, a, q in itertools.product(range(len(query)), range(2), range(query.shape[1])):
        part = slice(3 * a, 3 * a + 3)
        logits = key[b, :, part] @ query[b, q, part] / 3**0.5 + mask[b, a, q]
        found.append(torch.softmax(logits, 0) @ value[b, :, part])
    return torch.stack(found).view(len(query), 2, query.shape[1], 3).transpose(1, 2).flatten(2)


@settings(deadline=None)  # the first call of torch takes long
@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 99))
def test_attention_is_equation_2_with_a_mask_that_is_learnt_too(
    batch: int, queries: int, keys: int, learnt: bool, causal: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    inputs = [torch.randn(batch, length, 6).requires_grad_() for length in (queries, keys, keys)]
    bias = torch.randn(2, queries, keys, requires_grad=True) if learnt else torch.zeros(())
    allowed = torch.rand(batch, 1, queries if causal else 1, keys) < 0.6
    allowed[..., 0] = True
    mask, asked = bias.masked_fill(~allowed, -torch.inf), [*inputs, *([bias] if learnt else [])]
    found, wanted = attention(*inputs, 2, mask), naive_heads(*inputs, mask)
    torch.testing.assert_close(found, wanted)
    factor = torch.randn(found.shape)
    ours, twins = (torch.autograd.grad((one * factor).sum(), asked, retain_graph=True) for one in (found, wanted))
    torch.testing.assert_close(ours, twins, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learnt", [False, True])
def test_dropout_of_attention_changes_with_each_draw(learnt: bool) -> None:
    rows, mask = torch.randn(2, 3, 6), torch.zeros(1, 1, 1, 3, requires_grad=learnt)
    first, second = (attention(rows, rows, rows, 2, mask, dropout=0.5) for _ in range(2))
    assert not torch.equal(first, second)


def made(seed: int = 0, **options: Any) -> BERT4RecEncoder:
    """An encoder that does not train, with other options than those above."""
    torch.manual_seed(seed)
    return BERT4RecEncoder(replace(OPTIONS, **options)).eval()


def learnt_of(encoder: BERT4RecEncoder) -> list[torch.nn.Parameter]:
    """The weights below the output."""
    return [weight for name, weight in encoder.named_parameters() if not name.startswith(("head", "output_bias"))]


VARIANTS = [
    *({"position": position, "hidden_act": act} for position in ("start", "end") for act in sorted(ACTIVATIONS)),
    {"position": "none"},
    {"norm": "pre"},
    *({"norm": norm, "ablate": (part,)} for norm in ("post", "pre") for part in ABLATABLE),
    {"ablate": ABLATABLE},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_encoder_equals_the_equations_gradients_too(variant: dict[str, Any]) -> None:
    encoder = made(**variant).double()
    torch.nn.init.normal_(encoder.embedding_norm.weight)  # else norm after norm would change nothing
    item_seq = torch.tensor([[3, 20, 5, 0, 0], [1, 2, 3, 4, 20]])
    fast, naive = encoder(item_seq)[item_seq != 0], naive_encoder(encoder, item_seq)[item_seq != 0]
    torch.testing.assert_close(fast, naive, atol=1e-9, rtol=1e-7)
    ours, twins = (torch.autograd.grad((one**2).sum(), learnt_of(encoder)) for one in (fast, naive))
    torch.testing.assert_close(ours, twins, atol=1e-7, rtol=1e-7)


@settings(deadline=None)  # the first call of torch takes long
@given(st.integers(0, 10_000), st.sampled_from(["post", "pre"]), st.sampled_from(["start", "relative"]), st.booleans())
def test_any_choice_of_query_positions_equals_those_of_the_whole_gradients_too(
    seed: int, norm: str, position: str, causal: bool
) -> None:
    encoder = made(seed, norm=norm, position=position).double()
    batch, length = (int(torch.randint(1, 6, ())), int(torch.randint(1, 9, ())))
    sequences = torch.randint(1, 21, (batch, length))
    sequences[torch.arange(length) > torch.randint(0, length, (batch, 1))] = 0  # padding
    chosen = ((torch.rand(batch, length) < 0.4) & (sequences > 0)).nonzero()
    chosen = chosen[torch.randperm(len(chosen))] if len(chosen) else torch.tensor([[batch - 1, 0]])
    positions, factor = (chosen[:, 0], chosen[:, 1]), torch.arange(1.0, len(chosen) + 1)[:, None]
    two_sided = torch.randint(1, length + 1, (batch,)) if causal else None
    found, wanted = encoder(sequences, positions, two_sided), encoder(sequences, two_sided=two_sided)[positions]
    torch.testing.assert_close(found, wanted, atol=1e-7, rtol=1e-7)
    ours, twins = (torch.autograd.grad((one**2 * factor).sum(), learnt_of(encoder)) for one in (found, wanted))
    torch.testing.assert_close(ours, twins, atol=1e-7, rtol=1e-7)


def test_weights_start_truncated_normal_and_padding_at_zero() -> None:
    encoder = BERT4RecEncoder(EncoderOptions(n_items=5000, max_length=50, initializer_range=0.02))
    weight = encoder.item_embedding.weight.detach()
    assert weight[0].abs().sum() == 0
    assert weight.abs().max() <= 0.04
    assert weight[1:].std().item() == pytest.approx(0.02 * 0.88, rel=0.02)  # std of a normal cut at two sigma
    assert all(p.abs().sum() == 0 for n, p in encoder.named_parameters() if n.endswith("bias"))


def test_an_identity_start_lets_values_through_and_changes_no_other_weight() -> None:
    plain, started = (dict(made(value_init=start).named_parameters()) for start in ("random", "identity"))
    for name, weight in plain.items():
        wanted = torch.zeros_like(weight)
        if name.endswith(("query_key_value.weight", "attention.output.weight")):
            wanted[-12:] = torch.eye(12)
        torch.testing.assert_close(started[name] - weight, wanted, msg=name, atol=1e-6, rtol=0)
    layer, hidden = made(value_init="identity").layers[0].attention, torch.randn(1, 5, 12)
    average = hidden + hidden.mean(1, keepdim=True)  # queries and keys near 0 attend to all alike
    assert F.cosine_similarity(layer(hidden, torch.zeros(1, 1, 1, 5)), layer.norm(average), dim=-1).min() > 0.97


def test_a_bias_from_frequencies_predicts_them_without_a_history() -> None:
    encoder = BERT4RecEncoder(OPTIONS)
    counts = torch.arange(20)  # padding, then items seen 1 to 19 times
    encoder.init_output_bias_(counts)
    predicted = torch.softmax(encoder.output_bias[1:], 0)
    assert torch.allclose(predicted, (counts[1:] + 1) / (counts[1:] + 1).sum())
    assert encoder.output_bias[0] == 0
    assert encoder.output_bias[1:].mean().abs() < 1e-6


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_zeroes_a_share_p_of_elements_independently_keeps_the_mean_and_is_off_in_evaluation(p: float) -> None:
    torch.manual_seed(0)
    ones = torch.ones(12_000, 8, requires_grad=True)
    dropped = Dropout(p)(ones)
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=0.006)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.03)
    assert torch.equal(torch.autograd.grad(dropped.sum(), ones)[0], dropped.detach())
    correlation = torch.corrcoef((dropped != 0).float().T) - torch.eye(8)
    assert correlation.abs().max() < 0.06
    assert Dropout(p).eval()(ones) is ones
    assert Dropout(0.0)(ones) is ones


def test_relative_positions_are_a_number_for_each_head_and_distance() -> None:
    encoder = made(position="relative")
    assert encoder.position_embedding is None
    assert encoder.position_bias is not None
    sequences = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 0, 0, 0, 0, 0]])
    with torch.no_grad():
        torch.testing.assert_close(
            encoder(sequences[:1])[0], encoder(sequences[:1].flip(1))[0].flip(0)
        )  # a set, so far
        torch.nn.init.normal_(encoder.position_bias.bias)
        bias = encoder.position_bias.bias
        for head, query, key in itertools.product(range(3), range(8), range(8)):
            assert encoder.position_bias(8)[head, query, key] == bias[head, key - query + 7]
        padded, alone = encoder(sequences)[1, :3], encoder(sequences[1:, :3])[0]
        torch.testing.assert_close(alone, padded, atol=1e-5, rtol=0)  # padding changes nothing
        causal = encoder(sequences, two_sided=torch.tensor([1, 1]))[0]
        for end in range(1, 9):
            alone = encoder(sequences[:1, :end], two_sided=torch.tensor([1]))[0, -1]
            torch.testing.assert_close(alone, causal[end - 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("cut", [(1, 1), (4, 2), (8, 4)])
def test_two_sided_beginnings_equal_a_naive_mask(cut: tuple[int, int]) -> None:
    encoder, two_sided = made(), torch.tensor(cut)
    sequences = torch.tensor([[3, 4, 5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 0, 0, 0, 0]])
    with torch.no_grad():
        plain = encoder(sequences, two_sided=two_sided)
        for row, length in enumerate((8, 4)):
            for key in range(length):
                changed = sequences.clone()
                changed[row, key] = 15
                moved = (encoder(changed, two_sided=two_sided) - plain)[row, :length].abs().amax(1) > 1e-5
                assert moved.tolist() == [key < max(cut[row], query + 1) for query in range(length)]
        if cut[0] == 8:
            torch.testing.assert_close(plain[:1], encoder(sequences[:1]), atol=1e-6, rtol=0)
