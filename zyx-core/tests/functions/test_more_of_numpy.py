"""Functions put together from others, beside NumPy's of the same name, and their gradients beside differences."""

import math

import numpy as np
import pytest
from meanings.slopes import differences

import zyx
from zyx.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

RNG = np.random.default_rng(11)
LINE = RNG.standard_normal(7)
OTHER = RNG.standard_normal(4)
CUBE = RNG.standard_normal((2, 3, 4))
SQUARE = RNG.standard_normal((4, 4))
HOLES = np.where(RNG.uniform(size=(4, 5)) < 0.3, np.nan, RNG.standard_normal((4, 5)))
INTEGERS = RNG.integers(-4, 5, (3, 6))
COUNTS = RNG.integers(0, 6, 12)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.7, -2.5])
POINTS = np.array([0.0, 1.0, 2.5, 4.0])

#: A name, and arguments: arrays become tensors, also in lists; tuples stay.
CALLS = [
    *[(f"atleast_{n}d", *args) for n in (1, 2, 3) for args in ((LINE,), (CUBE,), (LINE, CUBE))],
    *[(name, [LINE, OTHER]) for name in ("hstack",)],
    *[(name, [LINE, LINE * 2]) for name in ("vstack", "dstack", "column_stack")],
    ("column_stack", [SQUARE, SQUARE]),
    ("kron", SQUARE, CUBE), ("kron", LINE, SQUARE), ("append", SQUARE, LINE), ("append", SQUARE, SQUARE, 1),
    ("array_split", LINE, 3), ("array_split", CUBE, (1, 3), 2), ("array_split", LINE, 9),
    ("array_split", LINE, (-2, 9)),
    ("hsplit", SQUARE, 2), ("hsplit", LINE, (2, 3)), ("vsplit", SQUARE, 2), ("dsplit", CUBE, 2),
    ("rot90", CUBE, 1, (2, 0)),
    ("delete", CUBE, 1, 2), ("delete", LINE, (0, -1)), ("delete", SQUARE, slice(0, 4, 2), 0),
    ("insert", LINE, 2, 9.0), ("insert", LINE, (0, 3, 3, 7), (1.0, 2.0, 3.0, 4.0)), ("insert", SQUARE, 1, OTHER, 1),
    ("insert", CUBE, -1, 5.0, 1), ("insert", SQUARE, (1, 2), np.ones((4, 2)), 1),
    ("diagflat", SQUARE[:2, :2], 1), ("diagflat", OTHER, -2),
    *[(name, HOLES, *axis) for name in (
        "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian", "nanargmax", "nanargmin",
        "nancumsum", "nancumprod",
    ) for axis in ((), (0,), (1,))],
    *[(name, x, q, *axis) for name, x in (("quantile", CUBE), ("nanquantile", HOLES), ("quantile", HOLES))
      for q in (0.0, 0.3, 1.0, [0.25, 0.5]) for axis in ((), (0,), (-1,))],
    ("percentile", CUBE, 35, 1), ("nanpercentile", HOLES, (10, 90), 0), ("quantile", CUBE, 0.4, (0, 2)),
    ("average", CUBE), ("average", CUBE, 1, np.array([1.0, 2.0, 3.0])),
    ("cov", SQUARE), ("cov", LINE), ("cov", SQUARE, SQUARE * 2 + CUBE[0, 0], False), ("cov", SQUARE + 1j * SQUARE.T),
    ("corrcoef", SQUARE), ("corrcoef", LINE), ("bincount", COUNTS), ("bincount", COUNTS, LINE.repeat(2)[:12]),
    ("bincount", COUNTS, None, 9), ("histogram_bin_edges", LINE, 4), ("histogram", LINE),
    ("histogram", CUBE, 5, (-1, 1)),
    ("histogram", LINE, POINTS), ("histogram", LINE, 3, None, True), ("histogram", OTHER, 3, None, False, LINE[:4]),
    ("digitize", CUBE, POINTS - 2), ("digitize", CUBE, POINTS[::-1] - 2), ("digitize", POINTS, POINTS, True),
    ("lexsort", [COUNTS, COUNTS % 3]), ("unique", INTEGERS), ("unique", INTEGERS, True, True, True),
    ("unique", HOLES), ("unique", INTEGERS % 2, True, True, True, 1), ("unique", INTEGERS % 2, False, False, False, 0),
    ("union1d", COUNTS, INTEGERS), ("intersect1d", COUNTS, INTEGERS), ("setdiff1d", INTEGERS, COUNTS),
    ("setxor1d", COUNTS, INTEGERS), ("argwhere", INTEGERS), ("flatnonzero", INTEGERS),
    ("unravel_index", COUNTS, (2, 3)), ("ravel_multi_index", [COUNTS % 2, COUNTS % 3], (2, 3)),
    ("compress", (True, False, True), CUBE, 1), ("extract", CUBE > 0, CUBE),
    ("choose", COUNTS % 3, [COUNTS, COUNTS + 10, COUNTS + 20]), ("select", [CUBE > 1, CUBE > 0], [CUBE, -CUBE], 7.0),
    *[(name, SPECIAL) for name in ("sinc", "isposinf", "isneginf", "isreal", "iscomplex", "modf",
                                   "frexp")],
    ("isreal", SQUARE + 1j * (SQUARE > 0)), ("iscomplex", SQUARE + 1j * (SQUARE > 0)),
    *[(name, SPECIAL, SPECIAL[::-1]) for name in ("fmax", "fmin", "heaviside")], ("fmax", COUNTS, 3),
    ("logaddexp2", LINE, LINE[::-1] * 50), ("divmod", LINE, 0.5), ("divmod", INTEGERS, 3),
    ("float_power", COUNTS, -2.0),
    ("ldexp", LINE, COUNTS[:7]), ("ldexp", 1.5, INTEGERS * 20), ("gcd", INTEGERS, 12), ("lcm", INTEGERS, 6),
    ("gcd", np.array([46368, 832040, 0], np.int32), np.array([28657, 514229, 0], np.int32)),
    *[("bitwise_count", np.array([0, 1, -1, 77, -128, 127]).astype(t)) for t in ("int8", "int16", "int32", "int64",
                                                                              "uint8", "uint32", "uint64")],
    *[(name, a, b, mode) for name in ("convolve", "correlate") for a, b in ((LINE, OTHER), (OTHER, LINE), (LINE, LINE))
      for mode in ("full", "same", "valid")],
    ("correlate", LINE + 1j * LINE[::-1], OTHER * 1j), ("convolve", LINE, OTHER),
    ("interp", CUBE * 3, POINTS, OTHER), ("interp", CUBE * 3, POINTS, OTHER, -9.0, 9.0),
    ("interp", CUBE * 9, POINTS, OTHER, None, None, 3.0), ("interp", SPECIAL, POINTS, OTHER),
    ("gradient", LINE), ("gradient", CUBE), ("gradient", LINE, 0.5), ("gradient", OTHER, POINTS),
    ("trapezoid", CUBE, POINTS), ("trapezoid", CUBE, None, 0.5, 0),
    ("ediff1d", LINE, 9.0, OTHER), ("unwrap", LINE * 9), ("unwrap", CUBE * 9, None, 1), ("inner", SQUARE, CUBE),
    ("inner", LINE, 2 * LINE), ("matvec", CUBE, OTHER), ("vecmat", OTHER * 1j, SQUARE), ("ix_", COUNTS, COUNTS > 2),
    ("vdot", SQUARE * 1j, SQUARE), ("polyval", OTHER, CUBE), ("polyadd", OTHER, LINE),
    ("polysub", OTHER, LINE), ("polymul", OTHER, LINE), ("polyder", LINE), ("polyder", LINE, 2), ("polyint", LINE),
    ("polyint", LINE, 2), ("vander", OTHER), ("vander", OTHER, 3, True), ("vander", LINE, 9), ("poly", OTHER),
    ("poly", SQUARE), ("polyfit", LINE, CUBE.ravel()[:7], 2), ("polyfit", OTHER, SQUARE, 1),
    ("logspace", 0.0, 2.0, 7), ("geomspace", 1.0, 1000.0, 4), ("identity", 3), ("indices", (2, 3)),
    ("tril_indices", 4), ("tril_indices", 3, 1, 5), ("triu_indices", 4, -1), ("tril_indices_from", SQUARE),
    ("triu_indices_from", SQUARE, 1), ("diag_indices", 3),
    *[(name, n) for name in ("bartlett", "blackman", "hamming", "hanning") for n in (0, 1, 2, 7)], ("kaiser", 6, 5.0),
]  # fmt: skip


