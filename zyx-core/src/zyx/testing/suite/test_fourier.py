"""Transforms of lengths that are divided in different ways, along the last axis and others, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.graph.fourier import LONGEST, table_of
from zyx.ops import FourierKind
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.runtime.runtime import Runtime

#: Times the rounding error of the type and the square root of the binary logarithm of the length.
_FACTOR = 4.0


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize(
    ("outer", "size", "inner"),
    [(2, 2, 1), (3, 15, 1), (2, 16, 3), (2, 77, 5), (1, 360, 20), (2, 512, 1), (1, 2 * LONGEST, 1)],
)
def test_transforms_are_numpys(
    runtime: Runtime, device: Device, dtype: DType, outer: int, size: int, inner: int
) -> None:
    if not device.info.can_compute(dtype):
        pytest.skip(f"{device.name} does not claim to compute with {dtype}")
    values = np.random.default_rng(size).standard_normal((outer, size, inner, 2)).astype(dtype.numpy)
    wide = values.astype(np.float64)
    exact = wide[..., 0] + 1j * wide[..., 1]
    limit = _FACTOR * 2.0 ** -(24 if dtype is dtypes.float32 else 53) * np.sqrt(1 + np.log2(size))
    with use(runtime):
        x = zyx.Tensor(values, None, device.name)
        table = zyx.Tensor(table_of(size, dtype), None, device.name)
        for is_inverse in (False, True):
            node = x.runtime.graph.fourier(x.node, table.node, is_inverse=is_inverse, scale=0.5)
            found = x.like(node).numpy()
            wanted = 0.5 * (np.fft.ifft(exact, axis=1, norm="forward") if is_inverse else np.fft.fft(exact, axis=1))
            error = np.linalg.norm(found[..., 0] + 1j * found[..., 1] - wanted)
            assert error <= limit * np.linalg.norm(wanted)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize(("outer", "size", "inner"), [(3, 2, 1), (2, 10, 3), (3, 60, 1), (2, 512, 5), (1, 1 << 15, 1)])
def test_transforms_of_real_numbers_are_numpys(
    runtime: Runtime, device: Device, dtype: DType, outer: int, size: int, inner: int
) -> None:
    if not device.info.can_compute(dtype):
        pytest.skip(f"{device.name} does not claim to compute with {dtype}")
    generator = np.random.default_rng(size)
    values = generator.standard_normal((outer, size, inner)).astype(dtype.numpy)
    pairs = generator.standard_normal((outer, size // 2 + 1, inner, 2)).astype(dtype.numpy)
    wide = pairs.astype(np.float64)
    limit = _FACTOR * 2.0 ** -(24 if dtype is dtypes.float32 else 53) * np.sqrt(1 + np.log2(size))
    with use(runtime):
        table = zyx.Tensor(table_of(size, dtype, FourierKind.FROM_REAL), None, device.name)
        graph = table.runtime.graph
        x = zyx.Tensor(values, None, device.name)
        node = graph.fourier(x.node, table.node, scale=0.5, kind=FourierKind.FROM_REAL, as_pairs=True)
        found = x.like(node).numpy()
        wanted = 0.5 * np.fft.rfft(values.astype(np.float64), axis=1)
        error = np.linalg.norm(found[..., 0] + 1j * found[..., 1] - wanted)
        assert error <= limit * np.linalg.norm(wanted)
        half = zyx.Tensor(pairs, None, device.name)
        node = graph.fourier(half.node, table.node, scale=0.5, kind=FourierKind.TO_REAL)
        back = 0.5 * np.fft.irfft(wide[..., 0] + 1j * wide[..., 1], size, axis=1, norm="forward")
        assert np.linalg.norm(half.like(node).numpy() - back) <= limit * np.linalg.norm(back)
