"""NumPy's functions, given tensors: the values that they have of arrays, and what kind of thing comes back."""

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError
from zyx.tensor.numpy_functions import UFUNCS

A = np.array([[1.5, -2.0, 0.25], [3.0, 0.0, -0.75]], np.float32)
N = np.array([[3, -1, 2], [7, 0, 5]], np.int32)
M = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)


def same(found, wanted):
    """Compare a result of tensors with one of arrays, part by part."""
    if isinstance(wanted, tuple | list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    if isinstance(wanted, np.ndarray | np.generic):
        assert isinstance(found, zyx.Tensor)
        assert found.shape == wanted.shape
        assert np.allclose(found.numpy(), wanted, 1e-5, 1e-6, equal_nan=True)
    else:
        assert type(found) is type(wanted)
        assert found == wanted


@pytest.mark.parametrize("name", UFUNCS)
def test_functions_of_elements(name):
    ufunc = getattr(np, name)
    if name in ("matmul", "vecdot"):
        given = (M, M)
    elif any(types.startswith("f") for types in ufunc.types):
        given = (np.abs(A) + 0.5, np.abs(A).T.reshape(2, 3) + 0.25)[: ufunc.nin]
        given = tuple(part / 5 if name in ("arcsin", "arccos", "arctanh") else part for part in given)
        given = tuple(part + 1 if name == "arccosh" else part for part in given)
    else:
        given = (np.abs(N), np.abs(N) % 3)[: ufunc.nin]
    same(ufunc(*map(zyx.Tensor, given)), ufunc(*given))
    if ufunc.nin == 2:
        same(ufunc(given[0], zyx.Tensor(given[1])), ufunc(*given))
        same(ufunc(zyx.Tensor(given[0]), given[1]), ufunc(*given))


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!="]


@pytest.mark.parametrize("operator", [*OPERATORS, "@", "&", "|", "^", "<<", ">>"])
def test_operators_beside_arrays(operator):
    array = M if operator == "@" else np.abs(N) % 5 if operator in "&|^<<>>" and operator not in "<>" else np.abs(A) + 1
    x = zyx.Tensor(array)
    call = eval(f"lambda x, y: x {operator} y")
    same(call(array, x), call(array, array))
    same(call(x, array), call(array, array))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("number", [np.float32(2), np.float64(2), np.int8(2), np.array(2, np.float32)], ids=repr)
def test_operators_beside_numbers_of_numpy(operator, number):
    x = zyx.Tensor(A)
    for call in (
        eval(f"lambda x: number {operator} x", {"number": number}),
        eval(f"lambda x: x {operator} number", {"number": number}),
    ):
        found = call(x)
        assert found.dtype == ("bool" if operator in ("<", "<=", ">", ">=", "==", "!=") else "float32")
        with np.errstate(all="ignore"):
            same(found, call(A))


CALLS = {
    "sum": lambda a: (np.sum(a), np.sum(a, 0), np.sum(a, axis=1, keepdims=True)),
    "sum dtype": lambda a: np.sum(a, dtype=np.float64),
    "prod": lambda a: (np.prod(a, -1), np.prod(a, axis=0, keepdims=True)),
    "max": lambda a: (np.max(a, 0), np.min(a, 1), np.amax(a), np.amin(a)),
    "any": lambda a: (np.any(a), np.all(a, axis=1)),
    "mean": lambda a: (np.mean(a), np.mean(a, (0, 1)), np.std(a, 1, ddof=1), np.var(a)),
    "argmax": lambda a: (np.argmax(a), np.argmin(a, axis=1)),
    "count_nonzero": lambda a: np.count_nonzero(a, axis=0),
    "cumsum": lambda a: (np.cumsum(a), np.cumsum(a, 1), np.cumprod(a, axis=0)),
    "diff": lambda a: (np.diff(a), np.diff(a, 2), np.diff(a, axis=0)),
    "squeeze": lambda a: (np.squeeze(a[None]), np.squeeze(a[:, None], axis=1)),
    "expand_dims": lambda a: (np.expand_dims(a, 1), np.expand_dims(a, axis=(0, 2))),
    "ravel": np.ravel,
    "reshape": lambda a: (np.reshape(a, (3, 2)), np.reshape(a, -1)),
    "transpose": lambda a: (np.transpose(a), np.transpose(a, (1, 0)), np.transpose(a[None], axes=(2, 0, 1))),
    "moveaxis": lambda a: (np.moveaxis(a, 0, 1), np.swapaxes(a, 0, 1)),
    "flip": lambda a: (np.flip(a), np.flip(a, 1), np.roll(a, 1), np.roll(a, 1, axis=0)),
    "repeat": lambda a: (np.repeat(a, 2), np.repeat(a, 2, axis=1), np.tile(a, 2), np.tile(a, (2, 1))),
    "take": lambda a: (np.take(a, [0, 2], axis=1), np.take(a, 4), np.take(a, np.array([1, 5]))),
    "broadcast_to": lambda a: np.broadcast_to(a, (4, 2, 3)),
    "concatenate": lambda a: (np.concatenate([a, a]), np.concatenate((a, A), axis=1), np.concatenate([A, a], None)),
    "stack": lambda a: (np.stack([a, a]), np.stack([a, A], axis=-1), np.vstack([a, a]), np.hstack([A, a])),
    "vectors": lambda a: (np.vstack([a[0], a]), np.hstack([a[0], a[1]])),
    "diag": lambda a: (np.diag(a), np.diag(a, k=1), np.diag(a[0]), np.tril(a), np.triu(a, 1)),
    "diagonal": lambda a: (np.diagonal(a), np.trace(a), np.diagonal(a[None], 0, 1, 2), np.trace(a[:, :, None])),
    "nonzero": lambda a: (np.nonzero(a), np.where(a > 0)),
    "where": lambda a: (np.where(a > 0, a, 0), np.where(A > 0, 1.5, a)),
    "round": lambda a: (np.round(a), np.round(a, 1), np.rint(a)),
    "clip": lambda a: (np.clip(a, 0, 1), np.clip(a, None, 1), np.clip(a, a_min=0, a_max=None)),
    "real": lambda a: (np.real(a), np.imag(a)),
    "nan_to_num": lambda a: (np.nan_to_num(a), np.nan_to_num(a / 0 * 0, nan=3.0)),
    "close": lambda a: (np.isclose(a, A), np.allclose(a, A), np.array_equal(a, A), np.allclose(a, A + 1)),
    "of lists": lambda a: (np.allclose(a[0], [1.5, -2.0, 0.25]), np.array_equal([1.5], a[0]), np.add(a[0], [1, 2, 3])),
    "dot": lambda a: (np.dot(a, a.T), np.dot(a[0], a[0]), np.dot(a, 2), np.outer(a, a[0])),
    "tensordot": lambda a: (np.tensordot(a, A, axes=2), np.tensordot(a, a, axes=([0], [0]))),
    "einsum": lambda a: (np.einsum("ij,ij->i", a, A), np.einsum("ij->ji", a, optimize=True)),
    "like": lambda a: (np.zeros_like(a), np.ones_like(a, dtype=np.int32), np.full_like(a, 2)),
    "sort": lambda a: (np.sort(a), np.sort(a, axis=0), np.argsort(a, axis=1)),
    "reduce": lambda a: (np.add.reduce(a), np.maximum.reduce(a, axis=1), np.multiply.reduce(a, axis=None)),
    "accumulate": lambda a: (np.add.accumulate(a), np.multiply.accumulate(a, axis=1)),
    "divmod": lambda a: np.divmod(a, np.float32(2)),
    "facts": lambda a: (np.shape(a), np.ndim(a), np.size(a), np.size(a, 1), np.iscomplexobj(a), np.isrealobj(a)),
    "linalg": lambda a: (
        np.linalg.norm(a),
        np.linalg.norm(a, axis=1),
        np.linalg.inv(a[:, ::2]),
        np.linalg.det(a[:, :2]),
    ),
    "solve": lambda a: (np.linalg.solve(a[:, :2], a), np.linalg.matrix_power(a[:, :2], 3), np.linalg.slogdet(a[:, :2])),
    "eigh": lambda a: (np.linalg.eigvalsh(a @ a.T), np.linalg.cholesky(a @ a.T)),
    "fft": lambda a: (np.fft.fft(a), np.fft.ifft(a, 4, axis=0), np.fft.rfft(a, norm=None), np.fft.irfft(a)),
    "fft2": lambda a: (np.fft.fft2(a), np.fft.rfftn(a, axes=(0, 1)), np.fft.fftshift(a), np.fft.hfft(a)),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_give_tensors(name):
    with np.errstate(all="ignore"):
        same(CALLS[name](zyx.Tensor(A)), CALLS[name](A))


ON_HOST = {
    "median": np.median,
    "unique": lambda a: np.unique(a, return_counts=True),
    "split": lambda a: np.split(a, 3, axis=1),
    "sort all": lambda a: np.sort(a, axis=None),
    "trapezoid": lambda a: np.interp([0.5], np.arange(3.0), a[0]),
    "percentile": lambda a: np.percentile(a, 30, axis=1),
    "where": lambda a: np.sum(a, where=A > 0),
    "ufunc where": lambda a: np.add(a, 1, where=A > -9, out=np.zeros_like(A)),
    "svd": lambda a: np.linalg.svd(a, compute_uv=False),
    "cbrt": np.cbrt,
    "heaviside": lambda a: np.heaviside(a, 0.5),
    "reduceat": lambda a: np.add.reduceat(a, [0, 1]),
    "outer": lambda a: np.add.outer(a[0], a[1]),
    "order": lambda a: np.reshape(a, (3, 2), order="F"),
    "long double": lambda a: np.exp(a, dtype=np.float64),
}


@pytest.mark.parametrize("name", ON_HOST)
def test_what_has_no_function_of_ours_gives_arrays(name):
    found, wanted = ON_HOST[name](zyx.Tensor(A)), ON_HOST[name](A)
    several = isinstance(wanted, tuple | list)
    for one, other in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert isinstance(one, np.ndarray | np.generic)
        assert np.allclose(one, other)


def test_arrays_are_written_into_and_tensors_are_not():
    x, array = zyx.Tensor(A), A.copy()
    kept = array
    array += x
    assert array is kept
    assert np.array_equal(array, 2 * A)
    np.exp(x, out=array)
    assert np.allclose(array, np.exp(A))
    np.copyto(array, x)
    assert np.array_equal(array, A)
    whole = N.copy()
    with pytest.raises(TypeError, match="same_kind"):
        whole += x
    y = x
    y += A
    assert isinstance(y, zyx.Tensor)
    for write in (
        lambda: np.add(x, 1, out=x),
        lambda: np.add(A, A, out=x),
        lambda: np.add.at(x, 0, 1),
        lambda: np.copyto(x, A),
        lambda: np.fill_diagonal(x, 1),
        lambda: np.sum(A, 0, out=x),
        lambda: np.cumsum(x, 0, None, x),
    ):
        with pytest.raises(DTypeError, match="tensor"):
            write()
    assert np.array_equal(x.numpy(), A)


def test_gradients_go_through():
    x = zyx.Tensor(A)
    assert np.allclose(zyx.grad(lambda t: np.sum(np.exp(t) * A))(x).numpy(), np.exp(A) * A)


def test_other_kinds_are_left_to_themselves():
    class Other:
        def __array_ufunc__(self, *_, **__):
            return "other"

        def __array_function__(self, *_):
            return "other"

        def __radd__(self, _):
            return "other"

    x = zyx.Tensor(A)
    assert np.add(x, Other()) == "other"
    assert np.concatenate([x, Other()]) == "other"
    with pytest.raises(TypeError):
        np.add(x, object())
