"""A kernel as WGSL, on the writer of the C family; what differs in the words is in `zyx_backend_wgpu.wgsl`.

    %4 = load f32 %0[%3]             let v4 = p0[v3];
    %5 = mad %4, %4, %2       =>     let v5 = fma(v4, v4, v2);
    %6 = store %1[%3], %5            p1[v3] = v5;

Buffers of types that WGSL has no memory for (bool, 8 and 16 bits) are arrays of words. A thread that writes a part of a
word must leave the rest to others, who may write at the same time: so it clears its bits and sets its bits, each
indivisibly. Threads that write whole words need not.

Numbers that are passed by value lie in one more buffer of constants, ``u``, whose first word is 0: the zero that hides
values from the driver's compiler (`zyx_backend_wgpu.hidden`). Kernels that need neither do without it.

Grids with too many groups along an axis are folded: their groups are numbered, and laid out along three axes anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.kernel import Axis, Memory
from zyx.ops import BinaryOp, ReduceOp
from zyx.render.c_family import CWriter
from zyx.render.dialect import Dialect
from zyx.render.divisors import divisors
from zyx_backend_wgpu import wgsl
from zyx_backend_wgpu.bindings import READ, UNIFORM, WRITE
from zyx_backend_wgpu.hidden import hidden_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.ir.kernel import Kernel, Type, ValueId

_WORD_BITS: Final = 32
_DTYPES: Final = {"i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64"}
_ATOMICS: Final = {
    ReduceOp.SUM: "atomicAdd", ReduceOp.MAX: "atomicMax", ReduceOp.MIN: "atomicMin", ReduceOp.OR: "atomicOr",
    ReduceOp.AND: "atomicAnd", ReduceOp.XOR: "atomicXor",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Language:
    """What a device's kernels are written with.

    Attributes:
        types: Type of a value of each dtype.
        has_i64_atomics: Whether there are indivisible operations on 64 bits.
        max_groups: Most groups along an axis.
    """

    types: Mapping[DType, str]
    has_i64_atomics: bool = False
    max_groups: int = 65535

    @property
    def atomic_bits(self) -> tuple[int, ...]:
        """Sizes of the dtypes that can be combined indivisibly."""
        return (32, 64) if self.has_i64_atomics and dtypes.int64 in self.types else (32,)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A kernel as text, and what it takes to launch it.

    Attributes:
        text: WGSL, with a function ``main``.
        bindings: The kind of each binding.
        groups: Number of groups along three axes.
        local_bytes: Memory that a group shares.
    """

    text: str
    bindings: tuple[str, ...]
    groups: tuple[int, int, int]
    local_bytes: int


def render(kernel: Kernel, language: Language) -> Rendered:
    """Return `kernel` as WGSL.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for.
    """
    return WgslWriter(kernel, language).rendered()


