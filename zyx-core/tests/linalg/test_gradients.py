"""Gradients of `zyx.linalg` against finite differences in float64: first ones, second ones, in batches."""

import itertools

import numpy as np
import pytest

import zyx
from zyx import linalg
from zyx.errors import GradientError, LinAlgError

RNG = np.random.default_rng(7)


def draw(*shape):
    return RNG.standard_normal(shape)


def draw_complex(*shape):
    return draw(*shape) + 1j * draw(*shape)


def well(*batch, size):
    return draw(*batch, size, size) + 2 * size * np.eye(size)


def spread(*batch, rows, columns):
    """Matrices whose singular values are far from each other and from 0."""
    k = min(rows, columns)
    u, v = (np.linalg.qr(draw(*batch, size, k))[0] for size in (rows, columns))
    return (u * (1.0 + np.arange(k))) @ v.swapaxes(-1, -2)


def symmetric(x):
    return (x + x.mT) / 2


def positive(x):
    """Positive definite matrices of any."""
    return x @ x.mT + zyx.eye(x.shape[-1], dtype="float64")


def weighted(result):
    """Return a real number that depends on all elements of a result, of complex ones on both parts."""
    weights = np.cos(1.0 + np.arange(result.size)).reshape(result.shape)
    if result.dtype.is_complex:
        return (zyx.real(result) * zyx.Tensor(weights) + zyx.imag(result) * zyx.Tensor(np.sin(3 * weights))).sum()
    return (result * zyx.Tensor(weights)).sum()


def differences(function, arrays, step=1e-6):
    """Return slopes; at ``x + iy`` these are ``dL/dx + i dL/dy``. All values that it takes are computed at once."""
    moved, moves = [], []
    for number, array in enumerate(arrays):
        units = (1, 1j) if np.iscomplexobj(array) else (1,)
        for place, unit in itertools.product(np.ndindex(array.shape), units):
            moves.append((number, place, unit))
            for sign in (1, -1):
                moved.append([a.copy() for a in arrays])
                moved[-1][number][place] += sign * unit * step
    values = zyx.vmap(function)(*(zyx.Tensor(np.stack(examples)) for examples in zip(*moved, strict=True))).numpy()
    found = [np.zeros_like(array) for array in arrays]
    for (number, place, unit), (above, below) in zip(moves, values.reshape(-1, 2), strict=True):
        found[number][place] += unit * (above - below) / (2 * step)
    return found


def check(function, *arrays, tolerance=1e-6):
    """Compare gradients of a function from tensors to a number, and those of a sum of them, with differences."""
    sources = [zyx.Tensor(a) for a in arrays]

    def slopes(*tensors):
        with zyx.Tape() as tape:
            result = function(*tensors)
        return tape.gradient(result, list(tensors))

    wanted = differences(function, arrays)
    for gradient, slope in zip(slopes(*sources), wanted, strict=True):
        assert np.allclose(gradient.numpy(), slope, rtol=tolerance, atol=tolerance), (gradient, slope)

    def of_slopes(*tensors):
        gradients = zyx.grad(function, argnums=tuple(range(len(tensors))))(*tensors)
        return sum(weighted(gradient) for gradient in gradients)

    second = zyx.grad(of_slopes, argnums=tuple(range(len(arrays))))(*sources)
    for gradient, slope in zip(second, differences(of_slopes, arrays), strict=True):
        size = max(1.0, np.abs(slope).max())
        assert np.allclose(gradient.numpy() / size, slope / size, rtol=1e-5, atol=1e-5), (gradient, slope)


def exponential(values, vectors):
    return (vectors * zyx.exp(0.1 * values)[..., None, :]) @ vectors.mT


def put_together(u, s, vh):
    return (u * s[..., None, :] ** 2) @ vh


