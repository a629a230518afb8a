"""Functions of complex numbers on the interpreter, beside NumPy: drawn points, special values, reductions, products."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, GradientError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")

FUNCTIONS: Final = {
    "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "reciprocal": np.reciprocal, "square": np.square, "abs": np.abs, "angle": np.angle,
    "conj": np.conj, "real": np.real, "imag": np.imag, "negative": np.negative, "sign": lambda z: z / np.abs(z),
}  # fmt: skip
DTYPES: Final = pytest.mark.parametrize("dtype", [np.complex64, np.complex128])


def drawn(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * 1.5 + 1.5j * random.standard_normal(shape)).astype(dtype)


def check(got: zyx.Tensor, wanted: np.ndarray, digits: float = 40.0) -> None:
    values = got.numpy()
    assert values.shape == np.shape(wanted)
    assert values.dtype == wanted.dtype
    error = np.abs(values - wanted) / np.maximum(np.abs(wanted), 1e-3)
    assert error.max() < digits * np.finfo(wanted.dtype).eps


@DTYPES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_numpys_values(name, dtype):
    z = drawn(dtype, 200)
    check(getattr(zyx, name)(zyx.Tensor(z)), FUNCTIONS[name](z))


SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan)
ODD: Final = {"sqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log", "tan", "tanh", "abs"}
"""Those whose special values C99 fixes to the last sign."""


@DTYPES
@pytest.mark.parametrize("name", [*sorted(ODD), "exp", "sin", "cos", "sinh", "cosh", "log1p"])
def test_special_values_are_those_of_annex_g(name, dtype):
    z = np.array([complex(x, y) for x, y in itertools.product(SPECIAL, SPECIAL)], dtype)
    got = getattr(zyx, name)(zyx.Tensor(z)).numpy()
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](z)
    far, near = {"tanh": ("real", "imag"), "tan": ("imag", "real")}.get(name, (None, None))
    is_endless = np.isinf(getattr(z, far)) if far else np.zeros(z.shape, bool)
    if far:  # the standard has the zero beside 1 with the sign of its part, C99 that of sin(2 y)
        finite = is_endless & np.isfinite(getattr(z, near))
        assert (np.signbit(getattr(got, near)) == np.signbit(getattr(z, near)))[finite].all()
        assert (np.signbit(getattr(got, far)) == np.signbit(getattr(z, far)))[is_endless].all()
    for part in ("real", "imag"):
        here, there = getattr(got, part), getattr(wanted, part)
        np.testing.assert_allclose(*np.abs([here, there]), rtol=1e-5 if dtype == np.complex64 else 1e-13, atol=1e-7)
        if name in ODD:  # elsewhere signs beside infinity and NaN are left open
            known = ~np.isnan(there) & ~is_endless
            assert (np.signbit(here) == np.signbit(there))[known].all()


def test_infinite_and_undefined_numbers_are_told_apart():
    z = np.array([complex(x, y) for x, y in itertools.product(SPECIAL, SPECIAL)])
    for name in ("isnan", "isinf", "isfinite"):
        assert (getattr(zyx, name)(zyx.Tensor(z)).numpy() == getattr(np, name)(z)).all()


def test_large_and_small_numbers_neither_overflow_nor_vanish():
    z = np.array([1e300 + 1e300j, 1e-300 - 1e-300j, -3e307 + 4e307j, 5e-324j])
    x = zyx.Tensor(z)
    for name in ("abs", "sqrt", "log", "asinh", "acosh"):
        check(getattr(zyx, name)(x[:3]), FUNCTIONS[name](z[:3]))
    check(x / x, np.ones(4, complex))
    near = zyx.exp(zyx.Tensor(np.array([710 + 1.5j]))).numpy()[0]
    assert near.real == pytest.approx(np.exp(709.0) * (np.e * np.cos(1.5)))


@DTYPES
def test_arithmetic_reductions_and_products(dtype):
    a, b = drawn(dtype, 5, 7), drawn(dtype, 5, 7, seed=1)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    for got, wanted in [
        (x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x**y, a**b), (x**5, a**5), (x**-2, a**-2),
        (2.5 / x, 2.5 / a), (x * (1 + 2j) - 3, a * (1 + 2j) - 3), (x.sum(0), a.sum(0)), (x.mean(), a.mean()),
        (x.prod(1), a.prod(1)), (zyx.cumulative_sum(x, 1), a.cumsum(1)), (zyx.cumulative_prod(x, 1), a.cumprod(1)),
        (x @ y.T, a @ b.T), (zyx.einsum("ij,kj->ik", x, y), a @ b.T), (zyx.vecdot(x, y), np.sum(a.conj() * b, 1)),
        (zyx.var(x), a.var()), (zyx.std(x, 1), a.std(1)), (zyx.norm(x), np.linalg.norm(a)), (x.real * y, a.real * b),
        (zyx.where(x.real > 0, x, y), np.where(a.real > 0, a, b)), (x[1:4, ::-2].T, a[1:4, ::-2].T),
        (zyx.take(x, zyx.Tensor([4, 0]), axis=0), a[[4, 0]]),
        (zyx.pad(x, 1, value=2 - 1j), np.pad(a, 1, constant_values=2 - 1j)),
        (zyx.concat([x, y]), np.concatenate([a, b])), (zyx.roll(x, 2, 1), np.roll(a, 2, 1)), (zyx.diff(x), np.diff(a)),
    ]:  # fmt: skip
        check(got, np.asarray(wanted), 200.0)
    assert (x == zyx.Tensor(a)).numpy().all()
    assert not (x == y).numpy().any()
    assert (x != y).numpy().all()


def test_long_products_are_multiplied_in_pairs():
    z = np.exp(1j * np.linspace(0, 3, 1000))
    check(zyx.Tensor(z).prod(), np.asarray(z.prod()), 5000.0)


def test_a_realised_number_is_read_from_memory():
    z = drawn(np.complex128, 6)
    x = (zyx.Tensor(z) * 2j).realize()
    check(x + 1, z * 2j + 1)
    check(x.real, (z * 2j).real)
    check(x.contiguous(), z * 2j)
    w = zyx.Tensor(z)
    w[1:3] = 5j
    z[1:3] = 5j
    check(w, z)


def test_values_go_to_other_libraries_and_back():
    z = drawn(np.complex64, 2, 3)
    x = zyx.Tensor(z)
    assert (np.asarray(x) == z).all()
    assert (np.from_dlpack(x) == z).all()
    assert (zyx.from_dlpack(z).numpy() == z).all()
    assert (zyx.view_as_real(x).numpy() == z.view(np.float32).reshape(2, 3, 2)).all()
    assert (zyx.view_as_complex(zyx.view_as_real(x)).numpy() == z).all()
    assert complex(x[0, 0]) == z[0, 0]
    assert x[1].tolist() == z[1].tolist()
    assert "1.+2.j" in repr(zyx.Tensor([1 + 2j]))
    assert bool(zyx.Tensor(1j))
    assert not bool(zyx.Tensor(0j))
    assert zyx.Tensor([1j, 2]).dtype is zyx.complex64
    assert zyx.complex(zyx.Tensor([1.0]), zyx.Tensor([2.0])).tolist() == [1 + 2j]


def test_files_have_what_their_format_has(tmp_path):
    zyx.save(tmp_path / "a.safetensors", {"a": zyx.Tensor([1j + 2])})
    loaded = zyx.load(tmp_path / "a.safetensors")["a"]
    assert loaded.dtype is zyx.complex64
    assert (loaded * 2).tolist() == [2j + 4]
    with pytest.raises(DTypeError, match="complex128, which safetensors lacks"):
        zyx.save(tmp_path / "b.safetensors", {"a": loaded.astype(zyx.complex128)})


def test_promotion_is_the_array_apis():
    assert zyx.result_type(zyx.float64, zyx.complex64) is zyx.complex128
    assert zyx.result_type(zyx.int64, zyx.complex64) is zyx.complex64
    assert zyx.result_type(zyx.float64, 1j) is zyx.complex128
    assert zyx.result_type(zyx.float16, 1j) is zyx.complex64
    assert zyx.can_cast(zyx.float32, zyx.complex64)
    assert not zyx.can_cast(zyx.complex64, zyx.float64)
    assert zyx.isdtype(zyx.complex64, "complex floating")
    assert zyx.isdtype(zyx.complex128, "numeric")
    assert zyx.finfo(zyx.complex128).eps == 2.0**-52
    assert zyx.Tensor([1, 2]).astype(complex).tolist() == [1, 2]


def test_normal_numbers_have_half_the_variance_in_each_part():
    z = zyx.randn(4000, dtype=zyx.complex64).numpy()
    assert abs(z.std() - 1) < 0.05
    assert abs(z.real.std() - 0.5**0.5) < 0.05
    assert abs((z.real * z.imag).mean()) < 0.05


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda z: z < 1, "less is not defined for complex64.*x.real"),
        (zyx.max, "max takes real numbers, not complex64"),
        (zyx.argmin, "argmin takes real numbers"),
        (lambda z: zyx.maximum(z, z), "max is not defined for complex64"),
        (zyx.sort, "sorting takes real numbers"),
        (zyx.floor, "floor takes real numbers"),
        (lambda z: zyx.clip(z, 0, 1), "clip takes real numbers"),
        (lambda z: z % 2, "remainder takes real numbers"),
        (lambda z: z // 2, "floor_divide takes real numbers"),
        (lambda z: z & z, "bitwise_and takes integers or bools, not complex64"),
        (lambda z: z.astype("float32"), "lose the imaginary part; take .real"),
        (lambda z: float(z[0]), "float takes real numbers"),
        (lambda z: z.bitcast("float64"), "view_as_real"),
        (lambda z: zyx.Tensor(np.ones(2, complex), "float64"), "imaginary part would be lost"),
        (lambda z: zyx.full((2,), 1j, "float32"), "does not fit float32"),
        (lambda z: zyx.complex(z, z), "takes real numbers"),
        (lambda z: zyx.view_as_real(z.real), "takes complex numbers"),
    ],
)  # fmt: skip
def test_what_complex_numbers_have_not_is_refused(call, text):
    with pytest.raises((DTypeError, TypeError), match=text):
        call(zyx.Tensor([1j, 2.0]))


def test_views_and_gradients_say_what_they_need():
    with pytest.raises(ShapeError, match="size 2"):
        zyx.view_as_complex(zyx.ones(3))
    with pytest.raises(GradientError, match="real part or its magnitude"):
        zyx.grad(lambda z: z.sum())(zyx.Tensor([1j]))


@DTYPES
def test_zeros_of_expm1_are_positive_as_the_standard_has_them(dtype):
    found = zyx.expm1(zyx.Tensor(np.array([complex(-0.0, 0.0), complex(0.0, -0.0)], dtype))).numpy()
    assert not np.signbit(found.real).any()
    assert np.signbit(found.imag).tolist() == [False, True]
