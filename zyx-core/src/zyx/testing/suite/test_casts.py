"""Conversions between all pairs of dtypes, special values included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.kernel.parse import parse_kernel
from zyx.ops import BinaryOp
from zyx.semantics import apply_bitcast, apply_cast
from zyx.testing.compare import ulps_apart
from zyx.testing.launching import claimed_dtypes, expected, fits, lane_counts, prepare, run_on
from zyx.testing.values import least_normal, random_array, special_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx.testing.values import Array


def conversions(source: DType, targets: Sequence[DType], count: int, lanes: int, *, bits: bool = False) -> Kernel:
    """Return a kernel that converts `count` elements of `source` to each of `targets`."""
    b = Builder()
    outs = [b.define(k.Memory.GLOBAL, target, count) for target in targets]
    x = b.define(k.Memory.GLOBAL, source, count, mutable=False)
    at = b.index(k.Axis.GROUP, 0, count // lanes)
    at = at if lanes == 1 else b.binary(BinaryOp.MUL, at, b.like(lanes, at))
    value = b.load(x, at, lanes)
    for out, target in zip(outs, targets, strict=True):
        b.store(out, at, b.bitcast(value, target) if bits else b.cast(value, target))
    return b.finish("convert")


def values_of(dtype: DType, lanes: int) -> Array:
    """Return the special values of a dtype, random ones, and those near the ends of other dtypes."""
    random = np.random.default_rng(3)
    parts = [special_values(dtype), random_array(dtype, 40, random)]
    if dtype.is_float:
        ends = [float(end) for other in dtypes.INTEGERS for end in (other.min, other.max)]
        near = np.array([end + shift for end in ends for shift in (-1.0, -0.5, 0.0, 0.5, 1.0)])
        with np.errstate(over="ignore"):
            parts.append(near.astype(dtype.numpy))
    joined = np.concatenate(parts)
    return np.resize(joined, -(-len(joined) // lanes) * lanes)


def chunks(targets: Sequence[DType], device: Device) -> list[list[DType]]:
    """Return `targets` in lists that a kernel can bind, beside its source."""
    most = max(1, min(device.info.max_params - 1, len(targets)))
    return [list(targets[start : start + most]) for start in range(0, len(targets), most)]


@pytest.mark.parametrize("source", dtypes.ALL, ids=lambda dtype: dtype.short)
def test_casts_round_wrap_and_saturate_as_pinned(device: Device, source: DType) -> None:
    claimed = claimed_dtypes(device)
    if source not in claimed:
        pytest.skip(f"{device.name} does not claim to store {source}")
    lanes = max(lane_counts(device, source))
    x = values_of(source, lanes)
    for targets in chunks([target for target in claimed if target is not source], device):
        kernel = prepare(conversions(source, targets, len(x), lanes), device)
        results = run_on(device, kernel, [*(np.zeros(len(x), target.numpy) for target in targets), x])
        for target, actual in zip(targets, results, strict=False):
            _compare(actual, apply_cast(x, target), x, source, target)


def _compare(actual: Array, wanted: Array, x: Array, source: DType, target: DType) -> None:
    if target.is_float:
        wrong = ulps_apart(actual, wanted) > 0
        with np.errstate(all="ignore"):
            wrong &= ~(np.abs(wanted.astype(np.float64)) < least_normal(target))  # may be flushed to 0
    else:
        wrong = actual != wanted
    if source.is_float:
        with np.errstate(all="ignore"):
            subnormal = np.abs(x.astype(np.float64)) < least_normal(source)
        wrong &= ~(subnormal & (actual.astype(np.float64) == 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise AssertionError(f"{x[place]!r} as {target} is {actual[place]!r}, not {wanted[place]!r}")


@pytest.mark.parametrize("source", [dtype for dtype in dtypes.ALL if not dtype.is_bool], ids=lambda dtype: dtype.short)
def test_bitcasts_keep_every_bit(device: Device, source: DType) -> None:
    claimed = claimed_dtypes(device)
    targets = [t for t in claimed if t.bits == source.bits and t is not source and not t.is_bool]
    if source not in claimed or not targets:
        pytest.skip(f"{device.name} does not claim {source} and another dtype of its size")
    lanes = max(lane_counts(device, source))
    x = values_of(source, lanes)
    if source.is_float:
        x = x[~np.isnan(x.astype(np.float64))]  # which NaN it is, is not fixed
        x = np.resize(x, -(-len(x) // lanes) * lanes)
    kernel = prepare(conversions(source, targets, len(x), lanes, bits=True), device)
    results = run_on(device, kernel, [*(np.zeros(len(x), target.numpy) for target in targets), x])
    for target, actual in zip(targets, results, strict=False):
        wanted = apply_bitcast(x, target)
        if target.is_float:
            with np.errstate(invalid="ignore"):  # among the bits of integers there are signalling NaN
                is_nan = np.isnan(wanted.astype(np.float64))
            actual, wanted = actual[~is_nan], wanted[~is_nan]
        np.testing.assert_array_equal(actual.view(np.uint8), wanted.view(np.uint8), f"{source} as {target}")


@pytest.mark.parametrize(
    ("wide", "narrow"), [("u32", "u16"), ("u32", "u8"), ("u64", "u32"), ("u16", "u8"), ("i32", "i16")]
)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_narrowed_lanes_that_are_stored_leave_their_neighbours_alone(
    device: Device, wide: str, narrow: str, lanes: int
) -> None:
    """Compilers are at work on this: LLVM 22 stores a single lane that was narrowed in its old width."""
    for mask in ([lane == 0 for lane in range(lanes)], [lane == lanes - 2 for lane in range(lanes)]):
        kernel = parse_kernel(f"""
            kernel narrowed
            %o = global {narrow}[{3 * lanes}]
            %x = global {wide}[{lanes}] readonly
            %z = const 0 : i64
            %v = load %x[%z] : {wide}x{lanes}
            %c = const {int(wide[1:]) - int(narrow[1:])} : {wide}x{lanes}
            %s = shr %v, %c : {wide}x{lanes}
            %t = cast %s : {narrow}x{lanes}
            %y = const true : bool
            %n = const false : bool
            %m = vectorize {", ".join("%y" if lane else "%n" for lane in mask)} : boolx{lanes}
            %i = const {lanes} : i64
            store %o[%i] = %t if %m
        """)
        if not fits(kernel, device):
            pytest.skip(f"{device.name} does not claim {wide}, {narrow}, or {lanes} lanes of them")
        o = np.full(3 * lanes, 7, f"{narrow[0]}{int(narrow[1:]) // 8}")
        x = np.random.default_rng(1).integers(1, 100, lanes).astype(f"{wide[0]}{int(wide[1:]) // 8}")
        x <<= int(wide[1:]) - int(narrow[1:])
        (found,) = run_on(device, prepare(kernel, device), [o, x])[:1]
        (wanted,) = expected(kernel, [o, x])[:1]
        np.testing.assert_array_equal(found, wanted, f"mask {mask}")
