"""Kernels drawn by a pattern: what a rule looks for, written as an expression.

    x / c / d if c > 0          loads / a literal / another one; drawn anew until the condition holds
    where(i < 8, x, y)          i is an index below 8, t one below 4, j one below 1, l a loop's below 3
    cast(cast(x, A), T)         T is the dtype that is asked for, A and B are any

``x``, ``y`` and ``z`` are loaded, of the dtype that is asked for; ``p`` and ``q`` are loaded bools; ``c`` and ``d`` are
literals, as are numbers, ``inf``, ``nan``, ``low`` and ``high``, the least and the largest integer; each has the dtype
of what it meets. Python's operators are those of kernels, and ``~`` is `NOT`. Functions are unary and binary operations
by name, and ``where``, ``mad``, ``cast``, ``bitcast``, ``shuffle``; ``unary``, ``binary``, ``compare`` and ``function``
(a transcendental one) draw an operation; ``load(m)`` is ``x`` under a mask; ``store(x, m)`` and ``atomic(x, m)`` end in
an effect under one; ``[x, y]`` is a vector, and ``x[1]`` a lane. A name is one value; anything else is written as often
as it stands there.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Type
from zyx.ops import COMPARISONS, TRANSCENDENTAL, BinaryOp, ReduceOp, UnaryOp, binary_ops, unary_ops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, ValueId
    from zyx.semantics import Array

_OPERATORS: Final[dict[type[ast.AST], BinaryOp | UnaryOp]] = {
    ast.Add: BinaryOp.ADD, ast.Sub: BinaryOp.SUB, ast.Mult: BinaryOp.MUL, ast.Div: BinaryOp.DIV, ast.Mod: BinaryOp.MOD,
    ast.Pow: BinaryOp.POW, ast.BitAnd: BinaryOp.AND, ast.BitOr: BinaryOp.OR, ast.BitXor: BinaryOp.XOR,
    ast.LShift: BinaryOp.SHL, ast.RShift: BinaryOp.SHR, ast.Lt: BinaryOp.LT, ast.LtE: BinaryOp.LE,
    ast.Eq: BinaryOp.EQ, ast.NotEq: BinaryOp.NE, ast.USub: UnaryOp.NEG, ast.Invert: UnaryOp.NOT,
}  # fmt: skip
_NAMED: Final[dict[str, BinaryOp | UnaryOp]] = {op.value: op for op in (*UnaryOp, *BinaryOp)}
_BITWISE: Final = frozenset({BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.SHL, BinaryOp.SHR})
#: The indices, by name: number of the group's axis, or None for the thread's or the loop's, and how many there are.
_INDICES: Final = {"i": (1, 8), "t": (None, 4), "j": (2, 1), "l": (None, 3)}
#: Points besides those of the indices: as many as 8 bits have values.
_COUNT: Final = 256


class Unsuitable(Exception):  # no error: another draw may do
    """What was drawn does not fit the pattern."""


def draw(pattern: str, dtype: DType, rng: np.random.Generator, lanes: int = 1) -> Kernel:
    """Return a kernel that stores what a pattern says, of vectors of `lanes`.

    Raises:
        Unsuitable: A literal or a dtype that was drawn does not fit.
    """
    text, _, condition = pattern.partition(" if ")
    writer = _Writer(dtype, rng, lanes, {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)})
    kernel = writer.kernel(ast.parse(text, mode="eval").body)
    known = {"bits": dtype.bits, "low": None if dtype.is_float else dtype.min, "high": dtype.max, **writer.literals}
    if condition and not eval(condition, {"inf": math.inf}, known):  # what tests are written in
        raise Unsuitable(condition)
    return kernel


def extreme_values(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Return values of a dtype: half of them special ones or next to these, the others of any bits; of 8 bits, all."""
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.bits == 8:
        return rng.permutation(np.resize(np.arange(256, dtype=np.uint8), count)).view(dtype.numpy)
    words = np.dtype(f"u{dtype.bits // 8}")
    bits = rng.integers(0, np.iinfo(words).max, count, dtype=words, endpoint=True)
    special = np.array(special_values(dtype), dtype.numpy)
    values: Array = np.where(rng.integers(0, 2, count) == 1, bits.view(dtype.numpy), rng.choice(special, count))
    return values


