"""AdamW for huge embedding tables: a step updates only the rows that a batch touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from recbole_bert4rec.core.fast.adam import AdamW, Eager


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
