"""Remainders of floats by integers are exact."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import Capability, DeviceInfo, full_capability
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Memory
from zyx.kernel.run import Executable
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp
from zyx.passes.decompose_float_mod import decompose_float_mod
from zyx.semantics import apply_binary

FULL = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
WITHOUT = {
    dtype: Capability(had.unary, had.binary - {BinaryOp.MOD}) if dtype.is_float else had for dtype, had in FULL.items()
}

#: A device that has no remainders, and whose multiply-adds round twice.
NEITHER = DeviceInfo("without", "1", WITHOUT, has_fma=False)


def remainder_of(dtype, count, lanes=1):
    b = Builder()
    arrays = [b.define(Memory.GLOBAL, dtype, count * lanes, mutable=False) for _ in range(2)]
    out = b.define(Memory.GLOBAL, dtype, count * lanes)
    place = b.binary(BinaryOp.MUL, b.index(Axis.GROUP, 0, count), b.const(lanes, dtypes.int64))
    b.store(out, place, b.binary(BinaryOp.MOD, *(b.load(array, place, lanes) for array in arrays)))
    return b.finish("remainder")


def check(dtype, x, y):
    kernel = decompose_float_mod(remainder_of(dtype, len(x)), NEITHER)
    verify(kernel)
    assert not any(isinstance(op, k.Binary) and op.op is BinaryOp.MOD and op.type.dtype.is_float for op in kernel.ops)
    found = np.zeros_like(x)
    Executable(kernel)([x, y, found])
    expected = apply_binary(BinaryOp.MOD, x, y)
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_special_and_extreme_numbers_have_the_remainder_of_c(dtype):
    info = np.finfo(dtype.numpy)
    values = [0.0, 1.0, 1.5, 3.0, 0.1, 7.25, 1e10, math.inf, math.nan, float(info.max), float(info.tiny),
              float(info.smallest_subnormal), 3 * float(info.smallest_subnormal), float(info.tiny) * 0.75]  # fmt: skip
    values += [-value for value in values]
    pairs = np.array(list(itertools.product(values, values))).astype(dtype.numpy)
    check(dtype, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))


def test_vectors_have_registers_of_their_own():
    kernel = decompose_float_mod(remainder_of(dtypes.float32, 2, 4), NEITHER)
    verify(kernel)
    x, y, out = np.arange(8, dtype=np.float32), np.full(8, 3, np.float32), np.zeros(8, np.float32)
    Executable(kernel)([x, y, out])
    assert out.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


def test_a_device_with_remainders_keeps_them_unless_vectors_are_quicker():
    one, several = remainder_of(dtypes.float32, 4), remainder_of(dtypes.float32, 4, 4)
    processor, card = DeviceInfo("with", "1", FULL), DeviceInfo("card", "1", FULL, max_group_threads=64)
    twice = DeviceInfo("rounds twice", "1", FULL, has_fma=False)
    assert decompose_float_mod(one, processor) is one
    assert decompose_float_mod(several, card) is several
    assert decompose_float_mod(several, twice) is several
    quick = decompose_float_mod(several, processor)
    verify(quick)
    (branch,) = (number for number, op in enumerate(quick.ops) if isinstance(op, k.If))
    (own,) = (number for number, op in enumerate(quick.ops) if isinstance(op, k.Binary) and op.op is BinaryOp.MOD)
    assert own > branch  # for large quotients


def test_where_there_are_no_remainders_the_loop_is_for_large_quotients():
    quick = decompose_float_mod(remainder_of(dtypes.float64, 4, 2), DeviceInfo("without", "1", WITHOUT))
    verify(quick)
    kinds = [type(op) for op in quick.ops if isinstance(op, k.If | k.Loop | k.EndLoop | k.EndIf)]
    assert kinds == [k.If, k.Loop, k.EndLoop, k.EndIf]
