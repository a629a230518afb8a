"""int64 arithmetic that fits 32 bits is done in 32 bits."""

from __future__ import annotations

import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.passes.narrow_indices import narrow_indices
from zyx.testing.passes import check_pass


def test_indices_that_fit_become_short():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[1048576] readonly
        %o = global f32[1048576]
        %i = group 0 < 16384 : i64
        %c = const 64 : i64
        %m = mul %i, %c : i64
        %j = loop < 64 : i64
            %s = add %m, %j : i64
            %v = load %x[%s] : f32
            store %o[%s] = %v
        endloop
    """)
    assert str(check_pass(narrow_indices, kernel)) == str(kernel).replace("i64", "i32")


def test_data_is_left_alone():
    kernel = parse_kernel("""
        kernel k
        %x = global i64[8] readonly
        %o = global i64[8]
        %i = group 0 < 8 : i32
        %v = load %x[%i] : i64
        %w = add %v, %v : i64
        store %o[%i] = %w
    """)
    assert check_pass(narrow_indices, kernel) is kernel


def test_masks_stay_where_indices_become_short():
    text = """
        kernel k
        %a = global f32[8] readonly
        %o = global f32[8]
        %s = global f32[8]
        %i = group 0 < 8 : {dtype}
        %c = const 3 : {dtype}
        %m = lt %i, %c : bool
        %x = load %a[%i] if %m : f32
        store %o[%i] = %x if %m
        atomic sum %s[%i] = %x if %m
    """
    assert check_pass(narrow_indices, parse_kernel(text.format(dtype="i64"))) == parse_kernel(text.format(dtype="i32"))


def test_what_is_stored_is_widened_where_it_is_defined():
    kernel = parse_kernel("""
        kernel k
        %o = global i64[8]
        %i = group 0 < 8 : i64
        %c = const 3 : i64
        %m = mul %i, %c : i64
        store %o[%i] = %m
    """)
    assert check_pass(narrow_indices, kernel) == parse_kernel("""
        kernel k
        %o = global i64[8]
        %i = group 0 < 8 : i32
        %c = const 3 : i32
        %m = mul %i, %c : i32
        %w = cast %m : i64
        store %o[%i] = %w
    """)


def test_a_clamped_index_from_data_is_shortened_behind_the_clamp():
    kernel = parse_kernel("""
        kernel k
        %x = global i64[8] readonly
        %o = global f32[64]
        %i = group 0 < 8 : i64
        %v = load %x[%i] : i64
        %z = const 0 : i64
        %n = const 7 : i64
        %a = max %v, %z : i64
        %b = min %a, %n : i64
        %c = const 8 : i64
        %m = mul %b, %c : i64
        %s = add %m, %i : i64
        %f = const 1.0 : f32
        store %o[%s] = %f
    """)
    result = check_pass(narrow_indices, kernel)
    kinds = [(type(op).__name__, op.type.dtype.short) for op in result.ops if isinstance(op, k.Binary | k.Cast)]
    assert kinds == [("Binary", "i64"), ("Binary", "i64"), ("Cast", "i32"), ("Binary", "i32"), ("Binary", "i32")]


def test_what_may_exceed_32_bits_stays_long():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[4294967296] readonly
        %o = global f32[65536]
        %i = group 0 < 65536 : i64
        %m = mul %i, %i : i64
        %c = const 40 : i64
        %t = shr %m, %c : i64
        %v = load %x[%m] : f32
        store %o[%t] = %v
    """)
    result = narrow_indices(kernel)
    multiply = next(op for op in result.ops if isinstance(op, k.Binary))
    assert multiply.type.dtype is dtypes.int64
    assert narrow_indices(result) == result


def test_shifts_by_32_or_more_stay_long():
    kernel = parse_kernel("""
        kernel k
        %o = global i64[8]
        %i = group 0 < 1 : i64
        %j = group 1 < 64 : i64
        %m = shl %i, %j : i64
        store %o[%i] = %m
    """)
    result = check_pass(narrow_indices, kernel)
    shift = next(op for op in result.ops if isinstance(op, k.Binary))
    assert shift.type.dtype is dtypes.int64


def test_comparisons_choices_and_conversions_are_short_too():
    kernel = parse_kernel("""
        kernel k
        %o = global f32[64]
        %g = group 0 < 8 : u8
        %i = cast %g : i64
        %n = const 5 : i64
        %p = lt %i, %n : bool
        %s = where %p, %i, %n : i64
        %f = cast %s : f32
        %v = vectorize %i, %s : i64x2
        %d = devectorize %v[1] : i64
        store %o[%d] = %f if %p
    """)
    result = check_pass(narrow_indices, kernel)
    assert not any(isinstance(op, k.Value) and op.type.dtype is dtypes.int64 for op in result.ops)


# ---- the limits of 32 bits, to the last value

MOST, LEAST = 2**31 - 1, -(2**31)


def sum_to(highest):
    """Return a kernel that stores a sum that reaches `highest` exactly."""
    return stored(f"%c = const {highest - 7} : i64\n%s = add %i, %c : i64")


def difference_to(lowest):
    """Return a kernel that stores a difference that reaches `lowest` exactly."""
    return stored(f"%c = const {lowest + 7} : i64\n%s = sub %c, %i : i64")


def stored(text):
    return parse_kernel(f"kernel k\n%o = global i64[8]\n%i = group 0 < 8 : i64\n{text}\nstore %o[%i] = %s")


