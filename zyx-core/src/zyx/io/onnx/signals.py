"""Fourier transforms, and what belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zyx import fft
from zyx.functions import complex_numbers, joining, movement
from zyx.io.onnx.registry import operator
from zyx.io.onnx.values import numpy_dtype

if TYPE_CHECKING:
    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor


def _complex(x: Tensor) -> Tensor:
    """Return complex numbers of a last axis of one part or two."""
    real = x[..., 0]
    return complex_numbers.complex(real, x[..., 1] if x.shape[-1] == 2 else real * 0)


def _parts(z: Tensor) -> Tensor:
    return joining.stack([complex_numbers.real(z), complex_numbers.imag(z)], -1)


def _fitted(z: Tensor, length: int, axis: int) -> Tensor:
    """Return what is cut, or filled up with zeros, to a length."""
    size = z.shape[axis]
    if size >= length:
        return movement.narrow(z, axis, 0, length)
    return joining.pad(z, [(0, length - size if a == axis else 0) for a in range(z.ndim)])


@operator("DFT", reads=(1, 2), moved={"axis": (20, 2)})
def transform(node: NodeCall, x: Tensor, length: Array | None = None, axis: Array | None = None) -> Tensor:
    """Transform along an axis; the last one holds real and imaginary parts."""
    along = (-2 if node.version >= 20 else 1) if axis is None else int(axis.reshape(-1)[0])
    along %= x.ndim
    inverse, one_sided = bool(node["inverse"]), bool(node["onesided"])
    if inverse and one_sided:
        half = x.shape[along]
        count = 2 * (half - 1) if length is None else int(length.reshape(-1)[0])
        return fft.irfft(_complex(x), count, along).reshape((*x.shape[:along], count, *x.shape[along + 1 : -1], 1))
    count = x.shape[along] if length is None else int(length.reshape(-1)[0])
    if one_sided:
        return _parts(fft.rfft(_fitted(x[..., 0], count, along), count, along))
    z = _fitted(_complex(x), count, along)
    return _parts(fft.ifft(z, count, along) if inverse else fft.fft(z, count, along)).astype(x.dtype)


@operator("STFT", reads=(1, 3))
def short_time_transform(
    node: NodeCall, x: Tensor, step: Array, window: Tensor | None = None, length: Array | None = None
) -> Tensor:
    """Transform frames of a signal ``(batch, length, 1 or 2)``."""
    if length is not None:
        size = int(length.reshape(-1)[0])
    elif window is not None:
        size = window.shape[0]
    else:
        size = x.shape[1]
    is_real = x.ndim == 2 or x.shape[-1] == 1
    signal = x if x.ndim == 2 else x[..., 0] if is_real else _complex(x)
    frames = movement.unfold(signal, 1, size, int(step.reshape(-1)[0]))
    if window is not None:
        frames = frames * window
    if node["onesided"]:
        return _parts(fft.rfft(frames, size, -1)).astype(x.dtype)
    return _parts(fft.fft(frames, size, -1)).astype(x.dtype)


@operator("MelWeightMatrix", raw=True)
def mel_weights(node: NodeCall, bins: Value, length: Value, rate: Value, low: Value, high: Value) -> Value:
    """Return triangles over frequencies, evenly spaced in mels: a matrix ``(length // 2 + 1, bins)``."""
    count, size, sample_rate = (node.ints(value)[0] for value in (bins, length, rate))
    edges = [float(np.asarray(node.tensor(value).numpy())) for value in (low, high)]
    spectrum = size // 2 + 1
    mels = 2595 * np.log10(1 + np.array(edges) / 700)
    steps = np.arange(count + 2) * ((mels[1] - mels[0]) / (count + 2)) + mels[0]
    points = ((size + 1) * (700 * (10 ** (steps / 2595) - 1)) // sample_rate).astype(np.int64)
    matrix = np.zeros((spectrum, count))
    for number in range(count):
        begin, centre, end = points[number : number + 3]
        if centre == begin:
            matrix[centre, number] = 1
        else:
            matrix[begin : centre + 1, number] = (np.arange(begin, centre + 1) - begin) / (centre - begin)
        if end > centre:
            matrix[centre:end, number] = (end - np.arange(centre, end)) / (end - centre)
    return matrix.astype(numpy_dtype(node["output_datatype"], "MelWeightMatrix"))
