"""Atomic updates as LLVM IR: an instruction where there is one, else a compare-and-exchange loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.dtype import Kind
from zyx.errors import UnsupportedError
from zyx.kernel.data import Memory, Type
from zyx.ops import ReduceOp
from zyx.render.llvm import math
from zyx.render.llvm.templates import compiled
from zyx.render.llvm.types import MEMORY, VALUE

if TYPE_CHECKING:
    from zyx.kernel import data as k
    from zyx.render.llvm.writer import Writer

#: Read-modify-write instructions, by reduction and family of the dtype.
_INSTRUCTIONS: Final = {
    (ReduceOp.SUM, Kind.FLOAT): "fadd",
    (ReduceOp.MAX, Kind.FLOAT): "fmaximum",
    (ReduceOp.MIN, Kind.FLOAT): "fminimum",
    (ReduceOp.MAX, Kind.INT): "max",
    (ReduceOp.MIN, Kind.INT): "min",
    (ReduceOp.MAX, Kind.UINT): "umax",
    (ReduceOp.MIN, Kind.UINT): "umin",
    (ReduceOp.MAX, Kind.BOOL): "or",
    (ReduceOp.MIN, Kind.BOOL): "and",
    **{(ReduceOp.SUM, kind): "add" for kind in (Kind.INT, Kind.UINT)},
    **{(ReduceOp.OR, kind): "or" for kind in (Kind.INT, Kind.UINT, Kind.BOOL)},
    **{(ReduceOp.AND, kind): "and" for kind in (Kind.INT, Kind.UINT, Kind.BOOL)},
    **{(ReduceOp.XOR, kind): "xor" for kind in (Kind.INT, Kind.UINT, Kind.BOOL)},
}


def atomic(w: Writer, i: int, op: k.Atomic) -> None:
    """Combine a value into memory."""
    array = w.array(op.target)
    if array.dtype.is_float and array.dtype.bits == 16:
        raise UnsupportedError(f"there is no native form of atomic {op.op.value} of {array.dtype}")
    if op.mask is not None:
        w.begin_where(i, w.names[op.mask])
    pointer = w.address(i, op.target, op.index)
    type_ = Type(array.dtype)
    memory, size = MEMORY[type_], array.dtype.itemsize
    instruction = _INSTRUCTIONS.get((op.op, array.dtype.kind))
    if array.memory is not Memory.GLOBAL:  # a group is one thread, which nobody interrupts
        w.lines.append(f"  %old{i} = load {memory}, ptr {pointer}, align {size}")
        old = _as_value(w, f"%old{i}", type_)
        new = _as_memory(w, i, _combined(w, i, op, type_, old), type_)
        w.lines.append(f"  store {memory} {new}, ptr {pointer}, align {size}")
    elif instruction is not None:
        value = _as_memory(w, i, w.names[op.value], type_)
        w.lines.append(f"  %old{i} = atomicrmw {instruction} ptr {pointer}, {memory} {value} monotonic")
    else:
        _exchange_loop(w, i, op, type_, pointer)
    if op.mask is not None:
        w.end_where(i)


def _exchange_loop(w: Writer, i: int, op: k.Atomic, type_: Type, pointer: str) -> None:
    """Combine, and write the result if the element is still what it was; else again."""
    bits, value_type = f"i{type_.dtype.bits}", VALUE[type_]
    w.lines.append(
        f"  %first{i} = load atomic {bits}, ptr {pointer} monotonic, align {type_.dtype.itemsize}\n"
        f"  br label %x{i}\nx{i}:\n"
        f"  %old{i} = phi {bits} [ %first{i}, %{w.block} ], [ %seen{i}, %x{i} ]"
    )
    old = f"%old{i}"
    if value_type != bits:
        w.lines.append(f"  %oldv{i} = bitcast {bits} {old} to {value_type}")
        old = f"%oldv{i}"
    new = _combined(w, i, op, type_, old)
    if value_type != bits:
        w.lines.append(f"  %newb{i} = bitcast {value_type} {new} to {bits}")
        new = f"%newb{i}"
    w.lines.append(
        f"  %pair{i} = cmpxchg ptr {pointer}, {bits} %old{i}, {bits} {new} monotonic monotonic\n"
        f"  %seen{i} = extractvalue {{ {bits}, i1 }} %pair{i}, 0\n"
        f"  %won{i} = extractvalue {{ {bits}, i1 }} %pair{i}, 1\n"
        f"  br i1 %won{i}, label %y{i}, label %x{i}\ny{i}:"
    )
    w.block = f"y{i}"


def _combined(w: Writer, i: int, op: k.Atomic, type_: Type, old: str) -> str:
    template = compiled(math.binary(op.op.binary, type_), f"atomic {op.op.value} of {type_}")
    w.lines.append(template.format(f"%c{i}", old, w.names[op.value]))
    return f"%c{i}"


def _as_value(w: Writer, name: str, type_: Type) -> str:
    if not type_.dtype.is_bool:
        return name
    w.lines.append(f"  {name}.v = icmp ne i8 {name}, 0")
    return f"{name}.v"


def _as_memory(w: Writer, i: int, value: str, type_: Type) -> str:
    if not type_.dtype.is_bool:
        return value
    w.lines.append(f"  %new{i} = zext i1 {value} to i8")
    return f"%new{i}"
