"""Random kernels for property tests: valid, free of races, with arguments to run them on.

Every kernel that `kernels` draws passes the verifier and gives one result, whatever the order of its threads:

* read-only params are read anywhere;
* a thread writes, and reads, only elements of its own in the other params, of which there is one for each dtype; half
  of the values are written there as soon as they are computed, so that little goes unnoticed;
* one param may be the target of atomics, all of one operation, on integers, and is not read;
* local memory is written at the thread's own place and read elsewhere after a barrier, outside of any region;
* register memory is written before anything else happens.

Results are the same bit for bit after transformations that keep meaning, but for what `zyx.ops` leaves open: which NaN
it is, so bits of computed floats are not read; and which zero a maximum is, so 0.0 is added to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.run import run
from zyx.ops import COMPARISONS, TRANSCENDENTAL, BinaryOp, ReduceOp, UnaryOp, binary_ops, reduce_ops, unary_ops
from zyx.testing.choices import Drawn, Seeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn

    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel, Type, ValueId
    from zyx.semantics import Array
    from zyx.testing.choices import Choices

T = TypeVar("T")

LANES: Final = (2, 4)
_BOOL: Final = frozenset({dtypes.bool_})
#: How deep regions nest.
MAX_DEPTH: Final = 3


@st.composite
def kernels(draw: DrawFn, allowed: Sequence[DType] = dtypes.ALL, max_statements: int = 24) -> Kernel:
    """Draw a kernel whose arithmetic is on the dtypes `allowed`, and on int32 and int64 for indices."""
    return _Generator(Drawn(draw), tuple(allowed)).generate(max_statements)


def random_kernel(seed: int, allowed: Sequence[DType] = dtypes.ALL, max_statements: int = 24) -> Kernel:
    """Return a kernel chosen by a seed, in a tenth of the time of drawing one, but with nothing to shrink it."""
    return _Generator(Seeded(seed), tuple(allowed)).generate(max_statements)


def arguments_for(kernel: Kernel, seed: int = 0) -> list[Array | Scalar]:
    """Return arguments for the kernel's params: random, with many small and many extreme values."""
    rng = np.random.default_rng(seed)
    arguments: list[Array | Scalar] = []
    for param in kernel.params:
        if isinstance(param, k.Variable):
            arguments.append(random_values(param.type.dtype, 1, rng)[0].item())
        else:
            arguments.append(random_values(param.dtype, param.length, rng))
    return arguments


def results_of(kernel: Kernel, seed: int = 0) -> list[Array]:
    """Return what is in the kernel's arrays after it was interpreted on `arguments_for` it."""
    arguments = arguments_for(kernel, seed)
    run(kernel, arguments)
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


def same_values(x: Sequence[Array], y: Sequence[Array]) -> bool:
    """Return whether two kernels gave the same, where all NaNs are the same, and so are 0.0 and -0.0."""
    return len(x) == len(y) and all(map(_same_array, x, y))


def _same_array(x: Array, y: Array) -> bool:
    if x.dtype != y.dtype:
        return False
    is_integer = x.dtype.kind in "biu"
    return np.array_equal(x, y) if is_integer else np.array_equal(x.astype(float), y.astype(float), equal_nan=True)


def random_values(dtype: DType, count: int, rng: np.random.Generator) -> Array:
    """Return random values of `dtype`: small ones, ones of any size, and special ones."""
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    kind = rng.integers(0, 4, count)
    if dtype.is_float:
        special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, math.nan])[rng.integers(0, 6, count)]
        values = np.where(kind == 0, special, np.where(kind == 1, rng.integers(-9, 10, count), rng.normal(0, 4, count)))
        return values.astype(dtype.numpy)
    low, high = int(dtype.min), int(dtype.max)
    anything = rng.integers(low, high, count, dtype=dtype.numpy, endpoint=True)
    small = rng.integers(max(low, -3), 10, count).astype(dtype.numpy)
    extreme = np.array([low, high], dtype.numpy)[rng.integers(0, 2, count)]
    return np.where(kind == 0, extreme, np.where(kind == 1, anything, small))


