"""Replace arithmetic on literals by its result.

    %2 = const 2 : i32          %2 = const 2 : i32
    %3 = const 3 : i32    =>    %3 = const 3 : i32
    %4 = mul %2, %3 : i32       %4 = const 6 : i32

The literals stay behind; `eliminate_dead_code` removes them. Results are those of `zyx.semantics`, bit by bit.
Transcendental functions and powers of floats are left to the device, whose last bit may differ from ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.kernel import data as k
from zyx.ops import TRANSCENDENTAL, BinaryOp
from zyx.passes.rules import Rules, applied
from zyx.semantics import apply_binary, apply_bitcast, apply_cast, apply_mad, apply_unary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.build import Builder
    from zyx.kernel.data import Kernel, Op, Type, Value, ValueId
    from zyx.semantics import Array


def fold_constants(kernel: Kernel) -> Kernel:
    """Return `kernel` with every operation on constants evaluated."""
    return applied(kernel, Folding())


class Folding(Rules):
    """Evaluates operations on constants."""

    looks_at = frozenset({k.Unary, k.Binary, k.Where, k.Cast, k.Bitcast, k.Mad, k.Vectorize, k.Devectorize, k.Shuffle})

    def write(self, b: Builder, op: Value) -> ValueId | None:
        """Return the constant, if all operands are."""
        ops, operands = b.ops, k.OPERANDS[type(op)](op)
        for operand in operands:
            if type(ops[operand]) not in _CONSTANT:
                return None
        lanes: list[Array] = []
        for operand in operands:
            known = constant_lanes(ops, operand)
            if known is None:
                return None
            lanes.append(known)
        result = _evaluate(op, lanes)
        return None if result is None else _write(b, op, result)


def constant_lanes(ops: Sequence[Op], value: ValueId) -> Array | None:
    """Return the lanes of a constant, or of a vector of constants; None for other values."""
    match ops[value]:
        case k.Const(value=literal, type=type_):
            return np.full(type_.lanes, literal, type_.dtype.numpy)
        case k.Vectorize(items=items, type=type_):
            constants = [op.value for op in (ops[item] for item in items) if isinstance(op, k.Const)]
            return np.array(constants, type_.dtype.numpy) if len(constants) == len(items) else None
        case _:
            return None


def _evaluate(op: Op, lanes: list[Array]) -> Array | None:
    """Return the lanes of the result, None if it is left to the device."""
    match op:
        case k.Unary(op=kind):
            return None if kind in TRANSCENDENTAL else apply_unary(kind, *lanes)
        case k.Binary(op=kind):
            return None if kind is BinaryOp.POW and op.type.dtype.is_float else apply_binary(kind, *lanes)
        case k.Where():
            condition, x, y = lanes
            return np.where(condition, x, y)
        case k.Cast():
            return apply_cast(lanes[0], op.type.dtype)
        case k.Bitcast():
            return apply_bitcast(lanes[0], op.type.dtype)
        case k.Mad():
            return apply_mad(*lanes)
        case k.Vectorize():
            return np.concatenate(lanes)
        case k.Devectorize(lane=lane):
            return lanes[0][lane : lane + 1]
        case k.Shuffle(lanes=picked):
            return np.concatenate(lanes)[list(picked)]
        case _:
            return None


def _write(builder: Builder, op: Op, lanes: Array) -> ValueId | None:
    """Write the constant, or the vector of constants; None if that is what `op` is already."""
    assert isinstance(op, k.Value)
    constants = [_constant(lane, k.Type(op.type.dtype)) for lane in lanes]
    if len(set(constants)) == 1:
        return builder.add(k.Const(constants[0].value, op.type))
    if isinstance(op, k.Vectorize):
        return None
    return builder.vectorize(tuple(builder.add(constant) for constant in constants))


def _constant(value: Any, type_: Type) -> k.Const:  # noqa: ANN401  NumPy's scalars have no common conversion
    kind = bool if type_.dtype.is_bool else float if type_.dtype.is_float else int
    return k.Const(kind(value), type_)


_CONSTANT: Final = frozenset({k.Const, k.Vectorize})
