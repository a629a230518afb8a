"""What a device cannot do is refused when it is compiled; the error names the kernel, the operation and the limit.

A device may do more than it claims, if it does it right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.ops import TRANSCENDENTAL, BinaryOp, UnaryOp
from zyx.testing.launching import launch, needs_kernels, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device
    from zyx.kernel.data import Kernel
    from zyx.testing.values import Array

#: Limits above this one are none: kernels that pass them are too large to write.
_REACHABLE: Final = 1 << 12
_ENORMOUS: Final = 1 << 31


def refuse(device: Device, kernel: Kernel, *words: object) -> None:
    """Assert that a device refuses a kernel, naming it and whatever `words` say."""
    needs_kernels(device)
    with pytest.raises(UnsupportedError) as refused:
        device.compile(kernel)
    _check_text(refused.value, kernel, words)


def refuse_or_run(device: Device, kernel: Kernel, args: Sequence[Array], wanted: Array, limit: object) -> None:
    """Assert that a device refuses a kernel, naming it and the limit, or that its first param becomes `wanted`."""
    needs_kernels(device)
    try:
        program = device.compile(kernel)
    except UnsupportedError as error:
        _check_text(error, kernel, [limit])
        return
    try:
        np.testing.assert_array_equal(launch(device, program, args)[0], wanted)
    finally:
        device.release(program)


def _check_text(error: UnsupportedError, kernel: Kernel, words: Sequence[object]) -> None:
    text = str(error)
    assert kernel.name in text, f"{text!r} does not name the kernel"
    for word in words:
        assert str(word) in text, f"{text!r} does not name {word}"


def test_too_many_buffers_are_refused(device: Device) -> None:
    most = device.info.max_params
    if most > _REACHABLE:
        pytest.skip(f"{device.name} binds {most} buffers")
    b = Builder()
    arrays = [b.define(k.Memory.GLOBAL, dtypes.int32, 1, mutable=not number) for number in range(most + 1)]
    at = b.const(0, dtypes.int64)
    total = b.load(arrays[0], at)
    for array in arrays[1:]:
        total = b.binary(BinaryOp.ADD, total, b.load(array, at))
    b.store(arrays[0], at, total)
    args = [np.full(1, number, np.int32) for number in range(most + 1)]
    refuse_or_run(device, b.finish("too_many_buffers"), args, np.array([most * (most + 1) // 2], np.int32), most)


def test_too_many_threads_are_refused(device: Device) -> None:
    most = device.info.max_group_threads
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, most + 1)
    thread = b.index(k.Axis.LOCAL, 0, most + 1)
    b.store(out, thread, b.const(1, dtypes.int32))
    refuse_or_run(
        device,
        b.finish("too_many_threads"),
        [np.zeros(most + 1, np.int32)],
        np.ones(most + 1, np.int32),
        most,
    )


def test_too_much_local_memory_is_refused(device: Device) -> None:
    most = device.info.local_bytes
    if most >= _ENORMOUS:
        pytest.skip(f"{device.name} has {most} bytes of local memory")
    length = most // 4 + 1
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, 2)
    scratch = b.define(k.Memory.LOCAL, dtypes.int32, length)
    first, last = b.const(0, dtypes.int64), b.const(length - 1, dtypes.int64)
    b.store(scratch, first, b.const(7, dtypes.int32))
    b.store(scratch, last, b.const(8, dtypes.int32))
    b.store(out, first, b.load(scratch, first))
    b.store(out, b.const(1, dtypes.int64), b.load(scratch, last))
    kernel = b.finish("too_much_local_memory")
    refuse_or_run(device, kernel, [np.zeros(2, np.int32)], np.array([7, 8], np.int32), most)


def test_a_buffer_that_is_too_large_is_refused(device: Device) -> None:
    most = device.info.max_buffer_bytes
    if most >= 1 << 60:
        pytest.skip(f"{device.name} binds buffers of any size")
    b = Builder()
    b.define(k.Memory.GLOBAL, dtypes.int32, most // 4 + 1)
    at = b.const(0, dtypes.int64)
    b.store(0, at, b.load(0, at))
    refuse(device, b.finish("too_large_a_buffer"), most)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.short)
def test_a_dtype_that_is_not_claimed_is_refused(device: Device, dtype: dtypes.DType) -> None:
    if device.info.can_store(dtype):
        pytest.skip(f"{device.name} claims {dtype}")
    b = Builder()
    b.define(k.Memory.GLOBAL, dtype, 1)
    at = b.const(0, dtypes.int64 if device.info.can_compute(dtypes.int64) else dtypes.int32)
    b.store(0, at, b.load(0, at))
    refuse(device, b.finish("a_dtype_there_is_not"), dtype)


def test_a_function_that_is_not_claimed_is_refused(device: Device) -> None:
    absent = [op for op in UnaryOp if op in TRANSCENDENTAL and op not in device.info.capabilities[dtypes.float32].unary]
    if not absent:
        pytest.skip(f"{device.name} claims every function of float32")
    for op in absent:
        b = Builder()
        out = b.define(k.Memory.GLOBAL, dtypes.float32, 1)
        at = b.const(0, dtypes.int64)
        b.store(out, at, b.unary(op, b.load(out, at)))
        refuse(device, b.finish(f"native_{op.value}"), op.value)


def test_every_kernel_of_a_claimed_size_compiles(device: Device) -> None:
    threads = min(device.info.max_group_threads, device.info.max_group_shape[0])
    length = min(device.info.local_bytes // 4, 1 << 14)
    b = Builder()
    out = b.define(k.Memory.GLOBAL, dtypes.int32, threads)
    scratch = b.define(k.Memory.LOCAL, dtypes.int32, length) if length else None
    thread = b.index(k.Axis.LOCAL, 0, threads)
    value = b.cast(thread, dtypes.int32)
    if scratch is not None:
        place = b.binary(BinaryOp.MOD, thread, b.const(length, dtypes.int64))
        b.store(scratch, place, b.const(3, dtypes.int32))
        b.barrier()
        value = b.binary(BinaryOp.ADD, value, b.load(scratch, place))
    b.store(out, thread, value)
    kernel = prepare(b.finish("as_large_as_it_gets"), device)
    program = device.compile(kernel)
    (result,) = launch(device, program, [np.zeros(threads, np.int32)])
    np.testing.assert_array_equal(result, np.arange(threads, dtype=np.int32) + (3 if length else 0))
    device.release(program)
