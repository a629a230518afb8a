"""Run kernels on a device, and on the interpreter, which says what they have to give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from zyx import dtype as dtypes
from zyx.backend import SupportsNests
from zyx.drivers.limits import check_limits
from zyx.errors import UnsupportedError
from zyx.kernel import run as interpreter
from zyx.kernel.data import Atomic, Define, Loop, Value
from zyx.kernel.verify import verify
from zyx.passes.pipeline import run_passes, standard_passes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.backend import Argument, Device, MemoryPool, PoolBuffer, Program
    from zyx.dtype import DType, Scalar
    from zyx.kernel.data import Kernel
    from zyx.testing.values import Array


def claimed_dtypes(device: Device) -> list[DType]:
    """Return the dtypes that a device can store."""
    return [dtype for dtype in dtypes.ALL if device.info.can_store(dtype)]


def lane_counts(device: Device, dtype: DType) -> list[int]:
    """Return the lane counts that a device claims for a dtype, 1 among them."""
    return [1, *sorted(device.info.capabilities[dtype].lanes)]


def needs_kernels(device: Device) -> None:
    """Skip a test of kernels where the device is given nests, and refuses every kernel."""
    if isinstance(device, SupportsNests):
        pytest.skip(f"{device.name} is given nests, and takes no kernels")


def prepare(kernel: Kernel, device: Device) -> Kernel:
    """Return a kernel as it goes to the compiler of a device; skip the test if that takes none."""
    needs_kernels(device)
    return run_passes(kernel, standard_passes(device.info), check=True)


def bytes_of(array: Array) -> memoryview:
    """Return the bytes of an array that is dense, in row-major order."""
    return array.reshape(-1).view(np.uint8).data


def upload(pool: MemoryPool, array: Array) -> PoolBuffer:
    """Return a buffer that holds the elements of `array`, of which there is at least one."""
    data = bytes_of(np.ascontiguousarray(array))
    buffer, event = pool.allocate(data.nbytes)
    pool.sync_events([pool.host_to_pool(data, buffer, [event])])
    return buffer


def download(pool: MemoryPool, buffer: PoolBuffer, like: Array) -> Array:
    """Return an array of the shape and dtype of `like` with the bytes of `buffer`."""
    result = np.empty_like(np.ascontiguousarray(like))
    pool.pool_to_host(buffer, bytes_of(result))
    return result


class Loaded:
    """Arguments of a launch in the memory of a device; freed at the end of a ``with`` block."""

    def __init__(self, device: Device, args: Sequence[Array | Scalar]) -> None:
        self._pool = device.memory_pool
        self._given = list(args)
        self.args: list[Argument] = []

    def __enter__(self) -> Loaded:
        for given in self._given:
            self.args.append(upload(self._pool, given) if isinstance(given, np.ndarray) else given)
        return self

    def __exit__(self, *exception: object) -> None:
        for argument, given in zip(self.args, self._given, strict=True):
            if isinstance(given, np.ndarray):
                self._pool.deallocate(argument)  # type: ignore[arg-type]  # what an array became is a buffer

    def arrays(self) -> list[Array]:
        """Return what the buffers hold, in order."""
        return list(self._arrays())

    def _arrays(self) -> Iterator[Array]:
        for argument, given in zip(self.args, self._given, strict=True):
            if isinstance(given, np.ndarray):
                yield download(self._pool, argument, given)  # type: ignore[arg-type]


def launch(device: Device, program: Program, args: Sequence[Array | Scalar]) -> list[Array]:
    """Launch `program` on copies of the arrays among `args`, and return what they hold after it."""
    with Loaded(device, args) as loaded:
        device.memory_pool.sync_events([device.launch(program, loaded.args)])
        return loaded.arrays()


def run_on(device: Device, kernel: Kernel, args: Sequence[Array | Scalar]) -> list[Array]:
    """Compile a verified kernel and launch it once; return the arrays. Skip the test if the device takes no kernels."""
    needs_kernels(device)
    verify(kernel)
    program = device.compile(kernel)
    try:
        return launch(device, program, args)
    finally:
        device.release(program)


def expected(kernel: Kernel, args: Sequence[Array | Scalar]) -> list[Array]:
    """Return what the interpreter makes of copies of the arrays among `args`."""
    copies = [given.copy() if isinstance(given, np.ndarray) else given for given in args]
    interpreter.run(kernel, copies)
    return [copy for copy in copies if isinstance(copy, np.ndarray)]


def fits(kernel: Kernel, device: Device) -> bool:
    """Whether a device claims the buffers, groups, threads, memory, atomics, lanes and loops of a kernel."""
    info = device.info
    try:
        check_limits(kernel, info)
    except UnsupportedError:
        return False
    for op in kernel.ops:
        if isinstance(op, Atomic):
            target = kernel.ops[op.target]
            assert isinstance(target, Define)  # what an atomic has for its target
            if op.op not in info.capabilities[target.dtype].atomic:
                return False
        elif isinstance(op, Loop) and op.end is not None and not device.takes_loop_ends:
            return False
    vectors = {op.type for op in kernel.ops if isinstance(op, Value) and op.type.lanes > 1}
    return all(type_.lanes in lane_counts(device, type_.dtype) for type_ in vectors)
