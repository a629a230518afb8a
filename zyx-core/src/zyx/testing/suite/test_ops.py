"""Every operation, of every dtype and lane count that the device claims, alone in a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import COMPARISONS, TRANSCENDENTAL, BinaryOp, UnaryOp, binary_ops, unary_ops
from zyx.passes.narrow_indices import narrow_indices
from zyx.semantics import apply_binary, apply_unary
from zyx.testing.compare import assert_within, outside, ulps_apart
from zyx.testing.graphs import Reference
from zyx.testing.launching import lane_counts, prepare, run_on
from zyx.testing.values import epsilon, largest, least_normal, random_array, special_pairs, special_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.testing.values import Array

    Op = UnaryOp | BinaryOp

#: Units in the last place that a result may be off; 0 where there is one right result. Quotients and roots are what
#: OpenCL and WebGPU promise.
_QUOTIENTS: Final = (BinaryOp.DIV, UnaryOp.SQRT, UnaryOp.RECIPROCAL)
_QUOTIENT_ULPS: Final = 3.0
_FUNCTION_ULPS: Final = 4.0
_POWER_ULPS: Final = 16.0


def ulps(op: Op, dtype: DType) -> float:
    """Return how far a result of `op` may be off, in units in the last place."""
    if not dtype.is_float:
        return 0.0
    if op in _QUOTIENTS:
        return _QUOTIENT_ULPS if dtype.bits > 16 else 1.0
    if op is BinaryOp.POW:
        return _POWER_ULPS if dtype.bits > 16 else 1.0
    if op in TRANSCENDENTAL:
        return _FUNCTION_ULPS if dtype.bits > 16 else 1.0
    return 0.0


def elementwise(ops: Sequence[Op], dtype: DType, count: int, lanes: int) -> Kernel:
    """Return a kernel that stores ``op(x[i])`` or ``op(x[i], y[i])`` for all i < `count`, operation by operation."""
    b = Builder()
    result = dtypes.bool_ if ops[0] in COMPARISONS else dtype
    out = b.define(k.Memory.GLOBAL, result, count * len(ops))
    x = b.define(k.Memory.GLOBAL, dtype, count, mutable=False)
    y = b.define(k.Memory.GLOBAL, dtype, count, mutable=False) if isinstance(ops[0], BinaryOp) else None
    group = b.index(k.Axis.GROUP, 0, count // lanes)
    at = group if lanes == 1 else b.binary(BinaryOp.MUL, group, b.like(lanes, group))
    left = b.load(x, at, lanes)
    right = None if y is None else b.load(y, at, lanes)
    for number, op in enumerate(ops):
        if isinstance(op, UnaryOp):
            value = b.unary(op, left)
        else:
            assert right is not None
            value = b.binary(op, left, right)
        b.store(out, b.binary(BinaryOp.ADD, at, b.like(number * count, at)), value)
    return b.finish("operations")


def padded(array: Array, multiple: int) -> Array:
    """Return `array` with its first elements again at the end, so that its length is a multiple."""
    return np.resize(array, -(-len(array) // multiple) * multiple)


def operands(dtype: DType, lanes: int, *, pairs: bool) -> list[Array]:
    """Return the values to compute with: special ones, in all pairs, and random ones."""
    random = np.random.default_rng(dtype.bits)
    more = [random_array(dtype, 64, random) for _ in range(2)]
    arrays = special_pairs(dtype) if pairs else (special_values(dtype),)
    return [padded(np.concatenate([array, extra]), lanes) for array, extra in zip(arrays, more, strict=False)]


def check(op: Op, dtype: DType, actual: Array, args: Sequence[Array]) -> None:
    """Assert that `actual` is `op` of `args`, as exactly as it has to be."""
    wanted = _apply(op, args)
    allowed = ulps(op, dtype)
    what = f"{op.value} of {dtype}"
    if not dtype.is_float:
        assert_within(actual, wanted, what)
        return
    wrong = actual != wanted if op in COMPARISONS else ulps_apart(actual, wanted) > allowed
    # Devices may flush subnormal operands and results to 0.
    flushed = [_flush(arg, dtype) for arg in args]
    alternative = _apply(op, flushed)
    if op in COMPARISONS:
        wrong &= actual != alternative
    else:
        wrong &= ulps_apart(_flush(actual, dtype), _flush(alternative, dtype)) > allowed
        wrong &= ulps_apart(_flush(actual, dtype), _flush(wanted, dtype)) > allowed
        wrong &= ~((actual == 0) & _rounds_to_normal(op, args, dtype))
    if wrong.any():
        place = int(np.argmax(wrong))
        given = ", ".join(repr(arg[place]) for arg in args)
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} results are wrong, first {op.value}({given}) = "
            f"{actual[place]!r}, not {wanted[place]!r} (allowed: {allowed} units in the last place)"
        )


def _apply(op: Op, args: Sequence[Array]) -> Array:
    return apply_unary(op, args[0]) if isinstance(op, UnaryOp) else apply_binary(op, args[0], args[1])


def _rounds_to_normal(op: Op, args: Sequence[Array], dtype: DType) -> Array:
    """Return where a result is subnormal, and only rounding it makes it normal: devices may flush it before that."""
    if dtype is dtypes.float64:
        return np.zeros(args[0].shape, np.bool_)
    exact = np.abs(_apply(op, [arg.astype(np.float64) for arg in args]))
    with np.errstate(invalid="ignore"):
        return np.asarray((exact < least_normal(dtype)) & (exact > least_normal(dtype) * (1 - epsilon(dtype))))


def _flush(array: Array, dtype: DType) -> Array:
    with np.errstate(invalid="ignore"):
        small = np.abs(array.astype(np.float64)) < least_normal(dtype)
    zero = np.copysign(array.dtype.type(0), array) if dtype.is_float else array.dtype.type(0)
    return np.where(small, zero, array)


def run_and_check(device: Device, ops: Sequence[Op], dtype: DType, lanes: int, *, decompose: bool) -> None:
    """Run a kernel of `ops` on a device and compare what it stores."""
    args = operands(dtype, lanes, pairs=isinstance(ops[0], BinaryOp))
    kernel = elementwise(ops, dtype, len(args[0]), lanes)
    if decompose:
        kernel = prepare(kernel, device)
    elif not device.info.can_compute(dtypes.int64):
        kernel = narrow_indices(kernel)
    result = np.zeros(len(ops) * len(args[0]), dtypes.bool_.numpy if ops[0] in COMPARISONS else dtype.numpy)
    stored = run_on(device, kernel, [result, *args])[0].reshape(len(ops), -1)
    for op, actual in zip(ops, stored, strict=True):
        check(op, dtype, actual, args)


#: Kinds of operations that a kernel has together, each with whether an operation is of it.
FAMILIES: Final[dict[str, Callable[[Op], bool]]] = {
    "unary": lambda op: isinstance(op, UnaryOp),
    "binary": lambda op: isinstance(op, BinaryOp) and op not in COMPARISONS,
    "comparisons": lambda op: op in COMPARISONS,
}


def of_family(family: str, unary: frozenset[UnaryOp], binary: frozenset[BinaryOp]) -> list[Op]:
    """Return the operations of a family, in the order of their definition; without any, skip the test."""
    ops = [op for op in (*UnaryOp, *BinaryOp) if (op in unary or op in binary) and FAMILIES[family](op)]
    if not ops:
        pytest.skip(f"the device claims nothing of {family}")
    return ops


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("family", FAMILIES)
def test_native_operations_give_the_right_values(device: Device, family: str, dtype: DType) -> None:
    if not device.info.can_compute(dtype):
        pytest.skip(f"{device.name} does not claim to compute with {dtype}")
    capability = device.info.capabilities[dtype]
    guarded = {BinaryOp.DIV, BinaryOp.MOD} if dtype.is_integer else set()  # passes keep divisors of 0 from devices
    ops = of_family(family, capability.unary, capability.binary - guarded)
    for lanes in lane_counts(device, dtype):
        run_and_check(device, ops, dtype, lanes, decompose=False)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("family", FAMILIES)
def test_all_operations_give_the_right_values_after_the_standard_passes(
    device: Device, family: str, dtype: DType
) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")
    for lanes in {1, max(lane_counts(device, dtype))}:
        run_and_check(device, of_family(family, unary_ops(dtype), binary_ops(dtype)), dtype, lanes, decompose=True)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
def test_choices_and_multiply_adds_give_the_right_values(device: Device, dtype: DType) -> None:
    if not device.info.can_store(dtype):
        pytest.skip(f"{device.name} does not claim to store {dtype}")
    lanes = max(lane_counts(device, dtype))
    x, y = operands(dtype, lanes, pairs=True)
    count = len(x)
    condition = np.random.default_rng(5).random(count) < 0.5
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtype, 2 * count)
    arrays = [b.define(k.Memory.GLOBAL, d, count, mutable=False) for d in (dtypes.bool_, dtype, dtype)]
    at = b.index(k.Axis.GROUP, 0, count // lanes)
    at = b.binary(BinaryOp.MUL, at, b.like(lanes, at))
    test, left, right = (b.load(array, at, lanes) for array in arrays)
    b.store(out, at, b.where(test, left, right))
    second = b.binary(BinaryOp.ADD, at, b.like(count, at))
    b.store(out, second, left if dtype.is_bool else b.mad(left, right, right))
    args = [np.zeros(2 * count, dtype.numpy), condition, x, y]
    chosen, sums = run_on(device, prepare(b.finish("choose"), device), args)[0].reshape(2, -1)
    assert_within(chosen, np.where(condition, x, y), f"where of {dtype}")
    if dtype.is_bool:
        assert_within(sums, x, "copies of bool")
        return
    if not dtype.is_float:
        rounded = apply_binary(BinaryOp.ADD, apply_binary(BinaryOp.MUL, x, y), y)
        assert_within(sums, rounded, f"multiply-add of {dtype}")
        return
    wanted, flushed = _multiply_add(x, y, dtype), _multiply_add(_flush(x, dtype), _flush(y, dtype), dtype)
    is_flushed = ~outside(sums, flushed)  # devices may take subnormal factors for 0
    value, bound = (np.where(is_flushed, getattr(flushed, part), getattr(wanted, part)) for part in ("value", "bound"))
    assert_within(sums, Reference(value, bound), f"multiply-add of {dtype}")


def _multiply_add(x: Array, y: Array, dtype: DType) -> Reference:
    """Return ``x * y + y``, rounded once or twice."""
    rounded_twice = apply_binary(BinaryOp.ADD, apply_binary(BinaryOp.MUL, x, y), y)
    with np.errstate(all="ignore"):
        size = np.abs(x.astype(np.float64) * y.astype(np.float64)) + np.abs(y.astype(np.float64))
        bound = 2 * epsilon(dtype) * size + least_normal(dtype)
    # Where the product leaves the range of the type, and the sum does not, rounding it or not makes all the difference.
    is_plain = np.isfinite(x.astype(np.float64)) & np.isfinite(y.astype(np.float64))
    return Reference(rounded_twice, np.where(size < largest(dtype) / 2, bound, np.where(is_plain, np.inf, 0.0)))
