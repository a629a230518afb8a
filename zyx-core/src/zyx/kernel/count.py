"""How much a kernel computes and moves, from the sizes of its loops and of its grid.

Everything is counted once for each point at which it runs. Where conditions depend on positions in the grid and on
loops only, the points at which they hold are counted one by one; a condition on data, or on more points than
`MAX_POINTS`, counts as true, and the result says that it is an upper bound.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.kernel import data as k
from zyx.kernel.run_steps import computation
from zyx.kernel.wmma import WARP
from zyx.ops import COMPARISONS, TRANSCENDENTAL, BinaryOp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zyx.kernel.data import Kernel, Op, Type, ValueId

#: Points of the grid and of loops at which conditions are evaluated, at most.
MAX_POINTS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Count:
    """What all threads of a kernel do together.

    Attributes:
        operations: Operations on one lane, by class: ``float`` (a multiply-add counts twice), ``transcendental`` and
            ``integer`` (with those on bools, and all comparisons), ``swap`` (values that come from other threads).
        loaded_bytes: Read from global memory, by all loads.
        stored_bytes: Written to global memory, by all stores. Atomics do both.
        read_footprint: As `loaded_bytes`, but of each param no more than it has: what memory must deliver once at
            least.
        written_footprint: As `stored_bytes`, likewise.
        is_exact: Whether these are the numbers, or upper bounds.
    """

    operations: Mapping[str, int]
    loaded_bytes: int
    stored_bytes: int
    read_footprint: int
    written_footprint: int
    is_exact: bool

    @property
    def flops(self) -> int:
        """Operations on floats, a transcendental function being one."""
        return self.operations.get("float", 0) + self.operations.get("transcendental", 0)


def count(kernel: Kernel) -> Count:
    """Count what a kernel does."""
    return _Counting(kernel).run()


class _Counting:
    """Totals while walking over the operations."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.ops = kernel.ops
        self.operations: Counter[str] = Counter()
        self.loaded: Counter[ValueId] = Counter()
        self.stored: Counter[ValueId] = Counter()
        self.is_exact = True
        self.conditions: list[ValueId] = []
        self.shares: dict[tuple[ValueId, ...], Fraction] = {}

    def run(self) -> Count:
        """Return the totals."""
        runs = math.prod(map(math.prod, self.kernel.grid))
        regions: list[tuple[int, int]] = []  # what was before each open region: loop iterations, number of conditions
        for op in self.ops:
            match op:
                case k.Loop(size=size, end=end):
                    regions.append((runs, len(self.conditions)))
                    runs *= size
                    self.is_exact = self.is_exact and end is None
                case k.If(condition=condition):
                    regions.append((runs, len(self.conditions)))
                    self.conditions.append(condition)
                case k.EndLoop() | k.EndIf():
                    runs, open_conditions = regions.pop()
                    del self.conditions[open_conditions:]
                case k.Load(source=array, type=type_, mask=mask):
                    self.access(self.loaded, array, type_, runs, mask)
                case k.Store(target=array, value=value, mask=mask):
                    self.access(self.stored, array, self.type_of(value), runs, mask)
                case k.Atomic(target=array, value=value, mask=mask):
                    self.access(self.loaded, array, self.type_of(value), runs, mask)
                    self.access(self.stored, array, self.type_of(value), runs, mask)
                case _:
                    self.compute(op, runs)
        return Count(
            dict(self.operations),
            self.loaded.total(),
            self.stored.total(),
            self.footprint(self.loaded),
            self.footprint(self.stored),
            self.is_exact,
        )

    def compute(self, op: Op, runs: int) -> None:
        """Count an operation, if it computes."""
        match op:
            case k.Unary(op=kind, type=type_):
                self.add(_class_of(type_, is_transcendental=kind in TRANSCENDENTAL), type_.lanes, runs)
            case k.Binary(op=kind, x=x):
                type_ = self.type_of(x)
                is_power = kind is BinaryOp.POW and type_.dtype.is_float
                name = "integer" if kind in COMPARISONS else _class_of(type_, is_transcendental=is_power)
                self.add(name, type_.lanes, runs)
            case k.Mad(type=type_):
                self.add(_class_of(type_), 2 * type_.lanes, runs)
            case k.Swap(type=type_):
                self.add("swap", type_.lanes, runs)
            case k.Wmma(dims=dims):
                self.add("float", 2 * math.prod(dims), runs // WARP)
            case _:
                pass

    def add(self, name: str, amount: int, runs: int) -> None:
        """Add an amount for each run at which the open conditions hold."""
        self.operations[name] += int(amount * runs * self.share(None))

    def access(self, total: Counter[ValueId], array: ValueId, type_: Type, runs: int, mask: ValueId | None) -> None:
        """Count the bytes of an access, if it is to global memory."""
        define = self.ops[array]
        if isinstance(define, k.Define) and define.memory is k.Memory.GLOBAL:
            total[array] += int(type_.lanes * type_.dtype.itemsize * runs * self.share(mask))

    def footprint(self, total: Counter[ValueId]) -> int:
        """Return the bytes of all arrays, each of them counted once at most."""
        sizes = {array: self.ops[array] for array in total}
        return sum(
            min(total[array], define.length * define.dtype.itemsize)
            for array, define in sizes.items()
            if isinstance(define, k.Define)
        )

    def type_of(self, value: ValueId) -> Type:
        """Return the type of a value."""
        op = self.ops[value]
        assert isinstance(op, k.Value)
        return op.type

    # ---- conditions

    def share(self, mask: ValueId | None) -> Fraction:
        """Return at which part of the points the open conditions hold, and in which part of the lanes the mask."""
        conditions = (*self.conditions, *(() if mask is None else (mask,)))
        if not conditions:
            return Fraction(1)
        if conditions not in self.shares:
            self.shares[conditions] = self.evaluate(conditions)
        return self.shares[conditions]

    def evaluate(self, conditions: Sequence[ValueId]) -> Fraction:
        """Return the share of points and lanes at which all conditions hold; what depends on data counts as true."""
        needed = [self.needed(condition) for condition in conditions]
        known = [found for found in needed if found is not None]
        positions = sorted(set().union(*known)) if known else []
        axes = [value for value in positions if isinstance(self.ops[value], k.Index | k.Loop)]
        points = math.prod(self.axis_size(axis) for axis in axes)
        if len(known) < len(needed) or points > MAX_POINTS:
            self.is_exact = False
        if not known or not 0 < points <= MAX_POINTS:
            return Fraction(1)
        values: list[Any] = [None] * len(self.ops)
        step = 1
        with np.errstate(all="ignore"):
            for value in positions:
                op = self.ops[value]
                if isinstance(op, k.Index | k.Loop):
                    position = np.arange(points) // step % op.size
                    values[value] = position.reshape(-1, 1).astype(op.type.dtype.numpy)
                    step *= op.size
                else:
                    assert isinstance(op, k.Pure)
                    values[value] = computation(self.ops, op)(values)
        holds = np.ones((points, 1), np.bool_)
        for condition, found in zip(conditions, needed, strict=True):
            if found is not None:
                holds = holds & values[condition]
        return Fraction(int(holds.sum()), holds.size)

    def needed(self, value: ValueId) -> set[ValueId] | None:
        """Return all values that a value is computed from, itself included, or None if there is data among them."""
        found: set[ValueId] = set()
        pending = [value]
        while pending:
            number = pending.pop()
            if number in found:
                continue
            found.add(number)
            op = self.ops[number]
            if not isinstance(op, k.Pure | k.Index | k.Loop):
                return None
            pending.extend(k.operands(op))
        return found

    def axis_size(self, axis: ValueId) -> int:
        """Return the number of positions on a grid axis or in a loop."""
        op = self.ops[axis]
        assert isinstance(op, k.Index | k.Loop)
        return op.size


def _class_of(type_: Type, *, is_transcendental: bool = False) -> str:
    if is_transcendental:
        return "transcendental"
    return "float" if type_.dtype.is_float else "integer"
