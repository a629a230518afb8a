"""Loads and stores as LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.render.llvm.types import MEMORY, MEMORY_SUFFIX, VALUE, literal

if TYPE_CHECKING:
    from zyx.kernel.data import Type, ValueId
    from zyx.render.llvm.writer import Writer

#: Bytes of a cache line, which the widest streaming store fills.
_LINE: Final = 64
#: Bytes outside of an array that are seldom on a page that does not exist.
_NEAR: Final = 4096


def load(w: Writer, i: int, op: k.Load) -> None:
    """Read a slot, an element, or neighbouring ones."""
    if op.source in w.found.arrays:
        _load_slot(w, i, op)
        return
    name = w.names[i] = f"%v{i}"
    raw = f"%b{i}" if op.type.dtype.is_bool else name
    memory, size = MEMORY[op.type], op.type.dtype.itemsize
    if op.mask is None:
        pointer = w.address(i, op.source, op.index)
        w.lines.append(f"  {raw} = load {memory}, ptr {pointer}, align {size}")
    elif op.type.lanes > 1 and w.array(op.source).lanes == 1 and not _is_whole(w, op):
        pointer = _masked_address(w, i, op)
        w.lines.append(
            f"  {raw} = call {memory} @llvm.masked.load.{MEMORY_SUFFIX[op.type]}.p0"
            f"(ptr align {size} {pointer}, {_lanes_of(w, op.mask, op.type.lanes)}, {memory} zeroinitializer)"
        )
    else:
        _load_element_where(w, i, op, raw)
    if raw is not name:
        w.lines.append(f"  {name} = icmp ne {memory} {raw}, {_zero(op.type)}")


def _is_whole(w: Writer, op: k.Load) -> bool:
    """Whether a mask has all lanes or none, and others can be read where it has none: the array is long enough.

    On some processors without masks of lanes, loads under a mask take ten times as long as others.
    """
    return op.mask is not None and _only_item(w, op.mask) is not None and w.array(op.source).length >= op.type.lanes


def _only_item(w: Writer, mask: ValueId) -> ValueId | None:
    """Return what all lanes of a mask are, if that is one value."""
    op = w.ops[mask]
    return op.items[0] if isinstance(op, k.Vectorize) and len(set(op.items)) == 1 else None


def _masked_address(w: Writer, i: int, op: k.Load) -> str:
    """Return the pointer of neighbouring elements of which a mask says which exist.

    Where none does and the index may be far outside, it is the array's start: a processor looks up the page of what is
    masked away as well, and takes hundreds of cycles to find that there is none and that it does not matter.
    """
    length, lanes = w.array(op.source).length, op.type.lanes
    low, high = w.range_of(op.index)
    if max(-low, high + lanes - length) * op.type.dtype.itemsize <= _NEAR:
        return w.address(i, op.source, op.index, may_be_outside=True)
    type_ = VALUE[w.type_of(op.index)]
    w.lines.append(
        f"  %m{i} = add {w.typed(op.index)}, {lanes - 1}\n"
        f"  %n{i} = icmp ult {type_} %m{i}, {length + lanes - 1}\n"
        f"  %j{i} = select i1 %n{i}, {w.typed(op.index)}, {type_} 0"
    )
    return w.element(i, op.source, op.index, f"%j{i}", "")


def _load_slot(w: Writer, i: int, op: k.Load) -> None:
    now = w.slot_value(w.slot(op.source, op.index))
    if op.mask is None:
        w.names[i] = now
        return
    type_, zero = VALUE[op.type], literal(op.type.dtype.to_scalar(0), op.type)
    w.lines.append(f"  %v{i} = select {w.typed(op.mask)}, {type_} {now}, {type_} {zero}")
    w.names[i] = f"%v{i}"


def _load_element_where(w: Writer, i: int, op: k.Load, raw: str) -> None:
    """Load an element under a mask without a branch: where the mask is false, element 0, which always exists.

    Or neighbouring elements, if the mask has all of them or none: then the first ones.
    """
    assert op.mask is not None
    memory, mask = MEMORY[op.type], w.typed(op.mask)
    if not w.array(op.source).length:  # so there is no element 0, and the mask is false
        w.lines.append(f"  {raw} = select i1 true, {memory} {_zero(op.type)}, {memory} {_zero(op.type)}")
        return
    lanes = w.type_of(op.mask).lanes
    exists = w.names[op.mask]
    item = _only_item(w, op.mask)
    if item is not None:
        exists = w.names[item]
        mask = f"i1 {exists}"
    elif lanes > 1:  # an element that is a vector: it exists if any lane is wanted
        w.lines.append(f"  %o{i} = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask})")
        exists = f"%o{i}"
    index_type = VALUE[w.type_of(op.index)]
    w.lines.append(f"  %j{i} = select i1 {exists}, {w.typed(op.index)}, {index_type} 0")
    pointer = w.element(i, op.source, op.index, f"%j{i}", " inbounds")
    w.lines.append(
        f"  %l{i} = load {memory}, ptr {pointer}, align {op.type.dtype.itemsize}\n"
        f"  {raw} = select {mask}, {memory} %l{i}, {memory} {_zero(op.type)}"
    )


def _lanes_of(w: Writer, mask: ValueId, lanes: int) -> str:
    return f"<{lanes} x i1> {w.names[mask]}"


def _only_lane(mask: str) -> int | None:
    """Return which lane a mask has, if it is a literal that has exactly one."""
    if not mask.startswith("<"):
        return None
    lanes = [number for number, lane in enumerate(mask[1:-1].split(", ")) if lane == "i1 true"]
    return lanes[0] if len(lanes) == 1 else None


def _zero(type_: Type) -> str:
    """Return the zero of a type in memory."""
    if type_.lanes > 1:
        return "zeroinitializer"
    return "0.0" if type_.dtype.is_float and type_.dtype.bits > 16 else "0"


def store(w: Writer, i: int, op: k.Store) -> None:
    """Write a slot, an element, or neighbouring ones."""
    given = w.type_of(op.value)
    value = w.names[op.value]
    if op.target in w.found.arrays:
        slot = w.slot(op.target, op.index)
        if op.mask is not None:
            type_ = VALUE[given]
            old = w.slot_value(slot)
            w.lines.append(f"  %v{i} = select {w.typed(op.mask)}, {type_} {value}, {type_} {old}")
            value = f"%v{i}"
        w.slots[slot] = value
        return
    memory, size = MEMORY[given], given.dtype.itemsize
    if given.dtype.is_bool:
        w.lines.append(f"  %b{i} = zext {VALUE[given]} {value} to {memory}")
        value = f"%b{i}"
    if op.mask is None:
        hint = ""
        if op.streaming and w.templates.machine.has_streaming:
            size, hint = min(size * given.lanes, _LINE), ", !nontemporal !0"
        pointer = w.address(i, op.target, op.index)
        w.lines.append(f"  store {memory} {value}, ptr {pointer}, align {size}{hint}")
    elif given.lanes > 1:
        pointer = w.address(i, op.target, op.index, may_be_outside=True)
        only = _only_lane(w.names[op.mask])
        if only is not None:
            # LLVM 22 stores the one element of a vector that was narrowed in its old width, and so over its neighbour.
            element = memory.split(" x ")[1].rstrip(">")
            w.lines.append(
                f"  %x{i} = extractelement {memory} {value}, i32 {only}\n"
                f"  %y{i} = getelementptr {element}, ptr {pointer}, i64 {only}\n"
                f"  store {element} %x{i}, ptr %y{i}, align {size}"
            )
            return
        w.lines.append(
            f"  call void @llvm.masked.store.{MEMORY_SUFFIX[given]}.p0"
            f"({memory} {value}, ptr align {size} {pointer}, {_lanes_of(w, op.mask, given.lanes)})"
        )
    else:
        w.begin_where(i, w.names[op.mask])
        pointer = w.address(i, op.target, op.index)
        w.lines.append(f"  store {memory} {value}, ptr {pointer}, align {size}")
        w.end_where(i)
