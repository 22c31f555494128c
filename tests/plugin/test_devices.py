"""What trains and ranks computes on every other device of this machine what it computes on the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.core.item_features import Contents
from recbole_bert4rec.core.losses import binary_cross_entropy, bpr, bpr_max, sampled_scores, sampled_softmax
from recbole_bert4rec.core.softmax import LogitOffset, cross_entropy
from recbole_bert4rec.core.topk import best_items
from recbole_bert4rec.core.transformer import EncoderOptions
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET

N_ITEMS, HIDDEN, MASKED = 30, 8, 6
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
Tensors = list[torch.Tensor]


def drawn(*shape: int, on: str) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(on).requires_grad_()


def items_of(*shape: int, on: str) -> torch.Tensor:
    return torch.randint(1, N_ITEMS, shape, generator=torch.Generator().manual_seed(1)).to(on)


def with_gradients(loss: torch.Tensor, inputs: Tensors) -> Tensors:
    return [loss, *torch.autograd.grad(loss, inputs)]


def inputs_of(on: str) -> tuple[Tensors, torch.Tensor, torch.Tensor]:
    """Hidden states, item embedding and bias; labels; weights."""
    inputs = [drawn(MASKED, HIDDEN, on=on), drawn(N_ITEMS, HIDDEN, on=on), drawn(N_ITEMS, on=on)]
    return inputs, items_of(MASKED, on=on), torch.full((MASKED,), 1 / MASKED, device=on)


def of_all_items(on: str) -> Tensors:
    inputs, labels, weights = inputs_of(on)
    rows = torch.tensor([0, 1, 5], device=on)
    value = torch.tensor(0.5, device=on, requires_grad=True)
    loss = cross_entropy(inputs[0], inputs[1], inputs[2], labels, weights, LogitOffset(value, rows, rows + 3))
    return with_gradients(loss, [*inputs, value])


def of_sampled_items(on: str) -> Tensors:
    inputs, labels, weights = inputs_of(on)

    def outputs(items: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return inputs[1][items], inputs[2][items]

    scores = sampled_scores(inputs[0], outputs, labels, items_of(9, on=on))
    loss = sampled_softmax(scores, torch.zeros(9, device=on), weights) + binary_cross_entropy(scores, weights, 0.4)
    loss = loss + bpr(inputs[0], outputs, labels, items_of(MASKED, on=on), weights)
    loss = loss + bpr_max(scores, weights, 1.0)
    return with_gradients(loss, inputs)


def of_the_best(on: str) -> Tensors:
    inputs, labels, _ = inputs_of(on)
    removed = torch.arange(MASKED, device=on), labels, torch.full((MASKED,), -torch.inf, device=on)
    return list(best_items(inputs[0], inputs[1], inputs[2], 7, [removed]))


def of_the_encoder(on: str, **options: Any) -> Tensors:
    torch.manual_seed(0)
    sizes = {"hidden_size": HIDDEN, "inner_size": 16, "n_heads": 2, "hidden_dropout_prob": 0.0}
    encoder = BERT4RecEncoder(EncoderOptions(n_items=N_ITEMS, max_length=10, **{**sizes, **options})).to(on)
    sequences = items_of(3, 7, on=on)
    sequences[0, 4:] = 0
    positions = torch.tensor([0, 0, 2], device=on), torch.tensor([1, 3, 6], device=on)
    vectors = encoder.output(encoder(sequences, positions))
    weights = [weight for name, weight in encoder.named_parameters() if name != "output_bias"]
    return with_gradients((vectors * drawn(3, HIDDEN, on=on).detach()).sum(), weights)


CONTENTS = Contents(
    drawn(N_ITEMS + 1, 5, on="cpu").detach().half(),
    torch.zeros(5),
    torch.ones(5),
    torch.arange(N_ITEMS + 1.0),
    torch.tensor(5),
)
COMPUTED: list[Callable[[str], Tensors]] = [
    of_all_items,
    of_sampled_items,
    of_the_best,
    of_the_encoder,
    lambda on: of_the_encoder(on, position="relative"),
    lambda on: of_the_encoder(on, norm="pre", hidden_act="swish"),
    lambda on: of_the_encoder(on, contents=CONTENTS),
]


@pytest.mark.parametrize("compute", COMPUTED)
def test_values_and_gradients_are_those_of_the_processor(compute: Callable[[str], Tensors]) -> None:
    for own, wanted in zip(compute("cuda"), compute("cpu"), strict=True):
        assert own.device.type == "cuda"
        torch.testing.assert_close(own.cpu(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "more",
    [{"enable_amp": True}, {"loss_type": "sampled_softmax"}, {"objective": "next"}, {"model": "GRU4RecPlus"}],
    ids=str,
)
def test_a_run_on_a_gpu_learns_what_comes_next(more: dict[str, Any], write_inter: Any) -> None:
    options = {"model": "BERT4Rec", **QUIET, **write_inter(CYCLE), "hidden_size": 16, "use_gpu": True, **more}
    found = run(options={**options, "eval_step": 50, "epochs": 150})  # a step an epoch
    epochs = found.record["epochs"]
    assert epochs[-1]["train_loss"] < 0.7 * epochs[0]["train_loss"]
    assert found.record["peak_gpu_memory_mb"] > 0
