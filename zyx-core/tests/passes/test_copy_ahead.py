"""Threads compute while they copy what comes next, and nothing else changes."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.parse import parse_kernel
from zyx.kernel.verify import verify
from zyx.passes.copy_ahead import copy_ahead
from zyx.testing.passes import check_pass

PRODUCT = """
    kernel k
    %o = global f32[128]
    %a = global f16[{length}] readonly
    %l = local f16[128]
    %s = register f32x4[1]
    %t = thread 0 < 32 : i64
    %z = const 0 : i64
    %zero = const 0.0 : f32x4
    store %s[%z] = %zero
    %four = const 4 : i64
    %step = const 128 : i64
    %at = mul %t, %four : i64
    %i = loop < {size} : i64
        barrier
        {before}
        %r = mul %i, %step : i64
        %from = add %r, %at : i64
        %x = load %a[%from] : f16x4
        store %l[%at] = %x
        {between}
        barrier
        %y = load %l[%at] : f16x4
        %b = shuffle %y, %y[0, 1] : f16x2
        %c = load %s[%z] : f32x4
        %d = wmma 16x8x8 %y, %b, %c : f32x4
        store %s[%z] = %d
        {after}
    endloop
    %e = load %s[%z] : f32x4
    store %o[%at] = %e
"""


def product(size=4, before="", between="", after=""):
    return parse_kernel(PRODUCT.format(size=size, length=128 * size, before=before, between=between, after=after))


def changed(kernel, local_bytes=1 << 12):
    return check_pass(functools.partial(copy_ahead, local_bytes=local_bytes), kernel)


def barriers_in_loop(kernel):
    ops = kernel.ops
    start = next(number for number, op in enumerate(ops) if isinstance(op, k.Loop))
    return sum(isinstance(op, k.Barrier) for op in ops[start:])


def test_copies_are_for_the_next_iteration():
    kernel = product()
    result = changed(kernel)
    (local,) = (op for op in result.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL)
    assert local.length == 256
    assert (barriers_in_loop(kernel), barriers_in_loop(result)) == (2, 1)
    loop = result.ops[next(number for number, op in enumerate(result.ops) if isinstance(op, k.Loop)) :]
    order = [type(op) for op in loop if isinstance(op, k.Wmma | k.Barrier) or getattr(op, "target", None) == 2]
    assert order == [k.Wmma, k.Store, k.Barrier]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_values_stay_for_any_number_of_iterations(size):
    kernel = product(size)
    data = np.random.default_rng(0).integers(-4, 4, 128 * size).astype(np.float16)
    results = []
    for current in (kernel, copy_ahead(kernel, 1 << 12)):
        verify(current)
        out = np.zeros(128, np.float32)
        interpreter.run(current, [out, data])
        results.append(out)
    assert results[0].any()
    np.testing.assert_array_equal(*results)


def test_a_second_segment_with_an_array_of_its_own_loses_its_barriers():
    kernel = product(between="barrier")
    assert barriers_in_loop(kernel) == 3
    assert barriers_in_loop(changed(kernel)) == 1


STAY = {
    "one iteration": {"size": 1},
    "an array that is written twice": {"between": "barrier\nstore %l[%at] = %x"},
    "a copy that is read while copying": {"before": "%w = load %l[%at] : f16x4"},
    "an array that is written while multiplying": {"after": "barrier\nstore %l[%at] = %y"},
    "a result that is stored while copying": {"between": "%g = const 1.0 : f32\nstore %o[%t] = %g"},
    "a result that is stored while copying, and read later": {
        "between": "%g = const 1.0 : f32\nstore %o[%t] = %g",
        "after": "%q = load %o[%t] : f32",
    },
}


@pytest.mark.parametrize("options", STAY.values(), ids=STAY.keys())
def test_loops_that_do_more_than_copy_and_multiply_stay(options):
    kernel = product(**options)
    assert copy_ahead(kernel, 1 << 12) is kernel


def test_loops_that_begin_with_a_result_stay():
    text = PRODUCT.replace(": i64\n        barrier", ": i64\n        store %o[%t] = %first\n        barrier")
    text = text.replace("    %i = loop", "    %first = const 1.0 : f32\n    %i = loop")
    kernel = parse_kernel(text.format(size=4, length=512, before="", between="", after=""))
    assert copy_ahead(kernel, 1 << 12) is kernel


@pytest.mark.parametrize("size", [2, 3])
def test_loops_of_two_iterations_or_more_are_changed(size):
    assert barriers_in_loop(changed(product(size))) == 1


def test_the_loop_s_number_may_be_of_another_type_than_indices():
    text = PRODUCT.replace("%i = loop < {size} : i64", "%n = loop < {size} : i32")
    kernel = parse_kernel(
        text.replace("%r = mul", "%i = cast %n : i64\n%r = mul").format(
            size=3, length=384, before="", between="", after=""
        )
    )
    assert barriers_in_loop(changed(kernel)) == 1


def test_memory_is_shared_out_among_loops_the_first_ones_first():
    """Each loop has an array of 128 bytes: one, the other, or both may have a second half."""
    second = SUM.format(before="", behind="").partition("    %i = loop")[2].partition("    {behind}")[0]
    second = "    %i2 = loop" + second.replace("%i,", "%i2,").replace("%l[", "%k[")
    for name in ("r", "f", "x", "y"):
        second = re.sub(rf"%{name}\b", f"%{name}2", second)
    text = SUM.format(before="", behind=second).replace("%l = local f32[32]", "%l = local f32[32]\n%k = local f32[32]")
    kernel = parse_kernel(text)

    def lengths(local_bytes):
        result = changed(kernel, local_bytes)
        return [op.length for op in result.ops if isinstance(op, k.Define) and op.memory is k.Memory.LOCAL]

    assert copy_ahead(kernel, 256 + 127) is kernel
    assert lengths(256 + 128) == lengths(256 + 255) == [64, 32]
    assert lengths(512) == [64, 64]


def test_loops_whose_copies_do_not_fit_twice_stay():
    kernel = product()
    assert copy_ahead(kernel, 256 + 255) is kernel
    assert copy_ahead(kernel, 512) is not kernel


SUM = """
    kernel k
    %a = global f32[96] readonly
    %o = global f32[128]
    %l = local f32[32]
    %t = thread 0 < 32 : i64
    %n = const 32 : i64
    %last = const 31 : i64
    %mirrored = sub %last, %t : i64
    {before}
    %i = loop < 3 : i64
        barrier
        %r = mul %i, %n : i64
        %f = add %r, %t : i64
        %x = load %a[%f] : f32
        store %l[%t] = %x
        barrier
        %y = load %l[%mirrored] : f32
        store %o[%f] = %y
    endloop
    {behind}
"""
OUTSIDE = {
    "nothing": {},
    "a copy from before": {"before": "%u = load %a[%t] : f32\nbarrier\nstore %l[%t] = %u\nbarrier"},
    "the last copy": {"behind": "%e = add %t, %n : i64\n%w = load %l[%t] : f32\nstore %o[%e] = %w"},
    "another copy": {
        "behind": "%e = add %t, %n : i64\n%u = load %a[%t] : f32\nbarrier\nstore %l[%t] = %u\nbarrier\n"
        "%w = load %l[%mirrored] : f32\nstore %o[%e] = %w"
    },
}


@pytest.mark.parametrize("options", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_what_is_copied_may_be_used_outside_of_the_loop(options):
    kernel = parse_kernel(SUM.format(**{"before": "", "behind": "", **options}))
    assert barriers_in_loop(changed(kernel)) == barriers_in_loop(kernel) - 1


def test_copies_that_nothing_is_computed_from_stay():
    kernel = parse_kernel(SUM.format(before="", behind="").replace("load %l[%mirrored]", "load %a[%mirrored]"))
    assert copy_ahead(kernel, 1 << 12) is kernel
