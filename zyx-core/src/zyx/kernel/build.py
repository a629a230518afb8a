"""Write a kernel operation by operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.data import Kernel, Op, Type, Value, ValueId
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp
from zyx.scalar import fold_cast

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar


class Builder:
    """A growing list of operations. Every method appends one and returns the number of its result."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def add(self, op: Op) -> ValueId:
        """Append any operation."""
        self.ops.append(op)
        return len(self.ops) - 1

    def finish(self, name: str) -> Kernel:
        """Return the kernel written so far."""
        return Kernel(name, tuple(self.ops))

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value; an array has none."""
        op = self.ops[value]
        assert isinstance(op, Value), f"%{value} is no value: {op}"
        return op.type

    def define(self, memory: k.Memory, dtype: DType, length: int, *, mutable: bool = True, lanes: int = 1) -> ValueId:
        """Define an array."""
        return self.add(k.Define(memory, dtype, length, mutable, lanes))

    def const(self, value: Scalar, dtype: DType, lanes: int = 1) -> ValueId:
        """Return a literal, converted to `dtype`, in all lanes."""
        source = dtypes.bool_ if isinstance(value, bool) else dtypes.int64 if isinstance(value, int) else dtypes.float64
        return self.add(k.Const(fold_cast(value, source, dtype), Type(dtype, lanes)))

    def like(self, value: Scalar, x: ValueId) -> ValueId:
        """Return a literal of the type of `x`."""
        type_ = self.type_of(x)
        return self.const(value, type_.dtype, type_.lanes)

    def load(self, source: ValueId, index: ValueId, lanes: int = 1, mask: ValueId | None = None) -> ValueId:
        """Load an element, or `lanes` of them."""
        array = self.ops[source]
        assert isinstance(array, k.Define)
        return self.add(k.Load(source, index, Type(array.dtype, max(lanes, array.lanes)), mask))

    def store(
        self, target: ValueId, index: ValueId, value: ValueId, mask: ValueId | None = None, *, streaming: bool = False
    ) -> ValueId:
        """Store a value."""
        return self.add(k.Store(target, index, value, mask, streaming))

    def unary(self, op: UnaryOp, x: ValueId) -> ValueId:
        """Apply a unary operation."""
        return self.add(k.Unary(op, x, self.type_of(x)))

    def binary(self, op: BinaryOp, x: ValueId, y: ValueId) -> ValueId:
        """Apply a binary operation to two values of one type."""
        type_ = self.type_of(x)
        return self.add(k.Binary(op, x, y, Type(dtypes.bool_, type_.lanes) if op in COMPARISONS else type_))

    def mad(self, x: ValueId, y: ValueId, z: ValueId) -> ValueId:
        """Return ``x * y + z``."""
        return self.add(k.Mad(x, y, z, self.type_of(x)))

    def where(self, condition: ValueId, x: ValueId, y: ValueId) -> ValueId:
        """Choose lane by lane."""
        return self.add(k.Where(condition, x, y, self.type_of(x)))

    def cast(self, x: ValueId, dtype: DType) -> ValueId:
        """Convert to `dtype`; the same value if it has it already."""
        type_ = self.type_of(x)
        return x if type_.dtype is dtype else self.add(k.Cast(x, Type(dtype, type_.lanes)))

    def bitcast(self, x: ValueId, dtype: DType) -> ValueId:
        """Read the bits as `dtype`."""
        type_ = self.type_of(x)
        return x if type_.dtype is dtype else self.add(k.Bitcast(x, Type(dtype, type_.lanes)))

    def vectorize(self, items: tuple[ValueId, ...]) -> ValueId:
        """Make a vector of scalars."""
        return self.add(k.Vectorize(items, Type(self.type_of(items[0]).dtype, len(items))))

    def splat(self, x: ValueId, lanes: int) -> ValueId:
        """Repeat a scalar over `lanes` lanes; the same value if that is one."""
        return x if lanes == 1 else self.vectorize((x,) * lanes)

    def devectorize(self, x: ValueId, lane: int) -> ValueId:
        """Return one lane."""
        return self.add(k.Devectorize(x, lane, Type(self.type_of(x).dtype)))

    def shuffle(self, x: ValueId, y: ValueId, lanes: tuple[int, ...]) -> ValueId:
        """Pick lanes from `x` and, numbered on, from `y`."""
        return self.add(k.Shuffle(x, y, lanes, Type(self.type_of(x).dtype, len(lanes))))

    def swap(self, x: ValueId, distance: int) -> ValueId:
        """Return what the thread at the number of this one, exclusive or `distance`, has as `x`."""
        return self.add(k.Swap(x, distance, self.type_of(x)))

    def wmma(self, dims: tuple[int, int, int], a: ValueId, b: ValueId, c: ValueId) -> ValueId:
        """Multiply and add matrix fragments."""
        return self.add(k.Wmma(dims, a, b, c, self.type_of(c)))

    def barrier(self) -> None:
        """Let the threads of the group wait for each other."""
        self.add(k.Barrier())

    def variable(self, dtype: DType, name: str) -> ValueId:
        """Return a scalar launch argument."""
        return self.add(k.Variable(Type(dtype), name))

    def atomic(
        self, op: ReduceOp, target: ValueId, index: ValueId, value: ValueId, mask: ValueId | None = None
    ) -> ValueId:
        """Combine into memory indivisibly."""
        return self.add(k.Atomic(op, target, index, value, mask))

    def index(self, axis: k.Axis, number: int, size: int, dtype: DType = dtypes.int64) -> ValueId:
        """Return the position on a grid axis."""
        return self.add(k.Index(axis, number, size, Type(dtype)))

    def loop(self, size: int, dtype: DType = dtypes.int64, end: ValueId | None = None) -> ValueId:
        """Open a loop and return its variable."""
        return self.add(k.Loop(size, Type(dtype), end))

    def end_loop(self) -> None:
        """Close the innermost loop."""
        self.add(k.EndLoop())

    def open_if(self, condition: ValueId) -> None:
        """Open a region that runs where `condition` holds."""
        self.add(k.If(condition))

    def end_if(self) -> None:
        """Close the innermost `open_if`."""
        self.add(k.EndIf())
