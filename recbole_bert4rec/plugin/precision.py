"""The precision of a training's products; which format is faster depends on the processor, so steps are timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from logging import getLogger
from typing import NamedTuple

import torch
from recbole.config import Config

from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.constants import FOR_THE_USER

_SECONDS = 1.0
"""That steps are timed for. A first step of each format, which makes buffers, comes before; a step is ended."""
_MOST = 20
"""Steps of each that are timed."""


class Precision:
    """The format of a training's products: float32, or bfloat16 with ``enable_amp``.

    It means bfloat16, for RecBole's float16 overflows without a scaler.

    Args:
        config: of the run; ``enable_amp: auto`` gets its value there, so that a run that goes on keeps it.
        device: multiplies.

    Attributes:
        bfloat16: whether products are made in it.
    """

    def __init__(self, config: Config, device: torch.device) -> None:
        self._config, self._device, self.bfloat16 = config, device, False

    def begin(self) -> None:
        """Train with ``enable_amp`` or without; with ``auto`` without, until :meth:`choose`."""
        self.bfloat16 = self._config["enable_amp"] is True
        if not self.bfloat16:
            return
        if self._device.type == "cuda" and torch.cuda.is_bf16_supported():
            torch.set_autocast_dtype("cuda", torch.bfloat16)
        capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()  # newer than torch 2.6
        if self._device.type == "cpu" and not capabilities.get("avx512_bf16", True):
            getLogger().warning("enable_amp: this processor does not multiply in bfloat16; training will be slower")

    def choose(self, timed: Callable[[], StepSeconds]) -> None:
        """Give ``enable_amp: auto`` its value.

        Args:
            timed: times a step in both formats; not called for a GPU.
        """
        if self._device.type == "cuda":
            chosen, why = torch.cuda.is_bf16_supported(), "by what the GPU can do"
        else:
            seconds = timed()
            milliseconds = [f"{1000 * value:.0f} ms" for value in seconds]
            chosen, why = seconds.bfloat16_wins, "a step takes {} in float32, {} in bfloat16".format(*milliseconds)
        self._config["enable_amp"] = chosen
        self.begin()
        getLogger(FOR_THE_USER).info(f"{AUTO}    enable_amp is {chosen}: {why}")


class StepSeconds(NamedTuple):
    """Median seconds of a step.

    Attributes:
        float32: all in it.
        bfloat16: with products in it.
    """

    float32: float
    bfloat16: float

    @property
    def bfloat16_wins(self) -> bool:
        """Whether a step is faster by so much that it cannot be chance."""
        return self.bfloat16 < 0.97 * self.float32


def time_steps(step: Callable[[bool], object], agreed: Callable[[bool], bool] = bool) -> StepSeconds:
    """Time a step in both formats, in turn, so that both see the same machine.

    Args:
        step: does it, in bfloat16 where its argument is true.
        agreed: tells whether any process has time left, where their steps wait for each other.
    """
    took: dict[bool, list[float]] = {False: [], True: []}
    for amp in took:
        step(amp)
    end = time.perf_counter() + _SECONDS
    while not took[True] or (len(took[True]) < _MOST and agreed(time.perf_counter() < end)):
        for amp, mine in took.items():
            begin = time.perf_counter()
            step(amp)
            mine.append(time.perf_counter() - begin)
    return StepSeconds(statistics.median(took[False]), statistics.median(took[True]))
