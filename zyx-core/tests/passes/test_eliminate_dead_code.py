"""What has no effect goes; what a launch or a grid depends on stays."""

from __future__ import annotations

from zyx.kernel.parse import parse_kernel
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.testing.passes import check_pass


def becomes(before: str, after: str) -> None:
    assert str(check_pass(eliminate_dead_code, parse_kernel(before))) == str(parse_kernel(after))


def test_values_and_arrays_that_nobody_needs_go():
    becomes("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %n = variable i32 n
        %l = local f32[8]
        %r = register f32[2]
        %i = group 0 < 8 : i64
        %t = thread 0 < 2 : i64
        %a = load %x[%i] : f32
        %b = add %a, %a : f32
        %c = mul %b, %b : f32
        store %o[%i] = %a
    """, """
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %n = variable i32 n
        %i = group 0 < 8 : i64
        %t = thread 0 < 2 : i64
        %a = load %x[%i] : f32
        store %o[%i] = %a
    """)  # fmt: skip


def test_stores_go_that_nobody_reads():
    becomes("""
        kernel k
        %o = global f32[8]
        %l = local f32[8]
        %r = register f32[2]
        %s = register f32[2]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        store %l[%i] = %v
        atomic sum %l[%i] = %v
        store %r[%i] = %v
        store %s[%i] = %v
        %w = load %s[%i] : f32
        store %s[%i] = %w
        %u = load %r[%i] : f32
        store %o[%i] = %u
    """, """
        kernel k
        %o = global f32[8]
        %r = register f32[2]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        store %r[%i] = %v
        %u = load %r[%i] : f32
        store %o[%i] = %u
    """)  # fmt: skip


def test_regions_without_effect_go_with_what_is_in_them():
    becomes("""
        kernel k
        %o = global f32[8]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        %z = const 0 : i64
        %p = lt %z, %i : bool
        if %p
            %j = loop < 4 : i64
                %w = add %v, %v : f32
                if %p
                endif
            endloop
        endif
        %k = loop < 4 : i64
            if %p
                store %o[%k] = %v
            endif
        endloop
    """, """
        kernel k
        %o = global f32[8]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        %z = const 0 : i64
        %p = lt %z, %i : bool
        %k = loop < 4 : i64
            if %p
                store %o[%k] = %v
            endif
        endloop
    """)  # fmt: skip


def test_branches_whose_condition_is_known_become_their_body_or_nothing():
    becomes("""
        kernel k
        %o = global f32[8]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        %t = const true : bool
        %f = const false : bool
        if %t
            %j = loop < 4 : i64
                if %t
                    store %o[%j] = %v
                endif
            endloop
            if %f
                store %o[%i] = %v
                if %t
                    barrier
                endif
            endif
        endif
    """, """
        kernel k
        %o = global f32[8]
        %i = group 0 < 2 : i64
        %v = const 1.0 : f32
        %j = loop < 4 : i64
            store %o[%j] = %v
        endloop
    """)  # fmt: skip


def test_barriers_stay_with_the_loops_around_them():
    text = """
        kernel k
        %o = global f32[8]
        %j = loop < 4 : i64
            barrier
        endloop
    """
    assert check_pass(eliminate_dead_code, parse_kernel(text)) == parse_kernel(text)
