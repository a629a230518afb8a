"""Complex matrices: every function of `zyx.linalg` against NumPy, in both dtypes, in batches, and what it refuses."""

import numpy as np
import pytest

import zyx
from zyx import linalg
from zyx.errors import DTypeError, LinAlgError, ShapeError

RNG = np.random.default_rng(11)
DTYPES = ["complex128", "complex64"]
BATCHES = [(), (3,), (2, 3), (0,)]


def draw(*shape, dtype="complex128"):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(dtype)


def adjoint(a):
    return a.swapaxes(-1, -2).conj()


def positive(*batch, size, dtype="complex128"):
    a = draw(*batch, size, size)
    return (a @ adjoint(a) + size * np.eye(size)).astype(dtype)


def well(*batch, size, dtype="complex128"):
    """Matrices that are far from singular."""
    return (draw(*batch, size, size) + 2 * size * np.eye(size)).astype(dtype)


def check(found, wanted, scale=1.0):
    """Compare with an array of the same dtype; results of doubles to twelve digits, of singles to four."""
    wanted = np.asarray(wanted)
    assert isinstance(found, zyx.Tensor)
    assert found.dtype.numpy == wanted.dtype
    assert found.shape == wanted.shape
    tolerance = scale * (1e-12 if wanted.dtype in (np.float64, np.complex128) else 1e-4)
    assert np.allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def part(dtype):
    return np.dtype(dtype).type(0).real.dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [1, 4, 0])
def test_functions_of_square_matrices(dtype, batch, size):
    a, h = well(*batch, size=size, dtype=dtype), positive(*batch, size=size, dtype=dtype)
    x, y = zyx.Tensor(a), zyx.Tensor(h)
    check(linalg.inv(x), np.linalg.inv(a))
    check(linalg.det(x), np.asarray(np.linalg.det(a), dtype), scale=1000)
    sign, logarithm = linalg.slogdet(x)
    wanted = np.linalg.slogdet(a)
    check(sign, np.asarray(wanted[0], dtype))
    check(logarithm, np.asarray(wanted[1], part(dtype)))
    check(linalg.cholesky(y), np.linalg.cholesky(h))
    check(linalg.cholesky(y, upper=True), adjoint(np.linalg.cholesky(h)))
    check(linalg.eigvalsh(y), np.linalg.eigvalsh(h), scale=10)
    values, vectors = linalg.eigh(y)
    check(values, np.linalg.eigvalsh(h), scale=10)
    check((vectors * values[..., None, :]) @ zyx.conj(vectors).mT, h, scale=100)
    for power in (-2, 0, 1, 3):
        check(linalg.matrix_power(x / 8, power), np.linalg.matrix_power(a / 8, power).astype(dtype), scale=100)


@pytest.mark.parametrize("dtype", [*DTYPES, "float64", "float32"])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [1, 4, 0])
def test_eigenvalues_of_any_square_matrices(dtype, batch, size):
    a = draw(*batch, size, size, dtype=dtype) if "complex" in dtype else RNG.standard_normal((*batch, size, size))
    a = a.astype(dtype)
    x = zyx.Tensor(a)
    values, vectors = linalg.eig(x)
    wide = np.result_type(dtype, np.complex64)
    check(x @ vectors, (vectors * values[..., None, :]).numpy(), scale=10)
    check(zyx.norm(vectors, axis=-2), np.ones((*batch, size), part(wide)), scale=10)
    check(values, np.linalg.eigvals(a).astype(wide), scale=10)
    check(linalg.eigvals(x), np.linalg.eigvals(a).astype(wide), scale=10)
    assert linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (0, 3), (3, 0)])
def test_decompositions_of_any_matrices_give_them_back(dtype, batch, shape):
    m, n = shape
    k = min(m, n)
    a = draw(*batch, m, n, dtype=dtype)
    x = zyx.Tensor(a)

    def is_orthonormal(q, size):
        check(zyx.conj(q).mT @ q, np.broadcast_to(np.eye(size, dtype=dtype), (*batch, size, size)), scale=10)

    for mode, columns in (("reduced", k), ("complete", m)):
        q, r = linalg.qr(x, mode=mode)
        check(q @ r, a, scale=10)
        is_orthonormal(q, columns)
        assert np.array_equal(r.numpy(), np.triu(r.numpy()))
        assert not zyx.imag(linalg.diagonal(r)).numpy().any()
    for full in (True, False):
        u, s, vh = linalg.svd(x, full_matrices=full)
        check((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, scale=10)
        is_orthonormal(u, m if full else k)
        is_orthonormal(zyx.conj(vh).mT, n if full else k)
        check(s, np.linalg.svd(a, compute_uv=False), scale=10)
    check(linalg.svdvals(x), np.linalg.svd(a, compute_uv=False), scale=10)
    p, lower, upper = linalg.lu(x)
    check(p @ lower @ upper, a, scale=10)
    assert (np.abs(lower.numpy()) <= 1 + 1e-6).all()
    check(linalg.pinv(x), np.linalg.pinv(a).reshape(*batch, n, m), scale=10)
    assert np.array_equal(linalg.matrix_rank(x).numpy(), np.full(batch, k))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("first", "second"), [((3, 3), (3,)), ((4, 3, 3), (3, 2)), ((4, 1, 3, 3), (5, 3, 1))])
