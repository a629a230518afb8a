"""A kernel as WGSL, on the writer of the C family; what differs in expressions is in `zyx_backend_wgpu.wgsl`.

    %4 = load f32 %0[%3]             let v4 = p0[u32(v3)];
    %5 = mad %4, %4, %2       =>     let v5 = fma(v4, v4, v2);
    %6 = store %1[%3], %5            p1[u32(v3)] = v5;

Types of 8 and 16 bits, and bools in memory, are words of 32 bits by then: see `zyx.render.words` and `wide_values`.

Numbers that are passed by value lie in one more buffer, of constants, ``u``, whose first word is 0: the zero that hides
values from the driver's compiler (`zyx.render.seams`). Kernels that need neither do without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from zyx import dtype as dtypes
from zyx.drivers import rendered
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Memory
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp
from zyx.render.c_family import CWriter
from zyx.render.dialect import Dialect, VectorAccess
from zyx.render.long_loops import in_fewer_iterations
from zyx.render.seams import hidden_operands, hidden_values
from zyx.render.vector_arrays import LANES, is_whole, vector_arrays
from zyx.render.wide_values import in_wide_values
from zyx.render.words import in_words
from zyx_backend_wgpu import wgsl
from zyx_backend_wgpu.bindings import READ, UNIFORM, WRITE
from zyx_backend_wgpu.subgroups import SWAPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, Op, Type, ValueId
    from zyx.render.dialect import Forms

_WORD_BITS: Final = 32
_ATOMICS: Final = {
    ReduceOp.SUM: "atomicAdd", ReduceOp.MAX: "atomicMax", ReduceOp.MIN: "atomicMin", ReduceOp.OR: "atomicOr",
    ReduceOp.AND: "atomicAnd", ReduceOp.XOR: "atomicXor",
}  # fmt: skip
_VECTORS: Final = VectorAccess(
    type=f"vec{LANES}",
    load=f"{{array}}[{{position}} / {LANES}u]",
    store=f"{{array}}[{{position}} / {LANES}u] = {{value}};",
    make="{type}({items})",
    components=(".x", ".y", ".z", ".w"),
)


@dataclass(frozen=True, slots=True)
class Language:
    """What a device's kernels are written with.

    Attributes:
        types: Type of a value of each dtype.
        has_i64_atomics: Whether there are indivisible operations on 64 bits.
        subgroup_size: Threads that swap values; 0 if none do.
        most_iterations: How many iterations of loops a thread may run; 0 if that is as many as it likes.
    """

    types: Mapping[DType, str]
    has_i64_atomics: bool = False
    subgroup_size: int = 0
    most_iterations: int = 0

    @property
    def atomic_bits(self) -> tuple[int, ...]:
        """Sizes of the dtypes that can be combined indivisibly."""
        return (32, 64) if self.has_i64_atomics and dtypes.int64 in self.types else (32,)

    def dialect(self) -> Dialect:
        """Return what the writer of the C family needs to know."""
        return Dialect(
            "WGSL", self.types, {}, {}, "", "",
            group_index=("group_id.x", "group_id.y", "group_id.z"),
            local_index=("thread.x", "thread.y", "thread.z"),
            barrier="storageBarrier(); workgroupBarrier();",
            local_barrier="workgroupBarrier();",
            atomics={
                (op, dtype): f"{name}({{pointer}}, {{value}});"
                for dtype in self.types if dtype.is_integer and dtype.bits in self.atomic_bits
                for op, name in _ATOMICS.items()
            },
            swaps={dtype: "subgroupShuffleXor({x}, {distance}u)" for dtype in SWAPS if self.subgroup_size},
            vector=_VECTORS,
            choice="select({z}, {y}, {x})",
            conditional="if ({condition}) {{ {statement} }}",
            definition="let {name} = {value};",
            variable="var {name}: {type};",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rendered(rendered.Rendered):
    """A kernel as WGSL, with a function ``main``, and what it takes to launch it.

    Attributes:
        bindings: The kind of each binding: of the params that are buffers, then of the constants if there are any.
        local_bytes: Memory that a group shares.
    """

    bindings: tuple[str, ...]
    local_bytes: int


def render(kernel: Kernel, language: Language) -> Rendered:
    """Return `kernel` as WGSL.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for, or loops that are too long for it.
    """
    given = kernel
    small = [dtype for dtype, type_ in language.types.items() if dtype.bits < _WORD_BITS and type_ != "f16"]
    kernel = in_wide_values(in_words(kernel, small), small)
    if language.most_iterations:
        kernel = in_fewer_iterations(kernel, language.most_iterations, language.dialect().atomics)
    writer = WgslWriter(kernel, language)
    text = writer.write("main")
    shared = (op for op in kernel.ops if isinstance(op, k.Define) and op.memory is Memory.LOCAL)
    local_bytes = sum(op.length * op.dtype.itemsize for op in shared)
    return Rendered.of(given, text, tuple(writer.bindings), local_bytes)


class WgslWriter(CWriter):
    """The text of one kernel, while it is written.

    Attributes:
        declarations: What stands before the function.
        bindings: The kind of each binding.
    """

    forms: ClassVar[Forms] = wgsl

    def __init__(self, kernel: Kernel, language: Language) -> None:
        super().__init__(kernel, language.dialect())
        self.language = language
        self.declarations: list[str] = []
        self._hidden = hidden_values(kernel)
        self._atomic = {op.target for op in kernel.ops if isinstance(op, k.Atomic)}
        self._vectors = vector_arrays(kernel, self.multiples)
        self.bindings: list[str] = []
        self._constants = 1

    def head(self, name: str) -> str:
        body = "\n".join(self.lines)
        lines = ["enable f16;"] if "f16" in self.language.types.values() else []
        lines += self.declarations
        first = []
        if re.search(r"\bzero\b", body) or self._constants > 1:
            place = f"@group(0) @binding({len(self.bindings)})"
            lines.append(f"{place} var<uniform> u: array<vec4<u32>, {self._constants}>;")
            first.append("    let zero = u[0].x;")
            self.bindings.append(UNIFORM)
        shape = ", ".join(str(size) for size in (*self.kernel.grid[1], 1, 1, 1)[:3])
        places = "@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>"
        lines += [f"@compute @workgroup_size({shape})", f"fn {name}({places}) {{"]
        return "\n".join(lines + first)

    # ---- values

    def literal(self, value: Scalar, dtype: DType) -> str:
        return wgsl.literal(value, dtype, self.dialect)

    def converted(self, type_: str, value: str) -> str:
        return f"{type_}({value})"

    def elementwise(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        if template is not None:
            template = self.loaded(i, self._guarded(self.ops[i], self.type_name(type_), template))
        super().elementwise(i, type_, template, what, *operands)

    def _guarded(self, op: Op, type_: str, template: str) -> str:
        """Hide operands of `type_` from a driver that would see through them; look at the distance of a shift."""
        if isinstance(op, k.Binary) and op.op in (BinaryOp.SHL, BinaryOp.SHR):
            distance, dtype = self.ops[op.y], self.type_of(op.x).dtype
            if isinstance(distance, k.Const):
                return wgsl.shift_by(int(distance.value), op.op, dtype, self.dialect)
            return wgsl.shift_within(op.op) if self.is_within(op.y, dtype.bits) else template
        if isinstance(op, k.Binary) and op.op in COMPARISONS and op.x == op.y and op.op is not BinaryOp.LT:
            dtype = self.type_of(op.x).dtype
            is_nan = wgsl.is_nan(self.element_name(dtype)) if dtype.is_float else ""
            return template if not is_nan else is_nan if op.op is BinaryOp.NE else f"!({is_nan})"
        for number in hidden_operands(self.kernel, op):
            name = ("{x}", "{y}", "{z}")[number]
            template = template.replace(name, wgsl.hidden(type_, name))
        return template

    def variable(self, i: int, op: k.Variable) -> None:
        dtype, type_ = op.type.dtype, self.type_name(op.type)
        word = f"u[{self._constants}].x"
        self._constants += 1
        bits = f"u64({word}) | (u64({word[:-1]}y) << 32u)" if dtype.bits == 64 else word
        forms = {"bool": f"{word} != 0u", "u32": word, "f16": f"f16(unpack2x16float({word}).x)"}
        self.let(f"v{i}", "", forms.get(type_) or f"bitcast<{type_}>({bits})")
        self.values[i] = (f"v{i}",)

    # ---- arrays

    def define(self, i: int, op: k.Define) -> None:
        super().define(i, op)
        if op.memory is Memory.GLOBAL:
            kind = WRITE if op.mutable else READ
            place = f"@group(0) @binding({len(self.bindings)})"
            self.declarations.append(f"{place} var<storage, {kind}> p{i}: array<{self._cell(i)}>;")
            self.bindings.append(kind)

    def declare(self, i: int, op: k.Define) -> None:
        length = op.length * op.lanes // (LANES if i in self._vectors else 1)
        if op.memory is Memory.LOCAL:
            self.declarations.append(f"var<workgroup> m{i}: array<{self._cell(i)}, {length}>;")
        else:
            self.line(f"var m{i}: array<{self._cell(i)}, {length}>;")

    def _cell(self, array: ValueId) -> str:
        """Return the type of an element of an array in memory."""
        type_ = self.element_name(self.array(array).dtype)
        if array in self._vectors:
            return f"vec{LANES}<{type_}>"
        return f"atomic<{wgsl.BITS.get(type_, type_)}>" if array in self._atomic else type_

    def position(self, array: ValueId, index: ValueId, lane: int) -> str:
        position, lanes = self.values[index][0], self.array(array).lanes
        suffix = wgsl.SUFFIXES[self.type_name(self.type_of(index))]
        if position.endswith(("li", "lu")):  # compilers do not convert literals of 64 bits
            return f"{int(position[:-2]) * lanes + lane}u"
        if lanes > 1:
            position = f"({position}) * {lanes}{suffix}"
        return f"u32({position}{f' + {lane}{suffix}' if lane else ''})"

    # ---- memory

    def loaded(self, i: int, text: str) -> str:
        return wgsl.hidden(self.element_name(self.type_of(i).dtype), text) if i in self._hidden else text

    def pieces(self, array: ValueId, index: ValueId, lanes: int) -> int:
        return LANES if array in self._vectors and is_whole(lanes, self.multiples[index]) else 1

    def read(self, array: ValueId, index: ValueId, lane: int, mask: str | None) -> str:
        type_, name = self.element_name(self.array(array).dtype), self.values[array][0]
        at = self.position(array, index, lane)
        if mask is not None:  # the first element is always there
            at = f"select(0u, {at}, {mask})"
        if array in self._vectors:
            return f"{name}[{at} / {LANES}u][{at} % {LANES}u]"
        cell = f"{name}[{at}]"
        if array in self._atomic:
            return f"bitcast<{type_}>(atomicLoad(&{cell}))" if type_ in wgsl.BITS else f"atomicLoad(&{cell})"
        return cell

    def write_element(self, array: ValueId, index: ValueId, lane: int, value: str) -> str:
        type_, place = self.element_name(self.array(array).dtype), self.element(array, index, lane)
        bits = f"bitcast<{wgsl.BITS[type_]}>({value})" if type_ in wgsl.BITS else value
        return f"atomicStore(&{place}, {bits});" if array in self._atomic else f"{place} = {value};"

    def exchange(self, i: int, op: k.Atomic, dtype: DType, value: str) -> None:
        """Combine by compare-and-exchange: again and again, until nobody was faster."""
        type_ = self.element_name(dtype)
        template = wgsl.binary(op.op.binary, dtype, self.dialect)
        if template is None or dtype.bits not in self.language.atomic_bits:
            raise UnsupportedError(f"WGSL has no atomic {op.op.value} of {dtype}")
        word, place = wgsl.BITS.get(type_, type_), f"&{self.element(op.target, op.index)}"
        now = template.format(x=f"was{i}", y=value)
        self.line(f"var seen{i} = atomicLoad({place});")
        self.line("loop {")
        self.line(f"    let was{i} = {f'seen{i}' if word == type_ else f'bitcast<{type_}>(seen{i})'};")
        now = now if word == type_ else f"bitcast<{word}>({now})"
        self.line(f"    let old{i} = atomicCompareExchangeWeak({place}, seen{i}, {now});")
        self.line(f"    if (old{i}.exchanged) {{ break; }}")
        self.line(f"    seen{i} = old{i}.old_value;")
        self.line("}")

    # ---- control flow

    def count(self, name: str, dtype: DType, size: int, end: str = "") -> str:
        start, most, step = (f"{number}{wgsl.SUFFIXES[self.element_name(dtype)]}" for number in (0, size, 1))
        below = f" && {name} < {end}" if end else ""
        return f"for (var {name} = {start}; {name} < {most}{below}; {name} += {step}) {{"
