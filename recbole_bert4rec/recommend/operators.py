"""Operators of torch that its exporter to ONNX lacks, or translates less exactly than a ``time_bias`` needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import opset20 as op

_DOUBLE = 11
"""ONNX's number of the type."""


def cummax(values: Any, dim: int) -> tuple[Any, Any]:
    """Write ``torch.cummax`` along the second of two dimensions, as the maximum of a triangle."""
    assert dim == 1
    first, second = (op.Constant(value_ints=[axis]) for axis in (0, 1))
    length = op.Squeeze(op.Shape(values, start=1, end=2))
    positions = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))
    earlier = op.LessOrEqual(op.Unsqueeze(positions, first), op.Unsqueeze(positions, second))
    least = op.CastLike(op.Constant(value_float=float("-inf")), values)
    triangle = op.Where(earlier, op.Unsqueeze(values, second), least)
    return op.ReduceMax(triangle, op.Constant(value_ints=[2]), keepdims=0), op.ArgMax(triangle, axis=2, keepdims=0)


def log2(values: Any) -> Any:
    """Write ``torch.log2``, exact for powers of two, between which buckets of time gaps begin.

    The exporter divides by log(2) in 32 bits.
    """
    two = op.Cast(op.Constant(value_float=2.0), to=_DOUBLE)
    logarithm = op.Div(op.Log(values), op.CastLike(op.Log(two), values))
    rounded = op.Round(logarithm)
    return op.Where(op.Equal(op.Pow(op.CastLike(two, values), rounded), values), rounded, logarithm)


OPERATORS: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.aten.cummax.default: cummax,
    torch.ops.aten.log2.default: log2,
}