SQUARE = {
    "cholesky": lambda x: linalg.cholesky(positive(x)),
    "cholesky of any": lambda x: linalg.cholesky(symmetric(x) * 0.1 + 3 * zyx.eye(3, dtype="float64")),
    "cholesky, upper": lambda x: linalg.cholesky(positive(x), upper=True),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda x: linalg.slogdet(x).logabsdet,
    "eigvalsh": lambda x: linalg.eigvalsh(symmetric(x)),
    "eigenvalues": lambda x: linalg.eigh(symmetric(x)).eigenvalues,
    "eigenvectors": lambda x: linalg.eigh(symmetric(x)).eigenvectors ** 2,
    "a function of eigenvalues": lambda x: exponential(*linalg.eigh(symmetric(x))),
    "lu, lower": lambda x: linalg.lu(x).L,
    "lu, upper": lambda x: linalg.lu(x).U,
    "expm": lambda x: linalg.expm(x / 4),
    "matrix_power": lambda x: linalg.matrix_power(x / 4, 3),
    "matrix_power of inverses": lambda x: linalg.matrix_power(x, -2),
    "trace": linalg.trace,
    "diagonal": linalg.diagonal,
}


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", SQUARE)
def test_gradients_of_functions_of_square_matrices(name, batch):
    x = draw(*batch, 3, 3) + np.diag([1.0, 4.0, 9.0])
    check(lambda x: weighted(SQUARE[name](x)), x)


ANY = {
    "qr, Q": lambda x: linalg.qr(x).Q,
    "qr, R": lambda x: linalg.qr(x).R,
    "svd, S": lambda x: linalg.svd(x).S,
    "svd, U": lambda x: linalg.svd(x, full_matrices=False).U ** 2,
    "svd, Vh": lambda x: linalg.svd(x, full_matrices=False).Vh ** 2,
    "svd, all": lambda x: put_together(*linalg.svd(x, full_matrices=False)),
    "svdvals": linalg.svdvals,
    "pinv": linalg.pinv,
    "matrix_norm": linalg.matrix_norm,
    "matrix_norm, nuc": lambda x: linalg.matrix_norm(x, ord="nuc"),
    "matrix_norm, 2": lambda x: linalg.matrix_norm(x, ord=2),
    "matrix_norm, -2": lambda x: linalg.matrix_norm(x, ord=-2),
    "matrix_norm, 1": lambda x: linalg.matrix_norm(x, ord=1) ** 2,
    "vector_norm": lambda x: linalg.vector_norm(x, axis=-1),
    "vector_norm, 3": lambda x: linalg.vector_norm(x, ord=3),
}


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("name", ANY)
def test_gradients_of_functions_of_any_matrices(name, shape):
    x = spread(*shape[:-2], rows=shape[-2], columns=shape[-1])
    check(lambda x: weighted(ANY[name](x)), x, tolerance=1e-5)


PAIRS = {
    "solve": linalg.solve,
    "solve_triangular": linalg.solve_triangular,
    "solve_triangular, upper": lambda a, b: linalg.solve_triangular(a, b, upper=True),
    "solve_triangular, unit": lambda a, b: linalg.solve_triangular(a / 6, b, unit_diagonal=True),
    "cholesky_solve": linalg.cholesky_solve,
    "cholesky_solve, upper": lambda a, b: linalg.cholesky_solve(a, b, upper=True),
    "lstsq": lambda a, b: linalg.lstsq(a, b).solution,
}


@pytest.mark.parametrize(("batch", "shape"), [((), (3,)), ((), (3, 2)), ((2,), (3, 2)), ((), (2, 3, 1))])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_of_solutions(name, batch, shape):
    check(lambda a, b: weighted(PAIRS[name](a, b)), well(*batch, size=3), draw(*shape))


def test_gradients_of_least_squares_that_leave_something():
    check(lambda a, b: weighted(linalg.lstsq(a, b).solution), draw(5, 2), draw(5, 2), tolerance=1e-5)
    check(lambda a, b: weighted(linalg.lstsq(a, b).residuals), draw(5, 2), draw(5), tolerance=1e-5)


@pytest.mark.parametrize("name", ["cross", "outer", "vecdot", "matmul", "tensordot"])
def test_gradients_of_products(name):
    shapes = {"outer": ((3,), (2,)), "matmul": ((2, 3), (3, 2)), "tensordot": ((2, 2, 3), (2, 3, 2))}
    first, second = shapes.get(name, ((2, 3), (2, 3)))
    check(lambda a, b: weighted(getattr(linalg, name)(a, b)), draw(*first), draw(*second))


