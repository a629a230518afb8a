"""Barriers are fences of global memory where something is passed on there, and only there."""

from __future__ import annotations

import pytest

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.render.fences import fenced_barriers

KERNEL = """
    kernel k
    %a = global f32[32] readonly
    %o = global f32[32]
    %q = global f32[32]
    %l = local f32[32]
    %t = thread 0 < 32 : i64
    %one = const 1.0 : f32
    {body}
"""
LOOP = "%i = loop < 2 : i64\n{}\nendloop"

CASES = {
    "read, then write another": ("%x = load %a[%t] : f32\nbarrier\nstore %o[%t] = %x", [False]),
    "write, then read it": ("store %o[%t] = %one\nbarrier\n%x = load %o[%t] : f32\nstore %q[%t] = %x", [True]),
    "read, then write it": ("%x = load %o[%t] : f32\nbarrier\nstore %o[%t] = %x", [True]),
    "write twice": ("store %o[%t] = %one\nbarrier\nstore %o[%t] = %one", [True]),
    "read twice": ("%x = load %o[%t] : f32\nbarrier\n%y = load %o[%t] : f32\nstore %q[%t] = %y", [False]),
    "one of two": ("barrier\nstore %o[%t] = %one\nbarrier\n%x = load %o[%t] : f32\nstore %q[%t] = %x", [False, True]),
    "only behind": ("barrier\n%x = load %o[%t] : f32\nstore %o[%t] = %one", [False]),
    "in a loop": (LOOP.format("barrier\nstore %o[%t] = %one"), [True]),
    "in a loop that only reads": (LOOP.format("barrier\n%x = load %a[%t] : f32\nstore %l[%t] = %x"), [False]),
    "behind a loop": (LOOP.format("barrier") + "\nstore %o[%t] = %one", [False]),
    "in an outer loop": (LOOP.format("%j = loop < 2 : i64\nbarrier\nendloop\nstore %o[%t] = %one"), [True]),
    "indivisibly": ("atomic sum %o[%t] = %one\nbarrier\natomic sum %o[%t] = %one", [True]),
}


@pytest.mark.parametrize(("body", "expected"), CASES.values(), ids=CASES.keys())
def test_barriers_between_accesses_that_depend_on_each_other_are_fences(body, expected):
    kernel = parse_kernel(KERNEL.format(body=body))
    barriers = [number for number, op in enumerate(kernel.ops) if isinstance(op, k.Barrier)]
    found = fenced_barriers(kernel)
    assert [barrier in found for barrier in barriers] == expected
