"""Sums of products in registers are hidden from drivers where something else is computed from them."""

from __future__ import annotations

import pytest

from zyx.ir import kernel as k
from zyx.ir.parser import parse_kernel
from zyx.render.seams import hidden_values

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