def test_the_slope_of_a_determinant_is_right_where_there_is_no_inverse():
    for x in (np.diag([2.0, 3.0, 0.0]), np.ones((3, 3)), np.diag([1.0, 0.0, 0.0]), np.arange(18.0).reshape(2, 3, 3)):
        found = zyx.grad(lambda x: weighted(linalg.det(x)))(zyx.Tensor(x))
        (wanted,) = differences(lambda x: weighted(linalg.det(x)), [x], step=1e-4)
        assert np.allclose(found.numpy(), wanted, atol=1e-5)


def test_the_slope_of_a_determinant_of_nan_is_nan_and_that_of_others_is_not():
    x = np.stack([np.full((2, 2), np.nan), np.eye(2)])
    found = zyx.grad(lambda x: linalg.det(x).sum())(zyx.Tensor(x)).numpy()
    assert np.isnan(found[0]).all()
    assert np.array_equal(found[1], np.eye(2))


def test_slopes_that_need_an_inverse_are_errors_where_there_is_none():
    gradient = zyx.grad(lambda x: linalg.slogdet(x).logabsdet)(zyx.ones(2, 2))
    with pytest.raises(LinAlgError, match="Singular matrix"):
        gradient.numpy()


def test_gradients_at_equal_eigenvalues_are_those_of_the_values_and_no_number_of_the_vectors():
    x = zyx.eye(3, dtype="float64")
    assert np.allclose(zyx.grad(lambda x: linalg.eigh(x).eigenvalues.sum())(x).numpy(), np.eye(3))
    assert np.allclose(zyx.grad(lambda x: linalg.matrix_norm(x, ord="nuc"))(x).numpy(), np.eye(3))
    weights = zyx.Tensor(draw(3, 3))
    assert not np.isfinite(zyx.grad(lambda x: (linalg.eigh(x).eigenvectors * weights).sum())(x).numpy()).all()


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: linalg.qr(x, mode="complete").Q, (4, 2)),
        (lambda x: linalg.svd(x).U, (4, 2)),
        (lambda x: linalg.svd(x).Vh, (2, 4)),
        (lambda x: linalg.lu(x).L, (4, 2)),
    ],
)
def test_what_has_no_slope_says_so(function, shape):
    with pytest.raises(GradientError, match=r"\(4, 2\)|\(2, 4\)"):
        zyx.grad(lambda x: function(x).sum())(zyx.Tensor(draw(*shape)))


def test_no_gradient_passes_signs_ranks_and_permutations():
    x = zyx.Tensor(well(size=3))
    for function in (lambda x: linalg.slogdet(x).sign, lambda x: linalg.lu(x).P.sum()):
        assert np.array_equal(zyx.grad(function)(x).numpy(), np.zeros((3, 3)))


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigvalsh", "svdvals", "pinv", "expm"])
def test_gradients_of_no_matrices(name):
    for shape in ((0, 3, 3), (0, 0), (2, 0, 0)):
        found = zyx.grad(lambda x: getattr(linalg, name)(x).sum())(zyx.zeros(*shape, dtype="float64"))
        assert found.shape == shape
        assert found.numpy().shape == shape


# ---- complex matrices


def hermitian(x):
    return (x + zyx.conj(x).mT) / 2


def squares(x):
    return zyx.real(x) ** 2 + zyx.imag(x) ** 2


def of_hermitian(values, vectors):
    return (vectors * zyx.exp(0.1 * values)[..., None, :]) @ zyx.conj(vectors).mT


def of_any(values, vectors):
    return (vectors * zyx.exp(0.1 * values)[..., None, :]) @ linalg.inv(vectors)


def complex_positive(x):
    return x @ zyx.conj(x).mT + zyx.eye(x.shape[-1], dtype="complex128")


