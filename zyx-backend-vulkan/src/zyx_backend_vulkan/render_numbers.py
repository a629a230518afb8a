"""The numbers of a launch, and the addresses of its buffers, as a block: in push constants, or in one more buffer.

A place has 4 bytes, or 8 for what has so many, at a multiple of that. What has fewer than 4 bytes lies in the lowest
ones of its place, and the others are 0. Behind the last place is the zero that a driver does not see through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.render_writer import Writer
    from zyx_backend_vulkan.target import Target

_WORD_BYTES: Final = 4
_ADDRESS_BYTES: Final = 8


@dataclass(slots=True)
class Numbers:
    """Where what a kernel is launched with lies.

    Attributes:
        offsets: Of each parameter in the block, in bytes; -1 for buffers that descriptors bind.
        zero: Offset of the zero.
        uses_addresses: Whether buffers lie in the block, by their addresses.
        is_buffer: Whether the block is a buffer, since push constants do not hold it.
        binding: Of that buffer.
        members: The number of each parameter in the block, -1 for those that are not there.
        types: Types of the members, as far as they are used.
    """

    offsets: tuple[int, ...]
    zero: int
    uses_addresses: bool
    is_buffer: bool
    binding: int
    members: tuple[int, ...]
    types: list[int]

    def nbytes(self, *, uses_zero: bool) -> int:
        """Return the size of the block."""
        return self.zero + (_WORD_BYTES if uses_zero else 0)


def place_numbers(params: Sequence[k.Define | k.Variable], name: str, target: Target) -> Numbers:
    """Return where the parameters of kernel `name` lie.

    Raises:
        UnsupportedError: More buffers than the device binds, which has no addresses.
    """
    buffers = sum(isinstance(param, k.Define) for param in params)
    offsets, end, is_buffer = _offsets(params, target, uses_addresses=False)
    uses_addresses = buffers + is_buffer > target.max_buffers
    if uses_addresses:
        if not target.has_addresses:
            raise UnsupportedError(
                f"kernel {name} has {buffers} buffers, and the device binds {target.max_buffers - is_buffer} at most"
            )
        offsets, end, is_buffer = _offsets(params, target, uses_addresses=True)
    members, count = [], 0
    for offset in offsets:
        members.append(count if offset >= 0 else -1)
        count += offset >= 0
    binding = 0 if uses_addresses else buffers
    return Numbers(tuple(offsets), end, uses_addresses, is_buffer, binding, tuple(members), [0] * count)


def _offsets(
    params: Sequence[k.Define | k.Variable], target: Target, *, uses_addresses: bool
) -> tuple[list[int], int, bool]:
    """Return offsets, the end of them, and whether push constants do not hold so many bytes and a zero."""
    offsets, end = [], 0
    for param in params:
        if isinstance(param, k.Define):
            size = _ADDRESS_BYTES if uses_addresses else 0
        else:
            size = max(_WORD_BYTES, param.type.dtype.itemsize)
        if not size:
            offsets.append(-1)
            continue
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    return offsets, end, end + _WORD_BYTES > target.push_bytes


def variable(w: Writer, i: int, op: k.Variable) -> None:
    """Read a number."""
    dtype = op.type.dtype
    member = _member(w, i)
    word = dtypes.uint32 if dtype.bits < 32 else dtype
    type_ = w.m.of(word)
    w.numbers.types[member] = type_
    pointer = w.m.first_value("AccessChain", w.m.member_pointer(type_), w.m.block, w.m.word(member))
    w.values[i] = (_narrowed(w, w.m.first_value("Load", type_, pointer), dtype),)


def address(w: Writer, i: int, type_: int) -> int:
    """Return the address of a buffer, a pointer of `type_`."""
    member = _member(w, i)
    w.numbers.types[member] = type_
    pointer = w.m.first_value("AccessChain", w.m.member_pointer(type_), w.m.block, w.m.word(member))
    return w.m.first_value("Load", type_, pointer)


def _member(w: Writer, i: int) -> int:
    """Return the number in the block of the parameter that operation `i` is."""
    return w.numbers.members[_position(w.kernel, i)]


def _position(kernel: Kernel, i: int) -> int:
    before = kernel.ops[:i]
    return sum(
        isinstance(op, k.Variable) or (isinstance(op, k.Define) and op.memory is k.Memory.GLOBAL) for op in before
    )


def _narrowed(w: Writer, word: int, dtype: DType) -> int:
    """Return the value in the lowest bits of a word."""
    m = w.m
    if dtype.bits >= 32:
        return word
    if dtype.is_bool:
        return m.first_value("INotEqual", m.of(dtype), word, m.word(0))
    held = m.held(dtype)
    if held.is_float:
        pair = m.first_value("Bitcast", m.of(dtype, 2), word)
        return m.first_value("CompositeExtract", m.of(dtype), pair, 0)
    return m.first_value("UConvert", m.of(held), word)


def declare(w: Writer) -> None:
    """Declare the block, if anything in it is used."""
    m, numbers = w.m, w.numbers
    if not m.zero and not any(numbers.types):
        return
    word = m.of(dtypes.uint32)
    offsets = [offset for offset in numbers.offsets if offset >= 0]
    types = [type_ or word for type_ in numbers.types]
    if m.zero:
        types.append(word)
        offsets.append(numbers.zero)
    decorations = ("NonWritable",) if numbers.is_buffer else ()
    m.declared(m.block_storage, m.struct(types, offsets, *decorations), m.block)
    if numbers.is_buffer:
        m.decorate(m.block, "DescriptorSet", 0)
        m.decorate(m.block, "Binding", numbers.binding)
