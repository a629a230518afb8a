"""Identities, one by one, and those that must not be used."""

from __future__ import annotations

import pytest

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.passes.simplify_algebra import simplify_algebra
from zyx.testing.passes import check_pass

HEAD = """
kernel k
%o = global {type}[8]
%x = global {type}[8] readonly
%i = group 0 < 8 : i64
%a = load %x[%i] : {type}
%j = sub %i, %i : i64
%b = load %x[%j] : {type}
"""


def simplified(type_: str, lines: str) -> str:
    """Return the operation that is stored as ``%r``, in terms of a, b and of other operations in brackets."""
    kernel = parse_kernel(HEAD.format(type=type_) + lines + "\nstore %o[%i] = %r")
    for seed in range(3):
        result = check_pass(simplify_algebra, kernel, seed)
    store = next(op for op in reversed(result.ops) if isinstance(op, k.Store))
    loads = [number for number, op in enumerate(result.ops) if isinstance(op, k.Load)]
    names = dict(zip(loads, "ab", strict=False))

    def show(value: int) -> str:
        op = result.ops[value]
        if value in names:
            return names[value]
        match op:
            case k.Const():
                return str(op.value)
            case k.Index(axis=axis):
                return {k.Axis.GROUP: "i", k.Axis.LOCAL: "t"}[axis]
            case k.Unary() | k.Binary():
                return f"{op.op.value}({', '.join(map(show, k.operands(op)))})"
            case _:
                return f"{type(op).__name__.lower()}({', '.join(map(show, k.operands(op)))})"

    return show(store.value)


