"""Adam and AdamW are torch's to the last bit, and import nothing of torch's compiler."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn, optim

from recbole_bert4rec.plugin import optimizer as adam

PAIRS = [(adam.Adam, optim.Adam), (adam.AdamW, optim.AdamW)]


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
@pytest.mark.parametrize(("ours", "torchs"), PAIRS)
def test_steps_and_states_are_torchs(ours: type[optim.Optimizer], torchs: type[optim.Optimizer], fused: bool) -> None:
    (found, state), (wanted, theirs) = trained(ours, fused), trained(torchs, fused)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    assert str(state) == str(theirs)
    assert issubclass(ours, torchs)


def test_a_training_imports_neither_torchs_compiler_nor_what_is_optional() -> None:
    program = """
import sys
from recbole_bert4rec import run
run(dataset="ml-100k", options={"epochs": 1, "batch_sequences": 512, "hidden_size": 16, "n_layers": 1}, screen="quiet")
print([name for name in ("torch._dynamo", "ray", "matplotlib", "plotly", "hyperopt")
       if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]"], done.stderr
