"""Products and sums become multiply-adds, and multiply-adds products and sums."""

from __future__ import annotations

from zyx.kernel.parse import parse_kernel
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.testing.passes import check_pass

HEAD = """
    kernel k
    %x = global f32[8] readonly
    %o = global f32[8]
    %i = group 0 < 8 : i64
    %z = const 0 : i64
    %a = load %x[%i] : f32
    %b = load %x[%z] : f32
    %c = const 0.1 : f32
"""


def fused(lines: str) -> str:
    """Return the operations that are left of `lines` after fusing and removing dead code, one on a line."""
    before = parse_kernel(HEAD + lines)
    after = eliminate_dead_code(check_pass(fuse_multiply_add, before))
    return "\n".join(
        line for line in str(after).splitlines() if any(word in line for word in ("mad", "mul", "add", "sub", "neg"))
    )


def test_of_two_products_one_is_fused():
    lines = "%m = mul %a, %b : f32\n%n = mul %b, %c : f32\n%s = add %m, %n : f32\nstore %o[%i] = %s"
    assert fused(lines) == "%7 = mul %5, %6 : f32\n%8 = mad %4, %5, %7 : f32"


def test_a_product_with_another_use_stays():
    lines = "%m = mul %a, %b : f32\n%s = add %m, %c : f32\n%t = add %m, %s : f32\nstore %o[%i] = %t"
    assert fused(lines).count("mad") == 0


def test_a_product_outside_of_the_loop_of_the_sum_stays_there():
    lines = "%m = mul %a, %b : f32\n%j = loop < 2 : i64\n%s = add %m, %c : f32\nstore %o[%i] = %s\nendloop"
    assert "mad" not in fused(lines)
