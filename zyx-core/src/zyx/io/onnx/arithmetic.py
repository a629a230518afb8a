"""Arithmetic, element by element, with broadcasting."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from zyx.functions import arithmetic, choosing, elementwise, logic, parts, transcendental
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import as_array, looked_at, varies
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value

_BINARY: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "Add": (arithmetic.add, np.add),
    "Sub": (arithmetic.subtract, np.subtract),
    "Mul": (arithmetic.multiply, np.multiply),
    "BitwiseAnd": (logic.bitwise_and, np.bitwise_and),
    "BitwiseOr": (logic.bitwise_or, np.bitwise_or),
    "BitwiseXor": (logic.bitwise_xor, np.bitwise_xor),
}
_UNARY: dict[str, tuple[Callable[..., Value], Callable[..., Value]]] = {
    "Neg": (elementwise.negative, np.negative),
    "Abs": (elementwise.abs, np.abs),
    "Sign": (elementwise.sign, np.sign),
    "Floor": (elementwise.floor, np.floor),
    "Ceil": (elementwise.ceil, np.ceil),
    "Round": (elementwise.round, np.round),
    "Sqrt": (transcendental.sqrt, np.sqrt),
    "Reciprocal": (transcendental.reciprocal, np.reciprocal),
    "Exp": (transcendental.exp, np.exp),
    "Log": (transcendental.log, np.log),
    "BitwiseNot": (logic.bitwise_invert, np.invert),
    "Sin": (transcendental.sin, np.sin),
    "Cos": (transcendental.cos, np.cos),
    "Tan": (transcendental.tan, np.tan),
    "Asin": (transcendental.asin, np.arcsin),
    "Acos": (transcendental.acos, np.arccos),
    "Atan": (transcendental.atan, np.arctan),
    "Sinh": (transcendental.sinh, np.sinh),
    "Cosh": (transcendental.cosh, np.cosh),
    "Asinh": (transcendental.asinh, np.arcsinh),
    "Acosh": (transcendental.acosh, np.arccosh),
    "Atanh": (transcendental.atanh, np.arctanh),
}


def aligned(node: NodeCall, x: Value, y: Value) -> Value:
    """Return `y` so that it broadcasts against `x`, as the attributes ``broadcast`` and ``axis`` of opset 6 say."""
    if node.get("axis") is not None and node.get("broadcast", 0):
        return y.reshape(tuple(y.shape) + (1,) * (len(x.shape) - node["axis"] - len(y.shape)))
    return y


def _binary(ours: Callable[..., Value], theirs: Callable[..., Value]) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Value, y: Value) -> Value:
        y = aligned(node, x, y)
        if is_tensor(x):
            return ours(x, y)
        return as_array(theirs(x, y))

    return compute


def _unary(ours: Callable[..., Value], theirs: Callable[..., Value]) -> Callable[..., Value]:
    def compute(_: NodeCall, x: Value) -> Value:
        if is_tensor(x):
            return ours(x).astype(x.dtype)
        return np.asarray(theirs(x)).astype(x.dtype)

    return compute


for _name, (_ours, _theirs) in _BINARY.items():
    operator(_name, folds=True, sizes=_name in ("Add", "Sub", "Mul"))(_binary(_ours, _theirs))
for _name, (_ours, _theirs) in _UNARY.items():
    operator(_name, folds=True)(_unary(_ours, _theirs))


def _positive(*values: Value) -> list[Value]:
    """Return arrays of sizes; the numbers of this call, where one of them may be negative: rests are rounded then."""
    return list(values) if all(bool(np.all(value >= 0)) for value in values) else [looked_at(value) for value in values]


@operator("Div", folds=True, sizes=True)
def div(node: NodeCall, x: Value, y: Value) -> Value:
    """Divide; quotients of integers are rounded towards zero."""
    y = aligned(node, x, y)
    if is_tensor(x):
        return arithmetic.divide(x, y, "trunc").astype(x.dtype) if x.dtype.is_integer else arithmetic.divide(x, y)
    if varies(x) or varies(y):
        return as_array(np.floor_divide(*_positive(x, y)))
    if x.dtype.kind in "iu":
        quotient, rest = np.divmod(x, y)
        return np.asarray(quotient + ((rest != 0) & ((x < 0) != (np.asarray(y) < 0)))).astype(x.dtype)
    return np.asarray(np.divide(x, y)).astype(x.dtype)


@operator("Mod", folds=True, sizes=True)
def mod(node: NodeCall, x: Value, y: Value) -> Value:
    """Return the remainder: of the divisor's sign, or with ``fmod`` of the dividend's."""
    if is_tensor(x):
        return (arithmetic.fmod if node["fmod"] else arithmetic.remainder)(x, y)
    if varies(x) or varies(y):
        return as_array(np.mod(*_positive(x, y)))
    return np.asarray((np.fmod if node["fmod"] else np.mod)(x, y)).astype(x.dtype)


@operator("Pow", folds=True)
def power(node: NodeCall, x: Value, y: Value) -> Value:
    """Raise to a power, in the dtype of the base."""
    y = aligned(node, x, y)
    if not is_tensor(x):
        return np.asarray(np.power(x, y)).astype(x.dtype)
    if x.dtype.is_integer and y.dtype.is_float:
        return arithmetic.pow(x.astype(y.dtype), y).astype(x.dtype)
    return arithmetic.pow(x, y.astype(x.dtype)).astype(x.dtype)


def _extreme(ours: Callable[..., Value], theirs: Callable[..., Value]) -> Callable[..., Value]:
    def compute(_: NodeCall, *values: Value) -> Value:
        if is_tensor(values[0]):
            return reduce(ours, values)
        return as_array(reduce(theirs, values))

    return compute


operator("Max", folds=True, sizes=True)(_extreme(arithmetic.maximum, np.maximum))
operator("Min", folds=True, sizes=True)(_extreme(arithmetic.minimum, np.minimum))
operator("Sum", folds=True, sizes=True)(_extreme(arithmetic.add, np.add))


@operator("Mean")
def mean(_: NodeCall, *values: Value) -> Value:
    """Return the mean of several tensors."""
    return reduce(arithmetic.add, values) / len(values)


@operator("Clip", moved={"min": (11, 1), "max": (11, 2)}, folds=True)
def clip(node: NodeCall, x: Value, low: Value = None, high: Value = None) -> Value:
    """Limit to bounds; the upper one wins."""
    del node
    for bound, is_low in ((low, True), (high, False)):
        if bound is None:
            continue
        if is_tensor(x):
            bound = bound.reshape(()).astype(x.dtype)
            x = arithmetic.maximum(x, bound) if is_low else arithmetic.minimum(x, bound)
        else:
            x = np.asarray((np.maximum if is_low else np.minimum)(x, bound)).astype(x.dtype)
    return x


@operator("BitShift", folds=True)
def bit_shift(node: NodeCall, x: Value, y: Value) -> Value:
    """Shift by bits; shifts by the width and more leave nothing."""
    left = node["direction"] == "LEFT"
    if is_tensor(x):
        return (logic.bitwise_left_shift if left else logic.bitwise_right_shift)(x, y)
    return np.asarray((np.left_shift if left else np.right_shift)(x, y)).astype(x.dtype)


@operator("Erf")
def erf(_: NodeCall, x: Value) -> Value:
    """Return the error function."""
    return transcendental.erf(x)


@operator("IsNaN")
def is_nan(_: NodeCall, x: Value) -> Value:
    """Return where there is no number."""
    return elementwise.isnan(x)


@operator("IsInf")
def is_inf(node: NodeCall, x: Value) -> Value:
    """Return where there is an infinity, of both signs or one."""
    positive, negative = node["detect_positive"], node["detect_negative"]
    if positive and negative:
        return elementwise.isinf(x)
    if positive:
        return parts.isposinf(x)
    return parts.isneginf(x) if negative else elementwise.isinf(x) & False


@operator("Where", folds=True, sizes=True)
def where(_: NodeCall, condition: Value, x: Value, y: Value) -> Value:
    """Choose by a condition."""
    if is_tensor(condition):
        return choosing.where(condition, x, y)
    chosen = np.asarray(np.where(looked_at(condition), x, y))
    return chosen if varies(chosen) else chosen.astype(dtype_of(y) if varies(x) else dtype_of(x))