INTEGER = [
    ("%z = const 0 : i32\n%r = add %a, %z : i32", "a"),
    ("%z = const 0 : i32\n%r = add %z, %a : i32", "a"),
    ("%r = sub %a, %a : i32", "0"),
    ("%z = const 0 : i32\n%r = sub %z, %a : i32", "neg(a)"),
    ("%n = neg %b : i32\n%r = add %a, %n : i32", "sub(a, b)"),
    ("%n = neg %b : i32\n%r = sub %a, %n : i32", "add(a, b)"),
    ("%n = neg %a : i32\n%r = neg %n : i32", "a"),
    ("%d = sub %a, %b : i32\n%r = neg %d : i32", "sub(b, a)"),
    ("%d = sub %a, %b : i32\n%r = add %d, %b : i32", "a"),
    ("%s = add %a, %b : i32\n%r = sub %s, %a : i32", "b"),
    ("%s = add %a, %b : i32\n%r = sub %s, %b : i32", "a"),
    ("%c = const 5 : i32\n%r = sub %a, %c : i32", "add(a, -5)"),
    ("%c = const 5 : i32\n%d = const 7 : i32\n%s = add %a, %c : i32\n%r = add %s, %d : i32", "add(a, 12)"),
    ("%c = const 5 : i32\n%s = add %a, %c : i32\n%r = add %s, %b : i32", "add(add(a, b), 5)"),
    ("%z = const 0 : i32\n%r = mul %a, %z : i32", "0"),
    ("%c = const 1 : i32\n%r = mul %a, %c : i32", "a"),
    ("%c = const -1 : i32\n%r = mul %a, %c : i32", "neg(a)"),
    ("%c = const 65536 : i32\n%s = mul %a, %c : i32\n%r = mul %c, %s : i32", "0"),
    ("%c = const 3 : i32\n%s = mul %a, %c : i32\n%r = mul %s, %c : i32", "mul(a, 9)"),
    ("%c = const 1 : i32\n%r = div %a, %c : i32", "a"),
    ("%c = const -1 : i32\n%r = div %a, %c : i32", "neg(a)"),
    ("%z = const 0 : i32\n%r = div %a, %z : i32", "0"),
    ("%c = const 3 : i32\n%d = const 4 : i32\n%s = div %a, %c : i32\n%r = div %s, %d : i32", "div(a, 12)"),
    ("%c = const 4 : i32\n%r = div %a, %c : i32", "div(a, 4)"),  # rounds toward zero, so it is no shift
    ("%c = const 1 : i32\n%r = mod %a, %c : i32", "0"),
    ("%c = const -1 : i32\n%r = mod %a, %c : i32", "0"),
    ("%c = const 12 : i32\n%d = const 4 : i32\n%s = mod %a, %c : i32\n%r = mod %s, %d : i32", "mod(a, 4)"),
    ("%c = const 12 : i32\n%d = const 5 : i32\n%s = mod %a, %c : i32\n%r = mod %s, %d : i32", "mod(mod(a, 12), 5)"),
    ("%r = max %a, %a : i32", "a"),
    ("%c = const -2147483648 : i32\n%r = max %a, %c : i32", "a"),
    ("%c = const 2147483647 : i32\n%r = max %a, %c : i32", "2147483647"),
    ("%c = const 3 : i32\n%d = const 9 : i32\n%s = min %a, %d : i32\n%r = min %s, %c : i32", "min(a, 3)"),
    ("%c = const 3 : i32\n%d = const 9 : i32\n%s = min %a, %c : i32\n%r = min %s, %d : i32", "min(a, 3)"),
    ("%r = and %a, %a : i32", "a"),
    ("%z = const 0 : i32\n%r = and %a, %z : i32", "0"),
    ("%m = const -1 : i32\n%r = and %a, %m : i32", "a"),
    ("%c = const 12 : i32\n%d = const 10 : i32\n%s = and %a, %c : i32\n%r = and %s, %d : i32", "and(a, 8)"),
    ("%c = const 7 : i32\n%d = const 15 : i32\n%s = and %a, %c : i32\n%r = and %s, %d : i32", "and(a, 7)"),
    ("%z = const 0 : i32\n%r = or %a, %z : i32", "a"),
    ("%m = const -1 : i32\n%r = or %a, %m : i32", "-1"),
    ("%c = const 12 : i32\n%d = const 10 : i32\n%s = or %a, %c : i32\n%r = or %s, %d : i32", "or(a, 14)"),
    ("%r = xor %a, %a : i32", "0"),
    ("%z = const 0 : i32\n%r = xor %a, %z : i32", "a"),
    ("%m = const -1 : i32\n%r = xor %a, %m : i32", "not(a)"),
    ("%c = const 12 : i32\n%d = const 10 : i32\n%s = xor %a, %c : i32\n%r = xor %s, %d : i32", "xor(a, 6)"),
    ("%s = not %a : i32\n%r = not %s : i32", "a"),
    ("%z = const 0 : i32\n%r = shl %a, %z : i32", "a"),
    ("%c = const 32 : i32\n%r = shl %a, %c : i32", "0"),
    ("%c = const -1 : i32\n%r = shr %a, %c : i32", "shr(a, 31)"),
    ("%c = const 3 : i32\n%d = const 4 : i32\n%s = shl %a, %c : i32\n%r = shl %s, %d : i32", "shl(a, 7)"),
    ("%c = const 30 : i32\n%s = shr %a, %c : i32\n%r = shr %s, %c : i32", "shr(a, 31)"),
    ("%z = const 0 : i32\n%r = pow %a, %z : i32", "1"),
    ("%c = const 1 : i32\n%r = pow %a, %c : i32", "a"),
    ("%c = const 1 : i32\n%r = pow %c, %a : i32", "1"),
    ("%c = const 2 : i32\n%r = pow %a, %c : i32", "mul(a, a)"),
    ("%s = abs %a : i32\n%r = abs %s : i32", "abs(abs(a))"),  # of the least integer it is negative
    ("%c = const 7 : i32\n%s = and %a, %c : i32\n%r = abs %s : i32", "and(a, 7)"),
    ("%z = const 0 : i32\n%r = mad %a, %z, %b : i32", "b"),
    ("%c = const 1 : i32\n%r = mad %c, %a, %b : i32", "add(a, b)"),
    ("%z = const 0 : i32\n%r = mad %a, %b, %z : i32", "mul(a, b)"),
    ("%p = lt %a, %b : bool\n%r = where %p, %a, %a : i32", "a"),
    ("%p = lt %a, %b : bool\n%q = not %p : bool\n%r = where %q, %a, %b : i32", "where(le(b, a), a, b)"),
    (
        "%c = const 5 : i32\n%z = const 2 : i32\n%s = add %a, %c : i32\n"
        "%p = eq %s, %z : bool\n%r = where %p, %a, %b : i32",
        "where(eq(a, -3), a, b)",
    ),
    (
        "%c = const -2147483648 : i32\n%s = add %a, %c : i32\n"
        "%p = ne %s, %c : bool\n%r = where %p, %a, %b : i32",
        "where(ne(a, 0), a, b)",
    ),
    (
        "%n = neg %a : i32\n%c = const 26 : i32\n%s = add %n, %c : i32\n"
        "%z = const 0 : i32\n%p = eq %s, %z : bool\n%r = where %p, %a, %b : i32",
        "where(eq(a, 26), a, b)",
    ),
    (
        "%z = const 0 : i32\n%s = sub %a, %b : i32\n%p = eq %z, %s : bool\n"
        "%r = where %p, %a, %b : i32",
        "where(eq(a, b), a, b)",
    ),
    (
        "%z = const 0 : i32\n%s = xor %a, %b : i32\n%p = ne %s, %z : bool\n"
        "%r = where %p, %a, %b : i32",
        "where(ne(a, b), a, b)",
    ),
    (
        "%m = neg %a : i32\n%n = neg %b : i32\n%p = eq %m, %n : bool\n"
        "%r = where %p, %a, %b : i32",
        "where(eq(a, b), a, b)",
    ),
    (
        "%z = const 0 : i32\n%s = sub %a, %b : i32\n%p = lt %s, %z : bool\n"
        "%r = where %p, %a, %b : i32",
        "where(lt(sub(a, b), 0), a, b)",
    ),
    (
        "%c = const 5 : i32\n%s = add %a, %c : i32\n%p = lt %s, %c : bool\n"
        "%r = where %p, %a, %b : i32",
        "where(lt(add(a, 5), 5), a, b)",
    ),
    ("%p = const false : bool\n%r = where %p, %a, %b : i32", "b"),
    ("%p = lt %a, %a : bool\n%r = where %p, %a, %b : i32", "b"),
    ("%w = cast %a : i64\n%r = cast %w : i32", "a"),
    ("%w = cast %a : i16\n%r = cast %w : i32", "cast(cast(a))"),
    ("%w = cast %a : i64\n%v = cast %w : i16\n%r = cast %v : i32", "cast(cast(a))"),
    ("%w = cast %a : f64\n%r = cast %w : i32", "a"),
    ("%w = cast %a : f32\n%r = cast %w : i32", "cast(cast(a))"),
    ("%w = bitcast %a : f32\n%r = bitcast %w : i32", "a"),
    ("%w = bitcast %a : f32\n%v = bitcast %w : u32\n%r = bitcast %v : i32", "a"),
    ("%v = vectorize %a, %b : i32x2\n%r = devectorize %v[1] : i32", "b"),
    ("%v = const 3 : i32x2\n%r = devectorize %v[1] : i32", "3"),
    ("%v = vectorize %a, %b : i32x2\n%w = shuffle %v, %v[3, 0] : i32x2\n%r = devectorize %w[0] : i32", "b"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), INTEGER)