def types_of(kernel, kinds):
    return [op.type.dtype.short for op in kernel.ops if isinstance(op, k.Binary) and op.op.value in kinds]


def test_a_sum_is_narrowed_up_to_the_largest_value_of_32_bits_and_no_further():
    assert types_of(check_pass(narrow_indices, sum_to(MOST)), {"add"}) == ["i32"]
    assert types_of(check_pass(narrow_indices, sum_to(MOST + 1)), {"add"}) == ["i64"]


def test_a_difference_is_narrowed_down_to_the_least_value_of_32_bits_and_no_further():
    assert types_of(check_pass(narrow_indices, difference_to(LEAST)), {"sub"}) == ["i32"]
    assert types_of(check_pass(narrow_indices, difference_to(LEAST - 1)), {"sub"}) == ["i64"]


def test_a_constant_of_2_to_the_31_stays_long_where_the_index_that_it_makes_would_fit():
    """``2**31 - 1 - 2**31 + i``: each index fits, and what it is made of does not."""
    for constant in (MOST, MOST + 1, LEAST, LEAST - 1):
        kernel = parse_kernel(f"""
            kernel k
            %o = global i64[8]
            %i = group 0 < 8 : i64
            %c = const {constant} : i64
            %x = xor %i, %c : i64
            %d = sub %c, %x : i64
            store %o[%i] = %d
        """)
        check_pass(narrow_indices, kernel)
        fits = LEAST <= constant <= MOST
        found = next(op for op in narrow_indices(kernel).ops if isinstance(op, k.Const))
        assert fits or found.type.dtype is dtypes.int64


def test_a_group_of_exactly_2_to_the_31_is_counted_in_32_bits_and_of_one_more_is_not():
    for size, expected in ((2**31, "i32"), (2**31 + 1, "i64")):
        kernel = parse_kernel(f"""
            kernel k
            %x = global f32[{size}] readonly
            %o = global f32[{size}]
            %i = group 0 < {size} : i64
            %v = load %x[%i] : f32
            store %o[%i] = %v
        """)
        (index,) = (op for op in narrow_indices(kernel).ops if isinstance(op, k.Index))
        assert index.type.dtype.short == expected


@pytest.mark.parametrize(("distance", "expected"), [(0, "i32"), (3, "i32"), (28, "i32"), (29, "i64"), (31, "i64")])
def test_shifts_are_short_where_their_result_and_their_distance_fit(distance, expected):
    kernel = stored(f"%c = const {distance} : i64\n%s = shl %i, %c : i64")
    assert types_of(check_pass(narrow_indices, kernel), {"shl"}) == [expected]


def test_a_shift_by_a_distance_that_nobody_knows_stays_long():
    kernel = parse_kernel("""
        kernel k
        %x = global i64[8] readonly
        %o = global i64[8]
        %i = group 0 < 8 : i64
        %v = load %x[%i] : i64
        %z = const 0 : i64
        %s = shl %z, %v : i64
        store %o[%i] = %s
    """)
    assert types_of(narrow_indices(kernel), {"shl"}) == ["i64"]


def test_a_shift_by_all_bits_of_the_short_type_stays_long_though_its_result_fits():
    for distance, expected in ((31, "i32"), (32, "i64")):
        kernel = stored(f"%z = const 0 : i64\n%c = const {distance} : i64\n%s = shl %z, %c : i64")
        assert types_of(narrow_indices(kernel), {"shl"}) == [expected]


def test_a_shift_by_a_distance_that_may_be_negative_stays_long():
    kernel = stored("%c = const 2 : i64\n%d = sub %i, %c : i64\n%z = const 0 : i64\n%s = shl %z, %d : i64")
    assert types_of(narrow_indices(kernel), {"sub", "shl"}) == ["i32", "i64"]


def test_a_constant_that_is_stored_and_is_an_index_is_one_of_each_width():
    kernel = parse_kernel("""
        kernel k
        %o = global i64[8]
        %c = const 3 : i64
        store %o[%c] = %c
    """)
    assert check_pass(narrow_indices, kernel) == parse_kernel("""
        kernel k
        %o = global i64[8]
        %c = const 3 : i32
        %w = const 3 : i64
        store %o[%c] = %w
    """)


def test_a_choice_by_what_is_in_memory_is_short():
    kernel = parse_kernel("""
        kernel k
        %b = global bool[8] readonly
        %x = global f32[8] readonly
        %o = global f32[8]
        %i = group 0 < 8 : i64
        %m = load %b[%i] : bool
        %z = const 0 : i64
        %w = where %m, %i, %z : i64
        %v = load %x[%w] : f32
        store %o[%i] = %v
    """)
    (choice,) = (op for op in check_pass(narrow_indices, kernel).ops if isinstance(op, k.Where))
    assert choice.type.dtype is dtypes.int32


def test_a_shift_by_nothing_is_shortened_too():
    kernel = parse_kernel("""
        kernel k
        %o = global f32[8]
        %i = group 0 < 8 : i64
        %z = const 0 : i64
        %s = shl %i, %z : i64
        %f = const 1.0 : f32
        store %o[%s] = %f
    """)
    result = check_pass(narrow_indices, kernel)
    assert [op.type.dtype.short for op in result.ops if isinstance(op, k.Binary | k.Index)] == ["i32", "i32"]
