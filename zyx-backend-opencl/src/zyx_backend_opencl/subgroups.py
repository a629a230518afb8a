"""Which threads of a group run in step: OpenCL has functions for them to swap values, and does not say who they are.

Drivers put threads with neighbouring numbers along the first axis into one subgroup, as far as is known. So that
nothing relies on it where it is not so, or on an instruction that a compiler does not take, a kernel is run at first in
which threads swap their numbers. The first of some threads then stores what they add up to: Intel's compiler for
processors (2026.2) takes swaps whose results only some threads use for work of these threads alone, and the others do
not come to them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import BinaryOp
from zyx_backend_opencl.driver import BuildError
from zyx_backend_opencl.render import SYMBOL, render

if TYPE_CHECKING:
    from zyx.ir.kernel import Kernel
    from zyx.render.dialect import Dialect
    from zyx_backend_opencl.driver import Session
    from zyx_backend_opencl.render import Features


def swap_in_order(session: Session, dialect: Dialect, options: str, features: Features) -> bool:
    """Return whether threads swap values with those that they should.

    Raises:
        Fault: The driver refused something other than the program.
    """
    size = features.subgroup_size
    shapes = ((2 * size, 1), (size, 3), (size // 2, 2))
    return all(_is_right(session, dialect, options, size, shape) for shape in shapes)


def _is_right(session: Session, dialect: Dialect, options: str, size: int, shape: tuple[int, int]) -> bool:
    """Try a group of a shape: every distance is made of bits, each of which is tried."""
    bits = [1 << bit for bit in range(math.gcd(size, shape[0]).bit_length() - 1)]
    count = math.prod(shape)
    try:
        built = session.build(render(_kernel(shape, bits), dialect), options)
    except BuildError:
        return False
    kernel, memory = session.kernel(built, SYMBOL), session.allocate(4 * (len(bits) + 1) * count)
    kernel.set_arg(0, memory)
    found = np.zeros((len(bits) + 1, count), np.int32)
    launched = session.launch(kernel, shape, shape, ())
    session.flush()
    session.read(memory, found.reshape(-1).view(np.uint8).data, 0, (launched,))
    numbers, together = np.arange(count), 1 << len(bits)
    sums = (numbers * numbers).reshape(-1, together).sum(axis=1)
    return np.array_equal(found[:-1], numbers ^ np.array(bits)[:, None]) and np.array_equal(found[-1, ::together], sums)


def _kernel(shape: tuple[int, int], bits: list[int]) -> Kernel:
    """Return a kernel that stores what threads have after a swap, for each bit, and then sums by first threads."""
    b, count = Builder(), math.prod(shape)
    out = b.define(k.Memory.GLOBAL, dtypes.int32, (len(bits) + 1) * count)
    first, second = (b.index(k.Axis.LOCAL, axis, size, dtypes.int32) for axis, size in enumerate(shape))
    number = b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, second, b.const(shape[0], dtypes.int32)), first)
    total = b.binary(BinaryOp.MUL, number, number)
    for distance in bits:
        total = b.binary(BinaryOp.ADD, total, b.swap(total, distance))
    for place, distance in enumerate(bits):
        at = b.binary(BinaryOp.ADD, number, b.const(place * count, dtypes.int32))
        b.store(out, at, b.swap(number, distance))
    rest = b.binary(BinaryOp.AND, number, b.const((1 << len(bits)) - 1, dtypes.int32))
    is_first = b.binary(BinaryOp.EQ, rest, b.const(0, dtypes.int32))
    at = b.binary(BinaryOp.ADD, number, b.const(len(bits) * count, dtypes.int32))
    b.store(out, at, total, is_first)
    return b.finish("swaps")
