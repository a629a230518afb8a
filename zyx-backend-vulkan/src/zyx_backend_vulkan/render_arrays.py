"""Arrays in memory as SPIR-V: how they are declared, and pointers to their elements.

A buffer that is read by vectors and by numbers is two variables on one binding. Memory of a group, which has no such
thing, is an array of vectors where vectors are accessed: a component of one can be read and written alone.

What is accessed at once has four components at most. More than four small elements are accessed as words of 32 bits:
one load of 16 bytes in place of two. Of memory of a group, only where all accesses are of that kind, since an element
in a word cannot be reached alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Memory
from zyx_backend_vulkan import render_numbers
from zyx_backend_vulkan.render_code import MOST_LANES, UNSIGNED, parts_of
from zyx_backend_vulkan.spirv_table import NAMES
from zyx_backend_vulkan.target import VECTOR_BYTES

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import ValueId
    from zyx_backend_vulkan.render_code import Code
    from zyx_backend_vulkan.render_writer import Writer

_STORAGE: Final = {Memory.LOCAL: "Workgroup", Memory.REGISTER: "Function"}
_SMALL_STORAGE: Final = {8: "StorageBuffer8BitAccess", 16: "StorageBuffer16BitAccess"}
#: What accesses say of memory (MemoryAccess).
_ALIGNED: Final = NAMES["MemoryAccess"]["Aligned"]
_NON_PRIVATE: Final = NAMES["MemoryAccess"]["NonPrivatePointer"]
#: Arrays of fewer elements are indexed with 32 bits.
_SHORT: Final = 1 << 31


class Place(NamedTuple):
    """Where an element is.

    Attributes:
        number: Its position, if that is known.
        value: Else its position, divided by `divisor`, as a value of `dtype`.
        dtype: An unsigned integer.
        divisor: A number that divides the position.
    """

    number: int | None
    value: int
    dtype: DType
    divisor: int = 1


@dataclass(slots=True)
class Array:
    """An array in memory.

    Attributes:
        define: Its definition.
        storage: Storage class.
        cell: What an element is in memory.
        width: Elements of a vector of memory of a group; 1 if it is made of numbers.
        binding: Number of the descriptor of a buffer.
        views: The variables, or addresses, of a buffer, by elements that are accessed at once; of other memory by
            the numbers of the vectors that an element consists of.
        decorations: Of the elements of a buffer.
        is_shared: Whether other buffers may lie in the same memory.
    """

    define: k.Define
    storage: str
    cell: DType
    width: int = 1
    binding: int = 0
    views: dict[int, int] = field(default_factory=dict)
    decorations: tuple[str, ...] = ()
    is_shared: bool = False

    @property
    def is_address(self) -> bool:
        """Whether elements are reached by an address."""
        return self.storage == "PhysicalStorageBuffer"


def define(w: Writer, i: int, op: k.Define) -> None:
    """Declare an array; a buffer is declared when it is accessed."""
    if i in w.variables:
        return
    cell = _cell(w, op, is_atomic=i in w.combined)
    array = w.arrays[i] = Array(op, _STORAGE.get(op.memory, ""), cell)
    if op.memory is Memory.GLOBAL:
        array.storage = "PhysicalStorageBuffer" if w.numbers.uses_addresses else "StorageBuffer"
        array.binding = w.buffers.index(i)
        is_coherent = op.mutable and w.fenced and not w.has_memory_model
        array.decorations = ("Coherent",) if is_coherent else () if op.mutable else ("NonWritable",)
        # An output may take the place of an input.
        array.is_shared = len({w.define_of(buffer).mutable for buffer in w.buffers}) > 1
        return
    m = w.m
    if op.memory is Memory.LOCAL:
        array.width = vector_width(w, i)
        w.local_bytes += op.length * cell.itemsize
        type_ = m.type("TypeArray", unit_type(m, cell, array.width), m.word(op.length // array.width))
        array.views[0] = m.variable("Workgroup", type_)
        return
    for part, lanes in enumerate(parts_of(op.lanes)):
        array.views[part] = m.local(m.type("TypeArray", m.of(cell, lanes), m.word(op.length)))


def _cell(w: Writer, op: k.Define, *, is_atomic: bool) -> DType:
    """Return what an element is in memory."""
    dtype, bits = op.dtype, op.dtype.bits
    if op.memory is Memory.REGISTER:
        return dtype
    if op.memory is Memory.LOCAL and bits < 32 and (bits not in w.target.shared_bits or not w.target.is_native(dtype)):
        return dtypes.uint32
    if dtype.is_bool:
        return dtypes.uint8
    return UNSIGNED[bits] if dtype.is_float and is_atomic else dtype


def vector_width(w: Writer, array: ValueId) -> int:
    """Return how many elements of memory of a group are a vector: as many as any access has; of buffers, 1."""
    define, widths = w.define_of(array), set[int]()
    if define.memory is not Memory.LOCAL:
        return 1
    is_whole = _cell(w, define, is_atomic=False).bits == define.dtype.bits
    for access in w.ops:
        match access:
            case k.Load(source=source, index=index, type=type_) if source == array:
                widths.add(together(w, index, type_.lanes, define.dtype))
            case k.Store(target=target, index=index, value=value) if target == array:
                widths.add(together(w, index, w.type_of(value).lanes, define.dtype))
            case k.Atomic(target=target) if target == array:
                return 1
            case _:
                continue
        is_whole = is_whole and access.mask is None
    if len(widths) > 1 or not is_whole:
        widths = {min(width, MOST_LANES) for width in widths}
    return math.gcd(max(widths, default=1), define.length)


def width_of(w: Writer, array: Array, index: ValueId, lanes: int) -> int:
    """Return how many of the lanes of an access to an array are accessed at once."""
    width = together(w, index, lanes, array.define.dtype)
    if array.define.memory is Memory.LOCAL:
        width = min(width, max(array.width, MOST_LANES))
        return width if width == array.width else 1
    return width


def divided_positions(w: Writer) -> dict[ValueId, set[int]]:
    """Return the positions of accesses to vectors, and of how many elements these are."""
    found: dict[ValueId, set[int]] = {}
    widths = {i: vector_width(w, i) for i, op in enumerate(w.ops) if isinstance(op, k.Define)}
    for op in w.ops:
        if isinstance(op, k.Load):
            array, lanes = op.source, op.type.lanes
        elif isinstance(op, k.Store):
            array, lanes = op.target, w.type_of(op.value).lanes
        else:
            continue
        define = w.define_of(array)
        width = together(w, op.index, lanes, define.dtype)
        if define.memory is Memory.LOCAL:
            width = min(width, max(widths[array], MOST_LANES))
        is_vector = width > 1 and (define.memory is Memory.GLOBAL or width == widths[array])
        if is_vector and not isinstance(w.ops[op.index], k.Const):
            found.setdefault(op.index, set()).add(width)
    return found


def together(w: Writer, index: ValueId, lanes: int, dtype: DType) -> int:
    """Return how many of the lanes of an access may be accessed at once, by an address that is a multiple of that.

    It is a power of two.
    """
    if lanes == 1:
        return 1
    width = max(1, min(lanes, VECTOR_BYTES // dtype.itemsize, w.multiples[index]))
    return math.gcd(1 << width.bit_length() - 1, lanes)


def unit_type(m: Code, cell: DType, width: int) -> int:
    """Return the type of what is accessed at once: elements, or words where these are too many for a vector."""
    return m.of(cell, width) if width <= MOST_LANES else m.of(dtypes.uint32, width * cell.bits // dtypes.uint32.bits)


# ---- pointers


def position(w: Writer, array: Array, index: ValueId, width: int = 1, mask: int | None = None) -> Place:
    """Return where `width` elements that are accessed at once are: the first ones where a mask fails."""
    m, at = w.m, w.ops[index]
    wanted = dtypes.uint32 if array.define.length < _SHORT else dtypes.uint64
    if isinstance(at, k.Const) and mask is None:
        return Place(int(at.value), 0, wanted)
    quotient = w.quotients.get((index, width)) if width > 1 else None
    value, dtype = w.scalar(index) if quotient is None else quotient, w.type_of(index).dtype
    if dtype.bits != wanted.bits:
        is_extended = dtype.bits < wanted.bits and not dtype.is_unsigned
        value = m.value("SConvert" if is_extended else "UConvert", m.of(wanted), value)
    if mask is not None:
        value = m.select(mask, value, m.const(0, wanted), wanted, 1)
    return Place(None, value, wanted, 1 if quotient is None else width)


def lane_position(w: Writer, array: Array, index: ValueId, lane: int, mask: int) -> Place:
    """Return where the element `lane` behind a position is; the first one where its own mask fails."""
    at = position(w, array, index)
    value = w.m.const(at.number + lane, at.dtype) if at.number is not None else _added(w.m, at, lane)
    return at._replace(number=None, value=w.m.select(mask, value, w.m.const(0, at.dtype), at.dtype, 1))


def pointer(w: Writer, array: Array, at: Place, lane: int, width: int) -> int:
    """Return the pointer to `width` elements, `lane` behind a position."""
    m = w.m
    chain, step = _base(w, array, width), width if array.define.memory is Memory.GLOBAL else array.width
    type_ = m.pointer(array.storage, unit_type(m, array.cell, width))
    places = [_divided(m, at, lane, step)]
    if step > width:
        places.append(_rest(m, at, lane, step))
    return m.value("AccessChain", type_, *chain, *places)


def element_pointer(w: Writer, array: Array, at: Place, part: int, lanes: int) -> int:
    """Return the pointer to one of the vectors that an element of an array of a thread consists of."""
    m = w.m
    type_ = m.pointer("Function", m.of(array.cell, lanes))
    return m.value("AccessChain", type_, array.views[part], _divided(m, at, 0, 1))


def _added(m: Code, at: Place, distance: int) -> int:
    return m.value("IAdd", m.of(at.dtype), at.value, m.const(distance, at.dtype)) if distance else at.value


def _divided(m: Code, at: Place, lane: int, step: int) -> int:
    """Return the position of a vector of `step` elements."""
    if at.number is not None:
        return m.const((at.number + lane) // step, at.dtype)
    if at.divisor == step:
        return _added(m, at, lane // step)
    return m.value("ShiftRightLogical", m.of(at.dtype), _added(m, at, lane), m.word(step.bit_length() - 1))


def _rest(m: Code, at: Place, lane: int, step: int) -> int:
    """Return the place of an element in a vector of `step`."""
    if at.number is not None:
        return m.const((at.number + lane) % step, at.dtype)
    return m.value("BitwiseAnd", m.of(at.dtype), _added(m, at, lane), m.const(step - 1, at.dtype))


def _base(w: Writer, array: Array, width: int) -> tuple[int, ...]:
    """Return what chains of pointers to elements begin with."""
    if array.define.memory is not Memory.GLOBAL:
        return (array.views[0],)
    found = array.views.get(width)
    if found is None:
        found = array.views[width] = _view(w, array, width)
    return found, w.m.word(0)


def _view(w: Writer, array: Array, width: int) -> int:
    """Declare a buffer as an array of vectors of so many elements."""
    m, cell = w.m, array.cell
    if cell.bits in _SMALL_STORAGE:
        m.require(_SMALL_STORAGE[cell.bits])
    elements = m.runtime_array(unit_type(m, cell, width), cell.itemsize * width)
    block = m.struct((elements,), (0,), *array.decorations)
    if array.is_address:
        m.require("PhysicalStorageBufferAddresses")
        type_ = m.pointer(array.storage, block)
        parameter = next(i for i, found in w.arrays.items() if found is array)
        if not array.views:
            return render_numbers.address(w, parameter, type_)
        return m.first_value("Bitcast", type_, next(iter(array.views.values())))
    variable = m.variable("StorageBuffer", block)
    m.decorate(variable, "DescriptorSet", 0)
    m.decorate(variable, "Binding", array.binding)
    return variable


def finish(w: Writer) -> None:
    """Say which variables may lie in the same memory: those of one buffer, and an output and an input."""
    for array in w.arrays.values():
        if array.storage == "StorageBuffer" and (array.is_shared or len(array.views) > 1):
            for variable in array.views.values():
                w.m.decorate(variable, "Aliased")


def access(w: Writer, array: Array, width: int) -> tuple[int, ...]:
    """Return what loads and stores of so many elements say: the alignment of an address, and whether others see them.

    In Vulkan's memory model, memory is a thread's own unless its accesses say otherwise.
    """
    is_seen = w.has_memory_model and (array.define.memory is Memory.LOCAL or (array.define.mutable and bool(w.fenced)))
    flags = (_ALIGNED if array.is_address else 0) | (_NON_PRIVATE if is_seen else 0)
    if not flags:
        return ()
    return (flags, array.cell.itemsize * width) if array.is_address else (flags,)
