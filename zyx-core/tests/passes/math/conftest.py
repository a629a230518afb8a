"""What the tests of the formulas share: run them on arrays, on two kinds of machine, and judge the results in ulps."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend.info import DeviceInfo, full_capability
from zyx.dtype import as_dtype
from zyx.kernel import data as k
from zyx.kernel import run as interpreter
from zyx.kernel.build import Builder
from zyx.kernel.verify import verify
from zyx.ops import BinaryOp, UnaryOp
from zyx.passes.decompose_transcendentals import decompose_transcendentals
from zyx.testing.fused import rounding_once

# Stored bits of the significand, and the exponent of the least normal number.
FORMATS = {np.dtype(np.float32): (23, -126), np.dtype(np.float64): (52, -1022)}


def device(*, has_fma=True, has_uint64=True):
    """A device without any transcendental function of its own."""
    capabilities = {dtype: full_capability(dtype, transcendental=False) for dtype in dtypes.ALL}
    if not has_uint64:
        del capabilities[dtypes.uint64]
    return DeviceInfo("test", "1", capabilities, has_fma=has_fma)


def elementwise(op, dtype, count, lanes=1):
    """A kernel that applies `op` to arrays of `count` elements, `lanes` at a time; the last param is the result."""
    b = Builder()
    sources = [b.define(k.Memory.GLOBAL, dtype, count, mutable=False) for _ in range(1 + isinstance(op, BinaryOp))]
    target = b.define(k.Memory.GLOBAL, dtype, count)
    position = b.index(k.Axis.GROUP, 0, count // lanes)
    if lanes > 1:
        position = b.binary(BinaryOp.MUL, position, b.like(lanes, position))
    values = [b.load(source, position, lanes) for source in sources]
    b.store(target, position, b.unary(op, *values) if isinstance(op, UnaryOp) else b.binary(op, *values))
    return b.finish(op.value)


def run_fused(kernel, sources):
    """Run an elementwise kernel on a machine whose `Mad` rounds once; return what it stores."""
    with rounding_once():
        run = interpreter.Executable(kernel)
    result = np.zeros_like(sources[0])
    run([*sources, result])
    return result


@functools.lru_cache(maxsize=8)
def decomposed(op, dtype, count, has_fma, has_uint64):
    """What runs the decomposition of `op` on arrays of `count` elements; made once, for making it takes as long."""
    kernel = elementwise(op, dtype, count)
    lowered = decompose_transcendentals(kernel, device(has_fma=has_fma, has_uint64=has_uint64))
    verify(lowered)
    with rounding_once() if has_fma else nullcontext():
        return interpreter.Executable(lowered)


def evaluate(op, *arrays, has_fma=True, has_uint64=True):
    """Apply the decomposition of `op` to arrays, on a device with or without `Mad` that rounds once."""
    run = decomposed(op, as_dtype(arrays[0].dtype), len(arrays[0]), has_fma, has_uint64)
    result = np.zeros_like(arrays[0])
    run([*arrays, result])
    return result


def ulps(got, exact):
    """How far `got` is off, in units of the last place of `exact`; infinite where it should be special and is not.

    `exact` has a type of more digits. Results beyond the largest number count as the next power of 2.
    """
    mantissa, least_exponent = FORMATS[got.dtype]
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        beyond = np.ldexp(exact.dtype.type(1), 2 - least_exponent)
        wide = np.where(np.isinf(got) & np.isfinite(exact), np.copysign(beyond, got), got.astype(exact.dtype))
        exponent = np.clip(np.frexp(exact)[1] - 1, least_exponent, 1 - least_exponent)
        error = np.ldexp(np.abs(wide - exact), mantissa - exponent)
    is_same = (np.isnan(rounded) & np.isnan(got)) | ((rounded == got) & (np.signbit(rounded) == np.signbit(got)))
    must_be_same = ~np.isfinite(exact) | np.isnan(got) | (exact == 0) | (got == 0) & (rounded == 0)
    return np.where(is_same & ~np.isfinite(rounded), 0, np.where(must_be_same & ~is_same, np.inf, error))


@pytest.fixture
def bench():
    """The functions above."""
    return SimpleNamespace(device=device, elementwise=elementwise, run_fused=run_fused, evaluate=evaluate, ulps=ulps)
