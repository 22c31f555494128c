"""Exponential moving average of the weights, with which users are ranked in place of the last weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """Keep the exponential moving average of some weights.

    After step t the average moves towards the weights by 1 - min(decay, (1 + t) / (10 + t)). The second term makes the
    first steps, whose weights are soon out of date, fade quickly (TensorFlow's ``ExponentialMovingAverage`` has it).

    Args:
        parameters: the weights; training continues to change them.
        decay: in (0, 1).
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.decay = decay
        self.steps = 0
        self.means: list[Tensor] = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the current weights; called after each optimizer step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for mean, parameter in zip(self.means, self.parameters, strict=True):
            mean.lerp_(parameter, 1.0 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set the weights to the average inside a ``with`` block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for n, parameter in enumerate(self.parameters):
            parameter.data, self.means[n] = self.means[n], parameter.data
