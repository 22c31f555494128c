"""Float32 matrix products on a processor, by the faster of the two libraries that torch has for them."""

from __future__ import annotations

import timeit
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from recbole_bert4rec.system.scoped import replaced

_SWITCH = getattr(torch.backends.mkldnn, "matmul", None)
"""Its ``fp32_precision`` decides who multiplies; torch before 2.9 has no such switch."""
_ONEDNN = "bf16"  # lets oneDNN round, which it does on processors with tiles (AMX) alone
_MKL = "ieee"
_TIMES = 20
_LEAST_GAIN = 1.3  # less may be chance, and a run that goes on would not choose as before
_FLOAT32 = 16.0  # times MKL's error, at most: float32 summed in another order is below, bfloat16 is thousands


class Products(NamedTuple):
    """Compares both libraries by the same products.

    Attributes:
        mkl: seconds of MKL.
        onednn: seconds of oneDNN.
        exact: whether oneDNN multiplied in float32, too.
    """

    mkl: float
    onednn: float
    exact: bool

    @property
    def onednn_wins(self) -> bool:
        """Whether oneDNN multiplied in float32, and faster by so much that it cannot be chance."""
        return self.exact and self.mkl >= _LEAST_GAIN * self.onednn


def _multiplied_by(library: str) -> AbstractContextManager[None]:
    return nullcontext() if _SWITCH is None else replaced(_SWITCH, "fp32_precision", library)


@contextmanager
def by_onednn() -> Iterator[None]:
    """Let oneDNN multiply in the block, if torch has the switch."""
    with _multiplied_by(_ONEDNN):
        yield


@contextmanager
def by_mkl() -> Iterator[None]:
    """Let MKL multiply in the block; oneDNN makes a kernel for each new shape, which takes it a millisecond."""
    with _multiplied_by(_MKL):
        yield


def onednn_multiplies() -> bool:
    """Return whether oneDNN multiplies now."""
    return _SWITCH is not None and _SWITCH.fp32_precision == _ONEDNN


@contextmanager
def faster_products(large: bool) -> Iterator[None]:
    """Let oneDNN multiply in the block if it is faster than MKL, in float32, too.

    On an AMD EPYC with AVX-512 it takes less than half of MKL's time. The first block of a process tries both, for
    a tenth of a second. Without ``large`` nothing changes: small products are not worth a kernel for each shape.
    """
    with by_onednn() if large and measured().onednn_wins else nullcontext():
        yield


@cache
def measured() -> Products:
    """Multiply matrices such as a Transformer layer has."""
    if _SWITCH is None:
        return Products(0.0, 0.0, exact=False)
    generator = torch.Generator().manual_seed(0)
    shapes = [((2048, 64), (64, 256)), ((64, 2048), (2048, 256)), ((32, 96, 32), (32, 32, 96))]
    factors = [tuple(torch.randn(shape, generator=generator) for shape in both) for both in shapes]
    exact = [left.double() @ right.double() for left, right in factors]

    def multiply() -> list[Tensor]:
        return [left @ right for left, right in factors]

    def error() -> float:
        return max(float((product - true).abs().max()) for product, true in zip(multiply(), exact, strict=True))

    with by_mkl():
        mkl, mkl_error = min(timeit.repeat(multiply, number=1, repeat=_TIMES)), error()
    with by_onednn():
        onednn, onednn_error = min(timeit.repeat(multiply, number=1, repeat=_TIMES)), error()
    return Products(mkl, onednn, onednn_error <= _FLOAT32 * mkl_error)
