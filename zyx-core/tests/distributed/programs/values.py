"""What operations of several processes give, beside NumPy: each process makes the arrays of all of them."""

import ml_dtypes
import numpy as np
from reporting import report

import zyx
import zyx.distributed as dist

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
SHORT = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FLOATS = [*SHORT, np.dtype(np.float32), np.dtype(np.float64)]
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
ALL = [np.dtype(bool), *INTEGERS, *FLOATS, *COMPLEX]


def drawn(rank, dtype, shape=(3, 4), seed=0):
    generator = np.random.default_rng((rank, seed))
    if dtype.kind == "b":
        return generator.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype, endpoint=True)
    found = generator.standard_normal(shape)
    return (found + 1j * generator.standard_normal(shape) if dtype.kind == "c" else found).astype(dtype)


def of_all(group, dtype, shape=(3, 4), seed=0):
    return np.stack([drawn(rank, dtype, shape, seed) for rank in range(group.size)])


def close(found, wanted, dtype):
    assert found.dtype == dtype == wanted.dtype and found.shape == wanted.shape
    if dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
    else:
        rounding = {2: 2.0**-7}.get(dtype.itemsize, 1e-5 if dtype in (np.float32, np.complex64) else 1e-12)
        kind = np.complex128 if dtype.kind == "c" else np.float64
        np.testing.assert_allclose(found.astype(kind), wanted.astype(kind), rounding, rounding)


def wide(arrays):
    return arrays.astype(np.float64) if arrays.dtype.kind not in "biuc" else arrays


def test_sums_and_products_are_those_of_numpy_and_integers_wrap(group):
    for dtype in (*INTEGERS, *FLOATS, *COMPLEX):
        arrays = of_all(group, dtype)
        x = zyx.Tensor(arrays[group.rank])
        kind = {} if dtype.kind not in "iu" else {"dtype": dtype}
        close(dist.all_reduce(x).numpy(), wide(arrays).sum(0, **kind).astype(dtype), dtype)
        close(dist.all_reduce(x, "prod").numpy(), wide(arrays).prod(0, **kind).astype(dtype), dtype)


def test_means_are_those_of_numpy(group):
    for dtype in (*FLOATS, *COMPLEX):
        arrays = of_all(group, dtype)
        close(
            dist.all_reduce(zyx.Tensor(arrays[group.rank]), "mean").numpy(), wide(arrays).mean(0).astype(dtype), dtype
        )


def test_extremes_are_those_of_numpy(group):
    for dtype in (np.dtype(bool), *INTEGERS, *FLOATS):
        arrays = of_all(group, dtype)
        x = zyx.Tensor(arrays[group.rank])
        close(dist.all_reduce(x, "max").numpy(), wide(arrays).max(0).astype(dtype), dtype)
        close(dist.all_reduce(x, "min").numpy(), wide(arrays).min(0).astype(dtype), dtype)


def test_nan_is_the_maximum_and_the_minimum_and_infinities_are_numbers(group):
    for dtype in FLOATS:
        row = np.array([1, -np.inf, np.inf, -0.0, -2.5], dtype)
        row[0] = np.nan if group.rank == group.size - 1 else 1
        row[3] = 0.0 if group.rank == 0 else -0.0
        for op, infinite in (("max", 2), ("min", 1)):
            found = dist.all_reduce(zyx.Tensor(row), op).numpy().astype(np.float64)
            assert np.isnan(found[0]) and found[infinite] == row[infinite] and found[4] == -2.5
            assert np.signbit(found[3]) == (op == "min")


def test_short_floats_are_rounded_once(group):
    for dtype in SHORT:
        step = np.array(2.0**-8, dtype)  # half of what lies between 1 and the next bfloat16, and less for float16
        x = np.where(np.arange(2) == 0, 1 if group.rank == 0 else step, step).astype(dtype)
        wanted = np.array([1 + (group.size - 1) * 2.0**-8, group.size * 2.0**-8], np.float32).astype(dtype)
        np.testing.assert_array_equal(dist.all_reduce(zyx.Tensor(x)).numpy(), wanted)


