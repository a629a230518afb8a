"""What `zyx.linalg` refuses: at once where shapes and dtypes say it, else when the values are read."""

import numpy as np
import pytest

import zyx
from zyx import linalg
from zyx.errors import DeviceError, DTypeError, LinAlgError, ShapeError, ZyxError

OF_SQUARE = ["cholesky", "inv", "det", "slogdet", "eigh", "eigvalsh", "expm"]
OF_ANY = ["qr", "svd", "svdvals", "lu", "pinv", "matrix_rank"]
OF_TWO = ["solve", "solve_triangular", "cholesky_solve", "lstsq"]


@pytest.mark.parametrize("name", [*OF_SQUARE, "matrix_power"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 3, 2), (0, 1)])
def test_matrices_that_are_not_square(name, shape):
    more = (2,) if name == "matrix_power" else ()
    with pytest.raises(ShapeError, match=rf"^{name}: x has shape .*{shape[-1] if shape else ''}"):
        getattr(linalg, name)(zyx.zeros(shape), *more)


@pytest.mark.parametrize("name", [*OF_ANY, "matrix_norm", "trace", "diagonal"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_what_is_no_matrix(name, shape):
    with pytest.raises(ShapeError, match=rf"^{name}: x has shape \(.*at least two axes"):
        getattr(linalg, name)(zyx.zeros(shape))


@pytest.mark.parametrize("name", [*OF_SQUARE, *OF_ANY])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "bool", "uint8"])
def test_dtypes_that_lapack_lacks(name, dtype):
    x = zyx.ones((3, 3), dtype=dtype)
    with pytest.raises(
        DTypeError,
        match=rf"^{name} is computed in float32, float64, complex64 or complex128, and x is {dtype}; .*astype",
    ):
        getattr(linalg, name)(x)


@pytest.mark.parametrize("name", OF_TWO)
def test_equations_that_do_not_fit(name):
    function = getattr(linalg, name)
    x = zyx.eye(3)
    if name != "lstsq":
        with pytest.raises(ShapeError, match=rf"^{name}: x1 has shape \(2, 3\), .*square"):
            function(zyx.zeros(2, 3), zyx.zeros(2))
    with pytest.raises(ShapeError, match=rf"^{name}: x1 of shape \(3, 3\) has 3 rows, x2 of shape \(4, 2\) has 4"):
        function(x, zyx.zeros(4, 2))
    with pytest.raises(ShapeError, match=rf"^{name}: the axes in front of x1 of shape \(2, 3, 3\) and of x2"):
        function(zyx.zeros(2, 3, 3), zyx.zeros(4, 3, 1))
    with pytest.raises(ShapeError, match=rf"^{name}: x2 has shape \(\)"):
        function(x, zyx.Tensor(1.0))
    with pytest.raises(ShapeError, match=rf"^{name}: x1 has shape \(3,\)"):
        function(zyx.zeros(3), zyx.zeros(3))
    with pytest.raises(DTypeError, match=rf"^{name} is computed in float32, float64, .*int64"):
        function(zyx.ones((3, 3), dtype="int64"), zyx.ones(3, dtype="int64"))
    with pytest.raises(DTypeError, match=rf"{name} takes"):
        function([[1.0]], [1.0])
    with pytest.raises(DeviceError, match="different devices"):
        function(x, zyx.ones(3).to("other:0"))


@pytest.mark.parametrize("name", [*OF_SQUARE, *OF_ANY, "matrix_norm", "vector_norm", "trace", "diagonal"])
def test_what_is_no_tensor(name):
    for x in ([[1.0]], None, "x", np.eye(2)):
        with pytest.raises(DTypeError, match=rf"{name} takes a zyx.Tensor, not "):
            getattr(linalg, name)(x)


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("qr", {"mode": "raw"}, "qr: mode is 'reduced' or 'complete', not 'raw'"),
        ("svd", {"full_matrices": 1}, "svd: full_matrices is True or False, not 1"),
        ("cholesky", {"upper": "no"}, "cholesky: upper is True or False, not 'no'"),
        ("matrix_norm", {"ord": 3}, "matrix_norm: ord is 'fro', 'nuc', 1, .* not 3"),
        ("matrix_norm", {"ord": "l2"}, "matrix_norm: ord is .* not 'l2'"),
        ("matrix_norm", {"ord": True}, "matrix_norm: ord is .* not True"),
        ("matrix_norm", {"keepdims": 2}, "matrix_norm: keepdims is True or False, not 2"),
        ("vector_norm", {"ord": "fro"}, "vector_norm: ord is a number, not 'fro'"),
        ("vector_norm", {"axis": 2}, "2"),
        ("vector_norm", {"ord": np.nan}, "vector_norm: ord is a number, not nan"),
        ("trace", {"offset": "a"}, "trace: offset is an integer, not 'a'"),
        ("diagonal", {"offset": 1.0}, "diagonal: offset is an integer, not 1.0"),
        ("pinv", {"rtol": -0.1}, "pinv: rtol is a part of the greatest singular value, at least 0, not -0.1"),
        ("matrix_rank", {"rtol": np.nan}, "matrix_rank: rtol is .* not nan"),
        ("pinv", {"rtol": "small"}, "pinv: rtol is a number or a tensor, not 'small'"),
        ("matrix_rank", {"rtol": True}, "matrix_rank: rtol is a number or a tensor, not True"),
    ],
)
def test_arguments_that_are_wrong(name, arguments, text):
    with pytest.raises(ZyxError, match=text):
        getattr(linalg, name)(zyx.eye(2), **arguments)


