"""The optimizer of BERT4Rec's trainer, and the learning rate of each of its steps."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from recbole.config import Config
from torch import Tensor, nn, optim


def _eager(kind: type[optim.Optimizer]) -> Any:
    """Take torch's wrappers off an optimizer: they only import its compiler, which takes two seconds."""
    names = ("add_param_group", "load_state_dict", "state_dict", "zero_grad")
    bare = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**bare, "step": torch.no_grad()(inspect.unwrap(kind.step))})


Adam: Any = _eager(optim.Adam)
AdamW: Any = _eager(optim.AdamW)
_adamw_step = AdamW.step  # torch puts its hooks around the class's own as soon as there is an optimizer


class LazyAdamW(AdamW):
    """Update parameters with a sparse gradient row by row, all others with torch's fused AdamW.

    A row that steps have skipped catches up at its next update: its moments decay by the number of skipped steps, and
    its weights by the weight decay of those steps at their learning rates. Two things differ from AdamW: skipped steps
    apply no momentum, and until its next update a row is read undecayed. If every step touches a row, both are equal.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        """Update all parameters that have a gradient; a closure is ignored."""
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((group, parameter, parameter.grad.coalesce()))
                    parameter.grad = None
        _adamw_step(self)
        for group, parameter, gradient in sparse:
            self._update_rows(group, parameter, gradient.indices()[0], gradient.values())
            parameter.grad = gradient

    def _update_rows(self, group: dict[str, Any], parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """Apply AdamW to some rows. *Shape:* rows (R,), gradient (R, H)."""
        state, rate, (beta1, beta2) = self.state[parameter], float(group["lr"]), group["betas"]
        if not state:
            state |= {name: torch.zeros(()) for name in ("step", "decayed")}
            state |= {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            state |= {name: parameter.new_zeros(len(parameter), 1) for name in ("row_step", "row_decayed")}
        step = state["step"].add_(1).item()
        decayed = state["decayed"].add_(torch.log1p(torch.tensor(-rate * group["weight_decay"]))).item()
        missed = step - state["row_step"][rows]  # (R, 1); this step is one of them
        mean = state["exp_avg"][rows] * beta1**missed + (1 - beta1) * gradient
        square = state["exp_avg_sq"][rows] * beta2**missed + (1 - beta2) * gradient.square()
        update = mean / (1 - beta1**step) / ((square / (1 - beta2**step)).sqrt() + group["eps"])
        parameter[rows] = parameter[rows] * (decayed - state["row_decayed"][rows]).exp() - rate * update
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        state["row_step"][rows], state["row_decayed"][rows] = step, decayed

    @torch.no_grad()
    def catch_up(self) -> None:
        """Apply the outstanding weight decay of all rows; call it before the parameters are used as a whole."""
        for parameter, state in self.state.items():
            if "row_decayed" in state:
                parameter.mul_((state["decayed"] - state["row_decayed"]).exp())
                state["row_decayed"].fill_(state["decayed"])


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Take denormal numbers as zero inside the block, if the processor can.

    Adam's moments of a row that has no gradient for some hundred steps decay into them and stay there. A step over such
    moments alone took an Intel processor twenty times as long as over others. Threads that torch starts inside the
    block do the same, its threads from before do not; so the block is around a whole run.
    """
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        np.finfo(kind)  # numpy measures the limits when first asked, and then remembers them
    before = not torch.tensor(1e-39).mul(1)  # below 1.2e-38, the smallest number with all digits
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def clip(parameters: Iterable[Tensor], max_norm: float | None = None, norm_type: float = 2.0) -> Tensor:
    """Clip all gradients, also sparse ones, as torch's ``clip_grad_norm_`` does; return the norm before that."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
    norm = torch.nn.utils.get_total_norm(gradients, norm_type)
    if max_norm is not None:
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return a model's parameters; weight decay spares LayerNorm and biases, as in the authors' code."""
    groups: list[dict[str, Any]] = [{"params": []}, {"params": [], "weight_decay": 0.0}]
    for name, parameter in model.named_parameters():
        groups[name.endswith("bias") or "norm" in name]["params"].append(parameter)
    return groups


class LearningRate:
    """Linear warm-up, then constant, or linear or cosine decay to 0."""

    total_steps: int  # of all epochs
    time_share: Callable[[], float] | None = (
        None  # share spent of a budget of time; the decay follows it, not the steps
    )

    def __init__(self, config: Config) -> None:
        self._highest, self._schedule = config["learning_rate"], config["lr_schedule"]
        self._warmup: int = config["warmup_steps"]

    def at(self, step: int) -> float:
        """Return the learning rate of a step, from 0."""
        warmup = min(self._warmup, self.total_steps // 10)  # a short run is not all warm-up
        if step < warmup:
            return self._highest * (step + 1) / warmup
        if self._schedule == "constant":
            return self._highest
        rest = max(1, self.total_steps - warmup)
        share = min(1.0, (step - warmup) / rest) if self.time_share is None else self.time_share()
        return self._highest * (1.0 - share if self._schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * share)))
