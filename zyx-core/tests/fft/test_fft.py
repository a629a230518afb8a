"""The public functions against NumPy's, their gradients, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import zyx
from zyx import fft
from zyx.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from zyx.runtime.runtime import Runtime

_GENERATOR = np.random.default_rng(1)
REAL = _GENERATOR.standard_normal((3, 6, 5))
COMPLEX = REAL + 1j * _GENERATOR.standard_normal((3, 6, 5))
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL_AXES = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]


def input_of(name: str) -> npt.NDArray[Any]:
    return REAL if name.startswith(("rfft", "ihfft")) else COMPLEX


def compare(name: str, x: npt.NDArray[Any], **options: Any) -> None:
    found = getattr(fft, name)(zyx.Tensor(x), **options).numpy()
    wanted = getattr(np.fft, name)(x, **options)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward", None])
@pytest.mark.parametrize("name", ONE_AXIS)
def test_one_axis_is_as_numpy_has_it(interpreter: Runtime, name: str, norm: str | None) -> None:
    for axis, n in ((-1, None), (1, None), (0, 1), (-3, 5), (1, 4), (2, 9)):
        compare(name, input_of(name), n=n, axis=axis, norm=norm)


@pytest.mark.parametrize("name", SEVERAL_AXES)
def test_several_axes_are_as_numpy_has_them(interpreter: Runtime, name: str) -> None:
    x = input_of(name)
    for options in ({}, {"axes": (0, -2)}, {"s": (4, 7), "axes": (2, 0), "norm": "ortho"}):
        compare(name, x, **options)


def test_real_numbers_and_no_axes_are_taken_too(interpreter: Runtime) -> None:
    compare("fft", REAL)
    compare("irfft", REAL)
    assert np.array_equal(fft.fftn(zyx.Tensor(COMPLEX), axes=()).numpy(), COMPLEX)
    assert fft.fft(zyx.Tensor(np.zeros((0, 4)))).shape == (0, 4)
    kept = fft.fftn(zyx.Tensor(COMPLEX), s=(-1, 4), axes=(0, 1))
    np.testing.assert_allclose(kept.numpy(), np.fft.fftn(COMPLEX, s=(3, 4), axes=(0, 1)), rtol=0, atol=1e-13)


def test_smaller_floats_are_computed_in_float32(interpreter: Runtime) -> None:
    x = REAL.astype(np.float16)
    found = fft.rfft(zyx.Tensor(x)).numpy()
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, np.fft.rfft(x.astype(np.float64)), rtol=0, atol=1e-5)


def test_frequencies_and_their_order(interpreter: Runtime) -> None:
    for size in (1, 2, 5, 8):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(fft, name)(size, d=0.3, dtype=zyx.float64).numpy()
            np.testing.assert_allclose(found, getattr(np.fft, name)(size, 0.3), rtol=1e-15)
    assert fft.fftfreq(4).dtype is zyx.float32
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 1, (0, -1)):
            found = getattr(fft, name)(zyx.Tensor(COMPLEX), axes=axes).numpy()
            assert np.array_equal(found, getattr(np.fft, name)(COMPLEX, axes=axes))


@pytest.mark.parametrize("name", ONE_AXIS)
def test_gradients_are_near_finite_differences(interpreter: Runtime, name: str) -> None:
    x = input_of(name)[0, 0] + 0.0
    weights = np.random.default_rng(3).standard_normal(20)

    def loss(t: zyx.Tensor) -> zyx.Tensor:
        found = getattr(fft, name)(t, n=7)
        both = zyx.concat([zyx.real(found), zyx.imag(found)]) if found.dtype.is_complex else found
        return (both * both * zyx.Tensor(weights[: both.shape[0]])).sum()

    gradient = zyx.grad(loss)(zyx.Tensor(x)).numpy()
    for place in range(x.size):
        for step in (1e-6, 1e-6j) if np.iscomplexobj(x) else (1e-6,):
            moved = np.eye(x.size)[place] * step
            slope = (loss(zyx.Tensor(x + moved)).item() - loss(zyx.Tensor(x - moved)).item()) / 2e-6
            wanted = gradient[place].imag if isinstance(step, complex) else gradient[place].real
            assert slope == pytest.approx(wanted, rel=1e-6, abs=1e-7)


def test_traced_functions_transform(interpreter: Runtime) -> None:
    traced = zyx.jit(lambda x: fft.irfft(fft.rfft(x) * 2.0, n=17))
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((2, 17))
        np.testing.assert_allclose(traced(zyx.Tensor(x)).numpy(), 2.0 * x, rtol=0, atol=1e-13)


REFUSED = [
    ("fft", {"axis": 3}, ShapeError, r"fft: axis 3 of an array of 3 axes; expected -3 to 2"),
    ("rfft", {"n": 0}, ShapeError, r"rfft: n = 0; a transform is of at least 1 element"),
    ("irfft", {"n": -2}, ShapeError, r"irfft: n = -2; a transform"),
    ("ifft", {"norm": "unit"}, ShapeError, r"ifft: norm = 'unit'; expected \"backward\", \"ortho\" or \"forward\""),
    ("hfft", {"norm": "unit"}, ShapeError, r"hfft: norm = 'unit'"),
    ("fftn", {"axes": (0, -3)}, ShapeError, r"fftn: axes = \(0, -3\) has an axis twice"),
    ("fftn", {"s": (2,), "axes": (0, 1)}, ShapeError, r"fftn: s = \(2,\) has 1 sizes for 2 axes"),
    ("ifftn", {"s": (1, 2, 3, 4)}, ShapeError, r"ifftn: s = \(1, 2, 3, 4\) has 4 sizes for an array of 3 axes"),
    ("fft2", {"axes": (0, 5)}, ShapeError, r"fft2: axis 5"),
    ("rfftn", {"axes": ()}, ShapeError, r"rfftn: there are no axes to transform"),
    ("irfft2", {"s": (2, 0)}, ShapeError, r"irfft2: n = 0"),
]


@pytest.mark.parametrize(("name", "options", "error", "said"), REFUSED, ids=lambda x: str(x)[:20])
def test_wrong_arguments_are_named(
    interpreter: Runtime, name: str, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        getattr(fft, name)(zyx.Tensor(input_of(name)), **options)


def test_wrong_types_and_empty_axes_are_named(interpreter: Runtime) -> None:
    for dtype in (zyx.int32, zyx.bool):
        for name in ONE_AXIS + SEVERAL_AXES:
            with pytest.raises(DTypeError, match=rf"^{name}: x is {dtype}.*astype"):
                getattr(fft, name)(zyx.ones((2, 4), dtype))
    for name in ("rfft", "ihfft", "rfftn", "rfft2"):
        with pytest.raises(DTypeError, match=rf"^{name}: x is complex128, and real numbers are expected"):
            getattr(fft, name)(zyx.Tensor(COMPLEX))
    with pytest.raises(ShapeError, match="fft: the axis has no elements"):
        fft.fft(zyx.Tensor(np.zeros((2, 0))))
    with pytest.raises(ShapeError, match="irfft: n = 0"):
        fft.irfft(zyx.Tensor(np.ones((2, 1), np.complex128)))
    with pytest.raises(ShapeError, match="fftfreq: n = 0"):
        fft.fftfreq(0)
    with pytest.raises(ShapeError, match="rfftfreq: d = 0"):
        fft.rfftfreq(4, d=0)
    with pytest.raises(DTypeError, match="fftfreq: dtype = int32"):
        fft.fftfreq(4, dtype=zyx.int32)
    with pytest.raises(ShapeError, match="fftshift: axis 3"):
        fft.fftshift(zyx.Tensor(COMPLEX), axes=3)
