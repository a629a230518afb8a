"""Identities together; each for itself is in `test_each_rule`."""

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


@pytest.mark.parametrize(
    ("type_", "lines", "expected"),
    [
        ("i32", "%c = const 5 : i32\n%s = add %a, %c : i32\n%t = add %s, %b : i32\n%r = sub %t, %c : i32", "add(a, b)"),
        ("i32", "%p = lt %a, %b : bool\n%q = not %p : bool\n%r = where %q, %a, %b : i32", "where(le(b, a), a, b)"),
        ("f32", "%p = lt %a, %b : bool\n%q = not %p : bool\n%r = where %q, %a, %b : f32", "where(lt(a, b), b, a)"),
        ("i32", "%w = cast %a : i64\n%v = cast %w : i16\n%r = cast %v : i32", "cast(cast(a))"),
        ("f32", "%n = neg %a : f32\n%c = const 8.0 : f32\n%d = div %b, %c : f32\n%r = add %n, %d : f32",
         "sub(mul(b, 0.125), a)"),
        (
            "i32",
            "%n = neg %a : i32\n%c = const 26 : i32\n%s = add %n, %c : i32\n"
            "%z = const 0 : i32\n%p = eq %s, %z : bool\n%r = cast %p : i32",
            "cast(eq(a, 26))",
        ),
        (
            "i64",
            "%t = thread 0 < 8 : i64\n%n = neg %t : i64\n%d = const 3 : i64\n%u = add %n, %d : i64\n"
            "%z = const 0 : i64\n%p = le %z, %u : bool\n%q = and %p, %p : bool\n%r = cast %q : i64",
            "cast(le(t, 3))",
        ),
    ],
)  # fmt: skip
def test_identities_meet_what_others_made(type_, lines, expected):
    assert simplified(type_, lines) == expected


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


def test_operands_are_put_in_order_so_that_equal_expressions_look_equal():
    assert simplified("f32", "%s = mul %b, %a : f32\n%t = mul %a, %b : f32\n%r = sub %s, %t : f32") == (
        "sub(mul(a, b), mul(a, b))"
    )
    assert simplified("f32", "%c = const 2.0 : f32\n%r = mul %c, %a : f32") == "mul(a, 2.0)"