def test_integers_are_simplified(lines, expected):
    assert simplified("i32", lines) == expected


FLOAT = [
    ("%z = const -0.0 : f32\n%r = add %a, %z : f32", "a"),
    ("%z = const 0.0 : f32\n%r = add %a, %z : f32", "add(a, 0.0)"),  # -0.0 becomes 0.0
    ("%z = const 0.0 : f32\n%r = sub %a, %z : f32", "a"),
    ("%z = const -0.0 : f32\n%r = sub %a, %z : f32", "sub(a, -0.0)"),
    ("%r = sub %a, %a : f32", "sub(a, a)"),  # NaN of an infinity
    ("%z = const 0.0 : f32\n%r = mul %a, %z : f32", "mul(a, 0.0)"),
    ("%r = div %a, %a : f32", "div(a, a)"),
    ("%z = const 0.0 : f32\n%r = div %z, %a : f32", "div(0.0, a)"),
    ("%c = const 1.0 : f32\n%r = mul %a, %c : f32", "a"),
    ("%c = const -1.0 : f32\n%r = mul %c, %a : f32", "neg(a)"),
    ("%c = const 1.0 : f32\n%r = div %a, %c : f32", "a"),
    ("%c = const -1.0 : f32\n%r = div %a, %c : f32", "neg(a)"),
    ("%c = const 8.0 : f32\n%r = div %a, %c : f32", "mul(a, 0.125)"),
    ("%c = const -0.25 : f32\n%r = div %a, %c : f32", "mul(a, -4.0)"),
    ("%c = const 3.0 : f32\n%r = div %a, %c : f32", "div(a, 3.0)"),
    ("%c = const 1.401298464324817e-45 : f32\n%r = div %a, %c : f32", "div(a, 1.401298464324817e-45)"),
    ("%n = neg %b : f32\n%r = add %a, %n : f32", "sub(a, b)"),
    ("%n = neg %a : f32\n%r = add %n, %b : f32", "sub(b, a)"),
    ("%n = neg %b : f32\n%r = sub %a, %n : f32", "add(a, b)"),
    ("%n = neg %a : f32\n%m = neg %b : f32\n%r = mul %n, %m : f32", "mul(a, b)"),
    ("%n = neg %a : f32\n%r = neg %n : f32", "a"),
    ("%n = neg %a : f32\n%r = abs %n : f32", "abs(a)"),
    ("%n = abs %a : f32\n%r = abs %n : f32", "abs(a)"),
    ("%n = floor %a : f32\n%r = trunc %n : f32", "floor(a)"),
    ("%n = cast %i : f32\n%r = floor %n : f32", "cast(i)"),
    ("%c = const -inf : f32\n%r = max %a, %c : f32", "a"),
    ("%c = const inf : f32\n%r = min %c, %a : f32", "a"),
    ("%r = max %a, %a : f32", "a"),
    ("%c = const nan : f32\n%r = mul %a, %c : f32", "nan"),
    ("%c = const nan : f32\n%r = sub %c, %a : f32", "nan"),
    ("%c = const nan : f32\n%r = max %a, %c : f32", "max(a, nan)"),
    ("%c = const 2.0 : f32\n%s = add %a, %c : f32\n%r = add %s, %c : f32", "add(add(a, 2.0), 2.0)"),
    ("%z = const 0.0 : f32\n%r = pow %a, %z : f32", "1.0"),
    ("%c = const 1.0 : f32\n%r = pow %a, %c : f32", "a"),
    ("%c = const 1.0 : f32\n%r = mad %a, %c, %b : f32", "add(a, b)"),
    ("%z = const 0.0 : f32\n%r = mad %a, %b, %z : f32", "mad(a, b, 0.0)"),
    ("%p = lt %a, %b : bool\n%q = not %p : bool\n%r = where %q, %a, %b : f32", "where(lt(a, b), b, a)"),
    ("%p = eq %a, %b : bool\n%q = not %p : bool\n%r = where %q, %a, %b : f32", "where(ne(a, b), a, b)"),
    ("%p = eq %a, %a : bool\n%r = where %p, %a, %b : f32", "where(eq(a, a), a, b)"),  # false for NaN
    ("%w = cast %a : f64\n%r = cast %w : f32", "a"),
    ("%w = cast %a : f16\n%r = cast %w : f32", "cast(cast(a))"),
    ("%w = cast %a : i32\n%r = cast %w : f32", "cast(cast(a))"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), FLOAT)
