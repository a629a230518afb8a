"""The interpreter: each kind of operation on small kernels, chunks of groups, and errors."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from zyx.errors import LaunchError
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import Executable, run
from zyx.testing.kernels import arguments_for, kernels, same_values


def interpret(text: str, *arguments):
    run(parse_kernel(text), arguments)


def test_each_point_of_the_grid_runs_once():
    out = np.zeros(24, np.int32)
    interpret("""
        kernel points
        %o = global i32[24]
        %a = group 0 < 2 : i32
        %b = group 1 < 3 : i32
        %t = thread 0 < 2 : i32
        %u = thread 1 < 2 : i32
        %c2 = const 2 : i32
        %c3 = const 3 : i32
        %1 = mul %b, %c2 : i32
        %2 = add %1, %a : i32
        %3 = mul %2, %c2 : i32
        %4 = add %3, %u : i32
        %5 = mul %4, %c2 : i32
        %6 = add %5, %t : i32
        %one = const 1 : i32
        atomic sum %o[%6] = %one
    """, out)  # fmt: skip
    assert out.tolist() == [1] * 24


def test_a_kernel_without_a_grid_runs_once():
    out = np.zeros(1, np.int64)
    interpret("kernel once\n%o = global i64[1]\n%z = const 0 : i64\n%v = const 7 : i64\natomic sum %o[%z] = %v", out)
    assert out.tolist() == [7]


def test_loops_count_up_and_nest():
    out = np.zeros(1, np.int64)
    interpret("""
        kernel loops
        %o = global i64[1]
        %z = const 0 : i64
        %ten = const 10 : i64
        %i = loop < 3 : i64
            %j = loop < 2 : i64
                %old = load %o[%z] : i64
                %a = mul %old, %ten : i64
                %b = add %a, %i : i64
                %c = mul %b, %ten : i64
                %d = add %c, %j : i64
                store %o[%z] = %d
            endloop
        endloop
        %e = loop < 0 : i64
            store %o[%z] = %z
        endloop
    """, out)  # fmt: skip
    assert out[0] == 110112021  # the digits 00 01 10 11 20 21


def test_a_branch_runs_for_those_threads_where_it_holds():
    out = np.arange(8, dtype=np.int32)
    interpret("""
        kernel branches
        %o = global i32[8]
        %t = thread 0 < 8 : i32
        %c3 = const 3 : i32
        %c6 = const 6 : i32
        %p = lt %t, %c6 : bool
        if %p
            %q = lt %c3, %t : bool
            if %q
                %hundred = const 100 : i32
                store %o[%t] = %hundred
            endif
        endif
    """, out)  # fmt: skip
    assert out.tolist() == [0, 1, 2, 3, 100, 100, 6, 7]


FRONT = """
    kernel clamped
    %o = global f32[8]
    %x = global f32[8] readonly front
    %n = variable i32 n
    %t = thread 0 < 8 : i32
    %zero = const 0 : i32
    %m = lt %t, %n : bool
    %i = where %m, %t, %zero : i32
    %v = load %x[%i] : f32
    store %o[%t] = %v
