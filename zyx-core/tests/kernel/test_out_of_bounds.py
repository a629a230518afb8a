"""Which accesses the verifier understands to be within bounds, and which it refuses."""

from __future__ import annotations

import pytest

from zyx.errors import VerifyError
from zyx.kernel.parse import parse_kernel
from zyx.kernel.verify import verify

HEAD = """
kernel access
%x = global f32[1000] readonly
%d = global i64[8] readonly
%e = global i32[8] readonly
%o = global f32[1000]
%n = variable i64 n
%c0 = const 0 : i64
%c1 = const 1 : i64
%c2 = const 2 : i64
%c8 = const 8 : i64
%c10 = const 10 : i64
%c16 = const 16 : i64
%c100 = const 100 : i64
%c999 = const 999 : i64
%c1000 = const 1000 : i64
%g = group 0 < 8 : i64
%t = thread 0 < 128 : i64
%c128 = const 128 : i64
%gt = mul %g, %c128 : i64
%i = add %gt, %t : i64
%data = load %d[%g] : i64
"""


def check(lines: str) -> None:
    verify(parse_kernel(HEAD + lines))


def refuses(lines: str, reached: str) -> None:
    with pytest.raises(VerifyError, match=f"rule 13.*it may access elements {reached} of") as caught:
        check(lines)
    assert "%x" not in str(caught.value)  # printed by position


def test_a_tail_needs_a_mask():
    refuses("%v = load %x[%i] : f32", "0 to 1023")
    check("%p = lt %i, %c1000 : bool\n%v = load %x[%i] if %p : f32")
    check("%p = le %i, %c999 : bool\n%v = load %x[%i] if %p : f32")
    refuses("%p = le %i, %c1000 : bool\n%v = load %x[%i] if %p : f32", "0 to 1000")


def test_a_tail_may_be_in_a_branch():
    check("%p = lt %i, %c1000 : bool\nif %p\n%v = load %x[%i] : f32\nendif")
    refuses("%p = lt %i, %c1000 : bool\nif %p\nendif\n%v = load %x[%i] : f32", "0 to 1023")
    check("%p = le %c1000, %i : bool\n%q = not %p : bool\nif %q\n%v = load %x[%i] : f32\nendif")


def test_stores_and_atomics_are_checked_as_loads_are():
    value = "%v = const 1.0 : f32\n"
    refuses(value + "store %o[%i] = %v", "0 to 1023")
    refuses(value + "atomic sum %o[%i] = %v", "0 to 1023")
    mask = "%p = lt %i, %c1000 : bool\n"
    check(value + mask + "store %o[%i] = %v if %p\natomic sum %o[%i] = %v if %p")


def test_a_negative_index_is_refused():
    refuses("%j = sub %i, %c100 : i64\n%p = lt %j, %c1000 : bool\n%v = load %x[%j] if %p : f32", "-100 to 923")


def test_all_lanes_of_a_vector_count():
    check("%j = mul %t, %c2 : i64\n%v = load %x[%j] : f32x4")
    scaled = "%j = mul %t, %c8 : i64\n"
    refuses(scaled + "%v = load %x[%j] : f32x8", "0 to 1023")
    lanes = "%l0 = add %j, %c0 : i64\n%l1 = add %j, %c1 : i64\n"
    masks = "%p0 = lt %l0, %c1000 : bool\n%p1 = lt %l1, %c1000 : bool\n%p = vectorize %p0, %p1 : boolx2\n"
    check(scaled + lanes + masks + "%v = load %x[%j] if %p : f32x2")
    swapped = masks.replace("vectorize %p0, %p1", "vectorize %p1, %p0")
    check(scaled + lanes + swapped + "%v = load %x[%j] if %p : f32x2")  # 8 * t + 1 < 1000 says the same as 8 * t < 1000
    refuses(
        scaled + lanes + masks.replace("1000", "1001").replace("%c1001", "%i") + "%v = load %x[%j] if %p : f32x2", ".*"
    )


def test_a_mask_may_be_compared_as_a_vector():
    iota = "%s = vectorize %j, %j, %j, %j : i64x4\n%k3 = const 3 : i64\n%io = vectorize %c0, %c1, %c2, %k3 : i64x4\n"
    compare = "%a = add %s, %io : i64x4\n%m = const 1000 : i64x4\n%p = lt %a, %m : boolx4\n"
    check("%j = mul %i, %c1 : i64\n" + iota + compare + "%v = load %x[%j] if %p : f32x4")
    wrong = compare.replace("const 1000", "const 1001")
    refuses("%j = mul %i, %c1 : i64\n" + iota + wrong + "%v = load %x[%j] if %p : f32x4", "1000 to 1000|0 to 1000|.*")