def test_floats_are_simplified_only_where_that_is_exact(lines, expected):
    assert simplified("f32", lines) == expected


BOOL = [
    ("%t = const true : bool\n%r = and %a, %t : bool", "a"),
    ("%f = const false : bool\n%r = and %f, %a : bool", "False"),
    ("%t = const true : bool\n%r = or %a, %t : bool", "True"),
    ("%r = and %a, %a : bool", "a"),
    ("%r = xor %a, %a : bool", "False"),
    ("%r = eq %a, %a : bool", "True"),
    ("%t = const true : bool\n%r = eq %a, %t : bool", "a"),
    ("%f = const false : bool\n%r = eq %a, %f : bool", "not(a)"),
    ("%f = const false : bool\n%r = ne %a, %f : bool", "a"),
    ("%t = const true : bool\n%r = xor %a, %t : bool", "not(a)"),
    ("%n = not %a : bool\n%r = not %n : bool", "a"),
    ("%t = const true : bool\n%f = const false : bool\n%r = where %a, %t, %f : bool", "a"),
    ("%t = const true : bool\n%f = const false : bool\n%r = where %a, %f, %t : bool", "not(a)"),
    ("%c = cast %a : i32\n%r = cast %c : bool", "a"),
    ("%c = cast %a : f64\n%r = cast %c : bool", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), BOOL)
def test_bools_are_simplified(lines, expected):
    assert simplified("bool", lines) == expected


