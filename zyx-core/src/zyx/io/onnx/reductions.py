"""Sums, extremes and other reductions of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.functions import cumulative, movement, reduction, transcendental
from zyx.functions.joining import concat
from zyx.functions.operands import is_tensor
from zyx.io.onnx.lengths import as_array, varies
from zyx.io.onnx.registry import operator
from zyx.tensor import creation

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value


def _sum(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return x.sum(axis=axes, keepdims=keep).astype(x.dtype)


def _prod(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return x.prod(axis=axes, keepdims=keep).astype(x.dtype)


def _extreme(name: str) -> Callable[..., Value]:
    def compute(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
        kind = x.dtype.kind
        if any(x.shape[axis] == 0 for axis in axes):  # the least of nothing is the greatest number
            least = (
                -np.inf if kind == "f" else False if kind == "b" else np.iinfo(getattr(x.dtype, "numpy", x.dtype)).min
            )
            most = np.inf if kind == "f" else True if kind == "b" else np.iinfo(getattr(x.dtype, "numpy", x.dtype)).max
            shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
            return np.full(shape, least if name == "max" else most, getattr(x.dtype, "numpy", x.dtype))
        return getattr(x, name)(axis=axes, keepdims=keep).astype(x.dtype)

    return compute


def _mean(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return x.mean(axis=axes, keepdims=keep).astype(x.dtype)


def _l1(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return _sum(abs(x), axes, keep)


def _square_sum(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return _sum(x * x, axes, keep)


def _l2(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return transcendental.sqrt(_square_sum(x, axes, keep)).astype(x.dtype)


def _log_sum(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    return transcendental.log(_sum(x, axes, keep)).astype(x.dtype)


def _log_sum_exp(x: Value, axes: tuple[int, ...], keep: bool) -> Value:
    if any(x.shape[axis] == 0 for axis in axes):
        return _log_sum(x, axes, keep)
    return reduction.logsumexp(x, axes, keepdims=keep).astype(x.dtype)


#: The reduction, the version that made an input of its axes, and whether NumPy's arrays have it, too.
_REDUCTIONS = {
    "ReduceSum": (_sum, 13, True),
    "ReduceProd": (_prod, 18, True),
    "ReduceMax": (_extreme("max"), 18, True),
    "ReduceMin": (_extreme("min"), 18, True),
    "ReduceMean": (_mean, 18, True),
    "ReduceL1": (_l1, 18, False),
    "ReduceL2": (_l2, 18, False),
    "ReduceSumSquare": (_square_sum, 18, False),
    "ReduceLogSum": (_log_sum, 18, False),
    "ReduceLogSumExp": (_log_sum_exp, 18, False),
}


#: Those of sizes.
_OF_SIZES: Final[dict[str, Callable[..., Value]]] = {
    "ReduceSum": np.sum,
    "ReduceProd": np.prod,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
}


def _reduction(function: Callable[..., Value]) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Value, axes: Array | None = None) -> Value:
        if axes is None or not axes.size:
            if node.get("noop_with_empty_axes", 0):
                return function(x.reshape((1, *x.shape)), (0,), False)  # of one element each
            chosen = tuple(range(len(x.shape)))
        else:
            chosen = tuple(int(axis) % len(x.shape) for axis in axes)
        if not x.shape:
            return function(x.reshape((1,)), (0,), False)
        if varies(x):
            return as_array(_OF_SIZES[node.proto.op_type](x, axis=chosen, keepdims=bool(node["keepdims"])))
        return function(x, chosen, bool(node["keepdims"]))

    return compute


for _name, (_function, _version, _folds) in _REDUCTIONS.items():
    operator(_name, reads=(1,), moved={"axes": (_version, 1)}, folds=_folds, sizes=_name in _OF_SIZES)(
        _reduction(_function)
    )


def _place(of: Callable[..., Value]) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Value) -> Value:
        axis = node["axis"]
        if not node.get("select_last_index", 0):
            return of(x, axis, keepdims=bool(node["keepdims"]))
        return x.shape[axis] - 1 - of(movement.flip(x, axis), axis, keepdims=bool(node["keepdims"]))

    return compute


operator("ArgMax")(_place(reduction.argmax))
operator("ArgMin")(_place(reduction.argmin))


def _running(ours: Callable[..., Value], theirs: Callable[..., Value], start: int) -> Callable[..., Value]:
    def compute(node: NodeCall, x: Value, axis: Array) -> Value:
        along = int(axis.reshape(())) % len(x.shape)
        if node["reverse"]:
            x = movement.flip(x, along) if is_tensor(x) else np.flip(x, along)
        if node["exclusive"]:  # what comes before each
            shape = list(x.shape)
            shape[along] = 1
            rest = x[tuple(slice(0, -1) if a == along else slice(None) for a in range(len(x.shape)))]
            if is_tensor(x):
                x = concat([creation.full(shape, start, x.dtype, x.device), rest], along)
            else:
                x = np.concatenate([np.full(shape, start, x.dtype), rest], along)
        total = ours(x, along).astype(x.dtype) if is_tensor(x) else theirs(x, along).astype(x.dtype)
        if node["reverse"]:
            total = movement.flip(total, along) if is_tensor(total) else np.flip(total, along)
        return total

    return compute


operator("CumSum", reads=(1,), folds=True)(_running(cumulative.cumsum, np.cumsum, 0))
operator("CumProd", reads=(1,), folds=True)(_running(cumulative.cumprod, np.cumprod, 1))
