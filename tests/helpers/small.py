"""A small log, a small model, a trainer for both."""

from __future__ import annotations

from typing import Any

import torch

from recbole_bert4rec.plugin.callbacks import Callback
from tests.helpers.runs import make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(3 + u % 12)]

SMALL = {"hidden_size": 16, "inner_size": 32, "batch_sequences": 4, "MAX_ITEM_LIST_LENGTH": 8, "warmup_steps": 5}


def start(*callbacks: Callback, **options: Any) -> tuple[Any, Any, Any, Any]:
    """A trainer before its first step, and the loaders of training, validation and test."""
    config = make_config(**options)
    _, train, valid, test = prepare(config)
    return make_trainer(config, train, *callbacks), train, valid, test


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    """A copy of the weights, by name."""
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def equal(a: Any, b: Any) -> bool:
    """Whether two plain values are the same, every tensor in them to the last bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)