def test_all_get_the_same_bits(group):
    x = dist.all_reduce(zyx.Tensor(drawn(group.rank, np.dtype(np.float32), (1000,)))).numpy()
    for row in dist.all_gather(zyx.Tensor(x[None])).numpy():
        np.testing.assert_array_equal(row.view(np.int32), x.view(np.int32))


def test_what_is_moved_is_of_any_dtype(group):
    size, rank = group.size, group.rank
    for dtype in ALL:
        arrays = of_all(group, dtype, (size, 2))
        x = zyx.Tensor(arrays[rank])
        np.testing.assert_array_equal(dist.all_gather(x).numpy(), arrays.reshape(size * size, 2))
        np.testing.assert_array_equal(dist.all_to_all(x).numpy(), arrays[:, rank])
        np.testing.assert_array_equal(dist.broadcast(x, size - 1).numpy(), arrays[-1])


def test_axes_are_those_that_are_named(group):
    size, rank = group.size, group.rank
    arrays = of_all(group, np.dtype(np.int32), (size, 2 * size, 3 * size))
    x = zyx.Tensor(arrays[rank])
    for axis in (0, 1, 2, -1):
        np.testing.assert_array_equal(dist.all_gather(x, axis).numpy(), np.concatenate(list(arrays), axis))
        parts = [np.split(array, size, axis) for array in arrays]
        np.testing.assert_array_equal(dist.reduce_scatter(x, axis).numpy(), sum(part[rank] for part in parts))
        greatest = np.max([part[rank] for part in parts], 0)
        np.testing.assert_array_equal(dist.reduce_scatter(x, axis, "max").numpy(), greatest)
        joined = np.concatenate([part[rank] for part in parts], axis)
        np.testing.assert_array_equal(dist.all_to_all(x, axis).numpy(), joined)


def test_views_are_given_as_they_look(group):
    arrays = of_all(group, np.dtype(np.float32), (4, 4))
    x = zyx.Tensor(arrays[group.rank])
    for view in (lambda a: a.T, lambda a: a[1:3, ::2], lambda a: a[:, ::-1]):
        close(dist.all_reduce(view(x)).numpy(), view(arrays.sum(0)), np.dtype(np.float32))
        close(dist.broadcast(view(x), 1).numpy(), view(arrays[1]), np.dtype(np.float32))
    one = zyx.ones(3) * 2  # of which no memory has every element
    assert dist.all_reduce(one).tolist() == [2.0 * group.size] * 3
    assert dist.all_reduce(zyx.Tensor(5)).tolist() == 5 * group.size


def test_arrays_have_from_no_bytes_to_many(group):
    nothing = zyx.zeros((0, 3))
    assert dist.all_reduce(nothing).shape == (0, 3)
    assert dist.all_gather(nothing, 1).shape == (0, 3 * group.size)
    assert dist.reduce_scatter(nothing).shape == (0, 3)
    assert dist.broadcast(nothing).numpy().shape == (0, 3)
    assert dist.all_to_all(nothing).shape == (0, 3)
    for count in (1, 1000, 1 << 16, 1 << 20, (64 << 20) // 4 // group.size):
        pattern = np.arange(count, dtype=np.int32)
        x = zyx.Tensor(pattern + group.rank)
        ranks = group.size * (group.size - 1) // 2
        np.testing.assert_array_equal(dist.all_reduce(x).numpy(), pattern * group.size + ranks)
    np.testing.assert_array_equal(
        dist.all_gather(x).numpy().reshape(group.size, -1), pattern + np.arange(group.size)[:, None]
    )


def test_messages_go_from_one_to_another(group):
    right, left = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    for dtype in (*ALL, "large", "nothing"):
        shape = {"large": (1 << 18,), "nothing": (0,)}.get(dtype, (2, 3))
        kind = np.dtype(np.float32) if isinstance(dtype, str) else dtype
        x = zyx.Tensor(drawn(group.rank, kind, shape))
        if group.rank % 2 == 0:  # one sends first, the other receives first
            dist.send(x, right)
            found = dist.recv(x, source=left)
        else:
            found = dist.recv(shape, x.dtype, source=left)
            dist.send(x, right)
        np.testing.assert_array_equal(found.numpy(), drawn(left, kind, shape))


if __name__ == "__main__":
    report([thing for name, thing in list(globals().items()) if name.startswith("test_")])
