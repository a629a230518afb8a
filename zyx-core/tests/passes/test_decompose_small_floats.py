"""float16 and bfloat16 in float32: the same results, bit by bit, for the basic operations and conversions."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given

from zyx import dtype as dtypes
from zyx.backend.info import STORAGE_ONLY, Capability, DeviceInfo, full_capability
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.data import Axis, Kernel, Memory
from zyx.kernel.run import run
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.decompose_small_floats import decompose_small_floats
from zyx.semantics import apply_cast
from zyx.testing.kernels import kernels, random_values
from zyx.testing.passes import check_pass

SMALL = [dtypes.float16, dtypes.bfloat16]
FULL = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
NATIVE = DeviceInfo("native", "1", FULL)
STORING = DeviceInfo("storing", "1", FULL | dict.fromkeys(SMALL, STORAGE_ONLY))


def kernel_of(write, target, *arrays) -> Kernel:
    """Return a kernel that stores what `write` makes of an element of each array."""
    b = Builder()
    params = [b.define(Memory.GLOBAL, dtypes.as_dtype(array.dtype), len(array), mutable=False) for array in arrays]
    out = b.define(Memory.GLOBAL, target, len(arrays[0]))
    place = b.index(Axis.GROUP, 0, len(arrays[0]))
    b.store(out, place, write(b, *(b.load(param, place) for param in params)))
    return b.finish("k")


def computed(write, target, *arrays):
    """Return what `write` gives after it was decomposed for a device that only stores small floats."""
    kernel = decompose_small_floats(kernel_of(write, target, *arrays), STORING)
    for op in kernel.ops:
        if isinstance(op, k.Unary | k.Binary | k.Mad):
            operand = kernel.ops[op.x]
            assert isinstance(operand, k.Value)
            assert operand.type.dtype not in SMALL
        if isinstance(op, k.Cast) and op.type.dtype in SMALL:
            assert kernel.ops[op.x].type.dtype is dtypes.float32
    out = np.zeros(len(arrays[0]), target.numpy)
    run(kernel, [*arrays, out])
    return out


def assert_same(found, expected):
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("source", [dtypes.float64, dtypes.int64, dtypes.uint64, dtypes.int32, dtypes.uint32], ids=str)
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_numbers_next_to_the_middle_of_two_neighbours_round_to_the_right_side(dtype, source):
    values = [
        sign * (((128 + high) * 2 + 1 << shift) + off)
        for high in (0, 1, 77, 127)
        for shift in range(0, 55, 3)
        for off in (-1, 0, 1)
        for sign in (1, -1)
    ]
    fitting = [value for value in values if source.is_float or source.min <= value <= source.max]
    x = np.array(fitting, source.numpy)
    if source.is_float:
        x = np.concatenate([x, x * 2.0**-60, x * 2.0**-160])
    assert_same(computed(lambda b, x: b.cast(x, dtype), dtype, x), apply_cast(x, dtype))


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_a_multiply_add_rounds_once_to_the_small_type(dtype):
    x = random_values(dtype, 64, np.random.default_rng(0))
    x = x[np.isfinite(x.astype(np.float32))]
    found = computed(lambda b, x: b.mad(x, x, x), dtype, x).astype(np.float64)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(found, (wide * wide + wide).astype(np.float32).astype(dtype.numpy).astype(np.float64))


def test_a_device_that_computes_them_keeps_them():
    x = random_values(dtypes.float16, 4, np.random.default_rng(0))
    kernel = kernel_of(lambda b, x: b.unary(UnaryOp.EXP, b.binary(BinaryOp.ADD, x, x)), dtypes.float16, x)
    assert decompose_small_floats(kernel, NATIVE) is kernel


def test_of_a_device_that_computes_some_operations_the_others_are_decomposed():
    some = Capability(frozenset({UnaryOp.NEG}), frozenset({BinaryOp.ADD, BinaryOp.MUL}))
    info = DeviceInfo("some", "1", FULL | {dtypes.float16: some})
    x = random_values(dtypes.float16, 4, np.random.default_rng(0))
    kernel = kernel_of(lambda b, x: b.unary(UnaryOp.SQRT, b.mad(x, x, b.unary(UnaryOp.NEG, x))), dtypes.float16, x)
    result = decompose_small_floats(kernel, info)
    computed_in = [(type(op).__name__, op.type.dtype) for op in result.ops if isinstance(op, k.Unary | k.Mad)]
    assert computed_in == [("Unary", dtypes.float16), ("Mad", dtypes.float16), ("Unary", dtypes.float32)]


def test_choices_lanes_and_bits_stay():
    x = random_values(dtypes.float16, 4, np.random.default_rng(0))

    def write(b, x):
        bits = b.bitcast(b.bitcast(x, dtypes.uint16), dtypes.float16)
        return b.where(b.const(True, dtypes.bool_), b.devectorize(b.splat(bits, 2), 1), x)

    kernel = kernel_of(write, dtypes.float16, x)
    assert decompose_small_floats(kernel, STORING) is kernel


@given(kernel=kernels(allowed=(dtypes.bfloat16, dtypes.float16, dtypes.bool_, dtypes.int64), max_statements=8))
def test_kernels_keep_their_meaning(kernel):
    if not any(isinstance(op, k.Mad) for op in kernel.ops):  # which is rounded once more often
        check_pass(functools.partial(decompose_small_floats, info=STORING), kernel)
