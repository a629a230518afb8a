"""What is read at once, and what is random: by its properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx import dtype as dtypes
from zyx.testing.values import epsilon, random_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.testing.choices import Seeded
    from zyx.testing.values import Array


def _numbers(choices: Seeded, used: Sequence[DType], count: int) -> Array:
    dtype = choices.pick([t for t in used if not t.is_bool and t.bits >= 32])
    return random_array(dtype, count, np.random.default_rng(choices.integer(0, 2**32 - 1)))


def _random(choices: Seeded, used: Sequence[DType]) -> None:
    seed, count = choices.integer(0, 2**31), choices.pick((1, 7, 1000, 4097))

    def both(draw: Callable[[zyx.Generator], zyx.Tensor]) -> Array:
        first, second = (draw(zyx.Generator(seed)).numpy() for _ in range(2))
        np.testing.assert_array_equal(first, second, "one seed gives the same numbers")
        return first

    floats = [t for t in used if t.is_float and t.bits >= 32]
    dtype = choices.pick(floats)
    flat = both(lambda g: zyx.uniform(count, low=-1.0, high=3.0, dtype=dtype, generator=g))
    assert ((flat >= -1) & (flat <= 3)).all(), "uniform numbers lie within their bounds"
    assert abs(flat.mean() - 1) < 6 * 1.2 / count**0.5, f"the mean of {count} uniform numbers is {flat.mean()}"
    normal = both(lambda g: zyx.normal(count, mean=2.0, std=0.5, dtype=dtype, generator=g))
    assert np.isfinite(normal).all()
    assert abs(normal.mean() - 2) < 6 * 0.5 / count**0.5, f"the mean of {count} normal numbers is {normal.mean()}"
    whole = both(lambda g: zyx.randint(-3, 9, (count,), generator=g))
    assert ((whole >= -3) & (whole < 9)).all(), "integers lie within their bounds"
    order = both(lambda g: zyx.randperm(count, generator=g))
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    coins = both(lambda g: zyx.bernoulli(zyx.full((count,), 0.25), generator=g))
    assert np.isin(coins, (0, 1)).all()
    assert abs(coins.mean() - 0.25) < 6 * 0.44 / count**0.5
    dropped = both(lambda g: zyx.dropout(zyx.ones(count), 0.5, True, generator=g))
    assert np.isin(dropped, (0, 2)).all()
    drawn = both(lambda g: zyx.multinomial(zyx.Tensor(np.array([0.0, 1.0, 3.0], np.float32)), 64, generator=g))
    assert np.isin(drawn, (1, 2)).all(), "what has no weight is not drawn"


def _unique(choices: Seeded, used: Sequence[DType]) -> None:
    x = _numbers(choices, used, choices.pick((0, 1, 5, 64, 300)))
    values, first, inverse, counts = (part.numpy() for part in zyx.unique_all(zyx.Tensor(x)))
    np.testing.assert_array_equal(np.sort(values), np.unique(x))
    np.testing.assert_array_equal(x[first], values)
    np.testing.assert_array_equal(values[inverse.ravel()], x)
    np.testing.assert_array_equal(counts, [(x == value).sum() for value in values])
    np.testing.assert_array_equal(np.sort(zyx.unique_values(zyx.Tensor(x)).numpy()), np.unique(x))


def _selected(choices: Seeded, used: Sequence[DType]) -> None:
    x = _numbers(choices, used, 60).reshape(choices.pick(((60,), (12, 5), (3, 4, 5))))
    mask = x > 0
    tensor = zyx.Tensor(x)
    np.testing.assert_array_equal(zyx.masked_select(tensor, zyx.Tensor(mask)).numpy(), x[mask])
    np.testing.assert_array_equal(tensor[tensor > 0].numpy(), x[mask])
    for found, wanted in zip(zyx.nonzero(zyx.Tensor(mask)), np.nonzero(mask), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted)


def _read(choices: Seeded, used: Sequence[DType]) -> None:
    x = _numbers(choices, used, 12).reshape(3, 4)
    tensor = zyx.Tensor(x)
    assert tensor.tolist() == x.tolist()
    assert tensor[1, 2].item() == x[1, 2].item()
    assert zyx.array_equal(tensor, x)
    assert zyx.allclose(tensor, tensor)
    assert not zyx.array_equal(tensor, tensor + 1)
    assert len(tensor) == 3
    assert [row.tolist() for row in tensor] == x.tolist()
    assert int(tensor[0, 0]) == int(x[0, 0])
    np.testing.assert_array_equal(np.asarray(tensor), x)
    tensor[0] = 1
    tensor += 2
    changed = x.copy()
    changed[0] = 1
    np.testing.assert_array_equal(tensor.numpy(), changed + x.dtype.type(2))


def _types(choices: Seeded, used: Sequence[DType]) -> None:
    first, second = choices.pick(used), choices.pick(used)
    if dtypes.uint64 in (first, second) and any(
        dtype.is_integer and not dtype.is_unsigned for dtype in (first, second)
    ):
        return  # no integer type holds both, which is refused
    assert zyx.result_type(first, second) is zyx.result_type(second, first)
    assert zyx.can_cast(first, zyx.result_type(first, second)), f"{first} with {second}"
    assert (zyx.zeros(2, dtype=first) + zyx.zeros(2, dtype=second)).dtype is zyx.result_type(first, second)
    if first.is_integer:
        assert (zyx.iinfo(first).min, zyx.iinfo(first).max) == (first.min, first.max)
    if first in (dtypes.float32, dtypes.float64):
        assert zyx.finfo(first).eps == epsilon(first)
        x = _numbers(choices, [first], 50)
        y = np.roll(x, 1)
        np.testing.assert_array_equal(zyx.nextafter(zyx.Tensor(x), zyx.Tensor(y)).numpy(), np.nextafter(x, y))
        np.testing.assert_array_equal(zyx.signbit(zyx.Tensor(x)).numpy(), np.signbit(x))
        np.testing.assert_array_equal(
            zyx.isclose(zyx.Tensor(x), zyx.Tensor(y), 0.0, 1.01).numpy(), np.abs(x - y) < 1.01
        )
        _, where = zyx.max_pool_with_indices(zyx.Tensor(x.reshape(1, 1, 50)), (5,))
        np.testing.assert_array_equal(where.numpy().ravel(), x.reshape(10, 5).argmax(axis=1) + 5 * np.arange(10))


def _differentiated(choices: Seeded, used: Sequence[DType]) -> None:
    x = _numbers(choices, [dtypes.float32], 12)
    value, slope = zyx.value_and_grad(lambda t: (t * t * t).sum())(zyx.Tensor(x))
    np.testing.assert_allclose(value.numpy(), (x.astype(np.float64) ** 3).sum(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(slope.numpy(), 3 * x * x, rtol=1e-5)
    weights = zyx.kaiming_uniform((64, 32), generator=zyx.Generator(choices.integer(0, 99)))
    assert np.abs(weights.numpy()).max() <= (6 / 32) ** 0.5 * 1.0001
    assert np.abs(zyx.glorot_uniform((64, 32)).numpy()).max() <= (6 / 96) ** 0.5 * 1.0001
    assert zyx.rand_like(zyx.Tensor(x)).shape == zyx.randn_like(zyx.Tensor(x)).shape == x.shape
    assert dtypes.float32 in used


def _large_sums(choices: Seeded, used: Sequence[DType]) -> None:
    """Long sums and scans of positive numbers, whose error is that of few additions a result."""
    count = choices.pick((100_003, 300_000, 65_536))
    x = np.random.default_rng(choices.integer(0, 2**32 - 1)).random(count).astype(np.float32)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(zyx.sum(zyx.Tensor(x)).numpy(), exact.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        zyx.mean(zyx.Tensor(x) + 100).numpy(), (x + np.float32(100)).mean(dtype=np.float64), rtol=1e-5
    )
    np.testing.assert_allclose(zyx.cumsum(zyx.Tensor(x), 0).numpy(), np.cumsum(exact), rtol=1e-3)
    assert dtypes.float32 in used


PROPERTIES: Final = (_random, _unique, _selected, _read, _types, _types, _differentiated, _large_sums)


def check_properties(choices: Seeded, used: Sequence[DType]) -> None:
    """Assert some properties.

    Raises:
        AssertionError: One does not hold.
    """
    choices.pick(PROPERTIES)(choices, used)
