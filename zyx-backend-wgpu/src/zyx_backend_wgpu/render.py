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
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.bounds import Bounds
from zyx.ir.kernel import Axis, Memory
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp
from zyx.render.c_family import CWriter
from zyx.render.dialect import Dialect
from zyx.render.divisors import divisors
from zyx.render.seams import hidden_values
from zyx.render.vector_arrays import LANES, is_whole, vector_arrays
from zyx.render.wide_values import in_wide_values
from zyx.render.words import in_words
from zyx_backend_wgpu import wgsl
from zyx_backend_wgpu.bindings import READ, UNIFORM, WRITE
from zyx_backend_wgpu.subgroups import SWAPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.dtype import DType, Scalar
    from zyx.ir.intervals import Range
    from zyx.ir.kernel import Kernel, Op, Type, ValueId
    from zyx.render.dialect import Forms

_WORD_BITS: Final = 32
_ATOMICS: Final = {
    ReduceOp.SUM: "atomicAdd", ReduceOp.MAX: "atomicMax", ReduceOp.MIN: "atomicMin", ReduceOp.OR: "atomicOr",
    ReduceOp.AND: "atomicAnd", ReduceOp.XOR: "atomicXor",
}  # fmt: skip
_ARITHMETIC: Final = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV)


@dataclass(frozen=True, slots=True)
class Language:
    """What a device's kernels are written with.

    Attributes:
        types: Type of a value of each dtype.
        has_i64_atomics: Whether there are indivisible operations on 64 bits.
        subgroup_size: Threads that swap values; 0 if none do.
    """

    types: Mapping[DType, str]
    has_i64_atomics: bool = False
    subgroup_size: int = 0

    @property
    def atomic_bits(self) -> tuple[int, ...]:
        """Sizes of the dtypes that can be combined indivisibly."""
        return (32, 64) if self.has_i64_atomics and dtypes.int64 in self.types else (32,)

    def dialect(self) -> Dialect:
        """Return what the writer of the C family needs to know."""
        return Dialect(
            "WGSL", self.types, {}, {}, "", "",
            barrier="storageBarrier(); workgroupBarrier();",
            local_barrier="workgroupBarrier();",
            atomics={
                (op, dtype): f"{name}({{pointer}}, {{value}});"
                for dtype in self.types if dtype.is_integer and dtype.bits in self.atomic_bits
                for op, name in _ATOMICS.items()
            },
            swaps={dtype: "subgroupShuffleXor({x}, {distance}u)" for dtype in SWAPS if self.subgroup_size},
            choice="select({z}, {y}, {x})",
            conditional="if ({condition}) {{ {statement} }}",
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rendered:
    """A kernel as text, and what it takes to launch it.

    Attributes:
        text: WGSL, with a function ``main``.
        bindings: The kind of each binding: of the params that are buffers, then of the constants if there are any.
        local_bytes: Memory that a group shares.
    """

    text: str
    bindings: tuple[str, ...]
    local_bytes: int


def render(kernel: Kernel, language: Language) -> Rendered:
    """Return `kernel` as WGSL.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for.
    """
    small = [dtype for dtype, type_ in language.types.items() if dtype.bits < _WORD_BITS and type_ != "f16"]
    return WgslWriter(in_wide_values(in_words(kernel, small), small), language).rendered()


class WgslWriter(CWriter):
    """The text of one kernel, while it is written.

    Attributes:
        declarations: What stands before the function.
    """

    forms: ClassVar[Forms] = wgsl

    def __init__(self, kernel: Kernel, language: Language) -> None:
        super().__init__(kernel, language.dialect())
        self.language = language
        self.declarations: list[str] = []
        self._hidden = hidden_values(kernel)
        self._multiples = divisors(kernel)
        self._atomic = {op.target for op in kernel.ops if isinstance(op, k.Atomic)}
        self._vectors = {array for array in vector_arrays(kernel, self._multiples) if self._has_vectors(array)}
        self._ranges: Sequence[Range | None] | None = None
        self._bindings: list[str] = []
        self._constants = 1

    def rendered(self) -> Rendered:
        """Return the text and the rest."""
        text = self.write("main")
        shared = (op for op in self.ops if isinstance(op, k.Define) and op.memory is Memory.LOCAL)
        return Rendered(text, tuple(self._bindings), sum(op.length * op.dtype.itemsize for op in shared))

    def head(self, name: str) -> str:
        body = "\n".join(self.lines)
        lines = ["enable f16;"] if "f16" in self.language.types.values() else []
        lines += self.declarations
        first = []
        if re.search(r"\bzero\b", body) or self._constants > 1:
            place = f"@group(0) @binding({len(self._bindings)})"
            lines.append(f"{place} var<uniform> u: array<vec4<u32>, {self._constants}>;")
            first.append("    let zero = u[0].x;")
            self._bindings.append(UNIFORM)
        shape = ", ".join(str(size) for size in (*self.kernel.grid[1], 1, 1, 1)[:3])
        places = "@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>"
        lines += [f"@compute @workgroup_size({shape})", f"fn {name}({places}) {{"]
        return "\n".join(lines + first)

    # ---- values

    def literal(self, value: Scalar, dtype: DType) -> str:
        return wgsl.literal(value, dtype, self.dialect)

    def let(self, name: str, type_: str, expression: str) -> None:
        del type_
        self.line(f"let {name} = {expression};")

    def elementwise(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        if template is not None:
            template = self._guarded(self.ops[i], template)
            if i in self._hidden:
                template = wgsl.hidden(self.type_name(type_), template)
        super().elementwise(i, type_, template, what, *operands)

    def _guarded(self, op: Op, template: str) -> str:
        """Hide operands that a driver would see as the same, or as 0; look at the distance of a shift."""
        if not isinstance(op, k.Binary | k.Mad):
            return template
        dtype = self.type_of(op.x).dtype
        if isinstance(op, k.Binary) and not dtype.is_float:
            distance = self.ops[op.y]
            if op.op not in (BinaryOp.SHL, BinaryOp.SHR):
                return template
            if isinstance(distance, k.Const):
                return wgsl.shift_by(int(distance.value), op.op, dtype, self.dialect)
            return wgsl.shift_within(op.op) if self._is_within(op.y, dtype.bits) else template
        if not dtype.is_float or (isinstance(op, k.Binary) and op.op not in (*_ARITHMETIC, *COMPARISONS)):
            return template
        type_ = self.element_name(dtype)
        if isinstance(op, k.Binary) and op.op in COMPARISONS:
            if op.x != op.y or op.op is BinaryOp.LT:
                return template
            return wgsl.is_nan(type_) if op.op is BinaryOp.NE else f"!({wgsl.is_nan(type_)})"
        for name, operand in zip(("{x}", "{y}", "{z}"), k.operands(op), strict=False):
            constant = self.ops[operand]
            is_zero = isinstance(constant, k.Const) and constant.value == 0
            if is_zero or (isinstance(op, k.Binary) and op.x == op.y and name == "{x}"):
                template = template.replace(name, wgsl.hidden(type_, name))
        return template

    def _is_within(self, value: ValueId, end: int) -> bool:
        """Whether an integer is known to be from 0 to `end` - 1."""
        if self._ranges is None:
            self._ranges = Bounds(self.ops).ranges
        low, high = self._ranges[value] or (0, end)
        return low >= 0 and high < end

    def index(self, i: int, op: k.Index) -> None:
        self.values[i] = (f"v{i}",)
        text = f"{'thread' if op.axis is Axis.LOCAL else 'group_id'}.{'xyz'[op.number]}"
        self.let(f"v{i}", "", f"{self.type_name(op.type)}({text})")

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
            place = f"@group(0) @binding({len(self._bindings)})"
            self.declarations.append(f"{place} var<storage, {kind}> p{i}: array<{self._cell(i)}>;")
            self._bindings.append(kind)

    def declare_variable(self, name: str, type_: Type) -> None:
        self.line(f"var {name}: {self.type_name(type_)};")

    def declare(self, i: int, op: k.Define) -> None:
        length = op.length * op.lanes // (LANES if i in self._vectors else 1)
        if op.memory is Memory.LOCAL:
            self.declarations.append(f"var<workgroup> m{i}: array<{self._cell(i)}, {length}>;")
        else:
            self.line(f"var m{i}: array<{self._cell(i)}, {length}>;")

    def _has_vectors(self, array: ValueId) -> bool:
        """Whether an array can be made of vectors: of 16 bytes, of numbers that have a word each."""
        return self.element_name(self.array(array).dtype) in ("f32", "i32", "u32")

    def _cell(self, array: ValueId) -> str:
        """Return the type of an element of an array in memory."""
        type_ = self.element_name(self.array(array).dtype)
        if array in self._vectors:
            return f"vec{LANES}<{type_}>"
        return f"atomic<{wgsl.BITS.get(type_, type_)}>" if array in self._atomic else type_

    def _at(self, array: ValueId, index: ValueId, lane: int, mask: str | None = None) -> str:
        """Return the position of an element; 0, which is always there, where `mask` does not hold."""
        position, type_ = self.values[index][0], self.type_name(self.type_of(index))
        lanes, suffix = self.array(array).lanes, wgsl.SUFFIXES[type_]
        if lanes > 1:
            position = f"({position}) * {lanes}{suffix}"
        position = f"u32({position}{f' + {lane}{suffix}' if lane else ''})"
        return position if mask is None else f"select(0u, {position}, {mask})"

    def element(self, array: ValueId, index: ValueId, lane: int = 0) -> str:
        return f"{self.values[array][0]}[{self._at(array, index, lane)}]"

    # ---- memory

    def loaded(self, i: int, text: str) -> str:
        return wgsl.hidden(self.element_name(self.type_of(i).dtype), text) if i in self._hidden else text

    def load_together(self, i: int, op: k.Load, names: Sequence[str]) -> bool:
        if op.source not in self._vectors or not is_whole(len(names), self._multiples[op.index]):
            return False
        for first in range(0, len(names), LANES):
            at = self._at(op.source, op.index, first)
            self.let(f"w{i}_{first}", "", f"{self.values[op.source][0]}[{at} / {LANES}u]")
            for name, component in zip(names[first:], "xyzw", strict=False):
                self.let(name, "", f"w{i}_{first}.{component}")
        return True

    def read(self, array: ValueId, index: ValueId, lane: int, mask: str | None) -> str:
        type_, name = self.element_name(self.array(array).dtype), self.values[array][0]
        at = self._at(array, index, lane, mask)
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

    def store_together(self, op: k.Store, values: Sequence[str]) -> bool:
        """Write lanes that fill vectors."""
        if op.target not in self._vectors:
            return False
        for first in range(0, len(values), LANES):
            place = f"{self.values[op.target][0]}[{self._at(op.target, op.index, first)} / {LANES}u]"
            self.line(f"{place} = vec{LANES}({', '.join(values[first : first + LANES])});")
        return True

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

    def loop(self, i: int, op: k.Loop) -> None:
        dtype, type_ = op.type.dtype, self.type_name(op.type)
        self.values[i] = (f"v{i}",)
        fits = op.size <= int(dtype.max)  # else the counter would wrap around before it reached the end
        name, counter = (f"v{i}", type_) if fits else (f"n{i}", "u32" if dtype.bits < 32 else "u64")
        start, end, step = (f"{number}{wgsl.SUFFIXES[counter]}" for number in (0, op.size, 1))
        self.line(f"for (var {name} = {start}; {name} < {end}; {name} += {step}) {{")
        self.depth += 1
        if not fits:
            self.let(f"v{i}", "", f"{type_}({name})")
