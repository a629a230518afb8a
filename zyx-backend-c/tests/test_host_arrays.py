"""Memory of other libraries begins at any element: kernels read it as they read their own."""

import numpy as np
import pytest

import zyx


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int16", "complex64"])
@pytest.mark.parametrize("start", [1, 3, 7])
@pytest.mark.parametrize("size", [5, 1000, 4096])
def test_kernels_read_arrays_at_any_element(dtype, start, size):
    whole = (np.arange(size + start) % 7).astype(dtype)
    array = whole[start:]
    x = zyx.asarray(array, device="c", copy=False)
    assert np.array_equal((x + x).numpy(), array + array)
    assert np.allclose(x.sum().item(), array.sum())
    assert np.array_equal(x[::-1].numpy(), array[::-1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_read_arrays_at_any_element(dtype):
    rng = np.random.default_rng(1)
    first, second = (rng.standard_normal(96 * 96 + 1).astype(dtype)[1:].reshape(96, 96) for _ in range(2))
    x, y = (zyx.asarray(array, device="c", copy=False) for array in (first, second))
    assert np.allclose((x @ y).numpy(), first @ second, atol=1e-3)
    assert np.allclose((x * y + x.T).sum(0).numpy(), (first * second + first.T).sum(0), atol=1e-3)
