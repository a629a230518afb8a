"""What a graph means: every kind of node, computed with NumPy.

This is the oracle that schedules and backends are compared with. Element by element it computes as `zyx.semantics`
does, so integers, comparisons and casts come out bit by bit. Sums and products of float16 and bfloat16 are accumulated
in float32; in which order a reduction adds is not part of its meaning. With ``exact=True`` floats are computed in
float64, and nothing is rounded to the node's type: then the result says how far another one is off.

A graph may be thousands of nodes deep, so nothing here recurses; a value is dropped once its last reader has it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from zyx import dtype as dtypes
from zyx import ops, semantics
from zyx.errors import TraceError, UnsupportedError
from zyx.graph import node as n
from zyx.graph.host_call import HostCall
from zyx.graph.loop import Loop
from zyx.graph.walk import topological
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.ops import ReduceOp

Array: TypeAlias = npt.NDArray[Any]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al. 2011, table 2: Threefry-2x32
_PARITY = 0x1BD11BDA  # keeps the third key word from being 0


def evaluate(
    nodes: Sequence[n.Node],
    leaf_values: Callable[[n.Node], Array] | None = None,
    *,
    custom: Callable[[n.Custom, Sequence[Array]], Array] | None = None,
    exact: bool = False,
) -> list[Array]:
    """Return the values of `nodes`, each a dense array of the node's shape and dtype.

    Args:
        nodes: What to compute, together: what they share is computed once.
        leaf_values: Gives the values of a node that has a storage other than a NumPy array, or of a leaf that has none.
        custom: Runs a hand-written kernel on the values of its sources; what the host computes needs none.
        exact: Floats are float64 throughout; results of float nodes are float64.

    Raises:
        TraceError: A leaf has no values, and there is no `leaf_values`.
        UnsupportedError: There is a hand-written kernel, and no `custom`.
    """
    order = topological(nodes)
    readers: dict[n.Node, int] = dict.fromkeys(order, 0)
    for node in order:
        if node.storage is None:
            for source in node.sources:
                readers[source] += 1
    for node in nodes:
        readers[node] += 1
    values: dict[n.Node, Array] = {}
    with np.errstate(all="ignore"):
        for node in order:
            if node.storage is not None or isinstance(node, n.Leaf):
                values[node] = _widened(_given(node, leaf_values), exact=exact)
                continue
            sources = [values[source] for source in node.sources]
            if isinstance(node, n.Custom):
                values[node] = _widened(_run_custom(node, sources, custom, exact=exact), exact=exact)
            else:
                values[node] = np.asarray(_apply(node, sources, exact=exact))
            for source in node.sources:
                readers[source] -= 1
                if not readers[source]:
                    del values[source]
    return [np.asarray(values[node], order="C") for node in nodes]


def _given(node: n.Node, leaf_values: Callable[[n.Node], Array] | None) -> Array:
    if isinstance(node.storage, np.ndarray):
        return node.storage.reshape(node.shape)
    if leaf_values is None:
        raise TraceError(f"{node} has no values on the host; pass leaf_values to look them up")
    return leaf_values(node)


def _run_custom(
    node: n.Custom,
    sources: Sequence[Array],
    custom: Callable[[n.Custom, Sequence[Array]], Array] | None,
    *,
    exact: bool,
) -> Array:
    if isinstance(node.kernel, HostCall):
        return node.kernel.run(sources)[node.output]  # of float64 where its sources are
    if isinstance(node.kernel, Loop):
        run = functools.partial(evaluate, exact=exact)
        return node.kernel.run(sources, run)[node.output]
    if custom is None:
        raise UnsupportedError(f"{node} runs the hand-written kernel {node.kernel}; pass `custom` to run it")
    return custom(node, sources)


def _widened(value: Array, *, exact: bool) -> Array:
    """Return floats as float64 if `exact`."""
    if exact and dtypes.as_dtype(value.dtype).is_float:
        return np.asarray(value, dtype=np.float64)
    return value


def _apply(node: n.Node, x: Sequence[Array], *, exact: bool) -> Array:
    """Return the value of `node` of sources `x`."""
    match node:
        case n.Const():
            return np.broadcast_to(np.asarray(node.value, dtype=_computed_in(node.dtype, exact=exact)), node.shape)
        case n.Iota():
            along = np.arange(node.shape[node.axis], dtype=np.int64).astype(node.dtype.numpy)
            return np.broadcast_to(
                along.reshape([-1 if axis == node.axis else 1 for axis in range(node.ndim)]), node.shape
            )
        case n.Reshape() | n.Expand() | n.Permute() | n.Pad() | n.Shrink() | n.Flip() | n.Slide() | n.Unslide():
            return _moved(node, x[0])
        case n.Unary():
            return semantics.apply_unary(node.op, x[0])
        case n.Binary():
            return semantics.apply_binary(node.op, x[0], x[1])
        case n.Where():
            return np.where(x[0], x[1], x[2])
        case n.Cast():
            if exact and node.dtype.is_float:
                return x[0].astype(np.float64)
            return semantics.apply_cast(x[0], node.dtype)
        case n.Bitcast():
            bits = semantics.apply_cast(x[0], node.sources[0].dtype)  # rounds what was exact
            return _widened(semantics.apply_bitcast(bits, node.dtype), exact=exact)
        case n.Complex():
            made = np.empty(node.shape, np.result_type(x[0].dtype, np.complex64))
            made.real, made.imag = x
            return made
        case n.Component():
            return x[0].imag if node.is_imaginary else x[0].real
        case n.Reduce():
            return _reduce(node, x[0])
        case n.Scan():
            return _scan(node, x[0])
        case n.Gather():
            return _gather(x[0], x[1], node.axis)
        case n.Scatter():
            return _scatter(x[0], x[1], x[2], node.axis, node.op)
        case n.Sort():
            order = np.argsort(x[0], node.axis, kind="stable").astype(np.int32)
            return order[tuple(slice(size) for size in node.shape)]
        case n.Fourier():
            return _fourier(node, x[0])
        case n.RandomBits():
            return random_bits(x[0], node.shape, node.dtype, node.offset)
        case n.Contiguous() | n.ToDevice() | n.Alias():
            return x[0]
        case _:
            raise UnsupportedError(f"the NumPy oracle does not know {node}")


def _computed_in(dtype: DType, *, exact: bool) -> np.dtype[Any]:
    return np.dtype(np.float64) if exact and dtype.is_float else dtype.numpy


def _fourier(node: n.Fourier, x: Array) -> Array:
    if node.kind is not FourierKind.COMPLEX:
        return _real_fourier(node, x)
    if np.iscomplexobj(x):
        whole = np.fft.ifft(x, axis=node.axis, norm="forward") if node.is_inverse else np.fft.fft(x, axis=node.axis)
        return np.asarray(whole * node.scale).astype(x.dtype)
    pairs = np.ascontiguousarray(x)
    values = pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]
    found = np.fft.ifft(values, axis=1, norm="forward") if node.is_inverse else np.fft.fft(values, axis=1)
    return np.asarray(np.stack((found.real, found.imag), -1) * pairs.dtype.type(node.scale))


def _real_fourier(node: n.Fourier, x: Array) -> Array:
    dtype = node.dtype.numpy
    if node.kind is FourierKind.FROM_REAL:
        found = np.fft.rfft(x, axis=node.axis)
        whole = found if node.dtype.is_complex else np.stack((found.real, found.imag), -1)
    else:
        values = x if np.iscomplexobj(x) else x[..., 0] + 1j * x[..., 1]
        whole = np.fft.irfft(values, node.shape[node.axis], node.axis, norm="forward")
    return np.asarray(whole * node.scale).astype(dtype)


# ---- movement


def _moved(node: n.Movement, x: Array) -> Array:
    match node:
        case n.Reshape():
            return x.reshape(node.shape)
        case n.Expand():
            return np.broadcast_to(x, node.shape)
        case n.Permute():
            return x.transpose(node.order)
        case n.Pad():
            result = np.full(node.shape, node.value, dtype=x.dtype)
            starts = zip(node.widths, x.shape, strict=True)
            result[tuple(slice(before, before + size) for (before, _), size in starts)] = x
            return result
        case n.Shrink():
            return x[tuple(slice(start, stop) for start, stop in node.bounds)]
        case n.Flip():
            return np.flip(x, node.axes)
        case n.Slide():
            positions = _window_positions(node.shape[node.axis], node)
            return _back(node, _front(node, x)[positions, np.arange(node.shape[node.window])])
        case n.Unslide():
            windows = _front(node, x)
            spread = np.zeros((node.shape[node.axis], *windows.shape[1:]), dtype=windows.dtype)
            spread[_window_positions(windows.shape[0], node), np.arange(windows.shape[1])] = windows
            return _back(node, spread)


def _window_positions(count: int, node: n.Slide | n.Unslide) -> Array:
    """Return the positions along the axis, ``(count, window)``."""
    return np.arange(count)[:, None] * node.stride + np.arange(node.shape[node.window])[None, :] * node.dilation


def _front(node: n.Slide | n.Unslide, x: Array) -> Array:
    return np.moveaxis(x, (node.axis, node.window), (0, 1))


def _back(node: n.Slide | n.Unslide, x: Array) -> Array:
    return np.moveaxis(x, (0, 1), (node.axis, node.window))


# ---- combining


def _accumulated(x: Array) -> Array:
    """Return `x` in the type in which it is accumulated."""
    return np.asarray(x, dtype=dtypes.accumulator(dtypes.as_dtype(x.dtype)).numpy)


def _reduce(node: n.Reduce, x: Array) -> Array:
    if 0 in x.shape:
        return np.full(node.shape, ops.identity(node.op, dtypes.as_dtype(x.dtype)), dtype=x.dtype)
    wide = _accumulated(x)
    ufunc = semantics.reduce_ufunc(node.op)
    # NumPy's sums and products of small integers are of a wider type unless told; here they wrap.
    dtype = wide.dtype if ufunc in (np.add, np.multiply) else None
    return np.asarray(ufunc.reduce(wide, axis=node.axes, keepdims=True, dtype=dtype)).astype(x.dtype)


def _scan(node: n.Scan, x: Array) -> Array:
    wide = _accumulated(x)
    ufunc = semantics.reduce_ufunc(node.op)
    dtype = wide.dtype if ufunc in (np.add, np.multiply) else None
    return np.asarray(ufunc.accumulate(wide, axis=node.axis, dtype=dtype)).astype(x.dtype)


# ---- indexing


def _located(index: Array, size: int) -> tuple[Array, Array]:
    """Return `index` counted from the front as int64, and where it lies inside 0 .. `size`."""
    inside = (index < size) & (index >= -size)
    position = np.where(inside, index, 0).astype(np.int64)
    return np.where(position < 0, position + size, position), inside


def _gather(data: Array, index: Array, axis: int) -> Array:
    if not data.shape[axis]:
        return np.zeros(index.shape, dtype=data.dtype)
    position, inside = _located(index, data.shape[axis])
    found = np.take_along_axis(data, position, axis)
    return np.where(inside, found, np.zeros((), dtype=data.dtype))


def _scatter(base: Array, index: Array, updates: Array, axis: int, op: ReduceOp | None) -> Array:
    """Return `base` with `updates` written in row-major order; of several without `op` the last stays."""
    position, inside = _located(index, base.shape[axis])
    strides = np.cumprod((1, *base.shape[:0:-1]))[::-1]
    flat = position * strides[axis]
    for other in range(base.ndim):
        if other != axis:
            flat = flat + _coordinates(index.shape, other) * strides[other]
    flat, chosen = flat[inside], updates[inside]
    if op is None:
        result = np.array(base, order="C")
        result.reshape(-1)[flat] = chosen
        return result
    result = np.array(_accumulated(base), order="C")
    semantics.reduce_ufunc(op).at(result.reshape(-1), flat, _accumulated(chosen))
    return result.astype(base.dtype)


def _coordinates(shape: tuple[int, ...], axis: int) -> Array:
    return np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])


# ---- random words


def threefry2x32(key: tuple[int, int], x0: Array, x1: Array) -> tuple[Array, Array]:
    """Return the blocks (`x0`, `x1`), uint32, under `key`, after 20 rounds of Threefry-2x32.

    Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    keys = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ _PARITY)]
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))
            x1 = x1 ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def random_bits(state: Array, shape: tuple[int, ...], dtype: DType, offset: int) -> Array:
    """Return the words of `RandomBits`: element i is made of the block at ``state counter + offset + i``."""
    key0, key1, low, high = (int(word) for word in state)
    start = (low | high << 32) + offset
    count = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):  # sums of unsigned words wrap
        counter = np.arange(count, dtype=np.uint64) + np.uint64(start % (1 << 64))
        x0, x1 = threefry2x32((key0, key1), counter.astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32))
    if dtype is dtypes.uint32:
        return (x0 ^ x1).reshape(shape)
    return (x0.astype(np.uint64) | x1.astype(np.uint64) << np.uint64(32)).reshape(shape)
