"""A kernel as C99 with the vector extensions of GNU compilers.

    void zyx_kernel(unsigned long long *args, long long begin, long long end, char *scratch)

runs the groups ``begin <= g < end``, as the LLVM renderer's function does. A value of n lanes is one vector variable.
Infix operations work on vectors as they are; everything else becomes a small function that goes over the lanes, written
with the expression for one element, which compilers turn back into vector instructions::

    static inline f32x16 max_f32x16(f32x16 x, f32x16 y) {
        f32x16 r;
        for (int l = 0; l < 16; ++l) r[l] = (x[l] > y[l] || x[l] != x[l]) ? x[l] : y[l];
        return r;
    }
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.data import Axis, Memory, Type
from zyx.render import scalar
from zyx.render.c_family import CWriter
from zyx.render.llvm.types import LANES
from zyx_backend_c.analysis import analyse
from zyx_backend_c.c_dialect import c_dialect
from zyx_backend_c.program import Rendered
from zyx_backend_c.toolchain import SYMBOL

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel, ValueId
    from zyx.render.c_text import Parts
    from zyx.render.dialect import Dialect
    from zyx_backend_c.analysis import Analysis
    from zyx_backend_c.target import Target

_INFIX_FLOAT: Final = ("add", "sub", "mul", "div")
_INFIX_INTEGER: Final = ("add", "sub", "mul", "and", "or", "xor")
_SYMBOLS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}


class CRenderer:
    """Renders kernels to C for one processor."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.dialect = c_dialect(target)

    def render(self, kernel: Kernel) -> Rendered:
        """Return the text of `kernel`.

        Raises:
            UnsupportedError: An operation, dtype or number of lanes that this renderer has no form for.
        """
        analysis = analyse(kernel, self.target)
        text = _Writer(kernel, self.dialect, analysis).write(SYMBOL)
        return Rendered.of(kernel, text, analysis)


