"""The optimizer of BERT4Rec's trainer, and the learning rate of each of its steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from recbole.config import Config
from torch import nn, optim

from recbole_bert4rec.core.fast.adam import Adam, AdamW
from recbole_bert4rec.core.fast.lazy_adamw import LazyAdamW

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
