"""Operations on literals become literals, with the bits that the interpreter computes."""

from __future__ import annotations

import math

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Const, Type
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.passes.fold_constants import fold_constants
from zyx.testing.passes import check_pass


def test_a_chain_of_literals_becomes_one():
    kernel = parse_kernel("""
        kernel k
        %o = global i32[4]
        %a = const 2 : i32
        %b = const 3 : i32
        %c = mul %a, %b : i32
        %d = neg %c : i32
        %e = mad %a, %b, %d : i32
        store %o[%e] = %d
    """)
    assert check_pass(fold_constants, kernel) == parse_kernel("""
        kernel k
        %o = global i32[4]
        %a = const 2 : i32
        %b = const 3 : i32
        %c = const 6 : i32
        %d = const -6 : i32
        %e = const 0 : i32
        store %o[%e] = %d
    """)


def test_vectors_of_literals_are_literals():
    kernel = parse_kernel("""
        kernel k
        %o = global i32[8]
        %z = const 0 : i32
        %a = const 2 : i32
        %v = vectorize %z, %a, %a, %z : i32x4
        %s = vectorize %a, %a, %a, %a : i32x4
        %w = add %v, %s : i32x4
        %l = devectorize %w[1] : i32
        %p = lt %v, %s : boolx4
        %t = where %p, %w, %v : i32x4
        %u = shuffle %t, %s[0, 5, 3, 6] : i32x4
        store %o[%l] = %u
    """)
    folded = check_pass(fold_constants, kernel)
    store = folded.ops[-1]
    assert isinstance(store, k.Store)
    assert folded.ops[store.index] == Const(4, Type(dtypes.int32))
    assert folded.ops[store.value] == Const(2, Type(dtypes.int32, 4))


def fold(*values, op) -> Const | None:
    """Fold `op` of constants, and return the result if it is one."""
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.float32, 1)
    result = op(b, *(b.const(*value) for value in values))
    kernel = fold_constants(b.finish("k"))
    assert kernel.ops[out] == b.ops[out]
    found = kernel.ops[result]
    return found if isinstance(found, Const) else None


def test_large_integers_round_once_when_they_become_floats():
    value = (1 << 60) + (1 << 36) + 1  # halfway between two float32 but for the last bit, which float64 does not hold
    found = fold((value, dtypes.int64), op=lambda b, x: b.cast(x, dtypes.float32))
    assert found.value == float((1 << 60) + (1 << 37))


def test_not_a_number_and_signed_zero_are_results_like_others():
    f32 = dtypes.float32
    divided = fold((0.0, f32), (0.0, f32), op=lambda b, x, y: b.binary(BinaryOp.DIV, x, y))
    assert math.isnan(divided.value)
    product = fold((-1.0, f32), (0.0, f32), op=lambda b, x, y: b.binary(BinaryOp.MUL, x, y))
    assert math.copysign(1, product.value) == -1


def test_nothing_to_fold_leaves_the_kernel_as_it_is():
    kernel = parse_kernel("kernel k\n%o = global f32[4]\n%i = loop < 4 : i64\n%v = load %o[%i] : f32\nendloop")
    assert fold_constants(kernel) is kernel
