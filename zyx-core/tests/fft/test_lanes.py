"""Hand-written kernels of transforms, run by the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import zyx
from zyx.graph.fourier import table_of
from zyx.kernels.fourier.lanes import FourierWork, columns_kernel, rows_kernel, turned_kernel
from zyx.ops import FourierKind

if TYPE_CHECKING:
    from zyx.kernels.custom import CustomKernel
    from zyx.runtime.runtime import Runtime


def run(kernel: CustomKernel, x: np.ndarray, size: int) -> np.ndarray:
    pairs = zyx.Tensor(np.stack((x.real, x.imag), -1))
    table = zyx.Tensor(table_of(size, zyx.float64))
    found = pairs.like(kernel.apply(pairs.runtime.graph, (pairs.node, table.node))[0]).numpy()
    return found[..., 0] + 1j * found[..., 1]


def drawn(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(shape)
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("size", [2, 7, 16, 21, 128, 135, 300, 1001])
def test_rows(interpreter: Runtime, size: int, lanes: int) -> None:
    x = drawn(2, size, 1)
    work = FourierWork(zyx.float64, size, table_of(size, zyx.float64).size, 0, False, 2.0, lanes)
    found = run(rows_kernel((2, size, 1, 2), work), x, size)
    np.testing.assert_allclose(found, 2.0 * np.fft.fft(x, axis=1), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("size", "inner"), [(2, 3), (16, 8), (45, 11), (128, 5)])
def test_columns(interpreter: Runtime, size: int, inner: int) -> None:
    x = drawn(2, size, inner)
    work = FourierWork(zyx.float64, size, table_of(size, zyx.float64).size, 0, True, 1.0, 8)
    found = run(columns_kernel((2, size, inner, 2), work), x, size)
    np.testing.assert_allclose(found, np.fft.ifft(x, axis=1, norm="forward"), rtol=0, atol=1e-11)


@pytest.mark.parametrize(("count", "size"), [(8, 16), (11, 45), (5, 128)])
def test_rows_become_columns(interpreter: Runtime, count: int, size: int) -> None:
    x = drawn(2, count, size)
    work = FourierWork(zyx.float64, size, table_of(size, zyx.float64).size, 0, False, 1.0, 8)
    found = run(turned_kernel((2, count, size, 2), work), x, size)
    np.testing.assert_allclose(found, np.fft.fft(x, axis=2).swapaxes(1, 2), rtol=0, atol=1e-11)


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("shape", [(2, 4, 1), (2, 26, 1), (2, 42, 1), (1, 256, 1), (2, 32, 3), (1, 90, 11)])
def test_real_numbers(interpreter: Runtime, shape: tuple[int, int, int], lanes: int) -> None:
    outer, size, inner = shape
    x = drawn(*shape).real.copy()
    wanted = np.fft.rfft(x, axis=1)
    graph, table = interpreter.graph, zyx.Tensor(table_of(size, zyx.float64, FourierKind.FROM_REAL))
    for kind, values in (
        (FourierKind.FROM_REAL, x),
        (FourierKind.TO_REAL, np.stack((wanted.real, wanted.imag), -1)),
    ):
        is_inverse = kind is FourierKind.TO_REAL
        work = FourierWork(zyx.float64, size // 2, table.shape[0], 0, is_inverse, 2.0, lanes, kind=kind)
        make = rows_kernel if inner == 1 else columns_kernel
        (node,) = make((outer, size // 2, inner, 2), work).apply(graph, (zyx.Tensor(values).node, table.node))
        found = table.like(node).numpy()
        if is_inverse:
            np.testing.assert_allclose(found, 2.0 * size * x, rtol=0, atol=1e-11)
        else:
            np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], 2.0 * wanted, rtol=0, atol=1e-11)
