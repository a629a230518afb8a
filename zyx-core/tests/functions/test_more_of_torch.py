"""Functions put together from others, beside PyTorch's of the same name; methods of tensors among them."""

import numpy as np
import pytest

import zyx

torch = pytest.importorskip("torch", reason="PyTorch has the values")

RNG = np.random.default_rng(12)
SQUARE = RNG.standard_normal((4, 4)).astype(np.float32)
LINE = RNG.standard_normal(4).astype(np.float32)
BATCH = RNG.standard_normal((3, 4, 4)).astype(np.float32)
ROWS = np.array([2, 0, 2])
PART = RNG.standard_normal((3, 4)).astype(np.float32)
POSITIVE = SQUARE @ SQUARE.T + 4 * np.eye(4, dtype=np.float32)

#: A method, the tensor, and arguments.
CALLS = [
    ("addmm", SQUARE, SQUARE, SQUARE.T, {"beta": 0.5, "alpha": 2.0}), ("addmv", LINE, SQUARE, LINE),
    ("addr", SQUARE, LINE, LINE), ("baddbmm", BATCH, BATCH, BATCH, {"beta": 0.0}), ("addbmm", SQUARE, BATCH, BATCH),
    ("addcmul", SQUARE, LINE, SQUARE, {"value": 3.0}), ("addcdiv", SQUARE, LINE, LINE * LINE, {"value": -1.0}),
    ("index_add", SQUARE, 0, ROWS, PART, {"alpha": 2.0}), ("index_copy", SQUARE, 0, ROWS[:2], PART[:2]),
    ("index_fill", SQUARE, 1, ROWS, 7.0), ("index_reduce", SQUARE, 0, ROWS, PART, "amax"),
    ("index_put", SQUARE, (ROWS, ROWS), LINE[:3], {"accumulate": True}), ("index_put", SQUARE, (ROWS[:2],), LINE),
    ("masked_scatter", SQUARE, SQUARE > 0, BATCH), ("select_scatter", SQUARE, LINE, 1, 2),
    ("slice_scatter", SQUARE, PART[:2], 0, 1, 3), ("slice_scatter", SQUARE, SQUARE[:, :2], 1, None, None, 2),
    ("diagonal_scatter", SQUARE, LINE), ("diagonal_scatter", SQUARE, LINE[:3], -1),
    ("diagonal_scatter", BATCH, BATCH[:, 0, :3].T[:3, :].T, 1, 1, 2),
    ("dist", SQUARE, SQUARE.T, 3.0), ("renorm", SQUARE, 2.0, 0, 0.5), ("logit", LINE, 0.1), ("lgamma", SQUARE),
    ("digamma", SQUARE), ("erfc", SQUARE), ("xlogy", SQUARE, SQUARE.T), ("logcumsumexp", SQUARE, 1), ("sgn", SQUARE),
    ("heaviside", SQUARE, LINE), ("kthvalue", SQUARE, 2, 0), ("mode", np.round(SQUARE), 1), ("msort", SQUARE),
    ("diag_embed", SQUARE, 1), ("diag_embed", SQUARE, 0, 0, 2), ("histc", SQUARE, 4, -1, 1), ("bincount", ROWS),
    ("unique_consecutive", np.array([1, 1, 2, 2, 2, 1]), True, True),
    ("take_along_dim", SQUARE, np.argsort(SQUARE, 1), 1),
    ("inverse", SQUARE), ("det", SQUARE), ("logdet", POSITIVE), ("cholesky", POSITIVE), ("slogdet", SQUARE),
    ("frexp", SQUARE), ("float_power", POSITIVE, 1.5), ("fix", SQUARE), ("clamp_min", SQUARE, 0.1), ("nansum", SQUARE),
    ("quantile", SQUARE, 0.3, {"dim": 1, "keepdim": True}), ("tensor_split", LINE, 3), ("rot90", SQUARE, 1, (0, 1)),
    ("argwhere", SQUARE > 0), ("corrcoef", SQUARE), ("cov", SQUARE), ("hsplit", SQUARE, 2), ("vdot", LINE, LINE),
    ("bernoulli", np.ones(3, np.float32)), ("index_add_", SQUARE, 0, ROWS, PART), ("addcmul_", SQUARE, SQUARE, SQUARE),
]  # fmt: skip


def ours(value):
    return tuple(ours(item) for item in value) if isinstance(value, tuple) else (
        zyx.Tensor(value.copy()) if isinstance(value, np.ndarray) else value
    )  # fmt: skip


def theirs(value):
    return tuple(theirs(item) for item in value) if isinstance(value, tuple) else (
        torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
    )  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
@pytest.mark.filterwarnings("ignore:torch.cholesky", "ignore:index_reduce")
def test_a_method_is_pytorchs(call):
    name, x, *args = call
    options = args.pop() if args and isinstance(args[-1], dict) else {}
    found = getattr(ours(x), name)(*[ours(arg) for arg in args], **options)
    wanted = getattr(theirs(x), name)(*[theirs(arg) for arg in args], **options)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple | list) else [(found, wanted)]
    for mine, other in pairs:
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_all_pairs(p):
    wanted = torch.cdist(theirs(BATCH), theirs(BATCH[:, :2]), p).numpy()
    np.testing.assert_allclose(zyx.cdist(ours(BATCH), ours(BATCH[:, :2]), p).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_functions_of_several():
    lines = [ours(LINE), ours(PART[0, :2])]
    others = [theirs(LINE), theirs(PART[0, :2])]
    np.testing.assert_array_equal(zyx.cartesian_prod(*lines).numpy(), torch.cartesian_prod(*others).numpy())
    np.testing.assert_array_equal(zyx.block_diag(*lines).numpy(), torch.block_diag(*others).numpy())
    for repeated in (False, True):
        found = zyx.combinations(lines[0], 3, repeated).numpy()
        np.testing.assert_array_equal(found, torch.combinations(others[0], 3, repeated).numpy())
    found = zyx.chain_matmul(*[ours(x) for x in (PART, SQUARE, LINE[:, None])])
    np.testing.assert_allclose(found.numpy(), PART @ SQUARE @ LINE[:, None], rtol=1e-4)
    triangle = np.linalg.cholesky(POSITIVE)
    np.testing.assert_allclose(zyx.cholesky_inverse(ours(triangle)).numpy(), np.linalg.inv(POSITIVE), atol=1e-4)
    edges = np.array([-1.0, 0.0, 1.0], np.float32)
    for right in (False, True):
        found = zyx.bucketize(ours(SQUARE), ours(edges), right=right)
        assert found.tolist() == torch.bucketize(theirs(SQUARE), theirs(edges), right=right).tolist()
    found = zyx.pairwise_distance(ours(SQUARE), ours(SQUARE.T)).numpy()
    np.testing.assert_allclose(found, torch.pairwise_distance(theirs(SQUARE), theirs(SQUARE.T)).numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name, periodic):
    for n in (1, 2, 9):
        found = getattr(zyx, f"{name}_window")(n, periodic).numpy()
        np.testing.assert_allclose(found, getattr(torch, f"{name}_window")(n, periodic).numpy(), atol=1e-5)
