"""Equal values are computed once; loads only as long as memory stays as it is."""

from __future__ import annotations

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.passes.eliminate_common_subexpressions import eliminate_common_subexpressions
from zyx.testing.passes import check_pass

HEAD = """
    kernel k
    %x = global f32[8] readonly
    %o = global f32[8]
    %p = global f32[8]
    %l = local f32[8]
    %r = register f32[2]
    %t = thread 0 < 8 : i64
    %z = const 0 : i64
    %two = const 2.0 : f32
    store %l[%t] = %two
    store %r[%z] = %two
    barrier
"""


def loads_left(lines: str) -> int:
    """Return how many loads are left of those in `lines`."""
    result = check_pass(eliminate_common_subexpressions, parse_kernel(HEAD + lines))
    return sum(isinstance(op, k.Load) for op in result.ops)


def test_equal_values_become_one():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %i = group 0 < 4 : i64
        %c = const 4 : i64
        %a = add %i, %c : i64
        %v = load %x[%a] : f32
        %d = const 4 : i64
        %b = add %d, %i : i64
        %w = load %x[%b] : f32
        %s = mul %v, %w : f32
        store %o[%b] = %s
    """)
    assert check_pass(eliminate_common_subexpressions, kernel) == parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %i = group 0 < 4 : i64
        %c = const 4 : i64
        %a = add %i, %c : i64
        %v = load %x[%a] : f32
        %s = mul %v, %v : f32
        store %o[%a] = %s
    """)


def test_differences_in_type_order_and_bits_keep_values_apart():
    kernel = parse_kernel("""
        kernel k
        %o = global f32[8]
        %i = group 0 < 4 : i64
        %a = const 0.0 : f32
        %b = const -0.0 : f32
        %c = const 0 : i64
        %d = const 0 : i32
        %e = const 0 : i64x2
        %f = sub %i, %c : i64
        %g = sub %c, %i : i64
        %h = cast %i : i32
        %j = cast %i : i16
        %l = lt %i, %c : bool
        %m = lt %c, %i : bool
        %w = where %l, %a, %b : f32
        %v = where %l, %b, %a : f32
        %s = add %w, %v : f32
        store %o[%i] = %s
    """)
    assert check_pass(eliminate_common_subexpressions, kernel) is kernel


def test_a_value_of_a_region_is_not_at_hand_outside_of_it():
    lines = """
        %q = lt %z, %t : bool
        if %q
            %a = load %x[%t] : f32
            store %o[%t] = %a
        endif
        if %q
            %b = load %x[%t] : f32
            store %p[%t] = %b
        endif
    """
    assert loads_left(lines) == 2
    assert loads_left("%c = load %x[%t] : f32\n" + lines) == 1


def test_a_store_to_the_array_makes_a_load_again_necessary():
    assert loads_left("%a = load %o[%t] : f32\n%b = load %o[%t] : f32\nstore %p[%t] = %b") == 1
    lines = """
        %u = sub %t, %z : i64
        %a = load %o[%t] : f32
        store {array}[%u] = %two
        %b = load %o[%t] : f32
        store %o[%t] = %b
    """
    assert loads_left(lines.format(array="%o")) == 2
    assert loads_left(lines.format(array="%p")) == 1


def test_an_atomic_to_the_array_makes_a_load_again_necessary():
    lines = "%a = load %o[%t] : f32\natomic sum {array}[%t] = %two\n%b = load %o[%t] : f32\nstore %o[%t] = %b"
    assert loads_left(lines.format(array="%o")) == 2
    assert loads_left(lines.format(array="%p")) == 1


def test_a_barrier_makes_loads_of_shared_memory_again_necessary():
    lines = "%a = load {array} : f32\nbarrier\n%b = load {array} : f32\n%s = add %a, %b : f32\nstore %o[%t] = %s"
    assert loads_left(lines.format(array="%l[%t]")) == 2
    assert loads_left(lines.format(array="%p[%t]")) == 2
    assert loads_left(lines.format(array="%x[%t]")) == 1
    assert loads_left(lines.format(array="%r[%z]")) == 0  # what was stored before


def test_what_was_stored_is_used_in_place_of_loading_it():
    assert loads_left("store %o[%t] = %two\n%a = load %o[%t] : f32\nstore %p[%t] = %a") == 0
    assert (
        loads_left("%q = const false : bool\nstore %o[%t] = %two if %q\n%a = load %o[%t] : f32\nstore %p[%t] = %a") == 1
    )
    vector = "%v = vectorize %two, %two : f32x2\nstore %o[%z] = %v\n%a = load %o[%z] : f32\nstore %p[%t] = %a"
    assert loads_left(vector) == 1


def test_a_loop_may_have_stored_before():
    lines = """
        %a = load %o[%t] : f32
        %i = loop < 3 : i64
            %b = load %o[%t] : f32
            %c = add %b, %two : f32
            store {array}[%t] = %c
            %d = load %o[%t] : f32
        endloop
        %e = load %o[%t] : f32
        store %p[%t] = %e
    """
    assert loads_left(lines.format(array="%o")) == 3  # before, at the start of the body, and behind
    assert loads_left(lines.format(array="%p")) == 1


def test_masks_and_lanes_tell_loads_apart():
    lines = """
        %q = lt %z, %t : bool
        %a = load %x[%z] : f32
        %b = load %x[%z] if %q : f32
        %c = load %x[%z] : f32x2
        store %o[%t] = %b
    """
    assert loads_left(lines) == 3
