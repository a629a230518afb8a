"""Operations on literals become literals, with the bits that the interpreter computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Const, Type
from zyx.kernel.parse import parse_kernel
from zyx.ops import TRANSCENDENTAL, BinaryOp, binary_ops, unary_ops
from zyx.passes.fold_constants import fold_constants
from zyx.semantics import apply_binary, apply_cast, apply_unary
from zyx.testing.kernels import random_values
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


def literal(value, type_: Type) -> Const:
    kind = bool if type_.dtype.is_bool else float if type_.dtype.is_float else int
    return Const(kind(value), type_)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1 << 20))
def test_every_operation_folds_to_what_arrays_give(dtype, seed):
    x, y = random_values(dtype, 2, np.random.default_rng(seed)).tolist()
    arrays = [np.array([value]).astype(dtype.numpy) for value in (x, y)]
    for op in binary_ops(dtype):
        found = fold((x, dtype), (y, dtype), op=lambda b, x, y, op=op: b.binary(op, x, y))
        if op is BinaryOp.POW and dtype.is_float:
            assert found is None
        else:
            assert found == literal(apply_binary(op, *arrays)[0], found.type)
    for op in unary_ops(dtype):
        found = fold((x, dtype), op=lambda b, x, op=op: b.unary(op, x))
        if op in TRANSCENDENTAL:
            assert found is None
        else:
            assert found == literal(apply_unary(op, arrays[0])[0], found.type)
    for target in dtypes.ALL:
        if target is not dtype:
            found = fold((x, dtype), op=lambda b, x, target=target: b.cast(x, target))
            assert found == literal(apply_cast(arrays[0], target)[0], Type(target))


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