"""


def test_of_a_front_the_launch_may_give_less_and_no_more_is_read():
    out, x = np.full(8, -1, np.float32), np.arange(3, dtype=np.float32) + 1
    interpret(FRONT, out, x, 3)
    assert out.tolist() == [1, 2, 3, 1, 1, 1, 1, 1]
    with pytest.raises(LaunchError, match="reaches element 4 of 3"):
        interpret(FRONT, out, x, 5)
    with pytest.raises(LaunchError, match="param 1 has 8 elements, the buffer 0"):
        interpret(FRONT, out, x[:0], 3)


def test_masked_lanes_are_neither_read_nor_written():
    x, out = np.arange(6, dtype=np.float32) + 1, np.full(6, -1, np.float32)
    interpret("""
        kernel masked
        %x = global f32[6] readonly
        %o = global f32[6]
        %t = thread 0 < 2 : i64
        %c4 = const 4 : i64
        %i = mul %t, %c4 : i64
        %s = vectorize %i, %i, %i, %i : i64x4
        %a = const 0 : i64
        %b = const 1 : i64
        %c = const 2 : i64
        %d = const 3 : i64
        %iota = vectorize %a, %b, %c, %d : i64x4
        %l = add %s, %iota : i64x4
        %n = const 6 : i64x4
        %m = lt %l, %n : boolx4
        %v = load %x[%i] if %m : f32x4
        %first = devectorize %v[3] : f32
        %w = add %v, %v : f32x4
        store %o[%i] = %w if %m
    """, x, out)  # fmt: skip
    assert out.tolist() == [2, 4, 6, 8, 10, 12]


def test_masked_off_lanes_give_zero_also_of_what_is_not_there():
    out = np.full(2, -1, np.float32)
    interpret("""
        kernel masked
        %x = global f32[0] readonly
        %o = global f32[2]
        %t = thread 0 < 2 : i64
        %p = const false : bool
        %v = load %x[%t] if %p : f32
        store %o[%t] = %v
    """, np.zeros(0, np.float32), out)  # fmt: skip
    assert out.tolist() == [0, 0]


def test_groups_have_local_memory_of_their_own():
    out = np.zeros(12, np.int32)
    interpret("""
        kernel exchange
        %o = global i32[12]
        %l = local i32[4]
        %g = group 0 < 3 : i32
        %t = thread 0 < 4 : i32
        %c4 = const 4 : i32
        %c3 = const 3 : i32
        %m = mul %g, %c4 : i32
        %i = add %m, %t : i32
        store %l[%t] = %i
        barrier
        %r = sub %c3, %t : i32
        %v = load %l[%r] : i32
        store %o[%i] = %v
    """, out)  # fmt: skip
    assert out.tolist() == [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]


def test_registers_belong_to_threads_and_hold_vectors():
    out = np.zeros(8, np.int32)
    interpret("""
        kernel registers
        %o = global i32[8]
        %r = register i32x2[2]
        %t = thread 0 < 4 : i32
        %z = const 0 : i32
        %one = const 1 : i32
        %c2 = const 2 : i32
        %a = vectorize %t, %z : i32x2
        %b = vectorize %one, %t : i32x2
        store %r[%z] = %a
        store %r[%one] = %b
        %w = mod %t, %c2 : i32
        %v = load %r[%w] : i32x2
        %bump = add %v, %v : i32x2
        store %r[%w] = %bump
        %u = load %r[%z] : i32x2
        %i = mul %t, %c2 : i32
        store %o[%i] = %u
    """, out)  # fmt: skip
    assert out.tolist() == [0, 0, 1, 0, 4, 0, 3, 0]


def test_a_value_once_loaded_does_not_change_with_its_register():
    out = np.zeros(2, np.int32)
    interpret("""
        kernel registers
        %o = global i32[2]
        %r = register i32[1]
        %z = const 0 : i32
        %one = const 1 : i32
        store %r[%z] = %z
        %before = load %r[%z] : i32
        store %r[%z] = %one
        %after = load %r[%z] : i32
        store %o[%z] = %before
        store %o[%one] = %after
    """, out)  # fmt: skip
    assert out.tolist() == [0, 1]


def test_memory_that_nobody_wrote_is_conspicuous():
    out, integers = np.zeros(1, np.float32), np.zeros(1, np.int16)
    interpret("""
        kernel undefined
        %o = global f32[1]
        %p = global i16[1]
        %r = register f32[1]
        %l = local i16[1]
        %z = const 0 : i32
        %v = load %r[%z] : f32
        %w = load %l[%z] : i16
        store %o[%z] = %v
        store %p[%z] = %w
    """, out, integers)  # fmt: skip
    assert math.isnan(out[0])
    assert integers[0] == 0x2AAA


def test_atomics_combine_every_thread():
    total, most = np.zeros(2, np.uint8), np.zeros(1, np.int64)
    interpret("""
        kernel atomics
        %s = global u8[2]
        %m = global i64[1]
        %t = thread 0 < 100 : i64
        %g = group 0 < 3 : i64
        %z = const 0 : i64
        %c2 = const 2 : i64
        %five = const 5 : u8
        %w = mod %t, %c2 : i64
        %c9 = const 9 : i64
        %p = lt %t, %c9 : bool
        atomic sum %s[%w] = %five if %p
        atomic max %m[%z] = %t
    """, total, most)  # fmt: skip
    assert total.tolist() == [75, 60]
    assert most.tolist() == [99]


def test_lanes_are_picked_and_put_together():
    out = np.zeros(4, np.float16)
    interpret("""
        kernel lanes
        %x = global f16[4] readonly
        %o = global f16[4]
        %z = const 0 : i32
        %v = load %x[%z] : f16x4
        %d = devectorize %v[3] : f16
        %two = const 2.0 : f16x4
        %m = mul %v, %two : f16x4
        %s = shuffle %v, %m[7, 0, 4, 1] : f16x4
        %p = const true : bool
        %w = where %p, %s, %v : f16x4
        store %o[%z] = %w
    """, np.array([1, 2, 3, 4], np.float16), out)  # fmt: skip
    assert out.tolist() == [8, 1, 2, 2]


def test_arithmetic_has_the_semantics_of_the_operations():
    out = np.zeros(2, ml_dtypes.bfloat16)
    interpret("""
        kernel rounding
        %x = global bf16[2] readonly
        %o = global bf16[2]
        %t = thread 0 < 2 : i32
        %v = load %x[%t] : bf16
        %b = bitcast %v : u16
        %c = cast %v : f32
        %third = const 3.0 : bf16
        %q = div %v, %third : bf16
        %m = mad %q, %third, %v : bf16
        store %o[%t] = %m
    """, np.array([1, 10], ml_dtypes.bfloat16), out)  # fmt: skip
    third = ml_dtypes.bfloat16(1 / 3)
    assert out[0] == ml_dtypes.bfloat16(float(ml_dtypes.bfloat16(float(third) * 3)) + 1)


@pytest.mark.parametrize("argument", [200, np.uint8(200), np.array(200)])
def test_scalars_are_passed_by_value(argument):
    out = np.zeros(1, np.uint8)
    text = "kernel v\n%o = global u8[1]\n%n = variable u8 n\n%z = const 0 : i32\nstore %o[%z] = %n"
    interpret(text, out, argument)
    assert out[0] == 200


@given(kernel=kernels())
def test_the_size_of_chunks_does_not_matter(kernel):
    results = []
    for chunk in (1, 7, 1 << 16):
        arguments = arguments_for(kernel)
        Executable(kernel, chunk)(arguments)
        results.append([argument for argument in arguments if isinstance(argument, np.ndarray)])
    assert same_values(results[0], results[1])
    assert same_values(results[0], results[2])


OUT_OF_BOUNDS = """
    kernel wild
    %x = global f32[8] readonly
    %o = global f32[8]
    %n = variable i64 n
    %r = register f32[2]
    %l = local f32[4]
    %g = group 0 < 2 : i64
    %z = const 0.0 : f32
