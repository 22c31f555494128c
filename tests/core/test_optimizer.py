"""The trainer's optimizers are torch's, lazy AdamW its definition; the learning rate, clipping, denormal numbers."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from recbole_bert4rec.plugin import optimizer as ours
from recbole_bert4rec.plugin.optimizer import LazyAdamW, LearningRate, clip, denormals_as_zero
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET
from tests.helpers.small import start


def trained(kind: type[optim.Optimizer], fused: bool) -> tuple[list[Tensor], dict[str, object]]:
    """Weights and state of an optimizer after steps, with another group and its own state loaded in between."""
    torch.manual_seed(1)
    model = nn.Linear(5, 3)
    optimizer = kind([model.weight], lr=0.1, weight_decay=0.1, fused=fused)  # type: ignore[call-arg]
    optimizer.add_param_group({"params": [model.bias], "weight_decay": 0.0})
    for step in range(6):
        optimizer.zero_grad()
        model(torch.full((2, 5), step / 3)).square().sum().backward()
        optimizer.step()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert not any(weight.grad_fn for weight in model.parameters())
    return [weight.detach() for weight in model.parameters()], optimizer.state_dict()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("own", "torchs"), [(ours.Adam, optim.Adam), (ours.AdamW, optim.AdamW)])
def test_steps_and_states_are_torchs(own: type[optim.Optimizer], torchs: type[optim.Optimizer], fused: bool) -> None:
    (found, state), (wanted, theirs) = trained(own, fused), trained(torchs, fused)
    torch.testing.assert_close(found, wanted, atol=0, rtol=0)
    assert str(state) == str(theirs)
    assert issubclass(own, torchs)


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
        step(ours, lazy, [1] if now else [0], rate, sparse=True)
        gradient = 2 * now * row * torch.linspace(-1, 2, 3).double().square()
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
    first, second = (LazyAdamW([one], lr=0.1, weight_decay=DECAY) for one in (whole, stopped))
    for number, (rows, rate) in enumerate([([0, 1], 0.1), ([1], 0.2), ([0], 0.1), ([1, 2], 0.3)]):
        if number == 2:
            state = copy.deepcopy(second.state_dict())
            second = LazyAdamW([stopped], lr=0.1, weight_decay=DECAY)
            second.load_state_dict(state)
        step(whole, first, rows, rate, sparse=True)
        step(stopped, second, rows, rate, sparse=True)
    assert torch.equal(whole, stopped)


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


@pytest.mark.parametrize(
    ("schedule", "warmup", "total", "wanted"),
    [
        ("constant", 5, 55, {0: 0.2, 1: 0.4, 4: 1.0, 5: 1.0, 15: 1.0, 55: 1.0}),
        ("linear", 5, 55, {0: 0.2, 1: 0.4, 4: 1.0, 5: 1.0, 15: 0.8, 25: 0.6, 55: 0.0}),
        ("cosine", 5, 55, {0: 0.2, 1: 0.4, 4: 1.0, 5: 1.0, 15: 0.904508, 25: 0.654508, 55: 0.0}),
        ("linear", 200, 40, {0: 0.25, 1: 0.5, 2: 0.75, 3: 1.0, 4: 1.0, 22: 0.5, 40: 0.0}),  # a tenth of a short run
    ],
)
def test_the_learning_rate_warms_up_then_follows_its_schedule(
    schedule: str, warmup: int, total: int, wanted: dict[int, float]
) -> None:
    rate = LearningRate({"learning_rate": 1.0, "lr_schedule": schedule, "warmup_steps": warmup})
    rate.total_steps = total
    assert {step: rate.at(step) for step in wanted} == pytest.approx(wanted, abs=1e-6)


def test_the_optimizer_takes_the_scheduled_rate_and_ends_near_zero(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=4)
    trainer.fit(train, valid, verbose=False, saved=False)
    steps = 4 * len(train)
    assert trainer.step_count == steps
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {trainer.rate.at(steps - 1)}
    assert 0 < trainer.rate.at(steps - 1) < 0.02 * trainer.learning_rate


needs_denormals = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="the processor cannot")


def are_zero() -> bool:
    return not torch.tensor(1e-39).mul(1)


@needs_denormals
def test_denormals_are_zero_inside_the_block_alone_which_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), denormals_as_zero():
        with denormals_as_zero():
            assert are_zero()
        assert are_zero()
        raise KeyError
    assert not are_zero()


@needs_denormals
def test_a_run_takes_them_as_zero_in_training(write_inter: Any, seen_in_training: Any) -> None:
    seen = seen_in_training(are_zero)
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 1}
    run(dataset=options.pop("dataset"), options=options)
    assert seen == {True}
    assert not are_zero()


@needs_denormals
def test_a_new_process_trains_without_torchs_compiler_and_its_threads_take_them_as_zero(
    write_inter: Any,
) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 1}
    program = f"""
import sys
import numpy as np
import torch
from recbole_bert4rec import run
from recbole_bert4rec.plugin.optimizer import denormals_as_zero
torch.set_num_threads(2)
with denormals_as_zero():
    products = torch.tensor([1e-30]).expand(4_000_000).clone() * 1e-10  # by both threads, which begin here
print(int(products.count_nonzero()), float(np.finfo(np.float64).smallest_subnormal))
run(options={options!r}, screen="quiet")
print([name for name in ("torch._dynamo", "ray", "matplotlib", "plotly", "hyperopt") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["0 5e-324", "[]"], done.stderr
