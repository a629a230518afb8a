"""Loads, stores and atomics as SPIR-V."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Memory, Type
from zyx.ops import ReduceOp
from zyx_backend_vulkan import render_casts, render_values
from zyx_backend_vulkan.render_arrays import (
    Place,
    access,
    element_pointer,
    lane_position,
    pointer,
    position,
    unit_type,
    width_of,
)
from zyx_backend_vulkan.render_code import MOST_LANES, UNSIGNED, parts_of

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx_backend_vulkan.render_arrays import Array
    from zyx_backend_vulkan.render_code import Code
    from zyx_backend_vulkan.render_writer import Parts, Writer

_ATOMICS: Final = {
    ReduceOp.SUM: "AtomicIAdd", ReduceOp.AND: "AtomicAnd", ReduceOp.OR: "AtomicOr", ReduceOp.XOR: "AtomicXor",
}  # fmt: skip
_ORDERS: Final = {
    (ReduceOp.MAX, False): "AtomicSMax", (ReduceOp.MAX, True): "AtomicUMax",
    (ReduceOp.MIN, False): "AtomicSMin", (ReduceOp.MIN, True): "AtomicUMin",
}  # fmt: skip

#: What is combined in memory by one instruction, of integers.
NATIVE: Final = (*_ATOMICS, ReduceOp.MAX, ReduceOp.MIN)

#: Who sees what is combined: SPIR-V's scopes of the device and of the group.
_SCOPES: Final = {Memory.GLOBAL: 1, Memory.LOCAL: 2}
_RELAXED: Final = 0


# ---- what is in memory


def _from_cells(w: Writer, array: Array, lanes: int, x: int) -> int:
    """Return elements as they are in memory as values."""
    m, dtype, cell = w.m, array.define.dtype, array.cell
    if dtype.is_bool and not cell.is_bool:
        return m.compare("INotEqual", x, m.const(0, cell, lanes), lanes)
    if cell.bits > dtype.bits:
        narrow = UNSIGNED[dtype.bits]
        return render_casts.bitcast(m, narrow, dtype, lanes, m.value("UConvert", m.of(narrow, lanes), x))
    return render_casts.bitcast(m, cell, dtype, lanes, x)


def _to_cells(w: Writer, array: Array, lanes: int, x: int) -> int:
    """Return values as they are in memory."""
    m, dtype, cell = w.m, array.define.dtype, array.cell
    if dtype.is_bool and not cell.is_bool:
        return m.select(x, m.const(1, cell, lanes), m.const(0, cell, lanes), cell, lanes)
    if cell.bits > dtype.bits:
        return m.value("UConvert", m.of(cell, lanes), render_casts.bitcast(m, dtype, UNSIGNED[dtype.bits], lanes, x))
    return render_casts.bitcast(m, dtype, cell, lanes, x)


def uniform_mask(w: Writer, mask: ValueId) -> int | None:
    """Return the condition that a mask has in all lanes, as a scalar; None if they may differ."""
    op = w.ops[mask]
    match op:
        case k.Const(value=value):
            return w.m.const(bool(value), dtypes.bool_)
        case k.Vectorize(items=items) if len(set(items)) == 1:
            return w.scalar(items[0])
        case _:
            return w.scalar(mask) if w.type_of(mask).lanes == 1 else None


# ---- loads


def load(w: Writer, i: int, op: k.Load) -> None:
    """Read elements; 0 where the mask fails."""
    if op.source in w.variables:
        parts = _slot_parts(w, op.source, op.index)
        types = [w.m.of(op.type.dtype, lanes) for lanes in parts_of(op.type.lanes)]
        found = tuple(w.m.value("Load", type_, part) for type_, part in zip(types, parts, strict=True))
        w.values[i] = found if op.mask is None else _masked(w, op.mask, found, op.type)
        return
    array = w.arrays[op.source]
    if array.define.memory is Memory.REGISTER:
        _load_element(w, i, op, array)
        return
    if not array.define.length:  # nothing is there, so no mask holds
        w.values[i] = _zeros(w, op.type)
        return
    lanes = op.type.lanes
    mask = None if op.mask is None else uniform_mask(w, op.mask)
    width = width_of(w, array, op.index, lanes)
    if op.mask is not None and lanes > 1 and not _may_read_all(array, mask, lanes):
        w.values[i] = _load_lanes(w, op, array)
        return
    at = position(w, array, op.index, width, mask)
    cells = _read(w, array, at, lanes, width)
    found = tuple(_from_cells(w, array, n, cell) for n, cell in zip(parts_of(lanes), cells, strict=True))
    w.values[i] = found if op.mask is None else _masked(w, op.mask, found, op.type)


def _may_read_all(array: Array, mask: int | None, lanes: int) -> bool:
    """Whether there are as many elements from the first one on, where the mask fails in all lanes."""
    return mask is not None and lanes <= array.define.length and not array.define.is_front


def _read(w: Writer, array: Array, at: Place, lanes: int, width: int) -> Parts:
    """Return elements as they are in memory, `width` of which are read at once."""
    m, cell = w.m, array.cell
    type_ = unit_type(m, cell, width)
    if width > MOST_LANES:
        units = [
            m.value("Load", type_, pointer(w, array, at, lane, width), *access(w, array, width))
            for lane in range(0, lanes, width)
        ]
        return tuple(part for unit in units for part in _vectors_of(m, cell, unit, width))
    found, first = [], 0
    for count in parts_of(lanes):
        pieces = [
            m.value("Load", type_, pointer(w, array, at, lane, width), *access(w, array, width))
            for lane in range(first, first + count, width)
        ]
        first += count
        found.append(pieces[0] if len(pieces) == 1 else m.value("CompositeConstruct", m.of(cell, count), *pieces))
    return tuple(found)


def _vectors_of(m: Code, cell: DType, words: int, width: int) -> Parts:
    """Return elements that were read as words, as vectors."""
    count = MOST_LANES * cell.bits // dtypes.uint32.bits
    found = []
    for first in range(0, width * cell.bits // dtypes.uint32.bits, count):
        type_ = m.of(dtypes.uint32, count)
        part = (
            m.value("CompositeExtract", type_, words, first)
            if count == 1
            else m.value("VectorShuffle", type_, words, words, *range(first, first + count))
        )
        found.append(m.cast_bits(part, cell, MOST_LANES))
    return tuple(found)


def _load_lanes(w: Writer, op: k.Load, array: Array) -> Parts:
    """Read lane by lane, each under its own mask."""
    assert op.mask is not None
    m, dtype = w.m, op.type.dtype
    lanes = []
    for lane in range(op.type.lanes):
        mask = w.scalar(op.mask, lane)
        (cell,) = _read(w, array, lane_position(w, array, op.index, lane, mask), 1, 1)
        lanes.append(m.select(mask, _from_cells(w, array, 1, cell), m.const(dtype.to_scalar(0), dtype), dtype, 1))
    return w.joined(lanes, op.type)


def _load_element(w: Writer, i: int, op: k.Load, array: Array) -> None:
    """Read an element of an array of a thread."""
    m = w.m
    mask = None
    if op.mask is not None:  # that any lane is read says that the element is there
        mask = _any_lane(w, op.mask)
    at = position(w, array, op.index, mask=mask)
    found = tuple(
        m.value("Load", m.of(array.cell, lanes), element_pointer(w, array, at, part, lanes))
        for part, lanes in enumerate(parts_of(op.type.lanes))
    )
    w.values[i] = found if op.mask is None else _masked(w, op.mask, found, op.type)


def _any_lane(w: Writer, mask: ValueId) -> int:
    """Return whether a mask holds in any lane."""
    found = uniform_mask(w, mask)
    if found is not None:
        return found
    lanes = [w.scalar(mask, lane) for lane in range(w.type_of(mask).lanes)]
    found = lanes[0]
    for lane in lanes[1:]:
        found = w.m.value("LogicalOr", w.m.of(dtypes.bool_), found, lane)
    return found


def _masked(w: Writer, mask: ValueId, parts: Parts, type_: Type) -> Parts:
    """Return a value with 0 in the lanes where a mask fails."""
    m, dtype = w.m, type_.dtype
    return tuple(
        m.select(flags, part, m.const(dtype.to_scalar(0), dtype, lanes), dtype, lanes)
        for flags, part, lanes in zip(w.values[mask], parts, parts_of(type_.lanes), strict=True)
    )


def _zeros(w: Writer, type_: Type) -> Parts:
    return tuple(w.m.const(type_.dtype.to_scalar(0), type_.dtype, lanes) for lanes in parts_of(type_.lanes))


def _slot_parts(w: Writer, array: ValueId, index: ValueId) -> Parts:
    """Return the variables that an element of a register array is."""
    at, define = w.ops[index], w.define_of(array)
    assert isinstance(at, k.Const)  # that is what makes them variables
    slot = array, int(at.value)
    found = w.slots.get(slot)
    if found is None:
        found = w.slots[slot] = tuple(w.m.local(w.m.of(define.dtype, lanes)) for lanes in parts_of(define.lanes))
    return found


# ---- stores


def store(w: Writer, i: int, op: k.Store) -> None:
    """Write elements where the mask holds."""
    del i
    type_ = w.type_of(op.value)
    if op.target in w.variables:
        _store_slot(w, op, type_)
        return
    array = w.arrays[op.target]
    is_element = array.define.memory is Memory.REGISTER
    if not array.define.length:  # nothing is there, so no mask holds
        return
    if op.mask is None:
        (_store_element if is_element else _write)(w, array, op, type_)
        return
    mask = uniform_mask(w, op.mask)
    if mask is not None:
        behind = w.begin_where(mask)
        (_store_element if is_element else _write)(w, array, op, type_)
        w.end_where(behind)
        return
    if is_element:
        behind = w.begin_where(_any_lane(w, op.mask))
        _store_element(w, array, op, type_)
        w.end_where(behind)
        return
    for lane in range(type_.lanes):
        value = w.scalar(op.value, lane)
        behind = w.begin_where(w.scalar(op.mask, lane))
        at = position(w, array, op.index)
        w.m.do("Store", pointer(w, array, at, lane, 1), _to_cells(w, array, 1, value), *access(w, array, 1))
        w.end_where(behind)


def _write(w: Writer, array: Array, op: k.Store, type_: Type) -> None:
    """Write all lanes of a value."""
    m, width = w.m, width_of(w, array, op.index, type_.lanes)
    at = position(w, array, op.index, width)
    if width > MOST_LANES:
        vectors = [_to_cells(w, array, MOST_LANES, part) for part in w.values[op.value]]
        parts, words = width // MOST_LANES, unit_type(m, array.cell, width)
        of_part = m.of(dtypes.uint32, MOST_LANES * array.cell.bits // dtypes.uint32.bits)
        for lane in range(0, type_.lanes, width):
            first = lane // MOST_LANES
            pieces = [m.value("Bitcast", of_part, vector) for vector in vectors[first : first + parts]]
            unit = m.value("CompositeConstruct", words, *pieces)
            m.do("Store", pointer(w, array, at, lane, width), unit, *access(w, array, width))
        return
    first = 0
    for part, count in zip(w.values[op.value], parts_of(type_.lanes), strict=True):
        cells = _to_cells(w, array, count, part)
        for lane in range(0, count, width):
            piece = cells if width == count else _piece(w, array.cell, cells, lane, width)
            m.do("Store", pointer(w, array, at, first + lane, width), piece, *access(w, array, width))
        first += count


def _piece(w: Writer, cell: DType, vector: int, lane: int, width: int) -> int:
    """Return some lanes of a vector."""
    if width == 1:
        return w.m.value("CompositeExtract", w.m.of(cell), vector, lane)
    return w.m.value("VectorShuffle", w.m.of(cell, width), vector, vector, *range(lane, lane + width))


def _store_slot(w: Writer, op: k.Store, type_: Type) -> None:
    m = w.m
    flags = (0,) * len(w.values[op.value]) if op.mask is None else w.values[op.mask]
    targets = _slot_parts(w, op.target, op.index)
    for target, part, flag, lanes in zip(targets, w.values[op.value], flags, parts_of(type_.lanes), strict=True):
        if flag:
            old = m.value("Load", m.of(type_.dtype, lanes), target)
            part = m.select(flag, part, old, type_.dtype, lanes)  # what is written of this part
        m.do("Store", target, part)


def _store_element(w: Writer, array: Array, op: k.Store, type_: Type) -> None:
    """Write an element of an array of a thread; with a mask, in whose lanes some hold, the others stay."""
    m, at = w.m, position(w, array, op.index)
    for part, (value, lanes) in enumerate(zip(w.values[op.value], parts_of(type_.lanes), strict=True)):
        target = element_pointer(w, array, at, part, lanes)
        if op.mask is not None and uniform_mask(w, op.mask) is None:
            old = m.value("Load", m.of(array.cell, lanes), target)
            value = m.select(w.values[op.mask][part], value, old, type_.dtype, lanes)  # as above
        m.do("Store", target, value)


# ---- atomics


def atomic(w: Writer, i: int, op: k.Atomic) -> None:
    """Combine a value into memory where the mask holds."""
    del i
    m, array = w.m, w.arrays[op.target]
    dtype = array.define.dtype
    if dtype.bits not in w.target.atomic_bits or dtype.is_bool:
        raise UnsupportedError(f"there is no native form of atomic {op.op.value} of {dtype}")
    if not array.define.length:
        return
    if dtype.bits == 64:
        m.require("Int64Atomics")
    if w.has_memory_model and array.define.memory is Memory.GLOBAL:
        m.require("VulkanMemoryModelDeviceScope")
    behind = None if op.mask is None else w.begin_where(w.scalar(op.mask))
    place = pointer(w, array, position(w, array, op.index), 0, 1)
    how = m.word(_SCOPES[array.define.memory]), m.word(_RELAXED)
    name = (_ATOMICS.get(op.op) or _ORDERS.get((op.op, dtype.is_unsigned))) if dtype.is_integer else None
    if name is not None:
        m.value(name, m.of(array.cell), place, *how, w.scalar(op.value))
    else:
        _exchange(w, op, array, place, how)
    if behind is not None:
        w.end_where(behind)


def _exchange(w: Writer, op: k.Atomic, array: Array, place: int, how: tuple[int, int]) -> None:
    """Combine by compare-and-exchange: again and again, until nobody was faster."""
    m, dtype, cell = w.m, array.define.dtype, array.cell
    value, type_ = w.scalar(op.value), m.of(cell)
    first = m.value("AtomicLoad", type_, place, *how)
    head, body, again, behind, seen, there = (m.new() for _ in range(6))
    before = w.block
    w.branch(head)
    w.begin(head)
    m.do("Phi", type_, seen, first, before, there, again)
    m.do("LoopMerge", behind, again, 0)
    w.branch(body)
    w.begin(body)
    was = render_casts.bitcast(m, cell, dtype, 1, seen)
    now = render_values.binary(m, op.op.binary, dtype, 1, was, value)
    new = render_casts.bitcast(m, dtype, cell, 1, now)
    scope, order = how
    m.do("AtomicCompareExchange", type_, there, place, scope, order, order, new, seen)
    m.do("BranchConditional", m.compare("IEqual", there, seen, 1), behind, again)
    w.begin(again)
    w.branch(head)
    w.begin(behind)
