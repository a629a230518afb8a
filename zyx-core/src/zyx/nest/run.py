"""The meaning of a nest, in NumPy: statement by statement, all points of the statement's ranges at once.

Orders of loops and kinds of ranges are not looked at: they do not change what a nest means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import VerifyError
from zyx.nest import expr as e
from zyx.nest.data import Compute, Scan, Store
from zyx.semantics import apply_binary, apply_cast, apply_unary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.nest.data import Nest, Statement
    from zyx.ops import ReduceOp


def run_nest(nest: Nest, buffers: Sequence[np.ndarray]) -> None:
    """Execute `nest` on flat arrays, one for each of its params, in order; those it stores to are changed.

    Raises:
        VerifyError: A read or store that its mask allows lies outside its buffer.
    """
    evaluator = _Evaluator(dict(zip(nest.params, buffers, strict=True)))
    for statement in nest.statements:
        evaluator.run(statement)


class _Evaluator:
    """Arrays have an axis for each range of the statement, of size 1 where they do not depend on it."""

    def __init__(self, buffers: dict[e.Param, np.ndarray]) -> None:
        self._buffers = buffers
        self._values: dict[e.Value, np.ndarray] = {}
        self._axes: dict[e.Range, int] = {}
        self._memo: dict[e.Expr, np.ndarray] = {}

    def run(self, statement: Statement) -> None:
        """Execute one statement."""
        self._memo = {}
        match statement:
            case Compute(value=value, reduced=reduced):
                ranges = (*value.ranges, *reduced)
                self._axes = {range_: axis for axis, range_ in enumerate(ranges)}
                result = np.broadcast_to(self._evaluate(statement.expr), [range_.size for range_ in ranges])
                if statement.op is not None and reduced:
                    count = len(value.ranges)
                    result = _combine(statement.op, result.reshape(*result.shape[:count], -1))
                self._values[value] = result
            case Scan(value=value, along=along):
                others = tuple(range_ for range_ in value.ranges if range_ not in along)
                ranges = (*others, *along)
                self._axes = {range_: axis for axis, range_ in enumerate(ranges)}
                result = np.broadcast_to(self._evaluate(statement.expr), [range_.size for range_ in ranges])
                result = _fold(statement.op, result.reshape(*result.shape[: len(others)], -1)).reshape(result.shape)
                self._values[value] = result.transpose([ranges.index(range_) for range_ in value.ranges])
            case Store():
                self._store(statement)

    def _store(self, statement: Store) -> None:
        others = tuple(range_ for range_ in statement.order if range_ not in statement.serial)
        ranges = (*statement.serial, *others)  # in the order in which later stores win
        self._axes = {range_: axis for axis, range_ in enumerate(ranges)}
        shape = [range_.size for range_ in ranges]
        index = np.broadcast_to(self._evaluate(statement.index), shape).ravel()
        value = np.broadcast_to(self._evaluate(statement.expr), shape).ravel()
        if statement.mask is not None:
            mask = np.broadcast_to(self._evaluate(statement.mask), shape).ravel()
            index, value = index[mask], value[mask]
        buffer = self._buffers[statement.param]
        if index.size and (index.min() < 0 or index.max() >= buffer.size):
            raise VerifyError(f"a store reaches {index.min()}..{index.max()} of {statement.param}[{buffer.size}]")
        if statement.combine is None:
            buffer[index] = value
            return
        for position, item in zip(index, value, strict=True):
            buffer[position] = apply_binary(statement.combine.binary, buffer[position : position + 1], item[None])[0]

    def _evaluate(self, root: e.Expr) -> np.ndarray:
        stack = [root]
        while stack:
            current = stack[-1]
            missing = [child for child in current.children if child not in self._memo]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if current not in self._memo:
                self._memo[current] = self._apply(current)
        return self._memo[root]

    def _apply(self, expr: e.Expr) -> np.ndarray:
        memo = self._memo
        ndim = len(self._axes)
        match expr:
            case e.Literal(value=value):
                dtype = np.dtype(np.int64) if expr.dtype is e.INDEX else expr.dtype.numpy
                return np.full((1,) * ndim, value, dtype)
            case e.Number(param=param):
                return self._buffers[param].reshape((1,) * ndim)
            case e.RangeRef(range=range_):
                shape = [1] * ndim
                shape[self._axes[range_]] = range_.size
                return np.arange(range_.size).reshape(shape)
            case e.Affine(terms=terms, constant=constant):
                total = np.full((1,) * ndim, constant, np.int64)
                for term, factor in terms:
                    total = total + memo[term] * factor
                return total
            case e.Quotient(x=x, divisor=divisor):
                return memo[x] // divisor
            case e.Remainder(x=x, divisor=divisor):
                return memo[x] % divisor
            case e.Within(x=x):
                return memo[x]
            case e.NonNegative(x=x):
                return memo[x] >= 0
            case e.IsZero(x=x):
                zero: np.ndarray = memo[x] == 0
                return zero
            case e.Read(param=param, index=index, mask=mask):
                return self._read(self._buffers[param], memo[index], None if mask is None else memo[mask], str(param))
            case e.Ref(value=value, indices=indices, mask=mask):
                return self._reference(value, [memo[index] for index in indices], None if mask is None else memo[mask])
            case e.Apply1(op=op1, x=x):
                return apply_unary(op1, memo[x])
            case e.Apply2(op=op2, x=x, y=y):
                return apply_binary(op2, *np.broadcast_arrays(memo[x], memo[y]))
            case e.Select(condition=condition, x=x, y=y):
                return np.where(memo[condition], memo[x], memo[y])
            case e.Convert(x=x):
                return apply_cast(memo[x], dtypes.int64 if expr.dtype is e.INDEX else expr.dtype)
            case e.Reinterpret(x=x):
                return np.array(memo[x], order="C").view(expr.dtype.numpy)
            case _:
                raise VerifyError(f"{type(expr).__name__} has no place in a nest")

    @staticmethod
    def _read(array: np.ndarray, index: np.ndarray, mask: np.ndarray | None, name: str) -> np.ndarray:
        if mask is not None:
            index, mask = np.broadcast_arrays(index, mask)
            index = np.where(mask, index, 0)
        if index.size and (index.min() < 0 or index.max() >= array.size):
            if mask is not None and not mask.any():
                return np.zeros(index.shape, array.dtype)
            raise VerifyError(f"a read reaches {index.min()}..{index.max()} of {name}[{array.size}]")
        found = array[index]
        return found if mask is None else np.where(mask, found, np.zeros((), array.dtype))

    def _reference(self, value: e.Value, indices: list[np.ndarray], mask: np.ndarray | None) -> np.ndarray:
        array = self._values[value]
        if mask is not None:  # whatever is outside is not used
            indices = [np.clip(index, 0, size - 1) for index, size in zip(indices, array.shape, strict=True)]
        if not indices:
            return array.reshape((1,) * len(self._axes))
        found: np.ndarray = array[tuple(np.broadcast_arrays(*indices))]
        return found


def _combine(op: ReduceOp, array: np.ndarray) -> np.ndarray:
    """Return the combination along the last axis, in pairs."""
    while array.shape[-1] > 1:
        half = array.shape[-1] // 2
        pairs = apply_binary(op.binary, array[..., :half], array[..., half : 2 * half])
        array = np.concatenate([pairs, array[..., 2 * half :]], axis=-1)
    return array[..., 0]


def _fold(op: ReduceOp, array: np.ndarray) -> np.ndarray:
    """Return the running combination along the last axis."""
    result = np.array(array)
    for i in range(1, result.shape[-1]):
        result[..., i] = apply_binary(op.binary, result[..., i - 1], result[..., i])
    return result
