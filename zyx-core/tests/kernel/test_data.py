"""The operations themselves: equality, repr, operands, params and grid."""

from __future__ import annotations

import dataclasses
import math
import typing
from types import SimpleNamespace

import pytest
from hypothesis import given

import zyx.kernel.data as k
from zyx import dtype as dtypes
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Const, Kernel, Memory, Type, operands
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.testing.kernels import kernels

F32 = Type(dtypes.float32)

OPERAND_NAMES = {"condition", "source", "target", "index", "value", "x", "y", "z", "mask", "a", "b", "c", "end"}
PUBLIC = {
    **{op.__name__: op for op in typing.get_args(k.Op)},
    "Kernel": Kernel, "Type": Type, "Memory": Memory, "Axis": Axis, "UnaryOp": UnaryOp, "BinaryOp": BinaryOp,
    "ReduceOp": ReduceOp, "zyx": SimpleNamespace(**dtypes.BY_NAME),
}  # fmt: skip


@given(kernel=kernels())
def test_the_repr_of_a_kernel_pastes_into_a_test(kernel):
    again = eval(repr(kernel), dict(PUBLIC))
    assert again == kernel
    assert again.name == kernel.name


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 0.1])
def test_the_repr_of_any_constant_evaluates_to_an_equal_one(value):
    constant = Const(value, F32)
    assert eval(repr(constant), dict(PUBLIC)) == constant


def test_constants_are_equal_if_their_bits_are():
    assert Const(math.nan, F32) == Const(float("nan"), F32)
    assert hash(Const(math.nan, F32)) == hash(Const(float("nan"), F32))
    assert Const(0.0, F32) != Const(-0.0, F32)
    assert Const(1, Type(dtypes.int32)) != Const(1, Type(dtypes.int64))
    assert Const(1.0, F32) != Const(1.0, Type(dtypes.float32, 4))
    assert Const(1.0, F32) != "1.0"


def test_kernels_are_equal_whatever_their_names():
    b = Builder()
    out = b.define(Memory.GLOBAL, dtypes.float32, 4)
    b.store(out, b.const(0, dtypes.int64), b.const(1.0, dtypes.float32))
    first, second = b.finish("first"), b.finish("second")
    assert first == second
    assert hash(first) == hash(second)
    assert first != Kernel("first", first.ops[:1])
    assert first != first.ops


def test_every_operation_has_operands_in_the_order_of_its_fields():
    for op_type in typing.get_args(k.Op):
        names = [field.name for field in dataclasses.fields(op_type)]
        values = {name: number + 100 for number, name in enumerate(names)}
        if op_type is k.Vectorize:
            assert operands(k.Vectorize((4, 5, 4), F32)) == (4, 5, 4)
        else:
            read = [] if op_type is Const else [name for name in names if name in OPERAND_NAMES]
            assert operands(op_type(**values)) == tuple(values[name] for name in read), op_type


def test_a_missing_mask_is_no_operand():
    assert operands(k.Load(0, 1, F32)) == (0, 1)
    assert operands(k.Store(0, 1, 2)) == (0, 1, 2)
    assert operands(k.Atomic(ReduceOp.SUM, 0, 1, 2)) == (0, 1, 2)


def test_params_and_grid_are_read_off_the_operations():
    b = Builder()
    x = b.define(Memory.GLOBAL, dtypes.float32, 4, mutable=False)
    n = b.variable(dtypes.int32, "n")
    b.define(Memory.LOCAL, dtypes.float32, 4)
    b.index(Axis.GROUP, 1, 5)
    b.index(Axis.LOCAL, 0, 32)
    kernel = b.finish("k")
    assert kernel.params == [kernel.ops[x], kernel.ops[n]]
    assert kernel.grid == ((1, 5), (32,))


def test_the_builder_infers_types():
    b = Builder()
    one = b.const(1, dtypes.float16, 4)
    assert b.ops[one] == Const(1.0, Type(dtypes.float16, 4))
    assert b.type_of(b.binary(BinaryOp.LT, one, one)) == Type(dtypes.bool_, 4)
    assert b.type_of(b.cast(one, dtypes.int8)) == Type(dtypes.int8, 4)
    assert b.cast(one, dtypes.float16) == one
    assert b.bitcast(one, dtypes.float16) == one
    assert b.type_of(b.bitcast(one, dtypes.uint16)) == Type(dtypes.uint16, 4)
    lane = b.devectorize(one, 2)
    assert b.type_of(lane) == Type(dtypes.float16)
    assert b.splat(lane, 1) == lane
    assert b.ops[b.splat(lane, 2)] == k.Vectorize((lane, lane), Type(dtypes.float16, 2))
    assert b.type_of(b.shuffle(one, one, (0, 7, 3))) == Type(dtypes.float16, 3)
    assert b.type_of(b.like(2.0, one)) == Type(dtypes.float16, 4)
    assert b.type_of(b.mad(one, one, one)) == b.type_of(b.unary(UnaryOp.NEG, one)) == Type(dtypes.float16, 4)
