"""Times a training step in float32 and in bfloat16; which is faster depends on the processor, not on its name."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

_SECONDS = 1.0
"""That steps are timed for. A first step of each format, which makes buffers, comes before; a step is ended."""
_MOST = 20
"""Steps of each that are timed."""


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
