"""The interpreter as a machine whose multiply-adds round once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from zyx.kernel import data as k
from zyx.kernel import run_steps as interpreter_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.kernel.data import Op
    from zyx.kernel.run_steps import Computation
    from zyx.semantics import Array


@contextmanager
def rounding_once() -> Iterator[None]:
    """Have each `Executable` that is made within the context round `Mad` of float32 and float64 once."""
    twice = interpreter_steps.computation

    def computation(ops: Sequence[Op], op: k.Pure) -> Computation:
        if isinstance(op, k.Mad) and op.type.dtype.is_float and op.type.dtype.bits > 16:
            x, y, z = op.x, op.y, op.z
            return lambda values: fused_multiply_add(values[x], values[y], values[z])
        return twice(ops, op)

    with mock.patch.object(interpreter_steps, "computation", computation):
        yield


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Return ``x * y + z`` rounded once, but for rare halfway cases."""
    with np.errstate(all="ignore"):
        if x.dtype == np.float32:
            return (x.astype(np.float64) * y + z).astype(np.float32)
        # In the 64 bits of an x86 long double, products of halves are exact, and so is the error of the sum.
        x, y, z = (operand.astype(np.longdouble) for operand in (x, y, z))
        product = x * y
        (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
        error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
        total = product + z
        part = total - product
        rest = (product - (total - part)) + (z - part)
        correction = rest + error
        is_exact = (correction == 0) | ~np.isfinite(correction)  # adding 0 would lose the sign of a zero
        return np.where(is_exact, total, total + correction).astype(np.float64)


def _halves(x: Array) -> tuple[Array, Array]:
    """Return two numbers of 32 bits each, or less, whose sum is `x`."""
    scaled = x * (2.0**32 + 1)
    high = scaled - (scaled - x)
    return high, x - high
