"""Every function of `zyx.linalg` against NumPy: in both dtypes, in batches, without matrices, and without rows."""

import numpy as np
import pytest

import zyx
from zyx import linalg

RNG = np.random.default_rng(5)
DTYPES = ["float64", "float32"]
#: Axes in front.
BATCHES = [(), (3,), (2, 3), (0,), (2, 0)]


def draw(*shape, dtype="float64"):
    return RNG.standard_normal(shape).astype(dtype)


def positive(*batch, size, dtype="float64"):
    a = RNG.standard_normal((*batch, size, size))
    return (a @ a.swapaxes(-1, -2) + size * np.eye(size)).astype(dtype)


def well(*batch, size, dtype="float64"):
    """Matrices that are far from singular."""
    return (RNG.standard_normal((*batch, size, size)) + 2 * size * np.eye(size)).astype(dtype)


def check(found, wanted, scale=1.0):
    """Compare with an array of the same dtype; float64 results to twelve digits, float32 to four."""
    wanted = np.asarray(wanted)
    assert isinstance(found, zyx.Tensor)
    assert found.dtype.numpy == wanted.dtype
    assert found.shape == wanted.shape
    tolerance = scale * (1e-12 if wanted.dtype == np.float64 else 1e-4)
    assert np.allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("size", [1, 4, 0])
def test_functions_of_square_matrices(dtype, batch, size):
    a, s = well(*batch, size=size, dtype=dtype), positive(*batch, size=size, dtype=dtype)
    x, y = zyx.Tensor(a), zyx.Tensor(s)
    check(linalg.inv(x), np.linalg.inv(a))
    check(linalg.det(x), np.asarray(np.linalg.det(a), dtype), scale=100)
    sign, logarithm = linalg.slogdet(x)
    wanted = np.linalg.slogdet(a)
    check(sign, np.asarray(wanted[0], dtype))
    check(logarithm, np.asarray(wanted[1], dtype))
    check(linalg.cholesky(y), np.linalg.cholesky(s))
    check(linalg.cholesky(y, upper=True), np.linalg.cholesky(s).swapaxes(-1, -2))
    check(linalg.eigvalsh(y), np.linalg.eigvalsh(s), scale=10)
    values, vectors = linalg.eigh(y)
    check(values, np.linalg.eigvalsh(s), scale=10)
    check((vectors * values[..., None, :]) @ vectors.mT, s, scale=10)
    check(vectors.mT @ vectors, np.broadcast_to(np.eye(size, dtype=dtype), s.shape), scale=10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (1, 1), (0, 3), (3, 0)])
def test_decompositions_of_any_matrices_give_them_back(dtype, batch, shape):
    m, n = shape
    k = min(m, n)
    a = draw(*batch, m, n, dtype=dtype)
    x = zyx.Tensor(a)

    def is_orthonormal(q, size):
        check(q.mT @ q, np.broadcast_to(np.eye(size, dtype=dtype), (*batch, size, size)), scale=10)

    for mode, columns in (("reduced", k), ("complete", m)):
        q, r = linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == ((*batch, m, columns), (*batch, columns, n))
        check(q @ r, a, scale=10)
        is_orthonormal(q, columns)
        assert np.array_equal(r.numpy(), np.triu(r.numpy()))
    for full in (True, False):
        u, s, vh = linalg.svd(x, full_matrices=full)
        rows, columns = (m, n) if full else (k, k)
        assert (u.shape, s.shape, vh.shape) == ((*batch, m, rows), (*batch, k), (*batch, columns, n))
        check((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, scale=10)
        is_orthonormal(u, rows)
        is_orthonormal(vh.mT, columns)
        check(s, np.linalg.svd(a, compute_uv=False), scale=10)
    check(linalg.svdvals(x), np.linalg.svd(a, compute_uv=False), scale=10)
    p, lower, upper = linalg.lu(x)
    assert (p.shape, lower.shape, upper.shape) == ((*batch, m, m), (*batch, m, k), (*batch, k, n))
    check(p @ lower @ upper, a, scale=10)
    assert (np.abs(lower.numpy()) <= 1).all()
    assert np.array_equal(upper.numpy(), np.triu(upper.numpy()))
    assert np.array_equal((p.numpy() == 1).sum(-1), np.ones((*batch, m)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0)])