def test_padding_in_two_dimensions_is_understood():
    text = """
    %y = sub %g, %c1 : i64
    %h = mod %t, %c16 : i64
    %z = sub %h, %c1 : i64
    %k4 = const 4 : i64
    %y0 = le %c0, %y : bool
    %y1 = lt %y, %k4 : bool
    %z0 = le %c0, %z : bool
    %z1 = lt %z, %c10 : bool
    %ya = and %y0, %y1 : bool
    %za = and %z0, %z1 : bool
    %p = and %ya, %za : bool
    %yr = mul %y, %c10 : i64
    %j = add %yr, %z : i64
    %k960 = const 960 : i64
    %up = add %j, %k960 : i64
    %v = load %x[%up] if %p : f32
    """
    check(text)
    refuses(text.replace("%p = and %ya, %za", "%p = and %ya, %z0"), "960 to 1004")


def test_quotient_and_remainder_of_one_index_belong_together():
    text = """
    %q = div %i, %c10 : i64
    %r = mod %i, %c10 : i64
    %qs = mul %q, %c10 : i64
    %j = add %qs, %r : i64
    %p = lt %i, %c1000 : bool
    %v = load %x[%j] if %p : f32
    """
    check(text)
    check(text.replace("%j = add %qs, %r", "%j = add %qs, %c0"))
    check(text.replace("lt %i, %c1000", "lt %q, %c100"))
    refuses(text.replace("lt %i, %c1000", "lt %r, %c1000"), "0 to 1023")


def test_a_mask_on_a_quotient_of_one_range_bounds_an_index_with_all_of_it():
    """64 rows of 5, in blocks of 13 rows whose elements are counted as one, three blocks at a time."""
    text = """kernel merged
        %o = global f32[320]
        %m = group 0 < 65 : i64
        %b = group 1 < 3 : i64
        %a = group 2 < 2 : i64
        %c3 = const 3 : i64
        %c4 = const 4 : i64
        %c5 = const 5 : i64
        %c13 = const 13 : i64
        %c39 = const 39 : i64
        %c63 = const 63 : i64
        %c65 = const 65 : i64
        %c195 = const 195 : i64
        %row = div %m, %c5 : i64
        %block = mad %a, %c3, %b : i64
        %p = le %block, %c4 : bool
        %s = mad %a, %c39, %row : i64
        %t = mad %b, %c13, %s : i64
        %q = le %t, %c63 : bool
        %both = and %q, %p : bool
        %u = mad %a, %c195, %m : i64
        %at = mad %b, %c65, %u : i64
        %x = const 1.0 : f32
        store %o[%at] = %x if %both
    """
    verify(parse_kernel(text))
    with pytest.raises(VerifyError, match=r"rule 13.*it may access elements 0 to 324 of"):
        verify(parse_kernel(text.replace("const 63", "const 64")))


def test_shifts_and_bit_masks_are_quotients_and_remainders():
    check("""
    %k4 = const 4 : i64
    %k15 = const 15 : i64
    %q = shr %i, %k4 : i64
    %r = and %i, %k15 : i64
    %qs = shl %q, %k4 : i64
    %j = add %qs, %r : i64
    %p = lt %j, %c1000 : bool
    %v = load %x[%j] if %p : f32
    """)


def test_an_index_from_data_has_to_be_guarded():
    refuses("%v = load %x[%data] : f32", "-9223372036854775808 to 9223372036854775807")
    clamped = "%a = max %data, %c0 : i64\n%b = min %a, %c999 : i64\n%v = load %x[%b] : f32"
    check(clamped)
    refuses(clamped.replace("min %a, %c999", "min %a, %c1000"), "0 to 1000")
    low, high = "%a = le %c0, %data : bool\n", "%b = lt %data, %c1000 : bool\n"
    check(low + high + "%p = and %a, %b : bool\n%v = load %x[%data] if %p : f32")
    refuses(high + "%v = load %x[%data] if %b : f32", "-9223372036854775808 to 999")
    check(low + "if %a\n" + high + "if %b\n%v = load %x[%data] : f32\nendif\nendif")