EIG = {
    "eigvals": linalg.eigvals,
    "eig, values": lambda x: linalg.eig(x).eigenvalues,
    "eig, vectors": lambda x: squares(linalg.eig(x).eigenvectors),
    "eig, a function": lambda x: of_any(*linalg.eig(x)),
}
COMPLEX_SQUARE = {
    **EIG,
    "cholesky": lambda x: linalg.cholesky(complex_positive(x)),
    "cholesky, upper": lambda x: linalg.cholesky(complex_positive(x), upper=True),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet, sign": lambda x: linalg.slogdet(x).sign,
    "slogdet, logarithm": lambda x: linalg.slogdet(x).logabsdet,
    "eigvalsh": lambda x: linalg.eigvalsh(hermitian(x)),
    "eigh, values": lambda x: linalg.eigh(hermitian(x)).eigenvalues,
    "eigh, vectors": lambda x: squares(linalg.eigh(hermitian(x)).eigenvectors),
    "eigh, a function": lambda x: of_hermitian(*linalg.eigh(hermitian(x))),
    "lu, lower": lambda x: linalg.lu(x).L,
    "lu, upper": lambda x: linalg.lu(x).U,
    "expm": lambda x: linalg.expm(x / 4),
    "matrix_power": lambda x: linalg.matrix_power(x / 4, 3),
    "matrix_power of inverses": lambda x: linalg.matrix_power(x, -2),
    "trace": linalg.trace,
    "diagonal": linalg.diagonal,
}


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", COMPLEX_SQUARE)
def test_gradients_of_functions_of_complex_square_matrices(name, batch):
    x = draw_complex(*batch, 3, 3) + np.diag([1.0, 4.0, 9.0])
    check(lambda x: weighted(COMPLEX_SQUARE[name](x)), x)


@pytest.mark.parametrize("name", EIG)
def test_gradients_of_eigenvalues_of_real_matrices_are_real(name):
    turning = np.array([[1.0, -2.0, 0.1], [2.0, 1.0, 0.3], [0.2, 0.5, 4.0]])
    for x in (turning, draw(2, 3, 3) + np.diag([1.0, 4.0, 9.0])):
        check(lambda x: weighted(EIG[name](x)), x)


COMPLEX_ANY = {
    **ANY,
    "svd, U": lambda x: squares(linalg.svd(x, full_matrices=False).U),
    "svd, Vh": lambda x: squares(linalg.svd(x, full_matrices=False).Vh),
}


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("name", COMPLEX_ANY)
def test_gradients_of_functions_of_any_complex_matrices(name, shape):
    *batch, m, n = shape
    u, v = (np.linalg.qr(draw_complex(*batch, size, min(m, n)))[0] for size in (m, n))
    x = (u * (1.0 + np.arange(min(m, n)))) @ v.swapaxes(-1, -2)
    check(lambda x: weighted(COMPLEX_ANY[name](x)), x, tolerance=1e-5)


@pytest.mark.parametrize(("batch", "shape"), [((), (3,)), ((2,), (3, 2))])
@pytest.mark.parametrize("name", [*PAIRS, "residuals"])
def test_gradients_of_complex_solutions(name, batch, shape):
    function = PAIRS.get(name, lambda a, b: linalg.lstsq(a[..., :2], b).residuals)
    a, b = draw_complex(*batch, 3, 3) + 6 * np.eye(3), draw_complex(*shape)
    check(lambda a, b: weighted(function(a, b)), a, b)


def test_a_real_matrix_beside_a_complex_one_has_a_real_gradient():
    a, b = draw(3, 3) + 6 * np.eye(3), draw_complex(3)
    check(lambda a, b: weighted(linalg.solve(a, b)), a, b)


def test_eigenvectors_that_are_not_independent_give_no_slope_of_any_size():
    x = zyx.Tensor(np.array([[0.0, 1.0], [0.0, 0.0]]))
    slope = zyx.grad(lambda x: zyx.real(linalg.eigvals(x)[0]))(x).numpy()
    assert not (np.abs(slope) < 1e100).all()


@pytest.mark.parametrize("name", ["inv", "det", "cholesky", "eigvalsh", "eigvals", "svdvals", "pinv", "expm"])
def test_gradients_of_no_complex_matrices(name):
    for shape in ((0, 3, 3), (0, 0), (2, 0, 0)):
        x = zyx.zeros(*shape, dtype="complex128")
        found = zyx.grad(lambda x: zyx.real(getattr(linalg, name)(x).sum()))(x)
        assert found.shape == shape
        assert found.numpy().dtype == np.complex128
