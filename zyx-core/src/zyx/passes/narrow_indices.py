"""Compute 64-bit indices in 32 bits where they fit, since most GPUs have no 64-bit integer units.

    %1 = group 0 < 65536 : i64           %1 = group 0 < 65536 : i32
    %2 = const 16 : i64            =>    %2 = const 16 : i32
    %3 = mul %1, %2 : i64                %3 = mul %1, %2 : i32
    %4 = load %0[%3] : f32               %4 = load %0[%3] : f32

An operation is narrowed if its operands and its result fit 32 bits by their ranges. Where it is wanted in 64 bits after
all, as data or as operand of what does not fit, it is converted where it is defined; so is what fits, but is made of
what does not.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.bounds import Bounds
from zyx.kernel.data import Kernel, Type
from zyx.kernel.rewrite import Rewriter, renumber
from zyx.ops import COMPARISONS, BinaryOp

if TYPE_CHECKING:
    from zyx.kernel.data import Op, ValueId


def narrow_indices(kernel: Kernel) -> Kernel:
    """Return `kernel` with int64 arithmetic that fits int32 done in that."""
    plan = _Plan(kernel)
    return _rewrite(kernel, plan) if plan.narrowed else kernel


class _Plan:
    """What becomes of each value of type int64.

    Attributes:
        narrowed: Operations done on int32.
        widened: Values among these that are needed in 64 bits too.
        shortened: Values of 64 bits that are needed in 32 bits too.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.ops = kernel.ops
        self.bounds = Bounds()
        self.narrowed: set[ValueId] = set()
        self.widened: set[ValueId] = set()
        self.shortened: set[ValueId] = set()
        for number, op in enumerate(kernel.ops):
            self.bounds.add(op)
            if self._is_narrowed(number, op):
                self.narrowed.add(number)
            operands = k.operands(op)
            match op:
                case k.Load():
                    operands = ()  # an index may be either
                case k.Store(value=value) | k.Atomic(value=value):
                    operands = (value,)
                case k.Cast():
                    continue  # and so may what is converted
                case _:
                    pass
            for operand in operands:
                if self.is_long(operand) and (number in self.narrowed) != (operand in self.narrowed):
                    (self.shortened if number in self.narrowed else self.widened).add(operand)
        self._keep_long_constants()

    def _keep_long_constants(self) -> None:
        """Leave those constants alone that are needed in 64 bits only."""
        short: set[ValueId] = set()
        for number, op in enumerate(self.ops):
            if number in self.narrowed or isinstance(op, k.Cast):
                short.update(k.operands(op))
            elif isinstance(op, k.Load | k.Store | k.Atomic):
                short.add(op.index)
        for number in self.widened - short:
            if isinstance(self.ops[number], k.Const):
                self.narrowed.remove(number)
                self.widened.remove(number)

    def is_long(self, value: ValueId) -> bool:
        """Whether a value is int64."""
        op = self.ops[value]
        return isinstance(op, k.Value) and op.type.dtype is dtypes.int64

    def _fits(self, value: ValueId) -> bool:
        range_ = self.bounds.ranges[value]
        return range_ is not None and range_[0] >= _LEAST and range_[1] <= _MOST

    def _is_narrowed(self, number: ValueId, op: Op) -> bool:
        match op:
            case k.Binary(op=kind, x=x, y=y) if self.is_long(x):
                if kind not in COMPARISONS and not self._fits(number):
                    return False
                if kind is BinaryOp.SHL and not self._is_distance(y):
                    return False
                return self._fits(x) and self._fits(y)
            case k.Const() | k.Index():
                return self.is_long(number) and self._fits(number)
            case k.Loop(end=end):
                return self.is_long(number) and self._fits(number) and (end is None or self._fits(end))
            case k.Unary() | k.Mad() | k.Vectorize() | k.Devectorize() | k.Shuffle() | k.Where():
                long = [operand for operand in k.operands(op) if self.is_long(operand)]
                return self.is_long(number) and self._fits(number) and all(map(self._fits, long))
            case k.Cast(x=x):
                return self.is_long(number) and self._fits(number) and not self.bounds.type_of(x).dtype.is_float
            case _:
                return False

    def _is_distance(self, value: ValueId) -> bool:
        range_ = self.bounds.ranges[value]
        return range_ is not None and range_[0] >= 0 and range_[1] < dtypes.int32.bits


def _rewrite(kernel: Kernel, plan: _Plan) -> Kernel:
    rewriter = Rewriter()
    long = rewriter.renamed  # what each old value became, in 64 bits where that matters
    short: list[ValueId] = []  # and in 32

    def native(index: ValueId) -> ValueId:
        return short[index] if index in plan.narrowed else long[index]

    for number, op in enumerate(kernel.ops):
        is_narrowed = number in plan.narrowed
        match op:
            case k.Load(source=source, index=index, mask=mask):
                new: Op = k.Load(long[source], native(index), op.type, None if mask is None else long[mask])
            case k.Store(target=target, index=index, value=value, mask=mask):
                mask = None if mask is None else long[mask]
                new = k.Store(long[target], native(index), long[value], mask, op.streaming)
            case k.Atomic(target=target, index=index, value=value, mask=mask):
                mask = None if mask is None else long[mask]
                new = k.Atomic(op.op, long[target], native(index), long[value], mask)
            case k.Cast(x=x):
                operand = native(x)
                type_ = Type(dtypes.int32, op.type.lanes) if is_narrowed else op.type
                if rewriter.type_of(operand) == type_:
                    _define(rewriter, short, number, operand, plan)
                    continue
                new = k.Cast(operand, type_)
            case _ if is_narrowed:
                new = _as_short(renumber(op, short))
            case _:
                new = renumber(op, long)
        _define(rewriter, short, number, rewriter.append(new), plan)
    return Kernel(kernel.name, tuple(rewriter.ops))


def _define(rewriter: Rewriter, short: list[ValueId], number: ValueId, new: ValueId, plan: _Plan) -> None:
    """Note what an old value became, converted to the other width if that is needed."""
    wide = narrow = new
    if number in plan.widened:
        old = plan.ops[number]
        wide = rewriter.append(old) if isinstance(old, k.Const) else rewriter.cast(new, dtypes.int64)
    elif number in plan.shortened:
        narrow = rewriter.cast(new, dtypes.int32)
    rewriter.renamed.append(wide)
    short.append(narrow)


def _as_short(op: Op) -> Op:
    """Return an operation on int32 in place of int64."""
    assert isinstance(op, k.Value)
    if op.type.dtype is not dtypes.int64:
        return op  # a comparison
    return dataclasses.replace(op, type=Type(dtypes.int32, op.type.lanes))


_LEAST: Final = int(dtypes.int32.min)
_MOST: Final = int(dtypes.int32.max)
