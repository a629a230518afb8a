"""Running passes: order, observers, checks, and what is left for a device."""

from __future__ import annotations

import functools
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.backend.info import STORAGE_ONLY, Capability, DeviceInfo, full_capability
from zyx.errors import VerifyError
from zyx.kernel import data as k
from zyx.kernel.data import Kernel
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.passes.fold_constants import fold_constants
from zyx.passes.pipeline import ALL_PASSES, pass_name, run_passes, standard_passes
from zyx.testing.kernels import kernels, results_of, same_values

KERNEL = parse_kernel("""
    kernel k
    %o = global f32[8]
    %i = group 0 < 8 : i64
    %a = const 1.0 : f32
    %b = add %a, %a : f32
    store %o[%i] = %b
""")
NATIVE = DeviceInfo("native", "1", {dtype: full_capability(dtype) for dtype in dtypes.ALL})
BARE = DeviceInfo(
    "bare",
    "1",
    {dtype: full_capability(dtype, transcendental=False) for dtype in dtypes.ALL}
    | {dtypes.float16: STORAGE_ONLY, dtypes.bfloat16: STORAGE_ONLY},
    has_fma=False,
    warp_size=32,
)


def test_passes_run_in_order_and_the_observer_sees_each():
    seen = []

    def observer(name: str, before: Kernel, after: Kernel, seconds: float) -> None:
        assert seconds >= 0
        seen.append((name, len(before.ops), len(after.ops)))

    result = run_passes(KERNEL, [fold_constants, eliminate_dead_code, fold_constants], observer)
    assert seen == [("fold_constants", 5, 5), ("eliminate_dead_code", 5, 4), ("fold_constants", 4, 4)]
    assert len(result.ops) == 4


def test_no_passes_leave_the_kernel_as_it_is():
    assert run_passes(KERNEL, []) is KERNEL


def test_a_pass_that_breaks_a_rule_is_named_with_the_kernel_before_it():
    def lose_the_index(kernel: Kernel) -> Kernel:
        return Kernel(kernel.name, (kernel.ops[0], *kernel.ops[2:]))

    with pytest.raises(VerifyError) as caught:
        run_passes(KERNEL, [fold_constants, lose_the_index], check=True)
    note = caught.value.__notes__[0]
    assert note.startswith("after pass lose_the_index; before it, the kernel was:\nKernel('k', (")
    run_passes(KERNEL, [fold_constants, lose_the_index])  # unchecked


def test_a_broken_kernel_is_refused_before_any_pass():
    with pytest.raises(VerifyError):
        run_passes(Kernel("k", KERNEL.ops[2:]), [fold_constants], check=True)


def test_a_pass_with_options_has_the_name_of_its_function():
    assert pass_name(functools.partial(fold_constants)) == "fold_constants"
    assert [pass_name(pass_) for pass_ in standard_passes(NATIVE)][-1] == "sink_into_branches"
    assert len({pass_name(pass_) for pass_ in ALL_PASSES}) == len(ALL_PASSES)


def test_short_indices_are_for_devices_that_prefer_them():
    def names(info: DeviceInfo) -> list[str]:
        return [pass_name(pass_) for pass_ in standard_passes(info)]

    assert "narrow_indices" not in names(NATIVE)
    assert "narrow_indices" in names(BARE)
    without = {dtype: had for dtype, had in NATIVE.capabilities.items() if dtype is not dtypes.int64}
    assert "narrow_indices" in names(DeviceInfo("wgpu", "1", without))


class TestStandardPasses:
    """What is left after the passes for a device."""

    MATMUL: ClassVar[str] = """
        kernel matmul
        %x = global f16[4096] readonly
        %y = global f16[4096] readonly
        %o = global f16[4096]
        %acc = register f16[1]
        %i = group 0 < 64 : i64
        %j = thread 0 < 64 : i64
        %z = const 0 : i64
        %n = const 64 : i64
        %zero = const 0.0 : f16
        store %acc[%z] = %zero
        %l = loop < 64 : i64
            %row = mul %i, %n : i64
            %a = add %row, %l : i64
            %u = load %x[%a] : f16
            %down = mul %l, %n : i64
            %b = add %down, %j : i64
            %v = load %y[%b] : f16
            %p = mul %u, %v : f16
            %old = load %acc[%z] : f16
            %s = add %p, %old : f16
            store %acc[%z] = %s
        endloop
        %row = mul %i, %n : i64
        %c = add %row, %j : i64
        %r = load %acc[%z] : f16
        store %o[%c] = %r
    """.replace("%row = mul %i, %n : i64\n        %c", "%row2 = mul %i, %n : i64\n        %c").replace(
        "%c = add %row,", "%c = add %row2,"
    )

    def test_a_native_device_gets_multiply_adds(self):
        result = run_passes(parse_kernel(self.MATMUL), standard_passes(NATIVE), check=True)
        assert sum(isinstance(op, k.Mad) for op in result.ops) == 1
        loop = next(n for n, op in enumerate(result.ops) if isinstance(op, k.Loop))
        multiplied = [n for n, op in enumerate(result.ops) if isinstance(op, k.Binary) and op.op is BinaryOp.MUL]
        assert sum(n < loop for n in multiplied) == 1  # the row is found once

    def test_a_bare_device_gets_float32_and_short_indices(self):
        result = run_passes(parse_kernel(self.MATMUL), standard_passes(BARE), check=True)
        assert not any(isinstance(op, k.Mad) for op in result.ops)
        assert not any(isinstance(op, k.Value) and op.type.dtype is dtypes.int64 for op in result.ops)
        arithmetic = {op.type.dtype for op in result.ops if isinstance(op, k.Binary)}
        assert arithmetic == {dtypes.int32, dtypes.float32}


@given(kernel=kernels(max_statements=8), seed=st.integers(0, 3))
def test_the_passes_for_a_native_device_keep_the_values_of_any_kernel(kernel, seed):
    result = run_passes(kernel, standard_passes(NATIVE), check=True)
    assert same_values(results_of(kernel, seed), results_of(result, seed))


@given(kernel=kernels(allowed=tuple(dtype for dtype in dtypes.ALL if not dtype.is_float), max_statements=8))
def test_the_passes_for_a_bare_device_keep_the_values_of_integers(kernel):
    result = run_passes(kernel, standard_passes(BARE), check=True)
    assert same_values(results_of(kernel), results_of(result))
    for op in result.ops:
        if isinstance(op, k.Binary):
            operand = result.ops[op.x]
            assert isinstance(operand, k.Value)
            capability = BARE.capabilities.get(operand.type.dtype, Capability())
            assert op.op in capability.binary


def test_a_pass_is_not_run_on_what_it_has_just_returned():
    kernel, other, seen = Kernel("one", KERNEL.ops), Kernel("other", KERNEL.ops), []

    def again(kernel):
        seen.append(kernel.name)
        return kernel

    assert run_passes(kernel, [again, again, lambda _: other, again, again]) is other
    assert seen == ["one", "other"]
