"""Complex numbers, which devices compute as pairs of reals: arithmetic, functions, sums, products and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zyx
from zyx import dtype as dtypes
from zyx.errors import BackendError
from zyx.runtime.runtime import use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend import Device
    from zyx.runtime.runtime import Runtime


@pytest.fixture
def here(runtime: Runtime, device: Device) -> Iterator[Device]:
    """Let tensors be made on the device under test."""
    with use(runtime), runtime.default(device.name):
        yield device


@pytest.fixture(params=[dtypes.complex64, dtypes.complex128], ids=lambda dtype: dtype.short)
def dtype(request: pytest.FixtureRequest, here: Device) -> np.dtype[Any]:
    """Each complex dtype whose parts the device has."""
    if not here.info.can_compute(request.param.part):
        pytest.skip(f"{here.name} does not compute {request.param.part}, which {request.param} is a pair of")
    named: np.dtype[Any] = np.dtype(request.param.name)
    return named


def _drawn(dtype: np.dtype[Any], *shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def _check(got: zyx.Tensor, wanted: np.ndarray, digits: float = 400.0) -> None:
    values = got.numpy()
    assert values.shape == wanted.shape
    assert values.dtype == wanted.dtype
    assert np.abs(values - wanted).max() <= digits * np.finfo(wanted.dtype).eps * (1.0 + np.abs(wanted).max())


def test_arithmetic_and_functions(dtype: np.dtype[Any]) -> None:
    a, b = _drawn(dtype, 4, 33), _drawn(dtype, 4, 33, seed=1)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    _check(x * y - x / y + (1 - 2j), (a * b - a / b + (1 - 2j)).astype(dtype))
    _check(zyx.exp(x) + zyx.sin(y), np.exp(a) + np.sin(b))
    _check(zyx.log(x) * zyx.sqrt(y), np.log(a) * np.sqrt(b))
    _check(zyx.tanh(x) + zyx.atan(y), np.tanh(a) + np.arctan(b))
    _check(zyx.asin(x) + zyx.acosh(y), np.arcsin(a) + np.arccosh(b))
    _check(abs(x), np.abs(a))
    _check(zyx.angle(x.conj()), np.angle(a.conj()))
    assert (x == zyx.Tensor(a)).numpy().all()
    assert not (x == y).numpy().any()


def test_sums_and_products(dtype: np.dtype[Any]) -> None:
    a, b = _drawn(dtype, 17, 40), _drawn(dtype, 40, 9, seed=1)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    _check(x @ y, a @ b)
    _check(x.sum(1), a.sum(1))
    _check((x / abs(x)).prod(1), (a / np.abs(a)).prod(1))
    _check(zyx.cumulative_sum(x, 0), a.cumsum(0))
    _check(zyx.cumulative_prod(x / abs(x), 1), (a / np.abs(a)).cumprod(1))


def test_values_lie_in_memory_as_numpy_has_them(dtype: np.dtype[Any]) -> None:
    a = _drawn(dtype, 5, 6)
    x = (zyx.Tensor(a) * 2).realize()
    assert (x.numpy() == a * 2).all()
    assert (x[1:, ::-2].T.numpy() == (a * 2)[1:, ::-2].T).all()
    assert (zyx.view_as_real(x).numpy() == (a * 2).view(np.finfo(dtype).dtype).reshape(5, 6, 2)).all()


def test_gradients_and_traced_functions(dtype: np.dtype[Any]) -> None:
    a = _drawn(dtype, 30)
    step = zyx.jit(lambda z: z - 0.25 * zyx.grad(lambda z: (abs(z) ** 2).sum())(z))
    for scale in (1.0, 2.0, 3.0):
        _check(step(zyx.Tensor(a * dtype.type(scale))), (a * dtype.type(scale * 0.5)).astype(dtype))


def test_pairs_of_floats_that_the_device_lacks_are_refused_as_these_are(here: Device) -> None:
    if here.info.can_store(dtypes.float64):
        pytest.skip(f"{here.name} has float64, so it has complex128")
    refused = []
    for dtype in (np.float64, np.complex128):
        with pytest.raises(BackendError, match=r"float64|f64") as caught:
            (zyx.Tensor(np.ones(3, dtype)) * 2).numpy()
        refused.append(caught.type)
    assert refused[0] is refused[1]