class _Generator:
    """Writes one kernel, statement by statement."""

    def __init__(self, choices: Choices, allowed: tuple[DType, ...]) -> None:
        self.integer = choices.integer
        self.choose = choices.pick
        self.chance = choices.chance
        # Few dtypes at a time, so that values meet others of their type.
        wanted = {self.choose(allowed) for _ in range(3)} | (_BOOL & set(allowed))
        self.allowed = tuple(dtype for dtype in allowed if dtype in wanted)
        self.b = Builder()
        self.scopes: list[list[ValueId]] = [[]]
        self.places: list[list[tuple[ValueId, ValueId, ValueId | None]]] = [[]]  # array, index, mask
        self.inputs: list[ValueId] = []
        self.outputs: dict[DType, ValueId] = {}
        self.written: dict[DType, int] = {}  # elements of each thread in the outputs
        self.points = 1
        self.registers: list[ValueId] = []
        self.locals: list[ValueId] = []
        self.atomics: list[tuple[ValueId, ReduceOp]] = []
        self.threads = 1
        self.thread: ValueId = 0  # the thread's number within the group
        self.place: ValueId = 0  # and among all
        self.read: set[ValueId] = set()  # values that come straight from arguments

    # ---- choices

    def recent(self, options: Sequence[T]) -> T:
        """Draw one of some options, in the order in which they came up: one of the last three, more often than not."""
        newest = options[-1 - self.integer(0, min(len(options), 3) - 1)]
        return self.choose(options) if self.chance(33) else newest

    def new(self, value: ValueId) -> ValueId:
        """Have a value at hand for what follows in its region."""
        self.scopes[-1].append(value)
        return value

    def computed(self, value: ValueId) -> None:
        """Have a value at hand that was computed, and maybe write it, or a lane of it, to an output."""
        self.new(value)
        type_ = self.b.type_of(value)
        if type_.dtype in self.outputs and self.chance(50):
            lane = 0 if type_.lanes == 1 else self.integer(0, type_.lanes - 1)
            self.write(value if type_.lanes == 1 else self.b.devectorize(value, lane), None)

    def at_hand(self, wanted: Type | None = None) -> list[ValueId]:
        """Return the values that may be used here, of one type or of any."""
        values = [value for scope in self.scopes for value in scope]
        return values if wanted is None else [value for value in values if self.b.type_of(value) == wanted]

    def value(self, wanted: Type) -> ValueId:
        """Return a value of a type: one at hand, or a literal."""
        options = self.at_hand(wanted)
        if not options or self.chance(25):
            return self.new(self.b.const(self.literal(wanted.dtype), wanted.dtype, wanted.lanes))
        return self.recent(options)

    def literal(self, dtype: DType) -> Scalar:
        """Return a number that `dtype` holds."""
        if dtype.is_bool:
            return self.choose((False, True))
        if dtype.is_float:
            if self.chance(50):
                return self.choose((1.0, 0.0, -1.0, 2.0))
            return dtype.to_scalar(self.choose((0.5, 3.0, -0.0, 0.1, -7.25, 1e4, math.inf, -math.inf, math.nan)))
        if self.chance(50):
            return dtype.wrap(self.choose((1, 0, 2, -1)))
        return dtype.wrap(self.choose((3, 8, 5, 7, 16, -2, dtype.bits - 1, dtype.bits, int(dtype.max), int(dtype.min))))

    def type(self, among: Sequence[DType] | None = None) -> Type:
        """Return a type, more often a scalar one, more often one of which there is a value."""
        if among is None and not self.chance(25):
            values = self.at_hand()
            if values:
                found = self.b.type_of(self.recent(values))
                if found.dtype in self.allowed:
                    return found
        return k.Type(self.choose(among or self.allowed), 1 if not self.chance(25) else self.choose(LANES))

    # ---- the kernel

    def generate(self, max_statements: int) -> Kernel:
        """Return a kernel."""
        b = self.b
        for _ in range(self.integer(1, 2)):
            self.inputs.append(b.define(k.Memory.GLOBAL, self.choose(self.allowed), self.length(), mutable=False))
        shape = [self.integer(1, 3) for _ in range(self.integer(1, 2))]
        local_shape = [self.integer(1, 4) for _ in range(self.integer(0, 2))]
        self.threads = math.prod(local_shape)
        self.points = math.prod(shape) * self.threads
        for dtype in self.allowed:
            self.outputs[dtype] = b.define(k.Memory.GLOBAL, dtype, self.points)
            self.written[dtype] = 1
        self.define_more()
        index_dtype = self.choose((dtypes.int64, dtypes.int32))
        group = self.linear(k.Axis.GROUP, shape, index_dtype)
        self.thread = self.linear(k.Axis.LOCAL, local_shape, index_dtype)
        scaled = b.binary(BinaryOp.MUL, group, b.const(self.threads, index_dtype))
        self.place = self.new(b.binary(BinaryOp.ADD, scaled, self.thread))
        self.initialize_registers()
        for _ in range(self.integer(max(1, max_statements // 4), max_statements)):
            self.statement(0)
        for dtype, array in self.outputs.items():
            b.ops[array] = k.Define(k.Memory.GLOBAL, dtype, self.points * self.written[dtype])
        return b.finish("random")

    def length(self) -> int:
        """Return a length of an array."""
        return self.choose((8, 1, 2, 4, 5, 13, 16, 31))

    def define_more(self) -> None:
        """Define the arrays that not every kernel has."""
        b = self.b
        integers = [dtype for dtype in self.allowed if dtype.is_integer]
        if integers and self.chance(33):
            dtype = self.choose(integers)
            op = self.choose(sorted(reduce_ops(dtype), key=lambda op: op.value))
            self.atomics.append((b.define(k.Memory.GLOBAL, dtype, self.length()), op))
        if self.chance(33):
            self.new(b.variable(self.choose(self.allowed), "n"))
        for _ in range(self.integer(0, 2)):
            type_ = self.type()
            length = self.integer(1, 3)
            self.registers.append(b.define(k.Memory.REGISTER, type_.dtype, length, lanes=type_.lanes))
        if self.chance(33):
            self.locals.append(b.define(k.Memory.LOCAL, self.choose(self.allowed), self.threads))

    def linear(self, axis: k.Axis, shape: Sequence[int], dtype: DType) -> ValueId:
        """Return the number of the point on the axes of one kind, at most one index for each."""
        b = self.b
        number = b.const(0, dtype)
        for axis_number, size in reversed(list(enumerate(shape))):
            index = self.new(b.index(axis, axis_number, size, dtype))
            number = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, number, b.const(size, dtype)), index)
        return self.new(number)

    def initialize_registers(self) -> None:
        """Write every element of register memory."""
        for array in self.registers:
            define = self.array(array)
            for position in range(define.length):
                value = self.value(k.Type(define.dtype, define.lanes))
                self.b.store(array, self.b.const(position, dtypes.int32), value)

    def array(self, array: ValueId) -> k.Define:
        """Return a definition."""
        define = self.b.ops[array]
        assert isinstance(define, k.Define)
        return define

    # ---- statements

    def statement(self, depth: int) -> None:
        """Write a value, an effect, or a region with some of both."""
        options = [
            self.binary, self.unary, self.load, self.comparison, self.cast, self.binary, self.unary, self.cast,
            self.where, self.store_register, self.store_output, self.load, self.mad, self.vectorize, self.devectorize,
            self.shuffle, self.bitcast, self.atomic,
        ]  # fmt: skip
        kind = self.integer(0, len(options) + 3)
        if kind < len(options):
            options[kind]()
        elif kind < len(options) + 3 and depth < MAX_DEPTH:
            self.region(depth)
        elif kind == len(options) + 3 and depth == 0 and self.locals:
            self.exchange()

    def region(self, depth: int) -> None:
        """Write a loop or a branch."""
        b = self.b
        condition = None if self.chance(50) else self.value(k.Type(dtypes.bool_))
        dtype = self.choose((dtypes.int64, dtypes.int32, dtypes.uint8))
        end = self.value(k.Type(dtype)) if condition is None and self.chance(33) else None
        self.scopes.append([])
        self.places.append([])
        if condition is None:
            self.new(b.loop(self.choose((2, 1, 3, 0)), dtype, end))
        else:
            b.open_if(condition)
        for _ in range(self.integer(1, 4)):
            self.statement(depth + 1)
        self.scopes.pop()
        self.places.pop()
        if condition is None:
            b.end_loop()
        else:
            b.end_if()

    def exchange(self) -> None:
        """Write to local memory, and read what another thread has written."""
        b, array = self.b, self.locals[0]
        b.barrier()
        b.store(array, self.thread, self.value(k.Type(self.array(array).dtype)))
        b.barrier()
        index, mask = self.index(self.threads, 1)
        self.computed(b.load(array, index, 1, mask))

    def binary(self) -> None:
        """Write a binary operation."""
        type_ = self.type()
        op = self.choose(sorted(binary_ops(type_.dtype) - COMPARISONS, key=lambda op: list(BinaryOp).index(op)))
        value = self.b.binary(op, self.value(type_), self.value(type_))
        if type_.dtype.is_float and op in (BinaryOp.MAX, BinaryOp.MIN):
            value = self.b.binary(BinaryOp.ADD, value, self.b.like(0.0, value))
        self.computed(value)

    def comparison(self) -> None:
        """Write a comparison, alone, its opposite, or joined with another."""
        type_ = self.type()
        ops = (BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT)
        value = self.b.binary(self.choose(ops), self.value(type_), self.value(type_))
        self.computed(value)
        if self.chance(25):
            self.computed(self.b.unary(UnaryOp.NOT, value))
        elif self.chance(50):
            op = self.choose((BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR))
            self.computed(self.b.binary(op, value, self.value(self.b.type_of(value))))

    def unary(self) -> None:
        """Write a unary operation."""
        type_ = self.type()
        ops = unary_ops(type_.dtype) if self.chance(33) else unary_ops(type_.dtype) - TRANSCENDENTAL
        op = self.choose(sorted(ops, key=lambda op: list(UnaryOp).index(op)))
        self.computed(self.b.unary(op, self.value(type_)))

    def mad(self) -> None:
        """Write a multiply-add."""
        type_ = self.type([dtype for dtype in self.allowed if not dtype.is_bool] or [dtypes.int32])
        self.computed(self.b.mad(self.value(type_), self.value(type_), self.value(type_)))

    def where(self) -> None:
        """Write a choice."""
        type_ = self.type()
        condition = k.Type(dtypes.bool_, type_.lanes if self.chance(50) else 1)
        self.computed(self.b.where(self.value(condition), self.value(type_), self.value(type_)))

    def cast(self) -> None:
        """Write a conversion."""
        type_ = self.type()
        self.computed(self.b.cast(self.value(type_), self.choose((*self.allowed, dtypes.int32, dtypes.int64))))

    def bitcast(self) -> None:
        """Write a reinterpretation of bits: of integers, or of floats as they were read."""
        sources = [v for v in self.at_hand() if v in self.read or self.b.type_of(v).dtype.is_integer]
        if sources:
            source = self.recent(sources)
            bits = self.b.type_of(source).dtype.bits
            targets = [dtype for dtype in self.allowed if dtype.bits == bits and not dtype.is_bool]
            if targets and not self.b.type_of(source).dtype.is_bool:
                self.computed(self.b.bitcast(source, self.choose(targets)))

    def vectorize(self) -> None:
        """Write a vector of different values or of one."""
        dtype, lanes = self.type().dtype, self.choose(LANES)
        if self.chance(50):
            self.computed(self.b.splat(self.value(k.Type(dtype)), lanes))
        else:
            self.computed(self.b.vectorize(tuple(self.value(k.Type(dtype)) for _ in range(lanes))))

    def devectorize(self) -> None:
        """Write a lane of a vector."""
        vectors = [value for value in self.at_hand() if self.b.type_of(value).lanes > 1]
        if vectors:
            vector = self.recent(vectors)
            self.computed(self.b.devectorize(vector, self.integer(0, self.b.type_of(vector).lanes - 1)))

    def shuffle(self) -> None:
        """Write lanes picked from two vectors."""
        vectors = [value for value in self.at_hand() if self.b.type_of(value).lanes > 1]
        if vectors:
            vector = self.recent(vectors)
            type_ = self.b.type_of(vector)
            lanes = tuple(self.integer(0, 2 * type_.lanes - 1) for _ in range(self.choose(LANES)))
            self.computed(self.b.shuffle(vector, self.value(type_), lanes))

    # ---- memory

    def load(self) -> None:
        """Read from a read-only param, from a register, or from an output's element of the thread's own."""
        b, choice = self.b, self.integer(0, 3)
        if choice == 3:
            array = self.choose(list(self.outputs.values()))
            self.computed(b.load(array, self.own_index(array)))
            return
        array = self.choose(self.registers) if choice == 2 and self.registers else self.choose(self.inputs)
        define = self.array(array)
        lanes = self.choose(LANES) if array in self.inputs and self.chance(33) else 1
        if lanes > define.length:
            lanes = 1
        index, mask = self.place_in(array, lanes, max(lanes, define.lanes))
        value = b.load(array, index, lanes, mask)
        self.computed(value)
        if array in self.inputs:
            self.read.add(value)

    def place_in(self, array: ValueId, lanes: int, mask_lanes: int) -> tuple[ValueId, ValueId | None]:
        """Return a position in an array and a mask: new ones, or those of an access before."""
        if lanes == 1:
            before = [place[1:] for scope in self.places for place in scope if place[0] == array]
            if before and self.chance(50):
                return self.recent(before)
        index, mask = self.index(self.array(array).length, lanes, mask_lanes)
        if lanes == 1:
            self.places[-1].append((array, index, mask))
        return index, mask

    def index(self, length: int, lanes: int, mask_lanes: int = 1) -> tuple[ValueId, ValueId | None]:
        """Return an index at which so many lanes lie within an array, and the mask that this may take."""
        b = self.b
        type_ = k.Type(self.choose((dtypes.int64, dtypes.int32, dtypes.uint32, dtypes.int8)))
        last = length - lanes
        raw = self.value(type_)
        zero, limit = b.like(0, raw), b.const(last, type_.dtype)
        match self.integer(0, 3):
            case 0:
                return b.const(self.integer(0, last), type_.dtype), None
            case 1:
                return b.binary(BinaryOp.MAX, b.binary(BinaryOp.MIN, raw, limit), zero), None
            case 2:
                rest = b.binary(BinaryOp.MOD, raw, b.const(last + 1, type_.dtype))
                return b.unary(UnaryOp.ABS, rest), None
            case _:
                return raw, self.lane_mask(raw, length, lanes, mask_lanes)

    def lane_mask(self, index: ValueId, length: int, lanes: int, mask_lanes: int) -> ValueId:
        """Return which of the lanes from `index` on lie within an array, all of them compared at once."""
        b, dtype = self.b, self.b.type_of(index).dtype
        if lanes == 1:
            low = b.binary(BinaryOp.LE, b.like(0, index), index)
            high = b.binary(BinaryOp.LT, index, b.const(length, dtype))
            return b.splat(b.binary(BinaryOp.AND, low, high), mask_lanes)
        first = b.splat(index, lanes)
        low = b.binary(BinaryOp.LE, b.like(0, first), first)
        limits = b.vectorize(tuple(b.const(length - lane, dtype) for lane in range(lanes)))
        return b.binary(BinaryOp.AND, low, b.binary(BinaryOp.LT, first, limits))

    def own_index(self, array: ValueId) -> ValueId:
        """Return the index of an element that no other thread touches and that there is already."""
        before = [place[1] for scope in self.places for place in scope if place[0] == array]
        if before and self.chance(50):
            return self.recent(before)
        return self.element(array, self.integer(0, self.written[self.array(array).dtype] - 1))

    def element(self, array: ValueId, number: int) -> ValueId:
        """Return the index of an element of the thread's own in an output."""
        offset = self.b.const(number * self.points, self.b.type_of(self.place).dtype)
        index = self.b.binary(BinaryOp.ADD, self.place, offset)
        self.places[-1].append((array, index, None))
        return index

    def write(self, value: ValueId, mask: ValueId | None) -> None:
        """Write a scalar to a new element of the output of its dtype."""
        dtype = self.b.type_of(value).dtype
        self.written[dtype] += 1
        self.b.store(self.outputs[dtype], self.element(self.outputs[dtype], self.written[dtype] - 1), value, mask)

    def store_output(self) -> None:
        """Write an output: a new element or one that there is, with or without a mask."""
        dtype = self.choose(self.allowed)
        value = self.value(k.Type(dtype))
        mask = self.value(k.Type(dtypes.bool_)) if self.chance(33) else None
        if self.chance(50):
            self.write(value, mask)
        else:
            self.b.store(self.outputs[dtype], self.own_index(self.outputs[dtype]), value, mask)

    def store_register(self) -> None:
        """Write an element of register memory."""
        if self.registers:
            array = self.choose(self.registers)
            define = self.array(array)
            index, mask = self.place_in(array, 1, define.lanes)
            self.b.store(array, index, self.value(k.Type(define.dtype, define.lanes)), mask)

    def atomic(self) -> None:
        """Combine into the param for that."""
        for array, op in self.atomics:
            index, mask = self.index(self.array(array).length, 1)
            self.b.atomic(op, array, index, self.value(k.Type(self.array(array).dtype)), mask)
