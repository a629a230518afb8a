"""Positions of vectors, made from the same parts as those of their first elements.

    %8 = mul %5, 16        %8 / 4 = mul %5, 4
    %9 = add %8, 1024      %9 / 4 = add (%8 / 4), 256

A compiler that is given ``%9 >> 2`` does not know that nothing is lost on the way, so it cannot take the constant for
a part of the address, nor one sum for many accesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import ValueId
    from zyx_backend_vulkan.render_writer import Writer

_NAMES: Final = {BinaryOp.ADD: "IAdd", BinaryOp.SUB: "ISub"}


def needed_quotients(w: Writer, steps: dict[ValueId, set[int]]) -> dict[ValueId, set[int]]:
    """Return which operations to write divided by which steps, so that positions are.

    Args:
        w: The module.
        steps: Positions, and what to divide them by, of which they are multiples.
    """
    needed = {index: set(by) for index, by in steps.items() if _is_exact(w, index)}
    for i in range(len(w.ops) - 1, -1, -1):
        for step in needed.get(i, ()):
            for operand in _divided_operands(w, w.ops[i], step):
                needed.setdefault(operand, set()).add(step)
    return needed


def _is_exact(w: Writer, index: ValueId) -> bool:
    """Whether a position is what its parts add up to, and did not wrap around on the way."""
    dtype, bounds = w.type_of(index).dtype, w.ranges[index]
    return dtype.bits >= 32 and bounds is not None and bounds[0] > dtype.min and bounds[1] < dtype.max


def _divided_operands(w: Writer, op: k.Op, step: int) -> tuple[ValueId, ...]:
    """Return the operands of an operation, not the constants, that are divided if the result is."""
    match op:
        case k.Binary(op=BinaryOp.ADD | BinaryOp.SUB, x=x, y=y):
            return tuple(operand for operand in (x, y) if not isinstance(w.ops[operand], k.Const))
        case k.Where(x=x, y=y):
            return tuple(operand for operand in (x, y) if not isinstance(w.ops[operand], k.Const))
        case k.Binary(op=BinaryOp.MUL, x=x, y=y) if not _constant_factor(w, x, y, step):
            return (x,) if w.multiples[x] % step == 0 else (y,) if w.multiples[y] % step == 0 else ()
        case _:
            return ()


def _constant_factor(w: Writer, x: ValueId, y: ValueId, step: int) -> int | None:
    """Return which of two factors is a constant that the step divides, if one is."""
    for factor in (x, y):
        if isinstance(w.ops[factor], k.Const) and w.multiples[factor] % step == 0:
            return factor
    return None


def divide(w: Writer, i: ValueId, op: k.Op) -> None:
    """Write the quotients of operation `i` that are needed, behind it."""
    for step in w.needed.get(i, ()):
        w.quotients[i, step] = _quotient(w, i, op, step)


def _quotient(w: Writer, i: ValueId, op: k.Op, step: int) -> int:
    m, dtype = w.m, w.type_of(i).dtype
    type_ = m.of(dtype)
    match op:
        case k.Binary(op=BinaryOp.ADD | BinaryOp.SUB as kind, x=x, y=y):
            return m.value(_NAMES[kind], type_, _part(w, x, step), _part(w, y, step))
        case k.Where(condition=condition, x=x, y=y):
            return m.select(w.scalar(condition), _part(w, x, step), _part(w, y, step), dtype, 1)
        case k.Binary(op=BinaryOp.MUL, x=x, y=y):
            factor = _constant_factor(w, x, y, step)
            if factor is None and w.multiples[x] % step and w.multiples[y] % step:
                return _shifted(w, i, step)
            if factor is None:
                factor = x if w.multiples[x] % step == 0 else y
            other = y if factor == x else x
            return m.value("IMul", type_, w.scalar(other), _part(w, factor, step))
        case k.Binary(op=BinaryOp.SHL, x=x, y=y):
            distance = w.ops[y]
            less = int(distance.value) - (step.bit_length() - 1) if isinstance(distance, k.Const) else -1
            if less >= 0:
                return m.value("ShiftLeftLogical", type_, w.scalar(x), m.word(less))
        case _:
            pass
    return _shifted(w, i, step)


def _part(w: Writer, value: ValueId, step: int) -> int:
    """Return a part of a sum, divided."""
    op = w.ops[value]
    if isinstance(op, k.Const):
        return w.m.const(int(op.value) // step, op.type.dtype)
    return w.quotients[value, step]


def _shifted(w: Writer, i: ValueId, step: int) -> int:
    """Return a value divided, of which nothing is known; it may be below 0."""
    dtype = w.type_of(i).dtype
    name = "ShiftRightLogical" if dtype.is_unsigned else "ShiftRightArithmetic"
    return w.m.value(name, w.m.of(dtype), w.scalar(i), w.m.word(step.bit_length() - 1))