def test_tolerances_that_do_not_broadcast():
    with pytest.raises(ShapeError, match=r"rtol of shape \(3,\) does not broadcast to one number a matrix, \(2,\)"):
        linalg.pinv(zyx.zeros(2, 3, 3), rtol=zyx.zeros(3))


def test_norms_that_are_not_there():
    with pytest.raises(ShapeError, match="matrix_norm: of matrices of 0 x 3 there is no norm"):
        linalg.matrix_norm(zyx.zeros(0, 3), ord=2)
    assert linalg.matrix_norm(zyx.zeros(0, 3), ord="nuc").item() == 0
    with pytest.raises(DTypeError, match="vector_norm takes floats or complex numbers, and x is int64"):
        linalg.vector_norm(zyx.arange(3))
    with pytest.raises(DTypeError, match=r"ord='nuc' needs, .*x is float16"):
        linalg.matrix_norm(zyx.ones((2, 2), dtype="float16"), ord="nuc")
    assert linalg.matrix_norm(zyx.ones((2, 2), dtype="float16")).item() == 2


def test_powers_that_are_not_there():
    for power in (1.0, "2", True, None):
        with pytest.raises(DTypeError, match="matrix_power: n is an integer, not"):
            linalg.matrix_power(zyx.eye(2), power)
    with pytest.raises(DTypeError, match="matrix_power with a negative n is computed in float32, float64"):
        linalg.matrix_power(zyx.ones((2, 2), dtype="int32"), -1)


def test_outer_products_are_of_vectors():
    for first, second in (((2, 2), (2,)), ((2,), ()), ((), (2,))):
        with pytest.raises(ShapeError, match=r"outer: x\d has shape \(.*; vectors have one axis"):
            linalg.outer(zyx.zeros(first), zyx.zeros(second))


@pytest.mark.parametrize(
    ("first", "second", "axis"),
    [((3,), (1,), -1), ((1,), (3,), -1), ((2,), (2,), -1), ((3, 2), (2,), 0), ((3,), (), 0)],
)
def test_cross_products_are_of_three_elements_each(first, second, axis):
    with pytest.raises(ShapeError, match=r"cross: vectors have 3 elements, axis .* of \(.*\) has"):
        linalg.cross(zyx.zeros(first), zyx.zeros(second), axis=axis)


@pytest.mark.parametrize("axes", [1.0, True, "ab", (1,), None, -1, ((0,), (0, 1)), ((0, 0), (0, 0)), ((5,), (0,))])
def test_axes_of_tensor_products(axes):
    with pytest.raises(ShapeError):
        linalg.tensordot(zyx.zeros(2, 3), zyx.zeros(2, 3), axes=axes)
    assert linalg.tensordot(zyx.zeros(2, 3), zyx.zeros(3, 2), axes=np.int64(1)).shape == (2, 2)


SINGULAR = {
    "inv": (linalg.inv, "Singular matrix"),
    "solve": (lambda x: linalg.solve(x, zyx.ones(2, dtype=x.dtype)), "Singular matrix"),
    "solve_triangular": (lambda x: linalg.solve_triangular(x * 0, zyx.ones(2, dtype=x.dtype)), "Singular matrix"),
    "matrix_power": (lambda x: linalg.matrix_power(x, -1), "Singular matrix"),
    "cholesky": (lambda x: linalg.cholesky(-x), "not positive definite"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", SINGULAR)
def test_singular_matrices_are_errors_when_values_are_read(name, batch, dtype):
    function, text = SINGULAR[name]
    values = np.broadcast_to(np.eye(2), (*batch, 2, 2)).copy()
    values[(*[0] * len(batch), slice(None), slice(None))] = 1.0  # one of them is enough
    result = function(zyx.Tensor(values.astype(dtype)))
    for error in (LinAlgError, np.linalg.LinAlgError, ValueError, ZyxError):
        with pytest.raises(error, match=text):
            result.numpy()


def test_what_singular_matrices_have():
    x = zyx.ones(2, 2, dtype="float64")
    assert linalg.det(x).item() == 0
    sign, logarithm = linalg.slogdet(x)
    assert (sign.item(), logarithm.item()) == (0, -np.inf)
    assert linalg.matrix_rank(x).item() == 1
    assert np.allclose(linalg.pinv(x).numpy(), np.full((2, 2), 0.25))
    assert np.array_equal(linalg.lu(zyx.zeros(2, 2)).U.numpy(), np.zeros((2, 2)))


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "pinv", "matrix_rank"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_does_not_converge(name, value):
    x = zyx.Tensor(np.array([[1.0, 2.0], [value, 3.0]]))
    found = getattr(linalg, name)(x)
    with pytest.raises(LinAlgError, match="did not converge"):
        (found if isinstance(found, zyx.Tensor) else found[0]).numpy()


@pytest.mark.parametrize("name", ["inv", "det", "qr", "lu", "slogdet", "expm", "matrix_norm"])
def test_nan_gives_nan(name):
    found = getattr(linalg, name)(zyx.Tensor(np.full((2, 2), np.nan)))
    value = found[-1] if isinstance(found, tuple) else found
    assert np.isnan(value.numpy()).any()
