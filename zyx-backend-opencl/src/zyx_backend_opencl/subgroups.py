"""Which threads of a group run in step: OpenCL has functions for them to swap values, and does not say who they are.

Drivers put threads with neighbouring numbers along the first axis into one subgroup, as far as is known. So that
nothing relies on it where it is not so, or on an instruction that a compiler does not take, a kernel is run at first in
which threads swap their numbers; and then one whose first thread stores what some of them add up to. Intel's compiler
for processors (2026.2) takes swaps whose results one thread uses for work of that thread alone, and the others do not
come to them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zyx import dtype as dtypes
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import BinaryOp
from zyx_backend_opencl.driver import BuildError
from zyx_backend_opencl.render import SYMBOL, render

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zyx.kernel.data import Kernel, ValueId
    from zyx.render.dialect import Dialect
    from zyx_backend_opencl.driver import Session
    from zyx_backend_opencl.render import Features


def swap_in_order(session: Session, dialect: Dialect, options: str, features: Features) -> bool:
    """Return whether threads swap values with those that they should.

    Raises:
        ClError: The driver refused something other than the program.
    """
    size = features.subgroup_size
    shapes = ((size, 1), (2 * size, 1), (size, 3), (size // 2, 2))
    return all(_is_right(session, dialect, options, size, shape) for shape in shapes)


def _is_right(session: Session, dialect: Dialect, options: str, size: int, shape: tuple[int, int]) -> bool:
    """Try a group of a shape: every distance is made of bits, each of which is tried, and then a sum by all of them."""
    bits = [1 << bit for bit in range(math.gcd(size, shape[0]).bit_length() - 1)]
    count = math.prod(shape)
    numbers = np.arange(count)
    try:
        swapped = _run(session, render(_swaps(shape, bits), dialect), options, shape, len(bits) * count)
        summed = _run(session, render(_sum(shape, bits), dialect), options, shape, 1)
    except BuildError:
        return False
    is_swapped = np.array_equal(swapped.reshape(len(bits), count), numbers ^ np.array(bits)[:, None])
    return is_swapped and int(summed[0]) == sum(number * number for number in range(1 << len(bits)))


def _run(session: Session, source: str, options: str, shape: tuple[int, int], count: int) -> NDArray[np.int32]:
    """Return the `count` numbers that a kernel of one group stores."""
    kernel, memory = session.kernel(session.build(source, options), SYMBOL), session.allocate(4 * count)
    kernel.set_arg(0, memory)
    found = np.zeros(count, np.int32)
    launched = session.launch(kernel, shape, shape, ())
    session.flush()
    session.read(memory, found.view(np.uint8).data, 0, (launched,))
    return found


def _number(b: Builder, shape: tuple[int, int]) -> ValueId:
    """Return the number of a thread."""
    first, second = (b.index(k.Axis.LOCAL, axis, size, dtypes.int32) for axis, size in enumerate(shape))
    return b.binary(BinaryOp.ADD, b.binary(BinaryOp.MUL, second, b.const(shape[0], dtypes.int32)), first)


def _swaps(shape: tuple[int, int], bits: list[int]) -> Kernel:
    """Return a kernel that stores, for each bit, the number that each thread has after a swap."""
    b, count = Builder(), math.prod(shape)
    out = b.define(k.Memory.GLOBAL, dtypes.int32, len(bits) * count)
    number = _number(b, shape)
    for place, distance in enumerate(bits):
        at = b.binary(BinaryOp.ADD, number, b.const(place * count, dtypes.int32))
        b.store(out, at, b.swap(number, distance))
    return b.finish("swaps")


def _sum(shape: tuple[int, int], bits: list[int]) -> Kernel:
    """Return a kernel whose threads add their squares up, of which the first one stores the sum.

    There is nothing else in it that would keep a compiler from computing all of it in the branch of this thread.
    """
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    number = _number(b, shape)
    total = b.binary(BinaryOp.MUL, number, number)
    for distance in reversed(bits):
        total = b.binary(BinaryOp.ADD, total, b.swap(total, distance))
    zero = b.const(0, dtypes.int32)
    b.store(out, zero, total, b.binary(BinaryOp.EQ, number, zero))
    return b.finish("swaps")
