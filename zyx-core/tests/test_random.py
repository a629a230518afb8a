"""Random numbers under NumPy's names: shapes, bounds and moments, and that a seed repeats them."""

import numpy as np
import pytest

import zyx
from zyx import random
from zyx.errors import DTypeError, LinAlgError, ShapeError

pytestmark = pytest.mark.usefixtures("interpreter")

#: Of moments: many more draws than the tolerance needs, by four standard errors.
DRAWS = 20_000


@pytest.fixture
def rng():
    return random.default_rng(3)


@pytest.mark.parametrize("size", [None, 4, (2, 3), [2, 0], (), np.int64(3)])
@pytest.mark.parametrize(
    "draw",
    [
        random.random, random.random_sample, random.standard_normal, lambda size: random.uniform(0, 1, size),
        lambda size: random.normal(0.0, 1.0, size), lambda size: random.randint(0, 5, size), lambda size:
        random.exponential(1.0, size), lambda size: random.choice(5, size), lambda size:
        random.choice([1.0, 2.0], size),
    ],
)  # fmt: skip
def test_a_size_is_a_number_or_several_and_none_is_one_number(draw, size):
    shape = () if size is None else tuple(size) if isinstance(size, list | tuple) else (size,)
    assert draw(size).shape == shape


def test_a_seed_repeats_what_is_drawn():
    def drawn():
        x = zyx.arange(5)
        random.shuffle(x)
        return [x, random.rand(2), random.randn(3), random.permutation(4), random.choice(9, 3, replace=False)]

    first, second = ((random.seed(7), drawn())[1] for _ in range(2))
    assert all(zyx.array_equal(a, b) for a, b in zip(first, second, strict=True))
    a, b, c = (random.default_rng(seed).random(4) for seed in (1, 1, 2))
    assert zyx.array_equal(a, b)
    assert not zyx.array_equal(a, c)
    assert not zyx.array_equal(random.default_rng().random(4), random.default_rng().random(4))


def test_moments_and_bounds_are_what_was_asked_for(rng):
    even = rng.uniform(-1, 3, DRAWS)
    assert -1 <= even.min().item() < even.max().item() < 3
    assert even.mean().item() == pytest.approx(1, abs=4 * 4 / 12**0.5 / DRAWS**0.5)
    normal = rng.normal(5.0, 2.0, DRAWS)
    assert normal.mean().item() == pytest.approx(5, abs=4 * 2 / DRAWS**0.5)
    assert normal.std().item() == pytest.approx(2, abs=0.05)
    assert rng.exponential(3.0, DRAWS).mean().item() == pytest.approx(3, abs=4 * 3 / DRAWS**0.5)
    assert set(rng.integers(2, 5, DRAWS).tolist()) == {2, 3, 4}
    assert set(rng.integers(2, endpoint=True, size=DRAWS).tolist()) == {0, 1, 2}
    assert rng.integers(9, size=3, dtype="int8").dtype == zyx.int8


def test_means_and_deviations_may_be_tensors(rng):
    x = rng.normal(zyx.Tensor([0.0, 100.0]), zyx.Tensor([[1.0], [0.0]]))
    assert x.shape == (2, 2)
    assert x[1].tolist() == [0, 100]
    assert rng.normal(zyx.Tensor([0.0, 100.0]), size=(4, 2)).shape == (4, 2)
    assert rng.normal([0, 100], scale=0.0, size=(3, 2)).tolist() == [[0, 100]] * 3


def test_vectors_have_the_covariances_that_were_asked_for(rng):
    wanted = np.array([[2.0, 0.5], [0.5, 1.0]])
    drawn = rng.multivariate_normal([1.0, -1.0], wanted, DRAWS).numpy()
    np.testing.assert_allclose(np.cov(drawn.T), wanted, atol=0.1)
    np.testing.assert_allclose(drawn.mean(0), [1, -1], atol=0.05)
    assert rng.multivariate_normal([0.0], [[1.0]]).shape == (1,)
    with pytest.raises(ShapeError, match=r"mean is \(N,\) and cov \(N, N\), not \(2,\) and \(3, 3\)"):
        rng.multivariate_normal([0.0, 0.0], np.eye(3))
    with pytest.raises(LinAlgError):
        rng.multivariate_normal([0.0, 0.0], -np.eye(2)).numpy()


def test_elements_are_chosen_by_weight_and_rows_as_wholes(rng):
    x = zyx.arange(12).reshape(4, 3)
    assert rng.choice(x, 5, p=[0, 0, 1, 0]).tolist() == [[6, 7, 8]] * 5
    assert sorted(rng.choice(x, 4, replace=False).tolist()) == x.tolist()
    assert sorted(rng.choice(3, 3, replace=False, p=[0.2, 0.3, 0.5]).tolist()) == [0, 1, 2]
    assert rng.choice([4.5], (2, 2)).tolist() == [[4.5, 4.5]] * 2
    counts = np.bincount(rng.choice(2, DRAWS, p=[1, 3]).numpy())
    assert counts[1] / DRAWS == pytest.approx(0.75, abs=4 * 0.43 / DRAWS**0.5)


def test_order_is_all_that_changes(rng):
    x = zyx.arange(12).reshape(6, 2)
    kept = x
    rng.shuffle(x)
    assert x is kept
    assert sorted(x.tolist()) == np.arange(12).reshape(6, 2).tolist()
    assert sorted(rng.permutation([3, 1, 2]).tolist()) == [1, 2, 3]
    assert sorted(rng.permutation(4).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: random.choice(3, 4, replace=False), ShapeError, "4 of 3 elements, none twice"),
        (lambda: random.choice(0, 1), ShapeError, "choice: 1 of 0 elements"),
        (lambda: random.choice(3, p=[1.0, 2.0]), ShapeError, r"p is of shape \(3,\).*not \(2,\)"),
        (lambda: random.exponential(-1), ShapeError, "scale is at least 0, not -1"),
        (lambda: random.uniform(1, 1, 3), ShapeError, "low 1 is not below high 1"),
        (lambda: random.normal(0, -1, 3), ShapeError, "std is at least 0"),
        (lambda: random.randint(3, 3), ShapeError, "3"),
        (lambda: random.shuffle([1, 2]), DTypeError, "shuffle takes a zyx.Tensor, not list"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