TILE = "%c = const 8 : i64\n%t = thread 0 < 8 : i64\n%m = mul %i, %c : i64\n%s = add %m, %t : i64\n"
INDEX = [
    ("%c = const 8 : i64\n%r = div %i, %c : i64", "0"),
    ("%c = const 8 : i64\n%r = mod %i, %c : i64", "i"),
    ("%c = const 4 : i64\n%r = div %i, %c : i64", "shr(i, 2)"),
    ("%c = const 4 : i64\n%r = mod %i, %c : i64", "and(i, 3)"),
    ("%c = const 3 : i64\n%r = div %i, %c : i64", "div(i, 3)"),
    (TILE + "%d = const 3 : i64\n%r = mod %s, %d : i64", "mod(add(t, mul(i, 8)), 3)"),
    ("%t = thread 0 < 1 : i64\n%r = add %i, %t : i64", "i"),
    ("%c = const 100 : i64\n%r = min %i, %c : i64", "i"),
    ("%w = cast %i : i8\n%r = cast %w : i64", "i"),
    ("%c = const 9 : i64\n%p = lt %i, %c : bool\n%r = cast %p : i64", "1"),
    ("%c = const 3 : i64\n%s = add %i, %c : i64\n%p = lt %i, %s : bool\n%r = cast %p : i64", "1"),
    (
        "%c = const 3 : i64\n%s = add %i, %c : i64\n%d = const 7 : i64\n"
        "%p = lt %s, %d : bool\n%r = cast %p : i64",
        "cast(lt(i, 4))",
    ),
    (
        TILE + "%n = neg %t : i64\n%d = const 3 : i64\n%u = add %n, %d : i64\n"
        "%z = const 0 : i64\n%p = le %z, %u : bool\n%r = cast %p : i64",
        "cast(le(t, 3))",
    ),
    (TILE + "%d = sub %i, %t : i64\n%z = const 0 : i64\n%p = lt %d, %z : bool\n%r = cast %p : i64", "cast(lt(i, t))"),
    (TILE + "%d = sub %i, %t : i64\n%z = const 0 : i64\n%p = le %z, %d : bool\n%r = cast %p : i64", "cast(le(t, i))"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "expected"), INDEX)
def test_indices_are_simplified_by_their_ranges(lines, expected):
    assert simplified("i64", lines) == expected


def test_masks_that_always_hold_vanish_and_accesses_that_never_happen_too():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %i = group 0 < 8 : i64
        %n = const 8 : i64
        %t = lt %i, %n : bool
        %f = lt %n, %i : bool
        %v = load %x[%i] if %t : f32
        %w = load %x[%i] if %f : f32
        %s = add %v, %w : f32
        store %o[%i] = %s if %t
        store %o[%i] = %w if %f
        atomic sum %o[%i] = %v if %t
        atomic sum %o[%i] = %v if %f
    """)
    assert check_pass(simplify_algebra, kernel) == parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %i = group 0 < 8 : i64
        %n = const 8 : i64
        %t = const true : bool
        %f = const false : bool
        %v = load %x[%i] : f32
        %w = const 0.0 : f32
        %s = add %v, %w : f32
        store %o[%i] = %s
        atomic sum %o[%i] = %v
    """)


def test_a_mask_that_a_branch_implies_vanishes():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[10]
        %i = group 0 < 10 : i64
        %n = const 8 : i64
        %p = lt %i, %n : bool
        if %p
            %q = le %n, %i : bool
            %m = not %q : bool
            %v = load %x[%i] if %m : f32
            store %o[%i] = %v if %p
        endif
    """)
    result = check_pass(simplify_algebra, kernel)
    assert all(op.mask is None for op in result.ops if isinstance(op, k.Load | k.Store))


def test_the_mask_of_a_full_vector_vanishes():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[32] readonly
        %o = global f32[32]
        %i = group 0 < 8 : i64
        %c = const 4 : i64
        %m = mul %i, %c : i64
        %s = vectorize %m, %m, %m, %m : i64x4
        %z = const 0 : i64
        %one = const 1 : i64
        %two = const 2 : i64
        %three = const 3 : i64
        %iota = vectorize %z, %one, %two, %three : i64x4
        %l = add %s, %iota : i64x4
        %n = const 32 : i64x4
        %p = lt %l, %n : boolx4
        %v = load %x[%m] if %p : f32x4
        store %o[%m] = %v if %p
    """)
    result = check_pass(simplify_algebra, kernel)
    assert all(op.mask is None for op in result.ops if isinstance(op, k.Load | k.Store))


def test_vectors_taken_apart_and_put_together_are_what_they_were():
    kernel = parse_kernel("""
        kernel k
        %x = global f32[8] readonly
        %o = global f32[8]
        %z = const 0 : i64
        %v = load %x[%z] : f32x2
        %a = devectorize %v[0] : f32
        %b = devectorize %v[1] : f32
        %w = vectorize %a, %b : f32x2
        %s = shuffle %w, %v[2, 3] : f32x2
        store %o[%z] = %s
    """)
    result = check_pass(simplify_algebra, kernel)
    store, load = result.ops[-1], result.ops[3]
    assert isinstance(store, k.Store)
    assert isinstance(load, k.Load)
    assert store.value == 3


def test_operands_are_put_in_order_so_that_equal_expressions_look_equal():
    assert simplified("f32", "%s = mul %b, %a : f32\n%t = mul %a, %b : f32\n%r = sub %s, %t : f32") == (
        "sub(mul(a, b), mul(a, b))"
    )
    assert simplified("f32", "%c = const 2.0 : f32\n%r = mul %c, %a : f32") == "mul(a, 2.0)"
