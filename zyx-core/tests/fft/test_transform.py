"""Transforms of complex numbers and of real ones against NumPy, with their gradients, and what a graph says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

import zyx
from zyx.errors import DTypeError, ShapeError
from zyx.fft.transform import TransformBuilder
from zyx.functions.complex_numbers import joined
from zyx.functions.complex_numbers import parts as parts_of
from zyx.functions.term import Term
from zyx.graph.evaluate import evaluate
from zyx.graph.fourier import LONGEST, is_smooth, parts, radices, roots_of_unity, smooth_from, table_of, table_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.runtime import Runtime

#: Of the errors of float32 and float64 in rounding once.
UNITS = {np.float32: 2.0**-24, np.float64: 2.0**-53}
#: Times that, and the square root of the binary logarithm of the length: the errors that are let pass.
FACTOR = 4.0


def assert_near(found: npt.NDArray[Any], wanted: npt.NDArray[Any], size: int, kind: type) -> None:
    """Compare by the norm of the difference beside that of what is wanted."""
    scale = np.linalg.norm(wanted)
    assert np.linalg.norm(found - wanted) <= FACTOR * UNITS[kind] * np.sqrt(1 + np.log2(size)) * scale


def pairs_of(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.stack((x.real, x.imag), -1)


def run(
    runtime: Runtime, change: Callable[[TransformBuilder, Term], Term], values: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """Return what a transformer makes of an array on the default device."""
    x = zyx.Tensor(values)
    part = x.dtype.part if x.dtype.is_complex else x.dtype
    transformer = TransformBuilder(runtime, x.node.device, part)
    return x.like(change(transformer, Term(runtime.graph, x.node)).node).numpy()


def drawn(shape: tuple[int, ...], kind: type, seed: int) -> npt.NDArray[Any]:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(
        np.result_type(kind, np.complex64)
    )


SIZES = [1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 30, 34, 77, 97, 121, 210, 256, 509, 1001, 2 * LONGEST]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES)
def test_complex_numbers_are_transformed_both_ways(interpreter: Runtime, size: int, kind: type) -> None:
    x = drawn((2, size, 2 if size < LONGEST else 1), kind, size)
    exact = x.astype(np.complex128)
    forth = run(interpreter, lambda t, whole: t.transform(whole, 1, is_inverse=False, scale=0.5), x)
    assert_near(forth, 0.5 * np.fft.fft(exact, axis=1), size, kind)
    back = run(interpreter, lambda t, whole: t.transform(whole, 1, is_inverse=True), x)
    assert_near(back, np.fft.ifft(exact, axis=1, norm="forward"), size, kind)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 9, 17, 34, 50, 128, 509])
def test_real_values_become_half_of_a_transform_and_come_back(interpreter: Runtime, size: int) -> None:
    x = drawn((2, size, 2), np.float64, size).real.copy()
    found = run(interpreter, lambda t, values: t.from_real(values, 1, scale=3.0), x)
    assert_near(found, 3.0 * np.fft.rfft(x, axis=1), size, np.float64)
    half = drawn((2, size // 2 + 1, 2), np.float64, size + 1)  # whose imaginary parts at the ends are left out
    back = run(interpreter, lambda t, whole: t.to_real(whole, 1, size, scale=0.5), half)
    assert_near(back, 0.5 * np.fft.irfft(half, size, axis=1, norm="forward"), size, np.float64)


@pytest.mark.parametrize("size", [6, 17, 9])
@pytest.mark.parametrize("way", ["transform", "from_real", "to_real"])
def test_gradients_are_those_of_the_matrix_of_the_transform(interpreter: Runtime, size: int, way: str) -> None:
    half = size // 2 + 1

    def change(x: zyx.Tensor) -> zyx.Tensor:
        term, transformer = Term(interpreter.graph, x.node), TransformBuilder(interpreter, x.node.device, x.dtype)
        if way == "from_real":
            found = transformer.from_real(term, 0, scale=0.3)
            return zyx.concat([x.like(part.node) for part in parts_of(found)])
        count = term.shape[0] // 2
        whole = joined(term.narrow(0, 0, count), term.narrow(0, count, 2 * count))
        if way == "to_real":
            return x.like(transformer.to_real(whole, 0, size, scale=0.3).node)
        return zyx.concat([x.like(part.node) for part in parts_of(transformer.transform(whole, 0, is_inverse=True))])

    count = {"transform": 2 * size, "from_real": size, "to_real": 2 * half}[way]
    matrix = np.stack([change(zyx.Tensor(row)).numpy() for row in np.eye(count)], 1)
    weights = np.random.default_rng(0).standard_normal(matrix.shape[0])
    gradient = zyx.grad(lambda x: (change(x) * zyx.Tensor(weights)).sum())(zyx.Tensor(np.ones(count)))
    np.testing.assert_allclose(gradient.numpy(), weights @ matrix, rtol=0, atol=1e-13 * size)


def test_the_oracle_knows_transforms() -> None:
    x = drawn((2, 12, 3), np.float32, 0)
    graph = zyx.Tensor([0.0]).runtime.graph
    pairs = graph.leaf((2, 12, 3, 2), zyx.float32, "oracle", pairs_of(x))
    table = graph.leaf((table_size(12),), zyx.float32, "oracle", table_of(12, zyx.float32))
    (found,) = evaluate([graph.fourier(pairs, table, is_inverse=True, scale=0.25)])
    assert found.dtype == np.float32
    assert_near(found, pairs_of(3.0 * np.fft.ifft(x, axis=1)), 12, np.float32)


def test_roots_of_unity_are_near_and_keep_their_symmetry() -> None:
    for size in (1, 2, 3, 8, 12, 97, 1000):
        turns = np.arange(2 * size)
        found = roots_of_unity(turns, size)
        assert abs(found - np.exp(-2j * np.pi * (turns % size) / size)).max() < 4e-15  # of NumPy
        assert abs(found[1:size] - found[1:size][::-1].conj()).max(initial=0) <= 2.0**-52
        if size % 4 == 0:
            assert found[size // 4] == -1j
            assert found[size // 2] == -1


def test_lengths_are_divided_into_small_ones() -> None:
    for size in (1, 2, 256, 3**7, 1000, 1 << 20, 13**5):
        assert int(np.prod(parts(size))) == size
        for part in parts(size):
            assert int(np.prod(radices(part), dtype=int)) == part
    assert radices(256) == (16, 16)
    assert not is_smooth(17)
    assert not is_smooth(0)
    for size in range(1, 300):
        longer = smooth_from(size)
        assert longer >= size
        assert is_smooth(longer)
        assert not any(_has_small_primes(other) for other in range(size, longer))


def _has_small_primes(size: int) -> bool:
    for prime in (2, 3, 5):
        while size % prime == 0:
            size //= prime
    return size == 1


def test_what_is_no_transform_is_refused() -> None:
    graph = zyx.Tensor([0.0]).runtime.graph
    table = graph.leaf((table_size(4),), zyx.float32, "a")
    with pytest.raises(DTypeError, match="float32 or float64"):
        graph.fourier(graph.leaf((1, 4, 1, 2), zyx.int32, "a"), table)
    for shape in ((4, 2), (1, 4, 1, 3), (1, 17, 1, 2), (1, 0, 1, 2)):
        with pytest.raises(ShapeError, match=r"\(outer, n, inner, 2\)|products of"):
            graph.fourier(graph.leaf(shape, zyx.float32, "a"), table)
    with pytest.raises(ShapeError, match=r"\(outer, n, inner, 2\) are transformed along axis 1, not 2"):
        graph.fourier(graph.leaf((1, 4, 4, 2), zyx.float32, "a"), table, 2)
    with pytest.raises(ShapeError, match=r"products of .*, not 17"):
        graph.fourier(graph.leaf((4, 17), zyx.complex64, "a"), table)
    with pytest.raises(DTypeError, match="as its table, not complex128, float32"):
        graph.fourier(graph.leaf((4, 4), zyx.complex128, "a"), table)
    with pytest.raises(ShapeError, match="the table of 8"):
        graph.fourier(graph.leaf((1, 8, 1, 2), zyx.float32, "a"), table)
