"""The pass: what it replaces, what it leaves, and what it writes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import Capability, full_capability
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.build import Builder
from zyx.kernel.verify import verify
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.passes.decompose_transcendentals import decompose_transcendentals
from zyx.semantics import apply_unary

FUNCTIONS = [*sorted(TRANSCENDENTAL, key=lambda op: op.value), BinaryOp.POW]
SIMPLE = {
    UnaryOp.NEG, UnaryOp.ABS, UnaryOp.NOT, UnaryOp.FLOOR, UnaryOp.SQRT,
    BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR,
    BinaryOp.SHL, BinaryOp.SHR, BinaryOp.LT, BinaryOp.LE, BinaryOp.EQ, BinaryOp.NE,
}  # fmt: skip


def with_native(info, dtype, *functions):
    """The device, with some functions of its own."""
    capabilities = dict(info.capabilities)
    old = capabilities.get(dtype, Capability())
    unary = old.unary | {op for op in functions if isinstance(op, UnaryOp)}
    binary = old.binary | {op for op in functions if isinstance(op, BinaryOp)}
    capabilities[dtype] = dataclasses.replace(old, unary=unary, binary=binary)
    return dataclasses.replace(info, capabilities=capabilities)


def functions_of(kernel):
    return {op.op for op in kernel.ops if isinstance(op, k.Unary | k.Binary)}


def power_kernel(exponent, *, lanes=1):
    """``x**exponent`` of four numbers, the exponent a literal."""
    b = Builder()
    source, target = (b.define(k.Memory.GLOBAL, dtypes.float32, 4, mutable=mutable) for mutable in (False, True))
    literal = b.const(exponent, dtypes.float32)
    zero = b.const(0, dtypes.int64)
    if lanes == 1:
        position = b.index(k.Axis.GROUP, 0, 4)
        b.store(target, position, b.binary(BinaryOp.POW, b.load(source, position), literal))
    else:
        b.store(target, zero, b.binary(BinaryOp.POW, b.load(source, zero, lanes), b.splat(literal, lanes)))
    return b.finish("power")


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.value)
def test_only_simple_operations_are_written(bench, op, dtype):
    for lanes in (1, 4):
        for has_fma in (True, False):
            kernel = bench.elementwise(op, dtype, 16, lanes)
            lowered = decompose_transcendentals(kernel, bench.device(has_fma=has_fma))
            verify(lowered)
            assert functions_of(lowered) <= SIMPLE
            for value in lowered.ops:
                if isinstance(value, k.Cast):
                    source = lowered.ops[value.x].type.dtype
                    assert not (source.is_float and value.type.dtype.is_integer), "a cast to an integer is slow"


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.value)
def test_running_it_twice_changes_nothing_more(bench, op):
    once = decompose_transcendentals(bench.elementwise(op, dtypes.float32, 8), bench.device())
    assert decompose_transcendentals(once, bench.device()) is once


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.value)
def test_native_functions_stay(bench, op):
    kernel = bench.elementwise(op, dtypes.float32, 8)
    assert decompose_transcendentals(kernel, with_native(bench.device(), dtypes.float32, op)) is kernel


def test_a_native_function_of_another_dtype_does_not_count(bench):
    kernel = bench.elementwise(UnaryOp.EXP, dtypes.float64, 8)
    info = with_native(bench.device(), dtypes.float32, UnaryOp.EXP)
    assert UnaryOp.EXP not in functions_of(decompose_transcendentals(kernel, info))


def test_powers_of_integers_are_left_to_another_pass(bench):
    kernel = bench.elementwise(BinaryOp.POW, dtypes.int32, 8)
    assert decompose_transcendentals(kernel, bench.device()) is kernel


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("op", sorted(TRANSCENDENTAL, key=lambda op: op.value), ids=lambda op: op.value)
def test_half_floats_are_computed_in_float32_and_rounded(bench, op, dtype):
    x = np.linspace(-4, 4, 1001).astype(dtype.numpy)
    lowered = decompose_transcendentals(bench.elementwise(op, dtype, len(x)), bench.device())
    got = np.zeros_like(x)
    interpreter.run(lowered, [x, got])
    expected = apply_unary(op, x)
    spacing = np.abs(np.nextafter(expected, dtype.numpy.type(9)).astype(np.float64) - expected.astype(np.float64))
    with np.errstate(invalid="ignore"):
        is_near = np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= spacing
    same_bits = got.view(np.uint16) == expected.view(np.uint16)
    assert (is_near | same_bits | (np.isnan(got) & np.isnan(expected))).all()
    assert same_bits.mean() > 0.99 or np.isnan(expected).any()


@pytest.mark.parametrize("op", [UnaryOp.EXP, UnaryOp.SIN, BinaryOp.POW], ids=lambda op: op.value)
def test_half_floats_use_the_native_function_of_float32(bench, op):
    kernel = bench.elementwise(op, dtypes.float16, 8)
    lowered = decompose_transcendentals(kernel, with_native(bench.device(), dtypes.float32, op))
    assert [value.type.dtype for value in lowered.ops if isinstance(value, k.Unary | k.Binary)] == [dtypes.float32]
    assert not any(isinstance(value, k.Define) and value.memory is k.Memory.REGISTER for value in lowered.ops[3:])


def test_functions_of_one_type_share_one_array(bench):
    b = Builder()
    array = b.define(k.Memory.GLOBAL, dtypes.float32, 8)
    position = b.index(k.Axis.GROUP, 0, 8)
    value = b.unary(UnaryOp.SIN, b.load(array, position))
    b.store(array, position, b.unary(UnaryOp.COS, b.unary(UnaryOp.SIN, value)))
    lowered = decompose_transcendentals(b.finish("nested"), bench.device(has_fma=False))
    verify(lowered)
    assert sum(isinstance(op, k.Define) and op.memory is k.Memory.REGISTER for op in lowered.ops) == 1
    x = np.linspace(-9, 9, 8, dtype=np.float32)
    expected = np.cos(np.sin(np.sin(x.astype(np.float64))))
    interpreter.run(lowered, [x])
    assert np.allclose(x, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
def test_powers_by_some_constants_are_a_few_operations(bench, exponent, lanes):
    kernel = power_kernel(exponent, lanes=lanes)
    lowered = decompose_transcendentals(kernel, bench.device())
    verify(lowered)
    assert len(lowered.ops) <= len(kernel.ops) + 6
    for x in ([-np.inf, -0.0, 0.0, np.inf], [-2.0, 1.5, 1e-20, 1e20], [np.nan, -np.nan, 1.0, 3.0]):
        source, got = np.array(x, np.float32), np.zeros(4, np.float32)
        interpreter.run(lowered, [source, got])
        with np.errstate(all="ignore"):
            expected = np.power(source.astype(np.float64), np.full(4, exponent)).astype(np.float32)
        assert np.allclose(got, expected, rtol=2e-7, atol=0, equal_nan=True)
        assert (np.signbit(got) == np.signbit(expected))[~np.isnan(got)].all()


def test_kernels_without_such_functions_are_returned_as_they_are(bench):
    kernel = bench.elementwise(UnaryOp.SQRT, dtypes.float32, 8)
    assert decompose_transcendentals(kernel, bench.device()) is kernel


def test_a_device_that_has_everything_keeps_everything(bench):
    capabilities = {dtype: full_capability(dtype) for dtype in dtypes.ALL}
    info = dataclasses.replace(bench.device(), capabilities=capabilities)
    for op in FUNCTIONS:
        kernel = bench.elementwise(op, dtypes.float16, 8)
        assert decompose_transcendentals(kernel, info) is kernel