class _Writer(CWriter):
    """`CWriter` with vectors.

    Attributes:
        functions: Functions over lanes that are used, by name.
        vectors: Vector types that are used.
    """

    def __init__(self, kernel: Kernel, dialect: Dialect, analysis: Analysis) -> None:
        super().__init__(kernel, dialect)
        self.analysis = analysis
        self.functions: dict[str, str] = {}
        self.vectors: dict[Type, str] = {}
        self.depth = 2

    def write(self, name: str) -> str:
        """Return the source."""
        super().write(name)
        params, arguments = [], []
        slot = 0
        for i, op in enumerate(self.ops):
            if isinstance(op, k.Variable):
                type_ = self.dialect.memory_type(op.type.dtype)
                params.append(f"{type_} a{i}")
                arguments.append(f"*({type_} *)&args[{slot}]")
                slot += 1
            elif isinstance(op, k.Define) and op.memory is Memory.GLOBAL:
                params.append(self.pointer(i, op))
                arguments.append(f"(void *)args[{slot}]")
                slot += 1
            elif i in self.analysis.scratch:
                params.append(f"{self._memory_element(op)} *restrict m{i}")
                arguments.append(f"(void *)(scratch + {self.analysis.scratch[i]})")
        typedefs = "".join(f"{text}\n" for text in self.vectors.values())
        functions = "".join(f"{text}\n" for text in self.functions.values())
        body = "\n".join(self.lines)
        return (
            f"{self.dialect.preamble}\n{typedefs}\n{functions}\n"
            f"static inline void zyx_body({''.join(f'{p}, ' for p in params)}long long begin, long long end) {{\n"
            f"    for (long long group = begin; group < end; ++group) {{\n{body}\n    }}\n}}\n\n"
            f"void {name}(unsigned long long *args, long long begin, long long end, char *scratch) {{\n"
            f"    zyx_body({''.join(f'{a}, ' for a in arguments)}begin, end);\n}}\n"
        )

    def head(self, name: str) -> str:
        """Return nothing: `write` declares the functions."""
        del name
        return ""

    # ---- types

    def type_name(self, type_: Type) -> str:
        """Return the type of a variable; vectors are defined at their first use."""
        element = self.element_name(type_.dtype)
        if type_.lanes == 1:
            return element
        if type_.lanes not in LANES:
            raise UnsupportedError(f"vectors of {type_.lanes} lanes; there are {LANES}")
        name, size = str(type_), type_.lanes * type_.dtype.itemsize
        if type_ not in self.vectors:
            near = f"vector_size({size}), aligned({type_.dtype.itemsize}), may_alias"
            self.vectors[type_] = (
                f"typedef {element} {name} __attribute__((vector_size({size})));\n"
                f"typedef {element} {name}_near __attribute__(({near}));"
            )
        return name

    def names(self, i: int, type_: Type) -> Parts:
        """Return the one name of a value."""
        return (f"v{i}",)

    def slot(self, array: ValueId, number: int) -> Parts:
        """Return the one variable that an element of a register array is."""
        return (f"r{array}_{number}",)

    # ---- arrays and arguments

    def _memory_element(self, op: k.Op) -> str:
        assert isinstance(op, k.Define)
        return self.type_name(Type(op.dtype, op.lanes))

    def declare(self, i: int, op: k.Define) -> None:
        """Declare memory of a thread: here if it is small, else it comes as a parameter."""
        if i not in self.analysis.scratch:
            self.line(f"{self._memory_element(op)} m{i}[{op.length}];")

    def element(self, array: ValueId, index: ValueId, lane: int = 0) -> str:
        """Return the expression for an element in memory."""
        del lane
        return f"{self.values[array][0]}[{self.values[index][0]}]"

    def index(self, i: int, op: k.Index) -> None:
        """Define the position of the group, of which axis 0 runs fastest."""
        if op.size == 1:
            self.values[i] = ("0",)
            return
        step = 1
        for size in self.analysis.groups[: op.number]:
            step *= size
        self.let(f"v{i}", self.type_name(op.type), f"({self.type_name(op.type)})(group / {step} % {op.size})")
        self.values[i] = (f"v{i}",)
        assert op.axis is Axis.GROUP  # a group is one thread

    # ---- values

    def const(self, i: int, op: k.Const) -> None:
        """Name a literal, or define a vector of it."""
        super().const(i, op)
        if op.type.lanes > 1:
            self._fill(i, op.type, self.values[i])

    def _fill(self, i: int, type_: Type, items: Parts) -> None:
        name = self.type_name(type_)
        self.let(f"v{i}", name, f"({name}){{{', '.join(items)}}}")
        self.values[i] = (f"v{i}",)

    def elementwise(self, i: int, type_: Type, template: str | None, what: str, *operands: ValueId) -> None:
        """Define a value by a template for one element."""
        if type_.lanes == 1 or template is None:
            super().elementwise(i, type_, template, what, *operands)
            return
        op = self.ops[i]
        given = [self.type_of(operand) for operand in operands]
        infix = self._infix(op, given[0].dtype)
        if infix is not None:
            super().elementwise(i, type_, infix, what, *operands)
            return
        kind = type(op).__name__.lower()
        word = op.op.value if isinstance(op, (k.Unary, k.Binary)) else kind
        name = f"{word}_{'_'.join(str(t) for t in dict.fromkeys(given))}_{type_}"
        if name not in self.functions:
            params = ", ".join(f"{self.type_name(t)} {n}" for t, n in zip(given, "xyz", strict=False))
            at = {n: n if t.lanes == 1 else f"{n}[l]" for t, n in zip(given, "xyz", strict=False)}
            self.functions[name] = (
                f"static inline {self.type_name(type_)} {name}({params}) {{\n    {self.type_name(type_)} r;\n"
                f"    for (int l = 0; l < {type_.lanes}; ++l) r[l] = {template.format(**at)};\n    return r;\n}}"
            )
        arguments = ", ".join(self.values[operand][0] for operand in operands)
        self.let(f"v{i}", self.type_name(type_), f"{name}({arguments})")
        self.values[i] = (f"v{i}",)

    def _infix(self, op: k.Op, dtype: DType) -> str | None:
        """Return the template for whole vectors, if there is one."""
        if not isinstance(op, k.Binary) or scalar.is_bits(dtype, self.dialect):
            return None
        allowed = _INFIX_FLOAT if dtype.is_float else _INFIX_INTEGER
        return f"{{x}} {_SYMBOLS[op.op.value]} {{y}}" if op.op.value in allowed else None

    def cast(self, i: int, op: k.Cast) -> None:
        """Define a conversion."""
        if self.type_of(op.x).dtype is op.type.dtype:
            self.values[i] = self.values[op.x]
            return
        super().cast(i, op)

    def bitcast(self, i: int, op: k.Bitcast) -> None:
        """Define a reading of bits; vectors of one size are cast."""
        if op.type.lanes == 1 or dtypes.bool_ in (op.type.dtype, self.type_of(op.x).dtype):
            super().bitcast(i, op)
            return
        name = self.type_name(op.type)
        self.let(f"v{i}", name, f"({name}){self.values[op.x][0]}")
        self.values[i] = (f"v{i}",)

    def vectorize(self, i: int, op: k.Vectorize) -> None:
        """Define a vector of scalars."""
        super().vectorize(i, op)
        if op.type.lanes > 1:
            self._fill(i, op.type, self.values[i])

    def devectorize(self, i: int, op: k.Devectorize) -> None:
        """Define a lane."""
        self.let(f"v{i}", self.type_name(op.type), f"{self.values[op.x][0]}[{op.lane}]")
        self.values[i] = (f"v{i}",)

    def shuffle(self, i: int, op: k.Shuffle) -> None:
        """Define a vector of lanes picked."""
        x, y, lanes = self.values[op.x][0], self.values[op.y][0], self.type_of(op.x).lanes
        self._fill(i, op.type, tuple(f"{x}[{lane}]" if lane < lanes else f"{y}[{lane - lanes}]" for lane in op.lanes))

    # ---- memory

    def load(self, i: int, op: k.Load) -> None:
        """Define what was read."""
        if op.type.lanes == 1:
            super().load(i, op)
            return
        name, type_ = f"v{i}", self.type_name(op.type)
        self.values[i] = (name,)
        if op.source in self.variables:
            source, flat = self.slot_of(op.source, op.index)[0], False
        else:
            source, flat = self.element(op.source, op.index), self.array(op.source).lanes == 1
        if op.mask is None:
            self.let(name, type_, f"*(const {type_}_near *)&{source}" if flat else source)
        elif self.type_of(op.mask).lanes == 1:
            self.line(f"{type_} {name} = {{0}};")
            self.line(
                f"if ({self.values[op.mask][0]}) {name} = {f'*(const {type_}_near *)&{source}' if flat else source};"
            )
        else:
            mask = self.values[op.mask][0]
            self.line(f"{type_} {name};")
            lane = f"(&{source})[l]" if flat else f"{source}[l]"
            self.line(f"for (int l = 0; l < {op.type.lanes}; ++l) {name}[l] = {mask}[l] ? {lane} : 0;")
        if op.type.dtype.is_bool and flat:
            self.values[i] = (f"w{i}",)
            self.let(f"w{i}", type_, f"({type_})({name} != 0) & 1")

    def store(self, i: int, op: k.Store) -> None:
        """Write to memory, or to a variable."""
        type_ = self.type_of(op.value)
        if type_.lanes == 1:
            super().store(i, op)
            return
        value = self.values[op.value][0]
        if op.target in self.variables:
            target, flat = self.slot_of(op.target, op.index)[0], False
        else:
            target, flat = self.element(op.target, op.index), self.array(op.target).lanes == 1
        whole = f"*({self.type_name(type_)}_near *)&{target}" if flat else target
        if op.mask is None:
            self.line(f"{whole} = {value};")
        elif self.type_of(op.mask).lanes == 1:
            self.line(f"if ({self.values[op.mask][0]}) {whole} = {value};")
        else:
            mask = self.values[op.mask][0]
            lane = f"(&{target})[l]" if flat else f"{target}[l]"
            self.line(f"for (int l = 0; l < {type_.lanes}; ++l) if ({mask}[l]) {lane} = {value}[l];")
