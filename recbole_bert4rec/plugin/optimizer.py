"""The optimizer of BERT4Rec's trainer, and the learning rate of each of its steps."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from recbole.config import Config
from torch import Tensor, nn, optim
from torch.optim.optimizer import ParamsT


class Eager(optim.Optimizer):
    """Methods as they are below torch's wrappers, which import its compiler: two seconds, and nothing to do here."""

    add_param_group = inspect.unwrap(optim.Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(optim.Optimizer.load_state_dict)
    state_dict = inspect.unwrap(optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(optim.Optimizer.zero_grad)


class Adam(Eager, optim.Adam):
    """torch's Adam."""

    step = torch.no_grad()(inspect.unwrap(optim.Adam.step))


class AdamW(Eager, optim.AdamW):
    """torch's AdamW."""

    step = torch.no_grad()(inspect.unwrap(optim.AdamW.step))


class LazyAdamW(Eager):
    """Update parameters with a sparse gradient row by row, all others with torch's fused AdamW.

    Steps that do not touch a row are made up for at the row's next update: its moments decay by the number of skipped
    steps, and its weights by the weight decay of those steps, at their learning rates. Two things differ from AdamW.
    Skipped steps apply no momentum. Weight decay is applied at the row's next update, so earlier reads see the
    undecayed row. If every step touches a row, both optimizers are equal.
    """

    def __init__(self, params: ParamsT, **arguments: Any) -> None:
        self._dense = AdamW(params, fused=True, **arguments)
        super().__init__(self._dense.param_groups, self._dense.defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # no loss is returned
        """Update all parameters that have a gradient; a closure is ignored."""
        sparse = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((group, parameter, parameter.grad.coalesce()))
                    parameter.grad = None
        self._dense.param_groups, self._dense.state = self.param_groups, self.state  # loading a state replaces them
        self._dense.step()
        for group, parameter, gradient in sparse:
            self._update_rows(group, parameter, gradient.indices()[0], gradient.values())
            parameter.grad = gradient

    def _update_rows(self, group: dict[str, Any], parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """Apply AdamW to some rows.

        *Shape:* rows (R,), gradient (R, H)
        """
        state, rate, (beta1, beta2) = self.state[parameter], float(group["lr"]), group["betas"]
        if not state:
            untouched = parameter.new_zeros(len(parameter), 1)
            state.update(step=torch.zeros(()), decayed=torch.zeros(()))
            state.update(exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
            state.update(row_step=untouched, row_decayed=untouched.clone())
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


def clip(parameters: Iterable[Tensor], max_norm: float | None = None, norm_type: float = 2.0) -> Tensor:
    """Clip the norm of all gradients together, as torch's ``clip_grad_norm_`` does; sparse ones are allowed.

    ``max_norm`` None leaves them as they are. The norm before that is returned.
    """
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


_FUSED = {"adam": Adam, "adamw": AdamW}


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return a model's parameters; weight decay spares LayerNorm and biases, as in the authors' code."""
    groups: list[dict[str, Any]] = [{"params": []}, {"params": [], "weight_decay": 0.0}]
    for name, parameter in model.named_parameters():
        groups[name.endswith("bias") or "norm" in name]["params"].append(parameter)
    return groups


def fused_optimizer(config: Config, groups: list[dict[str, Any]]) -> optim.Optimizer | None:
    """Make Adam or AdamW; None if RecBole's ``learner`` is another one."""
    learner = _FUSED.get(config["learner"].lower())
    if learner is None:
        return None
    arguments = {"lr": config["learning_rate"], "weight_decay": config["weight_decay"]}
    return LazyAdamW(groups, **arguments) if config["sparse_update"] else learner(groups, fused=True, **arguments)


class LearningRate:
    """Linear warm-up, then constant, or linear or cosine decay to 0.

    Attributes:
        total_steps: of all epochs; None before training data are known.
        time_share: says how much of a budget of time is spent, which the decay follows instead of the steps.
    """

    def __init__(self, config: Config) -> None:
        self._highest, self._schedule = config["learning_rate"], config["lr_schedule"]
        self._warmup: int = config["warmup_steps"]
        self.total_steps: int | None = None
        self.time_share: Callable[[], float] | None = None

    def at(self, step: int) -> float:
        """Return the learning rate of a step, from 0."""
        total = self.total_steps
        warmup = self._warmup if total is None else min(self._warmup, total // 10)  # a short run is not all warm-up
        if step < warmup:
            return self._highest * (step + 1) / warmup
        if self._schedule == "constant" or total is None:
            return self._highest
        share = min(1.0, (step - warmup) / max(1, total - warmup)) if self.time_share is None else self.time_share()
        return self._highest * (1.0 - share if self._schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * share)))
