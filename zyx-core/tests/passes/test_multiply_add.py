"""Products and sums become multiply-adds, and multiply-adds products and sums."""

from __future__ import annotations

from zyx.kernel import data as k
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.passes.eliminate_dead_code import eliminate_dead_code
from zyx.passes.fuse_multiply_add import fuse_multiply_add
from zyx.passes.split_multiply_add import split_multiply_add
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


def test_a_sum_takes_the_product_that_only_it_uses():
    assert fused("%m = mul %a, %b : f32\n%s = add %m, %c : f32\nstore %o[%i] = %s") == "%7 = mad %4, %5, %6 : f32"
    assert fused("%m = mul %a, %b : f32\n%s = add %c, %m : f32\nstore %o[%i] = %s") == "%7 = mad %4, %5, %6 : f32"


def test_a_difference_takes_a_product_with_one_operand_negated():
    assert fused("%m = mul %a, %b : f32\n%s = sub %m, %c : f32\nstore %o[%i] = %s") == (
        "%7 = neg %6 : f32\n%8 = mad %4, %5, %7 : f32"
    )
    assert fused("%m = mul %a, %b : f32\n%s = sub %c, %m : f32\nstore %o[%i] = %s") == (
        "%7 = neg %4 : f32\n%8 = mad %7, %5, %6 : f32"
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


def test_integers_are_left_alone():
    lines = "%m = mul %i, %i : i64\n%s = add %m, %z : i64\n%f = cast %s : f32\nstore %o[%i] = %f"
    assert "mad" not in fused(lines)


def test_splitting_leaves_no_multiply_add():
    kernel = parse_kernel(HEAD + "%m = mad %a, %b, %c : f32\n%n = mad %i, %i, %z : i64\nstore %o[%i] = %m")
    result = check_pass(split_multiply_add, kernel)
    assert not any(isinstance(op, k.Mad) for op in result.ops)
    assert [op.op for op in result.ops if isinstance(op, k.Binary)] == [BinaryOp.MUL, BinaryOp.ADD] * 2