def test_systems_of_equations(dtype, first, second):
    a, b = well(*first[:-2], size=first[-1], dtype=dtype), draw(*second, dtype=dtype)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    columns = b[:, None] if b.ndim == 1 else b

    def solution(matrix):
        found = np.linalg.solve(matrix, columns)
        return found[..., 0] if b.ndim == 1 else found

    check(linalg.solve(x, y), solution(a))
    check(linalg.solve_triangular(x, y), solution(np.tril(a)))
    check(linalg.solve_triangular(x, y, upper=True), solution(np.triu(a)))
    lower, upper = np.tril(a), np.triu(a)
    check(linalg.cholesky_solve(x, y), solution(lower @ adjoint(lower)))
    check(linalg.cholesky_solve(x, y, upper=True), solution(adjoint(upper) @ upper))
    found = linalg.lstsq(x, y)
    check(found.solution, solution(a), scale=10)
    assert found.residuals.dtype.numpy == part(dtype)
    real = well(size=3).real.astype(part(dtype))
    check(
        linalg.solve(zyx.Tensor(real), zyx.Tensor(draw(3, dtype=dtype)) * 0 + 1),
        np.linalg.solve(real, np.ones(3)).astype(dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_least_squares(dtype, shape):
    a, b = draw(*shape, dtype=dtype), draw(shape[0], 2, dtype=dtype)
    wanted, residuals, rank, values = np.linalg.lstsq(a, b)
    found = linalg.lstsq(zyx.Tensor(a), zyx.Tensor(b))
    check(found.solution, wanted, scale=10)
    check(found.residuals, residuals if residuals.size else np.zeros(2, part(dtype)), scale=10)
    assert found.rank.item() == rank
    check(found.singular_values, values, scale=10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials(dtype):
    values, vectors = draw(2, 4), np.linalg.qr(draw(2, 4, 4))[0]
    for scale in (1e-9, 1.0, 30.0):
        a = (vectors * (scale * values)[..., None, :]) @ adjoint(vectors)
        wanted = (vectors * np.exp(scale * values)[..., None, :]) @ adjoint(vectors)
        found = linalg.expm(zyx.Tensor(a.astype(dtype)))
        assert found.dtype.name == dtype
        size = np.abs(wanted).max()
        assert np.allclose(found.numpy() / size, wanted / size, atol=1e-11 if dtype == "complex128" else 1e-3)
    assert np.allclose(linalg.expm(zyx.Tensor([[np.pi * 1j]])).numpy(), -1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_norms_of_matrices(dtype, order):
    a = draw(2, 3, 4, dtype=dtype)
    wanted = np.linalg.norm(a, ord=order, axis=(-2, -1))
    check(linalg.matrix_norm(zyx.Tensor(a), ord=order), np.asarray(wanted, part(dtype)), scale=10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [2, 1, 0, np.inf, -np.inf, 3, -1])
def test_norms_of_vectors(dtype, order):
    a = draw(2, 4, dtype=dtype)
    check(
        linalg.vector_norm(zyx.Tensor(a), axis=-1, ord=order),
        np.asarray(np.linalg.norm(a, ord=order, axis=-1), part(dtype)),
        scale=10,
    )


def test_one_call_of_the_host_gives_all_results():
    x = zyx.Tensor(draw(3, 3))
    u, s, vh = linalg.svd(x)
    plan = zyx.explain_plan(u, s, vh)
    assert [step["name"] for step in plan["steps"] if "host" in step["name"]] == ["host svd (LAPACK)"]


SINGULAR = {
    "inv": (linalg.inv, r"inv|solve of \[2, 2\].*: Singular matrix"),
    "solve": (lambda x: linalg.solve(x, zyx.ones(2, dtype=x.dtype)), r"solve of \[2, 2\] and \[2, 1\]: Singular"),
    "matrix_power": (lambda x: linalg.matrix_power(x, -1), "Singular matrix"),
    "cholesky": (lambda x: linalg.cholesky(-x), r"cholesky of \[2, 2\]: .*not positive definite"),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SINGULAR)
def test_singular_matrices_are_errors_when_values_are_read(name, dtype):
    function, text = SINGULAR[name]
    result = function(zyx.Tensor(np.array([[1, 1j], [-1j, 1]], dtype)))
    with pytest.raises(LinAlgError, match=text):
        result.numpy()


def test_what_singular_matrices_have():
    x = zyx.Tensor(np.array([[1, 1j], [-1j, 1]]))
    assert linalg.det(x).item() == 0
    sign, logarithm = linalg.slogdet(x)
    assert (sign.item(), logarithm.item()) == (0, -np.inf)
    assert linalg.matrix_rank(x).item() == 1
    check(linalg.pinv(x), x.numpy() / 4)
    slope = zyx.grad(lambda x: zyx.real(linalg.det(x)))(x)  # of the determinant it is the conjugate of the cofactors
    check(slope, np.array([[1, -1j], [1j, 1]]))


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "pinv", "matrix_rank"])
@pytest.mark.parametrize("value", [np.nan, np.inf, complex(0, np.nan)])
def test_what_does_not_converge(name, value):
    found = getattr(linalg, name)(zyx.Tensor(np.array([[1.0, 2.0j], [value, 3.0]])))
    with pytest.raises(LinAlgError, match="did not converge"):
        (found if isinstance(found, zyx.Tensor) else found[0]).numpy()


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_eigenvalues_of_what_has_none(name):
    function = getattr(linalg, name)
    with pytest.raises(ShapeError, match=rf"^{name}: x has shape \(2, 3\), .*square"):
        function(zyx.zeros(2, 3))
    with pytest.raises(DTypeError, match=rf"^{name} is computed in .* complex128, and x is int64"):
        function(zyx.ones((2, 2), dtype="int64"))
    with pytest.raises(DTypeError, match=rf"{name} takes a zyx.Tensor"):
        function([[1.0]])
