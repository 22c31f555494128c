"""Numbers near zero that float32 holds with fewer digits, and that processors are slow with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_DENORMAL = 1e-39
"""Below 1.2e-38, the smallest number with all digits."""


def are_zero() -> bool:
    """Tell whether this thread takes denormal numbers as zero."""
    return not torch.tensor(_DENORMAL).mul(1)


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Take denormal numbers as zero inside the block, if the processor can.

    Adam's moments of a row that has no gradient for some hundred steps decay into them and stay there. A step
    over such moments alone took an Intel processor twenty times as long as over others.

    Threads that torch starts inside the block do the same, as long as they live; its threads from before do not. So
    the block is around a whole run.
    """
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        np.finfo(kind)  # numpy measures the limits when first asked, and then remembers them
    before = are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