"""


@pytest.mark.parametrize(
    ("line", "position", "n", "length"),
    [
        ("%v = load %x[%n] : f32", 8, 8, 8),
        ("%v = load %x[%n] : f32", -1, -1, 8),
        ("%v = load %x[%n] : f32x4", 8, 5, 8),
        ("store %o[%n] = %z", 9, 9, 8),
        ("atomic sum %o[%n] = %z", 8, 8, 8),
        ("store %l[%n] = %z", 4, 4, 4),
        ("store %r[%n] = %z", 2, 2, 2),
        ("%v = load %r[%n] : f32", -3, -3, 2),
        ("%a = add %n, %g : i64\n%v = load %r[%a] : f32", 2, 1, 2),
    ],
)
def test_an_access_out_of_bounds_is_an_error_with_its_place(line, position, n, length):
    with pytest.raises(LaunchError, match=rf"kernel wild: operation \d+, '.*', reaches element {position} of {length}"):
        interpret(OUT_OF_BOUNDS + line, np.zeros(8, np.float32), np.zeros(8, np.float32), n)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([np.zeros(8, np.float32)], "has 3 params, but was given 1 arguments"),
        ([np.zeros(8, np.float64), np.zeros(8, np.float32), 0], r"param 0 is float32\[8\], not float64\[8\]"),
        ([np.zeros((2, 4), np.float32), np.zeros(8, np.float32), 0], r"param 0 is float32\[8\], not float32\[2, 4\]"),
        ([3.0, np.zeros(8, np.float32), 0], r"param 0 is float32\[8\], not 3.0"),
        ([np.zeros(8, np.float32), np.zeros(7, np.float32), 0], "param 1 has 8 elements, the buffer 7"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(LaunchError, match=message):
        interpret(OUT_OF_BOUNDS, *arguments)


def test_longer_buffers_than_the_params_are_accepted():
    out = np.zeros(10, np.float32)
    interpret("kernel k\n%o = global f32[8]\n%t = thread 0 < 8 : i32\n%v = const 1.0 : f32\nstore %o[%t] = %v", out)
    assert out.tolist() == [1] * 8 + [0, 0]
