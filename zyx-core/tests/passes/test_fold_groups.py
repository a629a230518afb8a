"""Groups are laid out along axes that are long enough, each of them once."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import Executable
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp, ReduceOp
from zyx.passes.fold_groups import fold_groups, folded
from zyx.passes.narrow_indices import narrow_indices
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.testing.passes import check_pass

GPU = ((1 << 31) - 1, 65_535, 65_535)
WEBGPU = (65_535,) * 3


def counting(groups, threads=1, dtype=dtypes.int64):
    """Return a kernel in which every thread adds 1 + the number of its group's position to a place of its own."""
    b = Builder()
    count = math.prod(groups) * threads
    out, sums = (b.define(k.Memory.GLOBAL, dtypes.int64, length) for length in (count, threads))
    at = b.const(0, dtypes.int64)
    for number in reversed(range(len(groups))):
        position = b.cast(b.index(k.Axis.GROUP, number, groups[number], dtype), dtypes.int64)
        at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, at, b.like(groups[number], at)), position)
    thread = b.index(k.Axis.LOCAL, 0, threads)
    place = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, at, b.like(threads, at)), thread)
    b.atomic(ReduceOp.SUM, out, place, b.binary(BinaryOp.ADD, at, b.like(1, at)))
    b.barrier()
    b.atomic(ReduceOp.SUM, sums, thread, b.const(1, dtypes.int64))
    return b.finish("counting")


def check(groups, most, threads=1, dtype=dtypes.int64):
    """Check that every group runs once after folding; return the new grid."""
    kernel = fold_groups(counting(groups, threads, dtype), most)
    verify(kernel)
    count = math.prod(groups)
    out, sums = np.zeros(count * threads, np.int64), np.zeros(threads, np.int64)
    Executable(kernel)([out, sums])
    np.testing.assert_array_equal(out, np.repeat(np.arange(count) + 1, threads))
    np.testing.assert_array_equal(sums, count)
    return kernel.grid[0]


@pytest.mark.parametrize(
    ("groups", "most", "wanted"),
    [
        ((7,), GPU, (7,)),
        ((12, 65_535, 65_535), GPU, (12, 65_535, 65_535)),
        ((12, 300_000), GPU, (3_600_000,)),
        ((14, 8, 100_000), GPU, (11_200_000,)),
        ((70_000, 70_000), GPU, (1_633_333_334, 3)),
        ((65_536,), WEBGPU, (32_768, 2)),
        ((3, 70_001), WEBGPU, (52_501, 4)),
        ((1, 2, 100_000), WEBGPU, (50_000, 4)),
        ((2**31 - 1,), WEBGPU, (65_535, 32_769)),
        ((2**33,), WEBGPU, (65_535, 43_692, 3)),
        ((2**48,), WEBGPU, None),
        ((5, 7), (8,), None),
        ((5, 7), (35,), (35,)),
        ((5, 7, 2), (6, 6), None),
    ],
)
def test_axes_within_the_limits_have_room_for_all_groups(groups, most, wanted):
    assert folded(groups, most) == wanted


@given(
    st.lists(st.integers(1, 1 << 20), min_size=1, max_size=3).map(tuple),
    st.tuples(*[st.integers(1, 1 << 16)] * 3),
)
def test_no_axis_is_too_long_and_few_groups_are_added(groups, most):
    axes, count = folded(groups, most), math.prod(groups)
    if axes is None:
        assert count > math.prod(most)
        return
    assert all(size <= limit for size, limit in zip(axes, most, strict=False))
    assert count <= math.prod(axes) <= count + math.prod(axes[1:])


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int64], ids=str)
@pytest.mark.parametrize("groups", [(6,), (7,), (2, 6), (6, 2), (3, 1, 7), (1, 1, 23), (5, 5), (2, 3, 4)], ids=str)
def test_every_group_runs_once(groups, dtype):
    axes = check(groups, (5, 3, 2), threads=3, dtype=dtype)
    assert all(size <= most for size, most in zip(axes, (5, 3, 2), strict=False))


def test_a_long_axis_takes_the_others_in_and_nothing_is_added():
    kernel = parse_kernel("""
        kernel k
        %o = global f32[91]
        %i = group 0 < 13 : i64
        %j = group 1 < 7 : i64
        %s = const 13 : i64
        %m = mad %j, %s, %i : i64
        %v = const 1.0 : f32
        store %o[%m] = %v
    """)
    result = check_pass(functools.partial(fold_groups, max_groups=(1000, 6, 6)), kernel)
    assert result.grid[0] == (91,)
    assert not any(isinstance(op, k.If) for op in result.ops)


def test_what_fits_and_what_never_will_stays_as_it_is():
    kernel = counting((5, 7))
    assert fold_groups(kernel, (5, 7)) is kernel
    assert fold_groups(kernel, (5, 6)) is kernel
    without = parse_kernel("kernel k\n%o = global f32[1]\n%z = const 0 : i32\n%v = load %o[%z] : f32")
    assert fold_groups(without, (1, 1, 1)) is without


def test_a_folded_kernel_can_be_folded_further_and_is_left_alone_by_the_same_limits():
    kernel = counting((40,), threads=2)
    once = check_pass(functools.partial(fold_groups, max_groups=(7, 7, 7)), kernel)
    assert once.grid[0] == (7, 6)
    again = fold_groups(once, (5, 5, 5))
    verify(again)
    out, sums = np.zeros(80, np.int64), np.zeros(2, np.int64)
    Executable(again)([out, sums])
    np.testing.assert_array_equal(sums, 40)


def test_numbers_are_short_after_the_passes_that_make_them_so():
    kernel = narrow_indices(simplify_algebra(fold_groups(counting((3, 70_001)), WEBGPU)))
    verify(kernel)
    types = {op.type.dtype for op in kernel.ops if isinstance(op, k.Index)}
    assert types == {dtypes.int32}