def special_values(dtype: DType) -> list[Scalar]:
    """Return the values at which operations on a dtype change what they do."""
    if dtype.is_bool:
        return [False, True]
    if not dtype.is_float:
        low, high, bits = int(dtype.min), int(dtype.max), dtype.bits
        around = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 26, 31, -1, -2, -3, bits - 1, bits, bits + 1, low + 1, high - 1)
        # Next to the middle of two bfloat16: what is rounded twice goes wrong there, and so it does at those below.
        middles = [(257 << bits - 11) + off for off in (-1, 1)] if bits > 16 else []
        return [low, high, *middles, *(number for number in around if low <= number <= high)]
    digits, least = {"f16": (10, -24), "bf16": (7, -133), "f32": (23, -149), "f64": (52, -1074)}[dtype.short]
    tiny, smallest = 2.0 ** (least + digits), 2.0**least
    largest = (2 - 2.0**-digits) / tiny * 2
    between = [1 + 2.0**-n + off for n in (8, 11, 24) if n < digits for off in (-(2.0**-digits), 2.0**-digits)]
    ones = [0.0, 1.0, 0.5, 0.25, 2.0, 3.0, 8.0, 1 + 2.0**-digits, tiny, tiny - smallest, smallest, largest, math.inf]
    return [*ones, *(-one for one in ones), *between, math.nan]


