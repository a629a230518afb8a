"""Operations that make values of values, as LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.ops import BinaryOp
from zyx.render.llvm.templates import constant_value
from zyx.render.llvm.types import ELEMENT, VALUE, literal

if TYPE_CHECKING:
    from zyx.render.llvm.writer import Writer


def const(w: Writer, i: int, op: k.Const) -> None:
    """A literal is its own name."""
    w.names[i] = literal(op.value, op.type)


def unary(w: Writer, i: int, op: k.Unary) -> None:
    """Apply a unary operation."""
    name = w.names[i] = f"%v{i}"
    w.lines.append(w.templates.unary(op).format(name, w.names[op.x]))


def binary(w: Writer, i: int, op: k.Binary) -> None:
    """Apply a binary operation."""
    names, ops = w.names, w.ops
    name = names[i] = f"%v{i}"
    type_ = ops[op.x].type  # type: ignore[union-attr]  # operands are values; a call of `type_of` is felt here
    if type_.dtype is dtypes.bool_ and op.op is BinaryOp.AND and (inside := _between(w, op)) is not None:
        w.lines.append(f"  {name} = {inside}")
        return
    w.lines.append(w.templates.binary(op, type_, ops).format(name, names[op.x], names[op.y]))


def _between(w: Writer, op: k.Binary) -> str | None:
    """Return ``0 <= x and x <= last`` as one comparison without a sign, if `op` is that: nothing later finds it."""
    for low, high in ((w.ops[op.x], w.ops[op.y]), (w.ops[op.y], w.ops[op.x])):
        if not (isinstance(low, k.Binary) and isinstance(high, k.Binary) and low.op is high.op is BinaryOp.LE):
            continue
        type_ = w.type_of(low.y)
        if low.y != high.x or not type_.dtype.is_integer or type_.dtype.is_unsigned:
            continue
        last = constant_value(high.y, w.ops)
        if constant_value(low.x, w.ops) == 0 and last is not None and last >= 0:
            return f"icmp ule {w.typed(low.y)}, {w.names[high.y]}"
    return None


def mad(w: Writer, i: int, op: k.Mad) -> None:
    """Multiply and add."""
    names = w.names
    name = names[i] = f"%v{i}"
    w.lines.append(w.templates.mad(op.type).format(name, names[op.x], names[op.y], names[op.z]))


def where(w: Writer, i: int, op: k.Where) -> None:
    """Choose."""
    type_ = VALUE[op.type]
    w.lines.append(f"  %v{i} = select {w.typed(op.condition)}, {type_} {w.names[op.x]}, {type_} {w.names[op.y]}")
    w.names[i] = f"%v{i}"


def cast(w: Writer, i: int, op: k.Cast) -> None:
    """Convert; between integers of one size there is nothing to do, as LLVM's have no sign."""
    source, target = w.type_of(op.x), op.type.dtype
    if source.dtype is target or (source.dtype.is_integer and target.is_integer and source.dtype.bits == target.bits):
        w.names[i] = w.names[op.x]
        return
    name = w.names[i] = f"%v{i}"
    w.lines.append(w.templates.cast(source, target).format(name, w.names[op.x]))


def bitcast(w: Writer, i: int, op: k.Bitcast) -> None:
    """Read bits as another dtype."""
    source = w.type_of(op.x)
    if VALUE[source] == VALUE[op.type]:
        w.names[i] = w.names[op.x]
        return
    name = w.names[i] = f"%v{i}"
    w.lines.append(w.templates.bitcast(source, op.type.dtype).format(name, w.names[op.x]))


def vectorize(w: Writer, i: int, op: k.Vectorize) -> None:
    """Make a vector of scalars: a broadcast, a constant, or an insertion for each lane."""
    names, items = w.names, op.items
    type_, element, lanes = VALUE[op.type], ELEMENT[op.type.dtype], op.type.lanes
    first = names[items[0]]
    if lanes == 1:
        names[i] = first
    elif items.count(items[0]) == lanes:
        if first[0] != "%":
            names[i] = f"splat ({element} {first})"
            return
        w.lines.append(
            f"  %s{i} = insertelement {type_} poison, {element} {first}, i64 0\n"
            f"  %v{i} = shufflevector {type_} %s{i}, {type_} poison, <{lanes} x i32> zeroinitializer"
        )
        names[i] = f"%v{i}"
    elif all(names[item][0] != "%" for item in items):
        names[i] = f"<{', '.join(f'{element} {names[item]}' for item in items)}>"
    else:
        previous = "poison"
        for lane, item in enumerate(items):
            name = f"%v{i}" if lane == lanes - 1 else f"%s{i}.{lane}"
            w.lines.append(f"  {name} = insertelement {type_} {previous}, {element} {names[item]}, i64 {lane}")
            previous = name
        names[i] = previous


def devectorize(w: Writer, i: int, op: k.Devectorize) -> None:
    """Take a lane."""
    w.lines.append(f"  %v{i} = extractelement {w.typed(op.x)}, i64 {op.lane}")
    w.names[i] = f"%v{i}"


def shuffle(w: Writer, i: int, op: k.Shuffle) -> None:
    """Pick lanes."""
    mask = w.templates.shuffle_mask(op.lanes)
    w.lines.append(f"  %v{i} = shufflevector {w.typed(op.x)}, {w.typed(op.y)}, {mask}")
    w.names[i] = f"%v{i}"