def test_a_guard_on_data_holds_for_what_is_computed_from_it():
    low, high = "%a = le %c0, %data : bool\n", "%b = lt %data, %c100 : bool\n"
    row = "%p = and %a, %b : bool\n%r = mul %data, %c10 : i64\n%j = add %r, %g : i64\n"
    check(low + high + row + "%v = load %x[%j] if %p : f32")  # though the product may wrap where the mask is false
    refuses(
        low + high + row.replace("%c10 ", "%c16 ").replace("%c10 :", "%c16 :") + "%v = load %x[%j] if %p : f32", ".*"
    )


def test_a_negative_index_that_counts_from_the_end_is_understood_with_its_clamp():
    check("""
    %neg = lt %data, %c0 : bool
    %wrapped = add %data, %c1000 : i64
    %chosen = where %neg, %wrapped, %data : i64
    %low = max %chosen, %c0 : i64
    %j = min %low, %c999 : i64
    %v = load %x[%j] : f32
    """)


def test_a_narrow_index_is_understood_through_its_cast():
    check("""
    %s = load %e[%g] : i32
    %w = cast %s : i64
    %a = le %c0, %w : bool
    %b = lt %w, %c1000 : bool
    %p = and %a, %b : bool
    %v = load %x[%s] if %p : f32
    """)


def test_a_mask_on_a_row_bounds_its_product_with_a_length_that_varies():
    rows = "%low = max %n, %c0 : i64\n%length = min %low, %c100 : i64\n"
    rows += "%row = mul %t, %length : i64\n%at = add %row, %g : i64\n"
    check(rows + "%p = lt %t, %c10 : bool\n%v = load %x[%at] if %p : f32")
    check(
        rows.replace("add %row, %g", "mad %length, %t, %g") + "%p = lt %t, %c10 : bool\n%v = load %x[%at] if %p : f32"
    )
    refuses(rows + "%p = le %t, %c10 : bool\n%v = load %x[%at] if %p : f32", "0 to 1007")


def test_arithmetic_that_may_wrap_proves_nothing():
    big = "%k = const 9223372036854775807 : i64\n%j = add %i, %k : i64\n"
    refuses(big + "%p = lt %j, %c1000 : bool\n%v = load %x[%j] if %p : f32", "-9223372036854775808 to .*")
    refuses(
        "%j = mul %n, %n : i64\n%p = lt %j, %c1000 : bool\n%v = load %x[%j] if %p : f32", "-9223372036854775808 to .*"
    )


def test_a_variable_may_be_anything():
    refuses("%v = load %x[%n] : f32", "-9223372036854775808 to 9223372036854775807")


def test_a_mask_that_never_holds_lets_any_index_pass():
    check("%p = const false : bool\n%v = load %x[%n] if %p : f32")
    check("%p = lt %i, %c0 : bool\n%v = load %x[%n] if %p : f32")
    check("%p = lt %c1000, %c10 : bool\nif %p\n%v = load %x[%n] : f32\nendif")


def test_an_array_without_elements_may_be_accessed_only_where_a_mask_never_holds():
    text = HEAD.replace("%n = variable", "%none = global f32[0] readonly\n%n = variable")
    verify(parse_kernel(text + "%p = const false : bool\n%v = load %none[%c0] if %p : f32"))
    with pytest.raises(VerifyError, match="rule 13"):
        verify(parse_kernel(text + "%v = load %none[%c0] : f32"))


def test_both_arms_of_a_disjunction_have_to_hold_where_it_is_false():
    text = "%a = lt %data, %c0 : bool\n%b = le %c1000, %data : bool\n%out = or %a, %b : bool\n%p = not %out : bool\n"
    check(text + "%v = load %x[%data] if %p : f32")
    refuses(text + "%v = load %x[%data] if %out : f32", ".*")


def test_the_branch_not_taken_says_the_opposite():
    check("%p = lt %i, %c1000 : bool\n%q = eq %p, %p : bool\n%v = load %x[%i] if %p : f32")
    check("%p = eq %data, %c10 : bool\n%v = load %x[%data] if %p : f32")
    refuses("%p = ne %data, %c10 : bool\n%v = load %x[%data] if %p : f32", ".*")
    check("%j = min %i, %c1000 : i64\n%p = ne %j, %c1000 : bool\n%v = load %x[%j] if %p : f32")