class _Writer:
    """Writes one kernel.

    Attributes:
        literals: Those that were drawn, by name.
    """

    def __init__(self, dtype: DType, rng: np.random.Generator, lanes: int, names: set[str]) -> None:
        self.b = Builder()
        self.dtype, self.rng, self.lanes = dtype, rng, lanes
        self.literals: dict[str, Scalar] = {"inf": math.inf, "nan": math.nan}
        if not dtype.is_float:
            self.literals |= {"low": int(dtype.min), "high": int(dtype.max)}
        types = {"T": dtype, "A": self.pick(dtypes.ALL), "B": self.pick(dtypes.ALL)}
        self.types = {**dtypes.BY_SHORT, **types}
        if "load" in names:
            names.add("x")
        arrays = dict.fromkeys("xyz", dtype) | dict.fromkeys("pq", dtypes.bool_)
        self.arrays = {name: of for name, of in arrays.items() if name in names}
        self.indices = {name: place for name, place in _INDICES.items() if name in names}
        self.points = _COUNT * math.prod(size for _, size in self.indices.values())
        self.values: dict[str, ValueId] = {}

    def pick(self, options: Iterable[Any]) -> Any:  # noqa: ANN401  # one of them
        """Return one of several things."""
        listed = list(options)
        return listed[self.rng.integers(len(listed))]

    def kernel(self, root: ast.expr) -> Kernel:
        """Return the kernel that stores `root`, or ends in its effect."""
        b = self.b
        length = self.points * self.lanes
        arrays = {name: b.define(k.Memory.GLOBAL, dtype, length, mutable=False) for name, dtype in self.arrays.items()}
        out = b.define(k.Memory.GLOBAL, self.dtype, length)  # or another, as what is stored turns out to be
        place = b.index(k.Axis.GROUP, 0, _COUNT)
        for name, (number, size) in self.indices.items():
            axis = k.Axis.LOCAL if number is None else k.Axis.GROUP
            dtype = self.dtype if self.dtype.is_integer else dtypes.int64
            place = self.times(place, size)  # first, so that the sum has its operands in order
            index = b.loop(size, dtype) if name == "l" else b.index(axis, number or 0, size, dtype)
            self.values[name] = b.splat(index, self.lanes)
            place = b.binary(BinaryOp.ADD, place, b.cast(index, dtypes.int64))
        self.place = self.times(place, self.lanes)
        self.array = arrays.get("x")
        for name, array in arrays.items():
            self.values[name] = b.load(array, self.place, self.lanes)
        effect, mask = "store", None
        match root:
            case ast.Call(func=ast.Name(id="store" | "atomic" as effect), args=[stored, condition]):
                root, mask = stored, self.value(condition, dtypes.bool_)
            case _:
                pass
        value = self.value(root, self.dtype)
        type_ = b.type_of(value)
        b.ops[out] = k.Define(k.Memory.GLOBAL, type_.dtype, self.points * type_.lanes)
        place = self.place if type_.lanes == self.lanes else self.times(place, type_.lanes)
        if effect == "atomic":
            b.atomic(ReduceOp.SUM, out, place, value, mask)
        else:
            b.store(out, place, value, mask)
        if "l" in self.indices:
            b.end_loop()
        return b.finish("k")

    def times(self, place: ValueId, count: int) -> ValueId:
        """Return a position in elements of `count`."""
        return place if count == 1 else self.b.binary(BinaryOp.MUL, place, self.b.const(count, dtypes.int64))

    def value(self, node: ast.expr, dtype: DType) -> ValueId:
        """Write an expression; a literal as one of `dtype`."""
        b = self.b
        literal = self.literal(node, dtype)
        if literal is not None:
            return b.const(literal, dtype, self.lanes)
        match node:
            case ast.Name(id=name):
                return self.values[name]
            case ast.UnaryOp(op=op, operand=operand):
                return self.operation(_OPERATORS[type(op)], [operand], dtype)
            case ast.BinOp(op=op, left=left, right=right):
                return self.operation(_OPERATORS[type(op)], [left, right], dtype)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.operation(_OPERATORS[type(op)], [left, right], self.dtype)
            case ast.List(elts=items):
                return b.vectorize(tuple(self.operands(items, dtype)))
            case ast.Subscript(value=vector, slice=ast.Constant(value=int(lane))):
                return b.devectorize(self.value(vector, dtype), lane)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(name, arguments, dtype)
            case _:
                raise AssertionError(f"no pattern: {ast.unparse(node)}")

    def literal(self, node: ast.expr, dtype: DType) -> Scalar | None:
        """Return the number that a node is, if it is one; those with a name are drawn when they are met first."""
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
                return -math.inf
            case ast.Name(id="c" | "d" as name) if name not in self.literals:
                if dtype.is_bool or self.rng.integers(3):
                    self.literals[name] = self.pick(special_values(dtype))
                elif dtype.is_float:
                    self.literals[name] = dtype.to_scalar(math.ldexp(1, int(self.rng.integers(-20, 20))))
                else:
                    self.literals[name] = dtype.wrap(1 << int(self.rng.integers(dtype.bits)))
                return self.literals[name]
            case ast.Name(id=name):
                return self.literals.get(name)
            case _:
                return None

    def is_literal(self, node: ast.expr) -> bool:
        """Whether a node is a number, drawn or not."""
        return (isinstance(node, ast.Name) and node.id in ("c", "d")) or self.literal(node, self.dtype) is not None

    def operands(self, nodes: list[ast.expr], dtype: DType) -> list[ValueId]:
        """Write operands of one type, that of the first that is no literal."""
        written = {number: self.value(node, dtype) for number, node in enumerate(nodes) if not self.is_literal(node)}
        for value in written.values():
            dtype = self.b.type_of(value).dtype
            break
        return [written[n] if n in written else self.value(node, dtype) for n, node in enumerate(nodes)]

    def operation(self, op: BinaryOp | UnaryOp, nodes: list[ast.expr], dtype: DType) -> ValueId:
        """Write an operation, if its operands have it."""
        operands = self.operands(nodes, dtype)
        has = self.b.type_of(operands[0]).dtype
        if op not in (unary_ops(has) if isinstance(op, UnaryOp) else binary_ops(has)):
            raise Unsuitable(f"{has} has no {op.value}")
        return self.b.unary(op, *operands) if isinstance(op, UnaryOp) else self.b.binary(op, *operands)

    def call(self, name: str, nodes: list[ast.expr], dtype: DType) -> ValueId:
        """Write what a function stands for."""
        b = self.b
        match name:
            case "cast" | "bitcast":
                value, target = self.value(nodes[0], self.dtype), self.types[ast.unparse(nodes[1])]
                source = b.type_of(value)
                if name == "cast":
                    return b.add(k.Cast(value, Type(target, source.lanes)))
                if source.dtype.bits != target.bits or source.dtype.is_bool or target.is_bool:
                    raise Unsuitable(f"bits of {source.dtype} as {target}")
                return b.add(k.Bitcast(value, Type(target, source.lanes)))
            case "where":
                return b.where(self.value(nodes[0], dtypes.bool_), *self.operands(nodes[1:], dtype))
            case "mad":
                x, y, z = self.operands(nodes, dtype)
                return b.mad(x, y, z)
            case "shuffle":
                x, y = self.operands(nodes[:2], dtype)
                return b.shuffle(x, y, tuple(int(ast.literal_eval(node)) for node in nodes[2:]))
            case "load":
                assert self.array is not None
                return b.load(self.array, self.place, self.lanes, self.value(nodes[0], dtypes.bool_))
            case "unary" | "function":
                some = unary_ops(self.dtype)
                return self.operation(
                    self.pick(
                        op for op in UnaryOp if op in some and (op in TRANSCENDENTAL) is (name == "function")
                    ), nodes, dtype,
                )  # fmt: skip
            case "binary" | "compare":
                ops = binary_ops(self.dtype) - ({BinaryOp.POW} if self.dtype.is_float else set())
                kinds = [op for op in BinaryOp if op in ops and (op in COMPARISONS) is (name == "compare")]
                return self.operation(self.pick(kinds), nodes, self.dtype)
            case _:
                return self.operation(_NAMED[name], nodes, dtype)