@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (3, 0)])
def test_what_singular_values_decide(dtype, batch, shape):
    a = draw(*batch, *shape, dtype=dtype)
    x = zyx.Tensor(a)
    check(linalg.pinv(x), np.linalg.pinv(a).reshape(*batch, *shape[::-1]), scale=10)
    rank = linalg.matrix_rank(x)
    assert rank.dtype is zyx.int64
    assert np.array_equal(rank.numpy(), np.full(batch, min(shape)))


def test_numbers_of_numpy_are_numbers():
    x = zyx.Tensor([[3.0, 0.0], [0.0, 1e-3]])
    assert linalg.matrix_rank(x, rtol=np.float32(0.1)).item() == 1
    assert linalg.matrix_rank(x, rtol=np.array(0.1)).item() == 1
    assert linalg.matrix_rank(zyx.stack([x, x]), rtol=np.array([0.1, 1e-5])).tolist() == [1, 2]
    assert linalg.vector_norm(x, ord=np.int64(1)).item() == np.float32(3.001)
    assert linalg.matrix_norm(x, ord=np.float64(2)).item() == 3
    assert linalg.matrix_power(x, np.int32(2)).tolist()[0] == [9, 0]
    assert linalg.trace(x, offset=np.int64(0)).item() == np.float32(3.001)


def test_small_singular_values_count_as_nothing():
    a = np.diag([1.0, 1e-3, 1e-20])
    x = zyx.Tensor(np.stack([a, 2 * a]))
    assert linalg.matrix_rank(x).tolist() == [2, 2]
    assert linalg.matrix_rank(x, rtol=0.1).tolist() == [1, 1]
    assert linalg.matrix_rank(x, rtol=zyx.Tensor(np.array([0.1, 1e-6]))).tolist() == [1, 2]
    assert linalg.matrix_rank(zyx.zeros(2, 3)).item() == 0
    check(linalg.pinv(x), np.stack([np.diag([1, 1e3, 0.0]), np.diag([0.5, 500, 0])]))
    check(linalg.pinv(x, rtol=0.1), np.stack([np.diag([1, 0.0, 0]), np.diag([0.5, 0, 0])]))
    check(linalg.pinv(zyx.zeros(2, 3, dtype="float64")), np.zeros((3, 2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((4, 3, 3), (3, 2)), ((3, 3), (4, 3, 2)), ((4, 1, 3, 3), (5, 3, 1)),
        ((4, 3, 3), (3,)), ((0, 3, 3), (3, 2)), ((0, 0), (0, 2)), ((3, 3), (3, 0)),
    ],
)  # fmt: skip
def test_systems_of_equations(dtype, first, second):
    a, b = well(*first[:-2], size=first[-1], dtype=dtype), draw(*second, dtype=dtype)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    columns = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(first[:-2], columns.shape[:-2])

    def solution(matrix):
        found = np.linalg.solve(np.broadcast_to(matrix, (*batch, *first[-2:])), columns)
        return found[..., 0] if b.ndim == 1 else found

    check(linalg.solve(x, y), solution(a))
    check(linalg.solve_triangular(x, y), solution(np.tril(a)))
    check(linalg.solve_triangular(x, y, upper=True), solution(np.triu(a)))
    unit = np.tril(a, -1) / 8 + np.eye(first[-1], dtype=dtype)
    check(linalg.solve_triangular(x / 8, y, unit_diagonal=True), solution(unit))
    lower, upper = np.tril(a), np.triu(a)
    check(linalg.cholesky_solve(x, y), solution(lower @ lower.swapaxes(-1, -2)))
    check(linalg.cholesky_solve(x, y, upper=True), solution(upper.swapaxes(-1, -2) @ upper))
    found = linalg.lstsq(x, y)
    check(found.solution, solution(a), scale=10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6, 3), (3, 6)])
