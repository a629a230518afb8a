"""Write a sum of scaled integers with half the lanes: see `zyx.nest.lane_sums`.

    %1 = mul %a, %b : i32x16
    %2 = shuffle %1, %1, (0, 2, .. 14) : i32x8
    %3 = shuffle %1, %1, (1, 3, .. 15) : i32x8
    %4 = add %2, %3 : i32x8
    %5 = cast %4 : f32x8

Each product is paired by itself, not the sum of several: that is the form in which code generators know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.kernel import data as k
from zyx.kernel.data import Type
from zyx.nest import expr as e
from zyx.nest.lane_sums import are_scaled_integers, may_pair_lanes
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import ValueId
    from zyx.lowering.emit import Emitter
    from zyx.nest.data import Statement
    from zyx.nest.expr import Expr


def pairs_lanes(emitter: Emitter, statement: Statement) -> bool:
    """Whether pairs of lanes are added before they are accumulated; threads have what they need lane by lane."""
    return not emitter.has_threads and may_pair_lanes(statement, emitter.vector)


def emit_paired(emitter: Emitter, expr: Expr) -> ValueId:
    """Return the sums of pairs of lanes of `expr`: floats that are scaled integers, or these integers."""
    builder, vector = emitter.builder, emitter.vector
    assert vector is not None
    key = ("paired", expr)
    found = builder.find(key)
    if found is not None:
        return found
    is_scaled = are_scaled_integers(expr, vector)
    match expr:
        case e.Convert(x=x) if is_scaled:
            integers = emit_paired(emitter, x)
            value = builder.add(k.Cast(integers, Type(expr.dtype, vector.size // 2)), builder.depth_of(integers))
        case e.Apply2(op=op, x=x, y=y) if is_scaled or (op is BinaryOp.ADD and expr.dtype.is_integer):
            parts = [
                emitter.widen_to(emitter.emit(part), vector.size // 2)
                if op is BinaryOp.MUL and not emitter.is_vector(part)
                else emit_paired(emitter, part)
                for part in (x, y)
            ]
            value = binary(emitter, op, *parts)
        case _:  # also of a point of what is written out, if nothing but constants is left of it
            value = add_pairs(emitter, emitter.emit_wide(expr))
    return builder.remember(key, value)


def add_pairs(emitter: Emitter, value: ValueId) -> ValueId:
    """Return the sums of neighbouring lanes of `value`."""
    builder = emitter.builder
    type_, depth = builder.type_of(value), builder.depth_of(value)
    half = Type(type_.dtype, type_.lanes // 2)
    sides = [builder.add(k.Shuffle(value, value, tuple(range(first, type_.lanes, 2)), half), depth) for first in (0, 1)]
    return binary(emitter, BinaryOp.ADD, *sides)


def binary(emitter: Emitter, op: BinaryOp, x: ValueId, y: ValueId) -> ValueId:
    """Return `op` of two values of one type."""
    builder = emitter.builder
    return builder.add(k.Binary(op, x, y, builder.type_of(x)), max(builder.depth_of(x), builder.depth_of(y)))
