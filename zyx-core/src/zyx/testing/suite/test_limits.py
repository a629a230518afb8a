"""What a device cannot do is refused when it is compiled, by an error that names the kernel, the operation and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.ir import kernel as k
from zyx.ir.builder import Builder
from zyx.ops import BinaryOp
from zyx.testing.launching import prepare

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.ir.kernel import Kernel

#: Limits above this one are none: kernels that pass them are too large to write.
_REACHABLE = 1 << 12


def refuse(device: Device, kernel: Kernel, limit: object) -> None:
    """Assert that a device refuses a kernel, naming it and the limit."""
    with pytest.raises(UnsupportedError) as refused:
        device.compile(kernel)
    text = str(refused.value)
    assert kernel.name in text, f"{text!r} does not name the kernel"
    assert str(limit) in text, f"{text!r} does not name the limit, {limit}"


def finish(b: Builder, name: str) -> Kernel:
    """Return the kernel of a builder, with a store to its first param."""
    at = b.const(0, dtypes.int64)
    b.store(0, at, b.load(0, at))
    return b.finish(name)


def test_too_many_buffers_are_refused(device: Device) -> None:
    most = device.info.max_params
    if most > _REACHABLE:
        pytest.skip(f"{device.name} binds {most} buffers")
    b = Builder()
    for _ in range(most + 1):
        b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    refuse(device, finish(b, "too_many_buffers"), most)


def test_too_many_threads_are_refused(device: Device) -> None:
    most = device.info.max_group_threads
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, most + 1)
    thread = b.index(k.Axis.LOCAL, 0, most + 1)
    b.store(out, thread, b.const(1, dtypes.int32))
    refuse(device, b.finish("too_many_threads"), most)


def test_too_much_local_memory_is_refused(device: Device) -> None:
    most = device.info.local_bytes
    if most >= 1 << 31:
        pytest.skip(f"{device.name} has {most} bytes of local memory")
    b = Builder()
    b.define(k.Memory.GLOBAL, dtypes.int32, 1)
    scratch = b.define(k.Memory.LOCAL, dtypes.int32, most // 4 + 1)
    at = b.const(0, dtypes.int64)
    b.store(scratch, at, b.const(7, dtypes.int32))
    b.store(0, at, b.load(scratch, at))
    refuse(device, b.finish("too_much_local_memory"), most)


def test_a_buffer_that_is_too_large_is_refused(device: Device) -> None:
    most = device.info.max_buffer_bytes
    if most >= 1 << 60:
        pytest.skip(f"{device.name} binds buffers of any size")
    b = Builder()
    b.define(k.Memory.GLOBAL, dtypes.int32, most // 4 + 1)
    refuse(device, finish(b, "too_large_a_buffer"), most)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
def test_a_dtype_that_is_not_claimed_is_refused(device: Device, dtype: dtypes.DType) -> None:
    if device.info.can_store(dtype):
        pytest.skip(f"{device.name} has {dtype}")
    b = Builder()
    b.define(k.Memory.GLOBAL, dtype, 1)
    refuse(device, finish(b, "a_dtype_there_is_not"), dtype)


def test_every_kernel_of_a_claimed_size_compiles(device: Device) -> None:
    threads = min(device.info.max_group_threads, device.info.max_group_shape[0])
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, threads)
    thread = b.index(k.Axis.LOCAL, 0, threads)
    length = min(device.info.local_bytes // 4, 1 << 14)
    if length:
        scratch = b.define(k.Memory.LOCAL, dtypes.int32, length)
        b.ops.insert(1, b.ops.pop())  # arrays come before the body
        thread, scratch = 2, 1
        place = b.binary(BinaryOp.MOD, thread, b.const(length, dtypes.int64))
        b.store(scratch, place, b.const(3, dtypes.int32))
    b.store(out, thread, b.cast(thread, dtypes.int32))
    device.release(device.compile(prepare(b.finish("as_large_as_it_gets"), device)))