def fold(groups: tuple[int, ...], most: int) -> tuple[int, int, int]:
    """Return three sizes, `most` at most, whose product is at least that of `groups`, and close to it.

    Raises:
        UnsupportedError: There are too many.
    """
    count = math.prod(groups)
    if max(groups, default=1) <= most:
        x, y, z = (*groups, 1, 1, 1)[:3]
        return x, y, z
    if count > min(most**3, dtypes.uint32.max):
        raise UnsupportedError(f"{count} groups; at most {min(most**3, dtypes.uint32.max)} can be launched")
    z = -(-count // most**2)
    y = -(-count // (most * z))
    return -(-count // (y * z)), y, z


class WgslWriter(CWriter):
    """The text of one kernel, while it is written.

    Attributes:
        language: What to write with.
        declarations: What stands before the function.
        functions: Names of the functions it uses.
        local_bytes: Memory that a group shares.
    """

    def __init__(self, kernel: Kernel, language: Language) -> None:
        super().__init__(kernel, Dialect("WGSL", language.types, {}, {}, "", ""))
        self.language = language
        self.declarations: list[str] = []
        self.functions: set[str] = set()
        self.local_bytes = 0
        self._hidden = hidden_values(kernel)
        self._uses_constants = any(isinstance(op, k.Variable) for op in kernel.ops)
        self._multiples = divisors(kernel)
        self._atomic = {op.target for op in kernel.ops if isinstance(op, k.Atomic)} | self._partly_written()
        self._bindings: list[str] = []
        self._constants = 1
        self._groups = kernel.grid[0]
        self._folded = fold(self._groups, language.max_groups)

    def rendered(self) -> Rendered:
        """Return the text and the rest."""
        text = self.write("main")
        kinds = (*self._bindings, UNIFORM) if self._uses_constants else tuple(self._bindings)
        return Rendered(text, kinds, self._folded, self.local_bytes)

    def head(self, name: str) -> str:
        shape = ", ".join(str(size) for size in (*self.kernel.grid[1], 1, 1, 1)[:3])
        lines = ["enable f16;"] if "f16" in self.language.types.values() else []
        lines += [wgsl.FUNCTIONS[function] for function in sorted(self.functions)]
        lines += self.declarations
        first = []
        if self._uses_constants:
            place = f"@group(0) @binding({len(self._bindings)})"
            lines.append(f"{place} var<uniform> u: array<vec4<u32>, {self._constants}>;")
            first.append("    let zero = u[0].x;")
        if self._folded != (*self._groups, 1, 1, 1)[:3]:
            x, y, z = self._folded
            first.append(f"    let group = group_id.x + {x}u * (group_id.y + {y}u * group_id.z);")
            if x * y * z > math.prod(self._groups):
                first.append(f"    if (group >= {math.prod(self._groups)}u) {{ return; }}")
        lines.append(f"@compute @workgroup_size({shape})")
        lines.append(
            f"fn {name}(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(local_invocation_id) thread: vec3<u32>) {{"
        )
        return "\n".join(lines + first)

    # ---- text

    def let(self, name: str, type_: str, expression: str) -> None:
        del type_
        self.line(f"let {name} = {expression};")

    def held(self, dtype: DType) -> str:
        """Return the type of a value."""
        return self.element_name(dtype)

    def hide(self, type_: str, x: str) -> str:
        """Return a float or bool as one that the driver's compiler knows nothing of."""
        self._uses_constants = True
        if type_ == "bool":
            return f"(select(0u, 1u, {x}) | zero) != 0u"
        word, zero = ("u32", "zero") if type_ == "f32" else ("u64", "u64(zero)")
        return f"bitcast<{type_}>(bitcast<{word}>({x}) ^ {zero})"

    def define_parts(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        """Define a value by a template, part by part, and hide it if it has to be."""
        if template is not None:
            self.functions |= {name for name in wgsl.FUNCTIONS if f"{name}(" in template}
            if i in self._hidden:
                template = self.hide(self.held(type_.dtype), template)
        self.elementwise(i, type_, template, what, *operands)

    def text_of(self, value: ValueId, dtype: DType) -> str:
        """Return a literal of `dtype`, or the hidden bits of one that has none."""
        op = self.ops[value]
        assert isinstance(op, k.Const)
        type_ = self.held(dtype)
        text = wgsl.literal(op.value, dtype, type_)
        if text is not None:
            return text
        if type_ == "f16":
            return f"f16({self._bits_of(float(op.value), 'f32')})"
        return self._bits_of(float(op.value), type_)

    def _bits_of(self, value: float, type_: str) -> str:
        self._uses_constants = True
        return f"bitcast<{type_}>({wgsl.float_bits(value, type_)} ^ {'zero' if type_ == 'f32' else 'u64(zero)'})"

    # ---- arrays and arguments

    def define(self, i: int, op: k.Define) -> None:
        if op.memory is not Memory.GLOBAL:
            super().define(i, op)
            return
        self.held(op.dtype)
        kind = WRITE if op.mutable else READ
        place = f"@group(0) @binding({len(self._bindings)})"
        self.declarations.append(f"{place} var<storage, {kind}> p{i}: array<{self._cell(i)}>;")
        self._bindings.append(kind)
        self.values[i] = (f"p{i}",)

    def declare(self, i: int, op: k.Define) -> None:
        cell, length = self._cell(i), op.length * op.lanes
        if op.memory is Memory.LOCAL:
            self.local_bytes += length * (8 if op.dtype.bits == 64 else 2 if cell == "f16" else 4)
            self.declarations.append(f"var<workgroup> m{i}: array<{cell}, {length}>;")
        else:
            self.line(f"var m{i}: array<{cell}, {length}>;")

    def declare_variable(self, name: str, type_: Type) -> None:
        self.line(f"var {name}: {self.type_name(type_)};")

    def variable(self, i: int, op: k.Variable) -> None:
        word, dtype = f"u[{self._constants}]", op.type.dtype
        self._constants += 1
        type_ = self.held(dtype)
        if dtype.bits == 64:
            self.let(f"w{i}", "", f"u64({word}.x) | (u64({word}.y) << 32u)")
            text = f"w{i}" if type_ == "u64" else f"bitcast<{type_}>(w{i})"
        elif type_ == "bool":
            text = f"{word}.x != 0u"
        elif type_ == "f16":
            text = f"f16(unpack2x16float({word}.x).x)"
        else:
            bits = wgsl.wrapped(f"bitcast<i32>({word}.x)", dtype) if type_ == "i32" else f"{word}.x"
            text = bits if type_ in ("i32", "u32") else f"bitcast<{type_}>({bits})"
        self.let(f"v{i}", "", text)
        self.values[i] = (f"v{i}",)

    # ---- values

    def const(self, i: int, op: k.Const) -> None:
        self.values[i] = (self.text_of(i, op.type.dtype),) * op.type.lanes

    def index(self, i: int, op: k.Index) -> None:
        type_ = self.held(op.type.dtype)
        self.values[i] = (f"v{i}",)
        if op.axis is Axis.LOCAL or self._folded == (*self._groups, 1, 1, 1)[:3]:
            text = f"{'thread' if op.axis is Axis.LOCAL else 'group_id'}.{'xyz'[op.number]}"
        else:
            inner = math.prod(self._groups[op.number + 1 :])
            text = "group" if inner == 1 else f"group / {inner}u"
            if op.number:
                text = f"({text}) % {op.size}u"
        self.let(f"v{i}", type_, text if type_ == "u32" else f"{type_}({text})")

    def unary(self, i: int, op: k.Unary) -> None:
        template = wgsl.unary(op.op, op.type.dtype, self.held(op.type.dtype))
        self.define_parts(i, op.type, template, f"{op.op.value} of {op.type}", op.x)

    def binary(self, i: int, op: k.Binary) -> None:
        dtype = self.type_of(op.x).dtype
        type_ = self.held(dtype)
        last = self.ops[op.y]
        constant = int(last.value) if isinstance(last, k.Const) and dtype.is_integer else None
        template = wgsl.binary(op.op, dtype, type_, constant)
        if template is not None and dtype.is_float:
            template = self._guarded(op, template, type_)
        self.define_parts(i, op.type, template, f"{op.op.value} of {dtype}", op.x, op.y)

    def _guarded(self, op: k.Binary, template: str, type_: str) -> str:
        """Hide operands that a driver would see as the same, or as 0."""
        if op.x == op.y:
            if op.op in (BinaryOp.EQ, BinaryOp.LE):
                return f"!({wgsl.is_nan(type_, '{x}')})"
            if op.op is BinaryOp.NE:
                return wgsl.is_nan(type_, "{x}")
            return template.replace("{x}", self.hide(type_, "{x}"))
        if op.op in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV):
            for name, operand in (("{x}", op.x), ("{y}", op.y)):
                if self._is_zero(operand):
                    template = template.replace(name, self.hide(type_, name))
        return template

    def _is_zero(self, value: ValueId) -> bool:
        op = self.ops[value]
        return isinstance(op, k.Const) and op.value == 0

    def mad(self, i: int, op: k.Mad) -> None:
        dtype = op.type.dtype
        type_ = self.held(dtype)
        template = wgsl.multiply_add(dtype, type_)
        if template is not None and dtype.is_float:
            for name, operand in (("{x}", op.x), ("{y}", op.y), ("{z}", op.z)):
                if self._is_zero(operand):
                    template = template.replace(name, self.hide(type_, name))
        self.define_parts(i, op.type, template, f"mad of {op.type}", op.x, op.y, op.z)

    def where(self, i: int, op: k.Where) -> None:
        self.define_parts(i, op.type, "select({z}, {y}, {x})", "where", op.condition, op.x, op.y)

    def cast(self, i: int, op: k.Cast) -> None:
        source, target = self.type_of(op.x).dtype, op.type.dtype
        template = wgsl.cast(source, target, self.held(source), self.held(target))
        self.define_parts(i, op.type, template, f"conversion of {source} to {target}", op.x)

    def bitcast(self, i: int, op: k.Bitcast) -> None:
        source, target = self.type_of(op.x).dtype, op.type.dtype
        template = wgsl.bitcast(source, target, self.held(source), self.held(target))
        self.define_parts(i, op.type, template, f"bits of {source} as {target}", op.x)

    # ---- memory

    def _is_packed(self, array: ValueId) -> bool:
        """Whether several elements share a word."""
        op = self.array(array)
        return op.memory is Memory.GLOBAL and op.dtype.bits < _WORD_BITS and self.held(op.dtype) != "f16"

    def _partly_written(self) -> set[ValueId]:
        """Return the packed arrays of which a thread writes a part of a word."""
        return {
            op.target
            for op in self.ops
            if isinstance(op, k.Store) and self._is_packed(op.target) and not self._writes_words(op)
        }

    def _writes_words(self, op: k.Store) -> bool:
        """Whether a store to a packed array fills words."""
        in_a_word = _WORD_BITS // self.array(op.target).dtype.bits
        lanes = self.type_of(op.value).lanes
        return op.mask is None and lanes % in_a_word == 0 and self._multiples[op.index] % in_a_word == 0

    def _cell(self, array: ValueId) -> str:
        """Return the type of an element of an array in memory."""
        op = self.array(array)
        type_ = self.held(op.dtype)
        if array in self._atomic:
            word = "u32" if self._is_packed(array) else {"f32": "u32", "f64": "u64"}.get(type_, type_)
            return f"atomic<{word}>"
        return "u32" if self._is_packed(array) else type_

    def _at(self, array: ValueId, index: ValueId, lane: int, mask: str | None) -> str:
        """Return the position of an element; 0, which is always there, where `mask` does not hold."""
        position = self.values[index][0]
        type_ = self.held(self.type_of(index).dtype)
        lanes = self.array(array).lanes
        if lanes > 1:
            position = f"({position}) * {wgsl.literal(lanes, self.type_of(index).dtype, type_)}"
        if lane:
            position = f"{position} + {wgsl.literal(lane, self.type_of(index).dtype, type_)}"
        position = position if type_ == "u32" else f"u32({position})"
        return position if mask is None else f"select(0u, {position}, {mask})"

    def _read(self, array: ValueId, at: str) -> str:
        """Return the expression for the element at a position."""
        name, dtype = self.values[array][0], self.array(array).dtype
        type_ = self.held(dtype)
        if self._is_packed(array):
            shift = 5 - int(math.log2(_WORD_BITS // dtype.bits))
            in_a_word = _WORD_BITS // dtype.bits
            word = f"{name}[({at}) / {in_a_word}u]"
            word = f"atomicLoad(&{word})" if array in self._atomic else word
            bits = f"({word} >> ((({at}) % {in_a_word}u) << {shift}u))"
            if type_ == "bool":
                return f"({bits} & 255u) != 0u"
            return wgsl.wrapped(f"bitcast<i32>({bits})" if type_ == "i32" else bits, _bits_dtype(dtype))
        if array in self._atomic:
            word = f"atomicLoad(&{name}[{at}])"
            return f"bitcast<{type_}>({word})" if type_ in ("f32", "f64") else word
        return f"{name}[{at}]"

    def load(self, i: int, op: k.Load) -> None:
        names = self.values[i] = self.names(i, op.type)
        dtype = op.type.dtype
        type_ = self.held(dtype)
        masks = self.values[op.mask] if op.mask is not None else ()
        zero = wgsl.literal(dtype.to_scalar(0), dtype, type_)
        slot = self.slot_of(op.source, op.index) if op.source in self.variables else ()
        for lane, name in enumerate(names):
            mask = masks[lane] if len(masks) > 1 else masks[0] if masks else None
            if slot:
                read = slot[lane]
            else:
                at = self._at(op.source, op.index, lane, mask)
                if self._is_packed(op.source):
                    self.let(f"at{i}_{lane}", "u32", at)
                    at = f"at{i}_{lane}"
                read = self._read(op.source, at)
            self.let(name, type_, read if mask is None else f"select({zero}, {read}, {mask})")

    def store(self, i: int, op: k.Store) -> None:
        values = self.values[op.value]
        masks = self.values[op.mask] if op.mask is not None else ()
        if op.target not in self.variables and self._is_packed(op.target):
            if self._writes_words(op):
                self._store_words(op, values)
                return
        slot = self.slot_of(op.target, op.index) if op.target in self.variables else ()
        for lane, value in enumerate(values):
            mask = masks[lane] if len(masks) > 1 else masks[0] if masks else None
            if slot:
                text = f"{slot[lane]} = {value};"
            else:
                text = self._written(f"{i}_{lane}", op.target, self._at(op.target, op.index, lane, None), value)
            self.line(text if mask is None else f"if ({mask}) {{ {text} }}")

    def _written(self, number: str, array: ValueId, at: str, value: str) -> str:
        """Return the statements that write an element."""
        name, dtype = self.values[array][0], self.array(array).dtype
        type_ = self.held(dtype)
        if self._is_packed(array):
            in_a_word = _WORD_BITS // dtype.bits
            shift = f"((at{number} % {in_a_word}u) * {dtype.bits}u)"
            word = f"&{name}[at{number} / {in_a_word}u]"
            ones = f"{(1 << dtype.bits) - 1}u"
            bits = _as_word(value, dtype, type_)
            return (
                f"let at{number} = {at}; atomicAnd({word}, ~({ones} << {shift})); "
                f"atomicOr({word}, ({bits}) << {shift});"
            )
        if array in self._atomic:
            word = f"bitcast<{'u32' if type_ == 'f32' else 'u64'}>({value})" if type_ in ("f32", "f64") else value
            return f"atomicStore(&{name}[{at}], {word});"
        return f"{name}[{at}] = {value};"

    def _store_words(self, op: k.Store, values: tuple[str, ...]) -> None:
        """Write lanes that fill words."""
        dtype = self.array(op.target).dtype
        type_, in_a_word = self.held(dtype), _WORD_BITS // dtype.bits
        for first in range(0, len(values), in_a_word):
            parts = [
                f"(({_as_word(value, dtype, type_)}) << {lane * dtype.bits}u)"
                for lane, value in enumerate(values[first : first + in_a_word])
            ]
            place = f"{self.values[op.target][0]}[({self._at(op.target, op.index, first, None)}) / {in_a_word}u]"
            word = " | ".join(parts)
            self.line(f"atomicStore(&{place}, {word});" if op.target in self._atomic else f"{place} = {word};")

    def atomic(self, i: int, op: k.Atomic) -> None:
        dtype = self.array(op.target).dtype
        if dtype.bits not in self.language.atomic_bits:
            raise UnsupportedError(f"WGSL has no atomic {op.op.value} of {dtype}")
        place = f"&{self.values[op.target][0]}[{self._at(op.target, op.index, 0, None)}]"
        value = self.values[op.value][0]
        if op.mask is not None:
            self.line(f"if ({self.values[op.mask][0]}) {{")
            self.depth += 1
        if dtype.is_integer and op.op in _ATOMICS:
            self.line(f"{_ATOMICS[op.op]}({place}, {value});")
        else:
            self._exchange(i, op, dtype, value)
        if op.mask is not None:
            self.depth -= 1
            self.line("}")

    def _exchange(self, i: int, op: k.Atomic, dtype: DType, value: str) -> None:
        """Combine by compare-and-exchange: again and again, until nobody was faster."""
        type_ = self.held(dtype)
        template = wgsl.binary(op.op.binary, dtype, type_)
        if template is None:
            raise UnsupportedError(f"WGSL has no native form of atomic {op.op.value} of {dtype}")
        word = {"f32": "u32", "f64": "u64"}.get(type_, type_)
        place = f"&{self.values[op.target][0]}[{self._at(op.target, op.index, 0, None)}]"
        self.line(f"var seen{i} = atomicLoad({place});")
        self.line("loop {")
        was = f"seen{i}" if word == type_ else f"bitcast<{type_}>(seen{i})"
        self.line(f"    let was{i} = {was};")
        now = template.format(x=f"was{i}", y=value)
        now = now if word == type_ else f"bitcast<{word}>({now})"
        self.line(f"    let old{i} = atomicCompareExchangeWeak({place}, seen{i}, {now});")
        self.line(f"    if (old{i}.exchanged) {{ break; }}")
        self.line(f"    seen{i} = old{i}.old_value;")
        self.line("}")

    # ---- control flow

    def loop(self, i: int, op: k.Loop) -> None:
        type_, dtype = self.held(op.type.dtype), op.type.dtype
        self.values[i] = (f"v{i}",)
        counts = op.size <= int(dtype.max)
        counter, type_of_counter = (f"v{i}", type_) if counts else (f"n{i}", "u32" if dtype.bits < 32 else "u64")
        end, one = (wgsl.literal(n, dtypes.as_dtype(_DTYPES[type_of_counter]), type_of_counter) for n in (op.size, 1))
        self.line(
            f"for (var {counter}: {type_of_counter} = {type_of_counter}(0); {counter} < {end}; {counter} += {one}) {{"
        )
        self.depth += 1
        if not counts:
            self.let(f"v{i}", type_, f"{type_}({counter})")

    def barrier(self, i: int, op: k.Barrier) -> None:
        del i, op
        self.line("storageBarrier();")
        self.line("workgroupBarrier();")


def _bits_dtype(dtype: DType) -> DType:
    """Return the integer type that bits of `dtype` are cut to."""
    return dtypes.uint16 if dtype.is_float else dtype


def _as_word(value: str, dtype: DType, type_: str) -> str:
    """Return a value that takes a part of a word, in the lowest bits of a word, with zeros above."""
    if type_ == "bool":
        return f"select(0u, 1u, {value})"
    return f"bitcast<u32>({value}) & {(1 << dtype.bits) - 1}u" if type_ == "i32" else value
