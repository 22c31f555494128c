"""Calculate numbers from texts such as ``1/1000``, ``10**-3`` or ``[64] * 3`` without running any code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_NUMBERS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_LARGEST, _LONGEST = 1e12, 1000
"""Largest number to calculate with, and most entries of a repeated list."""


def calculated(text: str) -> Any:
    """Return the value of a Python literal whose numbers may be calculated.

    ``calculated("[1/100, 10**-3]")`` is ``[0.01, 0.001]``.

    Raises:
        ValueError: the text is something else, or its numbers are too large.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text[:60]!r} cannot be calculated") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_value(key): _value(value) for key, value in pairs if key is not None}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        number = _number(_value(node.operand))
        return number if isinstance(node.op, ast.UAdd) else -number
    if isinstance(node, ast.BinOp) and type(node.op) in _NUMBERS:
        return _calculate(node.op, _value(node.left), _value(node.right))
    return ast.literal_eval(node)


def _calculate(operation: ast.operator, left: object, right: object) -> Any:
    if isinstance(operation, ast.Mult) and isinstance(left, list):
        if not isinstance(right, int) or len(left) * right > _LONGEST:
            raise ValueError(f"a list is repeated at most to {_LONGEST} entries")
        return left * right
    numbers = _number(left), _number(right)
    if isinstance(operation, ast.Pow) and abs(numbers[1]) > 100:
        raise ValueError("the exponent is too large")
    return _number(_NUMBERS[type(operation)](*numbers))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > _LARGEST:
        raise ValueError(f"{str(value)[:20]} is no number up to {_LARGEST:g}")
    return value
