"""A kernel as a module of SPIR-V.

    %4 = load f32 %0[%3]             %31 = OpAccessChain %9 %12 %8 %29
    %5 = mad %4, %4, %2       =>     %32 = OpLoad %7 %31
                                     %33 = OpExtInst %7 %1 Fma %32 %32 %28

Values of several lanes are vectors of up to four (`parts_of`); structured control flow is that of the kernel.
Operations on floats are `NoContraction`, and kept to IEEE 754 by execution modes where the device has them. What
compilers fold all the same, sums and products with a zero that they know, and differences of a value and itself, has a
zero from memory in it (`zyx.render.seams`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.drivers import rendered
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Axis
from zyx.ops import BinaryOp
from zyx.render.long_loops import in_fewer_iterations
from zyx.render.seams import hidden_operands
from zyx.render.wide_values import in_wide_values
from zyx.render.words import in_words
from zyx_backend_vulkan import (
    render_arrays,
    render_casts,
    render_control,
    render_matrices,
    render_memory,
    render_numbers,
    render_quotients,
    render_values,
)
from zyx_backend_vulkan.render_code import parts_of
from zyx_backend_vulkan.render_writer import Writer
from zyx_backend_vulkan.spirv_table import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, ValueId
    from zyx.ops import ReduceOp
    from zyx_backend_vulkan.render_writer import Parts
    from zyx_backend_vulkan.target import Target

#: SPIR-V's scope of a subgroup.
_SUBGROUP: Final = 3
_BUILTINS: Final = {Axis.GROUP: "WorkgroupId", Axis.LOCAL: "LocalInvocationId"}
_AXES: Final = 3


@dataclass(frozen=True, slots=True)
class Rendered(rendered.Rendered):
    """A kernel as SPIR-V, and what it takes to launch it. `text` is empty: `disassembly` makes it when it is asked for.

    Attributes:
        words: The module, little endian 32-bit words.
        uses_addresses: Whether buffers come as addresses in the push constants and not as descriptors.
        push_offsets: Offset in the push constants of each parameter that lies there (numbers; with `uses_addresses`
            also buffers), -1 for the others, in the order of `parameters`.
        push_bytes: Size of the push constants; if negative, that of a buffer that takes their place.
        local_bytes: Memory that a group shares.
    """

    words: bytes
    uses_addresses: bool
    push_offsets: tuple[int, ...]
    push_bytes: int
    local_bytes: int


def render(kernel: Kernel, target: Target) -> Rendered:
    """Return `kernel` as SPIR-V.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for, loops that are too long for it, or more
            buffers than it takes.
    """
    given = kernel
    small = target.small()
    if small:
        kernel = in_wide_values(in_words(kernel, small), small)
    if target.most_iterations:
        kernel = in_fewer_iterations(kernel, target.most_iterations, _atomics(target))
    # Of the kernel as it was given: numbers have the places of their own types.
    numbers = render_numbers.place_numbers(given.params, given.name, target)
    w = Writer(kernel, target, numbers)
    w.needed = render_quotients.needed_quotients(w, render_arrays.divided_positions(w))
    _declare_group(w)
    for i, op in enumerate(kernel.ops):
        try:
            _WRITERS[type(op)](w, i, op)
            if i in w.needed:
                render_quotients.divide(w, i, op)
        except UnsupportedError as error:
            raise UnsupportedError(f"kernel {kernel.name}, operation %{i}: {error}") from error
    render_arrays.finish(w)
    render_numbers.declare(w)
    nbytes = numbers.nbytes(uses_zero=bool(w.m.zero))
    words = w.m.words(kernel.name)
    push_bytes = -nbytes if numbers.is_buffer else nbytes
    return Rendered.of(given, "", words, numbers.uses_addresses, numbers.offsets, push_bytes, w.local_bytes)


def _atomics(target: Target) -> frozenset[tuple[ReduceOp, DType]]:
    """Return what is combined in memory without a loop."""
    return frozenset(
        (op, dtype)
        for dtype in target.arithmetic
        if dtype.is_integer and dtype.bits in target.atomic_bits
        for op in render_memory.NATIVE
    )


def _declare_group(w: Writer) -> None:
    """Declare the size of a group, which a pipeline may be told."""
    m, shape = w.m, (*w.kernel.grid[1], 1, 1, 1)[:_AXES]
    m.mode("LocalSize", *shape)
    word = m.of(dtypes.uint32)
    sizes = [m.specialised(word, number, size) for number, size in enumerate(shape)]
    size = m.constant_of("SpecConstantComposite", m.of(dtypes.uint32, _AXES), *sizes)
    m.decorate(size, "BuiltIn", NAMES["BuiltIn"]["WorkgroupSize"])


# ---- values


def _const(w: Writer, i: int, op: k.Const) -> None:
    w.values[i] = tuple(w.m.const(op.value, op.type.dtype, lanes) for lanes in parts_of(op.type.lanes))


def _index(w: Writer, i: int, op: k.Index) -> None:
    m, dtype = w.m, op.type.dtype
    if op.size == 1:
        w.values[i] = (m.const(0, dtype),)
        return
    place = w.position_of(_BUILTINS[op.axis], op.number)
    w.values[i] = (render_casts.resized(m, dtypes.uint32, dtype, 1, place),)


def _unary(w: Writer, i: int, op: k.Unary) -> None:
    dtype = op.type.dtype
    w.values[i] = tuple(
        render_values.unary(w.m, op.op, dtype, lanes, x)
        for x, lanes in zip(w.values[op.x], parts_of(op.type.lanes), strict=True)
    )


def _operands(w: Writer, op: k.Binary | k.Mad, *operands: ValueId) -> list[Parts]:
    """Return the parts of operands, hidden from a driver that would see through them."""
    found = [w.values[operand] for operand in operands]
    type_ = w.type_of(op.x)
    if type_.dtype.is_float and w.m.computes(type_.dtype):
        for number in hidden_operands(w.kernel, op):
            found[number] = tuple(
                w.m.hidden(part, type_.dtype, lanes)
                for part, lanes in zip(found[number], parts_of(type_.lanes), strict=True)
            )
    return found


def _binary(w: Writer, i: int, op: k.Binary) -> None:
    type_ = w.type_of(op.x)
    dtype, counts = type_.dtype, parts_of(type_.lanes)
    x, y = _operands(w, op, op.x, op.y)
    constant = w.ops[op.y]
    if op.op in (BinaryOp.SHL, BinaryOp.SHR) and isinstance(constant, k.Const):
        by = int(constant.value)
        w.values[i] = tuple(render_values.shift_by(w.m, op.op, dtype, n, a, by) for a, n in zip(x, counts, strict=True))
        return
    form = render_values.binary
    if op.op in (BinaryOp.SHL, BinaryOp.SHR) and w.is_within(op.y, dtype.bits):
        form = render_values.shift_within
    elif op.op is BinaryOp.DIV and w.m.computes(dtype) and dtype.is_float and _is_moderate(constant):
        form = render_values.divide_plainly
    w.values[i] = tuple(form(w.m, op.op, dtype, n, a, b) for a, b, n in zip(x, y, counts, strict=True))


def _is_moderate(op: k.Op) -> bool:
    """Whether a divisor is known, and not too large for drivers."""
    return isinstance(op, k.Const) and abs(op.value) <= render_values.LARGE


def _mad(w: Writer, i: int, op: k.Mad) -> None:
    x, y, z = _operands(w, op, op.x, op.y, op.z)
    w.values[i] = tuple(
        render_values.multiply_add(w.m, op.type.dtype, n, a, b, c)
        for a, b, c, n in zip(x, y, z, parts_of(op.type.lanes), strict=True)
    )


def _where(w: Writer, i: int, op: k.Where) -> None:
    counts, conditions = parts_of(op.type.lanes), w.values[op.condition]
    if w.type_of(op.condition).lanes != op.type.lanes:
        conditions = tuple(w.m.splat(conditions[0], dtypes.bool_, lanes) for lanes in counts)
    w.values[i] = tuple(
        w.m.select(c, x, y, op.type.dtype, n)
        for c, x, y, n in zip(conditions, w.values[op.x], w.values[op.y], counts, strict=True)
    )


def _cast(w: Writer, i: int, op: k.Cast) -> None:
    source = w.type_of(op.x).dtype
    w.values[i] = tuple(
        render_casts.cast(w.m, source, op.type.dtype, lanes, x)
        for x, lanes in zip(w.values[op.x], parts_of(op.type.lanes), strict=True)
    )


def _bitcast(w: Writer, i: int, op: k.Bitcast) -> None:
    source = w.type_of(op.x).dtype
    w.values[i] = tuple(
        render_casts.bitcast(w.m, source, op.type.dtype, lanes, x)
        for x, lanes in zip(w.values[op.x], parts_of(op.type.lanes), strict=True)
    )


def _vectorize(w: Writer, i: int, op: k.Vectorize) -> None:
    w.values[i] = w.joined([w.scalar(item) for item in op.items], op.type)


def _devectorize(w: Writer, i: int, op: k.Devectorize) -> None:
    w.values[i] = (w.scalar(op.x, op.lane),)


def _shuffle(w: Writer, i: int, op: k.Shuffle) -> None:
    lanes = w.type_of(op.x).lanes
    x, y = w.values[op.x], w.values[op.y]
    counts = parts_of(op.type.lanes)
    if len(x) == 1 and lanes > 1 and min(counts) > 1:
        found, first = [], 0
        for count in counts:
            type_ = w.m.of(op.type.dtype, count)
            found.append(w.m.value("VectorShuffle", type_, x[0], y[0], *op.lanes[first : first + count]))
            first += count
        w.values[i] = tuple(found)
        return
    picked = [w.scalar(op.x, lane) if lane < lanes else w.scalar(op.y, lane - lanes) for lane in op.lanes]
    w.values[i] = w.joined(picked, op.type)


def _swap(w: Writer, i: int, op: k.Swap) -> None:
    dtype = op.type.dtype
    if dtype not in w.target.swaps or not w.target.subgroup_size:
        raise UnsupportedError(f"threads do not swap {dtype}")
    w.m.require("GroupNonUniformShuffle")
    scope, distance = w.m.word(_SUBGROUP), w.m.word(op.distance)
    w.values[i] = tuple(
        w.m.value("GroupNonUniformShuffleXor", w.m.of(dtype, lanes), scope, x, distance)
        for x, lanes in zip(w.values[op.x], parts_of(op.type.lanes), strict=True)
    )


# `Any` since each function takes its own operation.
_WRITERS: Final[dict[type, Callable[[Writer, int, Any], None]]] = {
    k.Define: render_arrays.define,
    k.Variable: render_numbers.variable,
    k.Const: _const,
    k.Index: _index,
    k.Loop: render_control.loop,
    k.EndLoop: render_control.end_loop,
    k.If: render_control.open_if,
    k.EndIf: render_control.end_if,
    k.Barrier: render_control.barrier,
    k.Load: render_memory.load,
    k.Store: render_memory.store,
    k.Atomic: render_memory.atomic,
    k.Unary: _unary,
    k.Binary: _binary,
    k.Where: _where,
    k.Cast: _cast,
    k.Bitcast: _bitcast,
    k.Mad: _mad,
    k.Vectorize: _vectorize,
    k.Devectorize: _devectorize,
    k.Shuffle: _shuffle,
    k.Swap: _swap,
    k.Wmma: render_matrices.multiply,
}