def given(value):
    if isinstance(value, np.ndarray):
        return zyx.Tensor(value)
    return [given(item) for item in value] if isinstance(value, list) and hasattr(value[0], "shape") else value


def same(found, wanted, name):
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted), name
        for mine, theirs in zip(found, wanted, strict=True):
            same(mine, theirs, name)
        return
    found = found.numpy()
    assert found.shape == np.shape(wanted), (name, found.shape, np.shape(wanted))
    tolerance = 1e-5 if found.dtype.name in ("float32", "complex64") else 1e-9
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_are_numpys(call):
    name, *args = call
    same(getattr(zyx, name)(*[given(arg) for arg in args]), getattr(np, name)(*args), name)


@pytest.mark.parametrize("method", ["lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_between_neighbours(name, method):
    for q in (0.0, 0.2, 0.5, 0.77, 1.0):
        same(getattr(zyx, name)(given(CUBE), q, 1, method=method), getattr(np, name)(CUBE, q, 1, method=method), name)
    same(
        zyx.quantile(given(CUBE), given(np.array([0.1, 0.9])), (1, 2), keepdims=True),
        np.quantile(CUBE, [0.1, 0.9], (1, 2), keepdims=True),
        name,
    )


def test_roots_are_where_a_polynomial_is_0():
    p = np.array([0.0, 2.0, -3.0, 1.0, 5.0, 0.0, 0.0])
    found = np.sort_complex(zyx.roots(given(p)).numpy())
    np.testing.assert_allclose(found, np.sort_complex(np.roots(p)), atol=1e-9)
    assert zyx.roots(given(np.zeros(3))).shape == (0,)


def test_partitions_have_the_element_that_sorting_puts_there():
    found = zyx.partition(given(CUBE), 2).numpy()
    order = zyx.argpartition(given(CUBE), 2).numpy()
    np.testing.assert_array_equal(np.take_along_axis(CUBE, order, -1), found)
    np.testing.assert_array_equal(found[..., 2], np.partition(CUBE, 2)[..., 2])
    assert (found[..., :2] <= found[..., 2:3]).all()
    assert (found[..., 3:] >= found[..., 2:3]).all()


def test_functions_of_lines_and_of_grids():
    found = zyx.apply_along_axis(lambda line: line.cumsum(0)[:2] * 2, 1, given(CUBE))
    np.testing.assert_allclose(found.numpy(), np.apply_along_axis(lambda line: line.cumsum()[:2] * 2, 1, CUBE))
    np.testing.assert_allclose(
        zyx.fromfunction(lambda i, j: i * 10 + j, (2, 3)).numpy(), np.fromfunction(lambda i, j: i * 10 + j, (2, 3))
    )
    assert [line.shape for line in zyx.indices((2, 3), sparse=True)] == [(2, 1), (1, 3)]


#: A function of one tensor, and where its slope is looked at.
SLOPES = {
    "sinc": (zyx.sinc, np.array([0.0, 1e-3])), "erfc": (zyx.erfc, np.array([2.5, 4.0])),
    "lgamma": (zyx.lgamma, np.array([0.3, 1.0, 2.0, 20.0, -0.5, -3.3])),
    "digamma": (zyx.digamma, np.array([0.3, 1.5, 9.5, -0.4])),
    "xlogy": (lambda x: zyx.xlogy(x, x + 1), np.array([0.0, 2.0])),
    "kron": (lambda x: zyx.kron(x, x), OTHER),
    "quantile": (lambda x: zyx.quantile(x, 0.3), LINE), "cov": (zyx.cov, SQUARE), "corrcoef": (zyx.corrcoef, SQUARE),
    "interp": (lambda x: zyx.interp(x, given(POINTS), given(OTHER)), np.array([0.3, 2.0])),
    "gradient": (zyx.gradient, LINE), "convolve": (lambda x: zyx.convolve(x, x[:3]), LINE),
    "nanvar": (lambda x: zyx.nanvar(zyx.where(x > 1, math.nan, x)), LINE),
    "insert": (lambda x: zyx.insert(x, 1, x[2]), LINE), "delete": (lambda x: zyx.delete(x, 1), LINE),
    "polyval": (lambda x: zyx.polyval(x, 1.3), OTHER), "vander": (lambda x: zyx.vander(x, 4), OTHER),
    "cdist": (lambda x: zyx.cdist(x, x * 2), SQUARE), "renorm": (lambda x: zyx.renorm(x, 2.0, 0, 0.5), SQUARE),
    "frexp": (lambda x: zyx.frexp(x)[0], np.array([0.3, -9.0])),
    "select": (lambda x: zyx.select([x > 0], [x * x]), LINE),
    "polyfit": (lambda x: zyx.polyfit(x, x * x * x, 2), LINE), "mode": (lambda x: zyx.mode(x).values, LINE),
    "kthvalue": (lambda x: zyx.kthvalue(x, 3).values, LINE), "masked_scatter": (
        lambda x: zyx.masked_scatter(x, given(LINE > 0), x * 3), LINE),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_differences(name):
    function, x = SLOPES[name]
    weights = np.cos(np.arange(1000.0))

    def total(at):
        found = function(at)
        return (found * zyx.Tensor(weights[: found.size].reshape(found.shape))).sum()

    (wanted,) = differences(lambda at: total(zyx.Tensor(at)).item(), [x])
    np.testing.assert_allclose(zyx.grad(total)(zyx.Tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_gamma_and_error_functions_to_the_last_digits():
    x = np.array([1e-5, 0.1, 0.5, 1.0, 1.5, 2.0, 3.3, 7.9, 8.0, 30.0, 170.0, -0.5, -1.7, -10.2])
    np.testing.assert_allclose(zyx.lgamma(given(x)).numpy(), [math.lgamma(v) for v in x], rtol=1e-12, atol=1e-13)
    far = np.array([-5.0, -0.3, 0.0, 0.4, 1.9, 2.0, 2.1, 3.0, 5.0, 10.0, 26.0])
    np.testing.assert_allclose(zyx.erfc(given(far)).numpy(), [math.erfc(v) for v in far], rtol=1e-11)
    single = zyx.erfc(given(far[:-2].astype(np.float32))).numpy()
    np.testing.assert_allclose(single, [math.erfc(v) for v in far[:-2].astype(np.float32)], rtol=3e-5)
    assert zyx.lgamma(given(np.array([0.0, -2.0, np.inf]))).tolist() == [math.inf] * 3
    assert zyx.digamma(given(np.array([1.0]))).item() == pytest.approx(-0.5772156649015329, rel=1e-12)
    assert np.isnan(zyx.digamma(given(np.array([-3.0]))).item())


MISTAKES = {
    "kth": (lambda: zyx.partition(given(LINE), 9), ShapeError, "kth 9.*7"),
    "kthvalue": (lambda: zyx.kthvalue(given(LINE), 0), ShapeError, "element 0"),
    "level": (lambda: zyx.quantile(given(LINE), 1.5), ArgumentError, "0 to 1.*1.5"),
    "method": (lambda: zyx.quantile(given(LINE), 0.5, method="cubic"), ArgumentError, "cubic"),
    "nothing": (lambda: zyx.quantile(zyx.zeros(0), 0.5), ShapeError, "no elements"),
    "bincount of floats": (lambda: zyx.bincount(given(LINE)), DTypeError, "float64"),
    "negative count": (lambda: zyx.bincount(zyx.Tensor([1, -3])), ArgumentError, "-3"),
    "bins": (lambda: zyx.histogram(given(LINE), 0), ShapeError, "at least one bin"),
    "range": (lambda: zyx.histogram(given(LINE), 3, (2, 1)), ArgumentError, "ascend"),
    "parts": (lambda: zyx.hsplit(given(LINE), 3), ShapeError, "7 positions"),
    "rank": (lambda: zyx.vsplit(given(LINE), 1), ShapeError, "two axes"),
    "place": (lambda: zyx.delete(given(LINE), 9), IndexRangeError, "9"),
    "axes": (lambda: zyx.rot90(given(SQUARE), 1, (0, 0)), ShapeError, "different"),
    "gcd": (lambda: zyx.gcd(given(LINE), 2), DTypeError, "integers"),
    "mode of convolve": (lambda: zyx.convolve(given(LINE), given(LINE), "some"), ArgumentError, "some"),
    "points": (lambda: zyx.interp(given(LINE), given(POINTS), given(LINE)), ShapeError, "one length"),
    "samples": (lambda: zyx.gradient(given(LINE[:1])), ShapeError, "fewer"),
    "choices": (lambda: zyx.select(given(LINE), 0, 1), ArgumentError, "x.select"),
    "stack": (lambda: zyx.hstack(given(LINE)), ArgumentError, "list"),
    "degree": (lambda: zyx.polyfit(given(LINE), given(LINE), -1), ShapeError, "deg"),
    "geomspace": (lambda: zyx.geomspace(0.0, 1.0), ArgumentError, "not 0"),
    "window": (lambda: zyx.hanning(-1), ShapeError, "-1"),
    "cdist": (lambda: zyx.cdist(given(SQUARE), given(LINE)), ShapeError, "cdist"),
    "index_add": (lambda: zyx.index_add(given(LINE), 0, zyx.Tensor([1]), given(LINE)), ShapeError, "places"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said(name):
    call, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        call()
