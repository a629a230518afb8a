"""Loops of one iteration become their bodies, loops of none vanish."""

from __future__ import annotations

from zyx.kernel.parse import parse_kernel
from zyx.passes.unroll_single_iteration_loops import unroll_single_iteration_loops
from zyx.testing.passes import check_pass


def test_a_loop_of_one_iteration_becomes_its_body():
    kernel = parse_kernel("""
        kernel k
        %o = global i64[4]
        %i = loop < 1 : i64
            %j = loop < 4 : i64
                %p = lt %i, %j : bool
                if %p
                    store %o[%j] = %i
                endif
            endloop
        endloop
    """)
    assert check_pass(unroll_single_iteration_loops, kernel) == parse_kernel("""
        kernel k
        %o = global i64[4]
        %i = const 0 : i64
        %j = loop < 4 : i64
            %p = lt %i, %j : bool
            if %p
                store %o[%j] = %i
            endif
        endloop
    """)


def test_a_loop_of_no_iteration_vanishes_with_all_in_it():
    kernel = parse_kernel("""
        kernel k
        %o = global i64[4]
        %i = loop < 0 : i64
            %j = loop < 1 : i64
                %p = lt %i, %j : bool
                if %p
                    store %o[%j] = %i
                endif
            endloop
        endloop
        %z = const 3 : i64
        store %o[%z] = %z
    """)
    assert check_pass(unroll_single_iteration_loops, kernel) == parse_kernel("""
        kernel k
        %o = global i64[4]
        %z = const 3 : i64
        store %o[%z] = %z
    """)


def test_longer_loops_stay():
    kernel = parse_kernel("kernel k\n%o = global i64[4]\n%i = loop < 2 : i64\nstore %o[%i] = %i\nendloop")
    assert check_pass(unroll_single_iteration_loops, kernel) is kernel
