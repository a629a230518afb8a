"""Fourier transforms, as pairs of real and imaginary parts along one more axis behind the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.io.onnx.export.movement import cut, flipped
from zyx.io.onnx.export.sizes import plain
from zyx.io.onnx.export.writer import CannotWriteError
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.graph import node as n
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter


def write_fourier(w: GraphWriter, node: n.Fourier) -> GraphValue:
    """Write a transform along axis 1 of ``(outer, n, inner, 2)``, or of real ``(outer, n, inner)``."""
    x = w.value(node.sources[0])
    if not isinstance(plain(node.shape[1]), int) or not isinstance(x.dims[1], int):
        raise CannotWriteError("transforms along an axis whose length varies")
    if node.kind is FourierKind.FROM_REAL:
        found = _transformed(w, w.reshape(x, (*x.dims, 1)), is_inverse=False, is_half=True)
    elif node.kind is FourierKind.TO_REAL:
        found = _transformed(w, _whole(w, x), is_inverse=True)
        found = w.reshape(cut(w, found, {3: (0, 1)}), found.dims[:3])
    else:
        found = _transformed(w, x, is_inverse=node.is_inverse)
    return found if node.scale == 1 else w.like("Mul", found, w.scalar(node.scale, node.dtype))


def _transformed(w: GraphWriter, x: GraphValue, *, is_inverse: bool, is_half: bool = False) -> GraphValue:
    """Return the transform, whose inverse is not divided by n as ONNX does."""
    size = x.dims[1]
    assert isinstance(size, int)
    dims = (x.dims[0], size // 2 + 1 if is_half else size, x.dims[2], 2)
    axis = w.scalar(1, dtypes.int64)
    made = w.op("DFT", [x, None, axis], dims, x.dtype, inverse=int(is_inverse), onesided=int(is_half))
    return w.like("Mul", made, w.scalar(float(size), x.dtype)) if is_inverse else made


def _whole(w: GraphWriter, half: GraphValue) -> GraphValue:
    """Return all n elements of the first n / 2 + 1: the others are conjugates of these."""
    last = half.dims[1]
    assert isinstance(last, int)
    size = 2 * (last - 1)
    if last <= 2:
        return half
    inner = flipped(w, cut(w, half, {1: (1, last - 1)}), [1])
    conjugate = w.like("Mul", inner, w.constant([1.0, -1.0], half.dtype))
    return w.op("Concat", [half, conjugate], (half.dims[0], size, *half.dims[2:]), half.dtype, axis=1)