def test_least_squares(dtype, shape):
    a, b = draw(*shape, dtype=dtype), draw(shape[0], 2, dtype=dtype)
    wanted, residuals, rank, values = np.linalg.lstsq(a, b)
    found = linalg.lstsq(zyx.Tensor(a), zyx.Tensor(b), rcond=None)  # NumPy's name of rtol
    check(found.solution, wanted, scale=10)
    check(found.residuals, residuals if residuals.size else np.zeros(2, dtype), scale=10)
    assert found.rank.item() == rank
    check(found.singular_values, values, scale=10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_exponentials(dtype, batch):
    values, vectors = draw(*batch, 4), np.linalg.qr(draw(*batch, 4, 4))[0]
    scales = np.array([1e-9, 1.0, 30.0])
    for scale in scales:
        a = (vectors * (scale * values)[..., None, :]) @ vectors.swapaxes(-1, -2)
        wanted = (vectors * np.exp(scale * values)[..., None, :]) @ vectors.swapaxes(-1, -2)
        found = linalg.expm(zyx.Tensor(a.astype(dtype)))
        assert found.dtype.name == dtype
        size = np.abs(wanted).max()
        assert np.allclose(found.numpy() / size, wanted / size, atol=1e-11 if dtype == "float64" else 1e-4)
    assert linalg.expm(zyx.zeros(2, 0, 0)).shape == (2, 0, 0)
    assert np.array_equal(linalg.expm(zyx.zeros(3, 3)).numpy(), np.eye(3))
    assert np.allclose(linalg.expm(zyx.Tensor([[0.0, 1.0], [0.0, 0.0]])).numpy(), [[1, 1], [0, 1]])


@pytest.mark.parametrize("power", [-3, -1, 0, 1, 2, 3, 7])
@pytest.mark.parametrize("batch", [(), (2, 3), (0,)])
def test_powers(power, batch):
    a = well(*batch, size=3) / 6
    found = linalg.matrix_power(zyx.Tensor(a), power)
    assert np.allclose(found.numpy(), np.linalg.matrix_power(a, power))
    whole = RNG.integers(-3, 4, (*batch, 3, 3))
    if power >= 0:
        assert np.array_equal(
            linalg.matrix_power(zyx.Tensor(whole), power).numpy(), np.linalg.matrix_power(whole, power)
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_matrices(dtype, order, keepdims):
    for shape in ((3, 4), (2, 3, 3, 2), (0, 2, 2)):
        a = draw(*shape, dtype=dtype)
        wanted = np.linalg.norm(a, ord=order, axis=(-2, -1), keepdims=keepdims)
        check(linalg.matrix_norm(zyx.Tensor(a), ord=order, keepdims=keepdims), np.asarray(wanted, dtype), scale=10)
    check(linalg.matrix_norm(zyx.Tensor(a)), np.zeros(0, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [2, 1, 0, np.inf, -np.inf, 3, 2.5, -1, -2, 0.5])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 1, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_vectors(dtype, order, axis, keepdims):
    a = draw(2, 3, 4, dtype=dtype)
    axes = tuple(range(3)) if axis is None else (axis,) if isinstance(axis, int) else axis
    kept = [i for i in range(3) if i not in [j % 3 for j in axes]]
    lined = np.moveaxis(a, kept, range(len(kept))).reshape(*[a.shape[i] for i in kept], -1)
    wanted = np.linalg.norm(lined, ord=order, axis=-1)
    if keepdims:
        wanted = np.asarray(wanted).reshape([1 if i not in kept else size for i, size in enumerate(a.shape)])
    found = linalg.vector_norm(zyx.Tensor(a), axis=axis, ord=order, keepdims=keepdims)
    check(found, np.asarray(wanted, dtype), scale=10)


def test_products_and_diagonals():
    a, b = draw(2, 3, 4), draw(2, 4, 3)
    x, y = zyx.Tensor(a), zyx.Tensor(b)
    check(linalg.matmul(x, y), a @ b)
    check(linalg.matrix_transpose(x), a.swapaxes(-1, -2))
    check(linalg.tensordot(x, y, axes=([2, 0], [1, 0])), np.tensordot(a, b, ([2, 0], [1, 0])))
    check(linalg.vecdot(x, x), (a * a).sum(-1))
    check(linalg.cross(x[..., :3], x[..., 1:]), np.cross(a[..., :3], a[..., 1:]))
    check(linalg.outer(x[0, 0], y[0, 0]), np.outer(a[0, 0], b[0, 0]))
    for offset in (-5, -2, -1, 0, 1, 3, 4, 9):
        check(linalg.diagonal(x, offset=offset), np.diagonal(a, offset, -2, -1))
        check(linalg.trace(x, offset=offset), np.trace(a, offset, -2, -1))


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        ((3,), {}), ((3, 4), {}), ((2, 3, 4), {}), ((2, 3, 4), {"axis": 1}), ((2, 3, 4), {"axis": (0, 2)}),
        ((3,), {"ord": 1}), ((3,), {"ord": np.inf}), ((3, 4), {"ord": 1}), ((3, 4), {"ord": "nuc"}),
        ((3, 4), {"ord": 2}),
        ((2, 3, 4), {"ord": -np.inf, "axis": (2, 0)}), ((3, 4), {"ord": 3, "axis": 0, "keepdims": True}),
        ((3, 4), {"ord": "fro", "axis": (0, 1), "keepdims": True}), ((2, 3, 4), {"ord": 0, "axis": -1}),
    ],
)  # fmt: skip
def test_norms_are_those_of_vectors_or_of_matrices_as_the_axes_say(shape, arguments):
    a = draw(*shape, dtype=np.float64)
    check(linalg.norm(zyx.Tensor(a), **arguments), np.linalg.norm(a, **arguments), scale=10)
    check(linalg.norm(zyx.Tensor(a.astype(int))), np.float32(np.linalg.norm(a.astype(int))), scale=10)


def test_norms_of_other_axes_are_refused():
    for x, arguments in ((zyx.ones(2, 3, 4), {"ord": 2}), (zyx.ones(3), {"ord": "nuc"}), (zyx.ones(2, 2), {"ord": 3})):
        with pytest.raises(zyx.errors.ShapeError, match="ord"):
            linalg.norm(x, **arguments)
    assert linalg.norm(zyx.ones(2, 2), dim=1, keepdim=True).shape == (2, 1)


@pytest.mark.parametrize("order", [None, 2, -2, 1, -1, np.inf, "fro", "nuc"])
def test_condition_numbers_are_those_of_numpy(order):
    a = draw(2, 3, 3, dtype=np.float64)
    check(linalg.cond(zyx.Tensor(a), order), np.linalg.cond(a, order), scale=1000)


def test_condition_numbers_of_what_has_no_inverse_are_infinite():
    assert linalg.cond(zyx.zeros(2, 3)).item() == np.inf
    assert linalg.cond(zyx.Tensor([[1.0, 0.0], [0.0, 0.0]])).item() == np.inf
    with pytest.raises(linalg.LinAlgError):
        linalg.cond(zyx.zeros(2, 2), 1).numpy()
    with pytest.raises(zyx.errors.ShapeError, match=r"cond: matrices of \(0, 2\)"):
        linalg.cond(zyx.zeros(0, 2))


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 4)], [(3,), (3, 4), (4, 2)], [(2, 3), (3, 4), (4,)], [(3,), (3,)]])
def test_long_products_are_those_of_numpy(shapes):
    arrays = [draw(*shape, dtype=np.float64) for shape in shapes]
    check(linalg.multi_dot([zyx.Tensor(a) for a in arrays]), np.linalg.multi_dot(arrays), scale=10)
    with pytest.raises(zyx.errors.ShapeError, match="two matrices or more, not 1"):
        linalg.multi_dot([zyx.ones(2, 2)])


def test_names_are_those_of_the_standard():
    standard = [
        "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
        "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
        "trace", "vecdot", "vector_norm",
    ]  # fmt: skip
    assert set(standard) <= set(linalg.__all__)
    assert "linalg" in dir(zyx)
    assert zyx.linalg is linalg
    for name in linalg.__all__:
        assert getattr(linalg, name).__doc__
    x = zyx.Tensor(positive(size=3))
    assert linalg.qr(x)._fields == ("Q", "R")
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")


def test_what_is_computed_of_nothing_is_no_kernel():
    found = zyx.linalg.det(zyx.zeros((2, 0, 0)) * 1.0)
    assert found.tolist() == [1.0, 1.0]
