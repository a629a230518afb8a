"""Kernels as text: golden output, exact round trips, and errors that name the line."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given

from zyx.errors import ParseError
from zyx.kernel.parse import parse_kernel
from zyx.kernel.text import print_excerpt, print_kernel
from zyx.testing.kernels import kernels

EVERYTHING = textwrap.dedent("""\
    kernel everything
    %0 = global f32[1000] readonly front
    %1 = global f32[1000]
    %2 = global i32[4]
    %3 = variable i64 count
    %4 = local f32[64]
    %5 = register f32x8[2]
    %6 = group 0 < 4 : i32
    %7 = thread 2 < 32 : i32
    %8 = const -3 : i32
    %9 = const true : boolx8
    %10 = const nan : f32
    %11 = const -inf : f64
    %12 = const -0.0 : bf16
    %13 = const 1.401298464324817e-45 : f32
    barrier
    %15 = loop < 16 : i64
        %16 = lt %15, %3 : bool
        if %16
            %18 = load %0[%15] : f32x8
            %19 = load %0[%15] if %9 : f32x8
            %20 = mad %18, %19, %18 : f32x8
            %21 = sqrt %20 : f32x8
            %22 = where %9, %20, %21 : f32x8
            %23 = cast %22 : i16x8
            %24 = bitcast %22 : u32x8
            %25 = devectorize %22[7] : f32
            %26 = vectorize %25, %10, %25 : f32x3
            %27 = shuffle %22, %22[0, 15] : f32x2
            store %1[%15] = %22
            store %1[%15] = %22 if %9
            store %1[%15] = %22 streaming
            store %1[%15] = %22 if %9 streaming
            atomic max %2[%6] = %8
            atomic sum %2[%6] = %8 if %16
        endif
    endloop
    %36 = const 0.5 : f16x8
    %37 = const 0.5 : f16x4
    %38 = const 0.0 : f32x4
    %39 = wmma 16x8x16 %36, %37, %38 : f32x4
    %40 = swap %38, 5 : f32x4""")


def test_every_operation_prints_and_reads_back():
    assert print_kernel(parse_kernel(EVERYTHING)) == EVERYTHING


def test_a_kernel_is_printed_by_str():
    assert str(parse_kernel(EVERYTHING)) == EVERYTHING


@given(kernel=kernels())
def test_any_kernel_reads_back_as_itself(kernel):
    again = parse_kernel(print_kernel(kernel))
    assert again == kernel
    assert again.name == kernel.name


def test_hand_written_text_may_have_names_comments_and_any_spacing():
    kernel = parse_kernel("""
        # doubles its argument
        kernel   double

        %x = global f32 [ 4 ]      # in place
            %i = group 0<4:i64
        %v=load %x[%i]:f32
        %sum = add %v,%v : f32
        store %x [%i] = %sum
    """)
    assert print_kernel(kernel) == textwrap.dedent("""\
        kernel double
        %0 = global f32[4]
        %1 = group 0 < 4 : i64
        %2 = load %0[%1] : f32
        %3 = add %2, %2 : f32
        store %0[%1] = %3""")


def test_floats_are_rounded_to_their_dtype():
    assert parse_kernel("kernel k\n%a = const 0.1 : f32").ops[0].value == float(np.float32(0.1))
    assert parse_kernel("kernel k\n%a = const 0.1 : f64").ops[0].value == 0.1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%x = glue f32[4]", "no operation is called 'glue'"),
        ("%x = global f31[4]", "'f31' is no type"),
        ("%x = global f32", "expected MEMORY TYPE\\[LENGTH\\]"),
        ("%x = add %y, %y : f32", "%y is not defined above"),
        ("%x = const yes : bool", "'yes' is no bool"),
        ("%x = const 1.5 : i32", "'1.5' is no i32"),
        ("const 1 : i32", "the result of 'const' has no name"),
        ("%x = barrier", "'barrier' has no result"),
        ("%n = const 1 : i32", "%n is already defined"),
        ("%x = add %n : i32", "expected add %A, %B : TYPE"),
        ("atomic plus %n[%n] = %n", "no reduction is called 'plus'"),
        ("%x = load %n[%n]", "expected load"),
        ("store %n[%n] = %n if", "expected store"),
        ("%x = vectorize %n, n : i32x2", "expected a list of values"),
    ],
)
def test_an_error_has_the_line_and_its_number(line, message):
    with pytest.raises(ParseError, match=message) as caught:
        parse_kernel(f"kernel wrong\n%n = const 3 : i32\n{line}  # here\n")
    assert str(caught.value).startswith("line 3: ")
    assert f"> {line}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_a_text_without_a_kernel_is_refused(text):
    with pytest.raises(ParseError, match="no kernel"):
        parse_kernel(text)


def test_the_first_line_names_the_kernel():
    with pytest.raises(ParseError, match="line 1: expected a first line of the form: kernel NAME"):
        parse_kernel("%0 = const 1 : i32")


def test_an_excerpt_marks_its_position():
    ops = parse_kernel(EVERYTHING).ops
    assert print_excerpt(ops, 17, context=2) == textwrap.dedent("""\
          (15 operations)
          %15 = loop < 16 : i64
              %16 = lt %15, %3 : bool
        >     if %16
                  %18 = load %0[%15] : f32x8
                  %19 = load %0[%15] if %9 : f32x8
          (21 operations)""")
