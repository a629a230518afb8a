"""What a driver would see through is hidden from it: results that it could merge with others, zeros, equal operands."""

from __future__ import annotations

import pytest

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.render.seams import hidden_operands, hidden_values

KERNEL = """
    kernel k
    %a = global f32[8] readonly
    %o = global f32[1]
    %r = register f32[1]
    %z = const 0 : i32
    %zero = const 0.0 : f32
    %c = const 3.0 : f32
    store %r[%z] = %zero
    %i = loop < 8 : i32
        %x = load %a[%i] : f32
        %s = load %r[%z] : f32
        %y = {step}
        store %r[%z] = %y
    endloop
    %t = load %r[%z] : f32
    {after}
"""


def hidden(step, after):
    kernel = parse_kernel(KERNEL.format(step=step, after=after))
    return [type(kernel.ops[number]) for number in sorted(hidden_values(kernel))]


@pytest.mark.parametrize(
    ("step", "after", "expected"),
    {
        "stored": ("mad %x, %x, %s : f32", "store %o[%z] = %t", []),
        "added to": ("mad %x, %x, %s : f32", "%u = add %t, %c : f32\nstore %o[%z] = %u", [k.Load]),
        "multiplied on": ("mad %x, %x, %s : f32", "%u = mad %t, %c, %c : f32\nstore %o[%z] = %u", []),
        "a sum": ("add %s, %x : f32", "store %o[%z] = %t", [k.Binary]),
    }.values(),
)
def test_what_a_driver_could_merge_is_hidden(step, after, expected):
    assert hidden(step, after) == expected


def found(text, hidden):
    """Return what ``hidden(kernel, %v)`` says of the operation called ``%v`` in a kernel with %x, %y, %zero and %i."""
    before = """
        kernel k
        %o = global f32[8]
        %p = global f32[8] readonly
        %j = group 0 < 8 : i32
        %x = load %p[%j] : f32
        %y = load %o[%j] : f32
        %zero = const 0.0 : f32
        %i = const 0 : i32
    """
    kernel = parse_kernel(f"{before}\n{text}\nstore %o[%j] = %x")
    return hidden(kernel, len(parse_kernel(before).ops))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%v = mul %x, %y : f32", []),
        ("%v = mul %x, %zero : f32", [1]),
        ("%v = add %zero, %y : f32", [0]),
        ("%v = sub %x, %x : f32", [0]),
        ("%v = div %zero, %zero : f32", [0, 1]),
        ("%v = mad %x, %zero, %y : f32", [1]),
        ("%v = mad %x, %x, %x : f32", []),
        ("%v = max %x, %x : f32", []),
        ("%v = lt %x, %x : f32", []),
        ("%v = sub %j, %i : i32", []),
        ("%v = neg %zero : f32", []),
    ],
)
def test_zeros_and_equal_operands_of_arithmetic_are_hidden(text, wanted):
    assert found(text, lambda kernel, number: hidden_operands(kernel, kernel.ops[number])) == wanted


@pytest.mark.parametrize(
    ("text", "is_hidden"),
    [
        ("%v = add %x, %y : f32\n%w = sub %v, %y : f32", True),
        ("%v = mul %x, %y : f32\n%w = lt %v, %y : f32", True),
        ("%v = mul %x, %y : f32\nstore %o[%j] = %v", False),
        ("%v = add %j, %i : i32\n%w = sub %v, %i : i32", False),
        ("%v = lt %x, %y : f32\n%w = not %v : bool", True),
    ],
)
def test_a_result_is_hidden_where_the_next_operation_could_be_merged_with_it(text, is_hidden):
    assert found(text, lambda kernel, number: number in hidden_values(kernel)) == is_hidden
