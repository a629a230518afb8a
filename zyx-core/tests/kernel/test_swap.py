"""Values that come from other threads: text, rules, meaning, and counts of `Swap`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.drivers.limits import check_limits
from zyx.errors import ParseError, UnsupportedError, VerifyError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.count import count
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import run
from zyx.kernel.text import print_kernel
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp
from zyx.passes.pipeline import ALL_PASSES, run_passes, standard_passes

SWAPS = """
kernel swaps
%o = global TYPE[64]
%g = group 0 < 2 : i64
%t = thread 0 < SIZE : i64
%n = const 32 : i64
%m = mul %g, %n : i64
%i = add %m, %t : i64
%v = load %o[%i] : TYPE
%s = swap %v, DISTANCE : TYPE
store %o[%i] = %s
"""


def swaps(distance=1, size=32, dtype="f32", more=""):
    text = SWAPS.replace("TYPE", dtype).replace("SIZE", str(size)).replace("DISTANCE", str(distance))
    return parse_kernel(text + more)


def test_it_prints_and_reads_back():
    kernel = swaps(16)
    assert "%7 = swap %6, 16 : f32" in print_kernel(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    with pytest.raises(ParseError, match="swap %VALUE, DISTANCE : TYPE"):
        parse_kernel("kernel k\n%x = const 1 : i32\n%s = swap %x : i32")


@pytest.mark.parametrize(("distance", "threads"), [(1, 2), (2, 4), (3, 4), (4, 8), (5, 8), (16, 32), (31, 32)])
def test_it_takes_aligned_groups_of_the_next_power_of_two(distance, threads):
    assert k.Swap(0, distance, k.Type(dtypes.float32)).threads == threads
    verify(swaps(distance, threads))
    verify(swaps(distance, 32))
    with pytest.raises(
        VerifyError, match=rf"rule 12.*are \({threads // 2 * 3},\); the first is no multiple of {threads}"
    ):
        verify(swaps(distance, threads // 2 * 3))


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        (9, "%b = swap %v, 0 : f32"),
        (9, "%b = swap %v, 1 : i32"),
        (9, "%h = const 0.5 : f16\n%b = swap %h, 1 : f16"),
        (9, "%p = const true : bool\n%b = swap %p, 1 : bool"),
        (12, "%b = swap %v, 32 : f32"),
        (12, "%p = lt %t, %n : bool\nif %p\n%b = swap %v, 1 : f32\nendif"),
        (12, "%z = const 0.0 : f32\n%p = lt %s, %z : bool\nif %p\nbarrier\nendif"),  # what comes from others varies
    ],
)
def test_what_breaks_a_rule_is_refused(rule, lines):
    with pytest.raises(VerifyError, match=f"rule {rule}"):
        verify(swaps(more=lines))


def test_a_kernel_without_threads_has_nobody_to_swap_with():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    zero = b.const(0, dtypes.int64)
    b.store(out, zero, b.swap(b.load(out, zero), 1))
    with pytest.raises(VerifyError, match=r"rule 12.*the local axes are \(\)"):
        verify(b.finish("alone"))


def test_it_may_stand_where_whole_groups_agree():
    verify(swaps(more="%p = lt %g, %n : bool\nif %p\n%u = loop < 3 : i32\n%b = swap %v, 1 : f32\nendloop\nendif"))


@pytest.mark.parametrize("distance", [1, 2, 3, 8, 16, 31])
def test_each_thread_has_what_the_other_one_had(distance):
    data = np.arange(64, dtype=np.float32)
    wanted = data[np.arange(64) ^ distance]
    run(swaps(distance), [data])
    assert np.array_equal(data, wanted)


def test_threads_along_other_axes_keep_to_themselves():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int64, 24)
    fast, slow = b.index(k.Axis.LOCAL, 0, 4), b.index(k.Axis.LOCAL, 1, 6)
    at = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, slow, b.const(4, dtypes.int64)), fast)
    b.store(out, at, b.swap(at, 3))
    kernel = b.finish("axes")
    verify(kernel)
    data = np.zeros(24, np.int64)
    run(kernel, [data])
    assert np.array_equal(data, np.arange(24).reshape(6, 4)[:, ::-1].ravel())


def test_it_is_counted_by_itself():
    assert count(swaps()).operations["swap"] == 64
    assert count(swaps()).flops == 0


def test_passes_keep_it():
    kernel = swaps(4)
    after = run_passes(kernel, ALL_PASSES, check=True)
    assert sum(isinstance(op, k.Swap) for op in after.ops) == 1


def info(**fields):
    capabilities = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
    return DeviceInfo("m", "d", capabilities, max_group_threads=64, max_group_shape=(64, 1, 1), **fields)


def test_a_device_without_it_or_with_fewer_threads_refuses():
    able = info(subgroup_size=8, swaps=frozenset({dtypes.float32}))
    check_limits(swaps(7), able)
    with pytest.raises(UnsupportedError, match=r"swap %6, 8 : f32'.*16 threads cannot swap float32; 8 swap float32"):
        check_limits(swaps(8), able)
    with pytest.raises(UnsupportedError, match="2 threads cannot swap int32; 8 swap float32"):
        check_limits(swaps(1, dtype="i32"), able)
    with pytest.raises(UnsupportedError, match="2 threads cannot swap float32; none swap"):
        check_limits(swaps(1), replace(able, subgroup_size=0, swaps=frozenset()))


def test_what_is_swapped_keeps_its_64_bits_where_indices_are_narrowed():
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int64, 64)
    at = b.index(k.Axis.LOCAL, 0, 64)
    b.store(out, at, b.swap(b.binary(BinaryOp.ADD, at, b.const(1, dtypes.int64)), 2))
    able = info(warp_size=32, subgroup_size=32, swaps=frozenset({dtypes.int64}))
    kernel = run_passes(b.finish("narrowed"), standard_passes(able), check=True)
    check_limits(kernel, able)
    data = np.zeros(64, np.int64)
    run(kernel, [data])
    assert np.array_equal(data, (np.arange(64) ^ 2) + 1)
