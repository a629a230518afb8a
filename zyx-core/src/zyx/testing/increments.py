"""The programs that tests of memory and events launch, of devices that take kernels and of those that take nests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.backend import SupportsNests
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.nest.data import Nest, Store
from zyx.nest.expr import Param
from zyx.nest.pool import Pool
from zyx.ops import BinaryOp
from zyx.testing.launching import prepare

if TYPE_CHECKING:
    from zyx.backend import Device, Program
    from zyx.dtype import DType


def counted_dtype(device: Device) -> DType:
    """Return what is counted in: int32, or float32 where a device does not compute with that."""
    return dtypes.int32 if device.info.can_compute(dtypes.int32) else dtypes.float32


def increment(device: Device, length: int) -> Program:
    """Return a program that adds 1 to every element of its param, which are `length` of `counted_dtype`."""
    return _plus_one(device, length, "increment", in_place=True)


def successor(device: Device, length: int) -> Program:
    """Return a program that writes the elements of its second param, each plus 1, to its first."""
    return _plus_one(device, length, "successor", in_place=False)


def _plus_one(device: Device, length: int, name: str, *, in_place: bool) -> Program:
    dtype = counted_dtype(device)
    if isinstance(device, SupportsNests):
        pool = Pool()
        target = Param(0, dtype, length, mutable=True)
        source = target if in_place else Param(1, dtype, length, mutable=False)
        range_ = pool.range(length)
        at = pool.ref(range_)
        value = pool.binary(BinaryOp.ADD, pool.read(source, at), pool.literal(1, dtype))
        params = (target,) if in_place else (target, source)
        return device.compile_nests([Nest(params, (Store(target, at, value, None, (range_,)),), pool)], name)
    b = Builder()
    written = b.define(k.Memory.GLOBAL, dtype, length)
    read = written if in_place else b.define(k.Memory.GLOBAL, dtype, length, mutable=False)
    place = b.index(k.Axis.GROUP, 0, length)
    b.store(written, place, b.binary(BinaryOp.ADD, b.load(read, place), b.const(1, dtype)))
    return device.compile(prepare(b.finish(name), device))
