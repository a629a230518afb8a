"""Comparisons of sums and differences: what becomes of them, and that no wrapping is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.kernel.run import Executable
from zyx.ops import COMPARISONS
from zyx.passes.simplify_algebra import simplify_algebra

HEAD = """
kernel k
%o = global bool[2048]
%x = global {type}[256] readonly
%y = global {type}[8] readonly
%i = group 0 < 256 : i64
%j = group 1 < 8 : i64
%a = load %x[%i] : {type}
%b = load %y[%j] : {type}
%w = const 8 : i64
%m = mul %i, %w : i64
%n = add %m, %j : i64
"""
#: What is compared, in terms of a and b. The ranges of c and d are known.
SMALL = "%f = const 31 : {type}\n%c = and %a, %f : {type}\n%d = and %b, %f : {type}\n"
SUMS = {
    "a + 5": "%p = const 5 : {type}\n%v = add %a, %p : {type}",
    "-a": "%v = neg %a : {type}",
    "a - b": "%v = sub %a, %b : {type}",
    "a ^ b": "%v = xor %a, %b : {type}",
    "26 - a": "%p = const 26 : {type}\n%q = neg %a : {type}\n%v = add %q, %p : {type}",
    "26 - a by one": "%p = const 26 : {type}\n%v = sub %p, %a : {type}",
    "c + 5": "%p = const 5 : {type}\n%v = add %c, %p : {type}",
    "c + 100": "%p = const 100 : {type}\n%v = add %c, %p : {type}",
    "-c": "%v = neg %c : {type}",
    "c - d": "%v = sub %c, %d : {type}",
    "26 - c": "%p = const 26 : {type}\n%q = neg %c : {type}\n%v = add %q, %p : {type}",
    "31 - c by one": "%p = const 31 : {type}\n%v = sub %p, %c : {type}",
    "min(c, 26)": "%p = const 26 : {type}\n%v = min %c, %p : {type}",
    "max(min(a, 26), 0)": "{clamp}%q = min %a, %p : {type}\n%v = max %q, %z : {type}",
    "min(max(a, 0), 26)": "{clamp}%q = max %a, %z : {type}\n%v = min %q, %p : {type}",
    "max(a, 5)": "%p = const 5 : {type}\n%v = max %a, %p : {type}",
}
LIMITS = {"i8": (0, 1, -1, 26, 5, 127, -128), "u8": (0, 1, 26, 5, 128, 255)}


def compared(type_: str, sum_: str, op: str, limit: int, *, is_first: bool) -> k.Kernel:
    sides = "%v, %l" if is_first else "%l, %v"
    text = HEAD + SMALL + SUMS[sum_] + f"\n%l = const {limit} : {{type}}\n%r = {op} {sides} : bool\nstore %o[%n] = %r"
    clamp = f"%p = const 26 : {type_}\n%z = const 0 : {type_}\n"
    return parse_kernel(text.format(type=type_, clamp=clamp))


@pytest.mark.parametrize("type_", LIMITS)
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le"])
@pytest.mark.parametrize("sum_", SUMS)
def test_comparisons_of_sums_are_the_same_for_all_numbers_of_eight_bits(type_, op, sum_):
    numbers = np.arange(256, dtype=np.uint8).view(np.int8 if type_ == "i8" else np.uint8)
    for limit in LIMITS[type_]:
        for is_first in (True, False):
            kernel = compared(type_, sum_, op, limit, is_first=is_first)
            results = []
            for version in (kernel, simplify_algebra(kernel)):
                result = np.zeros(2048, bool)
                Executable(version)([result, numbers, numbers[[0, 1, 5, 26, 31, 127, 128, 255]]])
                results.append(result)
            assert np.array_equal(*results), f"{kernel}\n{simplify_algebra(kernel)}"


def comparisons(kernel):
    """Return for each comparison of a kernel its operation, and what its sides are if they are literals."""
    ops = kernel.ops
    found = [op for op in ops if isinstance(op, k.Binary) and op.op in COMPARISONS]
    return [(op.op.value, *(getattr(ops[side], "value", "v") for side in (op.x, op.y))) for op in found]


@pytest.mark.parametrize(
    ("op", "limit", "expected"),
    [
        ("eq", 26, ("lt", 25, "v")),
        ("ne", 26, ("lt", "v", 26)),
        ("eq", 0, ("lt", "v", 1)),
        ("ne", 0, ("lt", 0, "v")),
        ("eq", 25, ("eq", "v", 25)),
        ("ne", 1, ("ne", "v", 1)),
    ],
)
@pytest.mark.parametrize("clamp", ["min(max(a, 0), 26)", "max(min(a, 26), 0)"])
def test_the_ends_of_a_clamp_are_asked_for_by_order_and_what_lies_between_as_it_is(clamp, op, limit, expected):
    assert comparisons(simplify_algebra(compared("i8", clamp, op, limit, is_first=True))) == [expected]
