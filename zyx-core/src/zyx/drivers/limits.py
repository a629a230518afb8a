"""Whether a device can run a kernel at all: its sizes and types against what `DeviceInfo` says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.drivers.rendered import Rendered
from zyx.errors import UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.registers import register_arrays
from zyx.kernel.text import print_op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.backend.info import DeviceInfo
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel


def check_limits(kernel: Kernel, info: DeviceInfo) -> None:
    """Check a kernel, as it goes to the compiler, against the sizes and types that the device has.

    Raises:
        UnsupportedError: Too many params, groups or threads, too much memory, or a dtype, `Wmma` or `Swap`
            that the device does not have; the text has the kernel, the operation, the limit, and the nearest dtype.
    """
    for problem in _problems(kernel, info):
        raise UnsupportedError(f"kernel {kernel.name} does not fit {info.model}: {problem}")


def check_compiled(
    kernel: Kernel | Rendered, device: str, most_threads: int, local_bytes: int = 0, most_local_bytes: int = 0
) -> None:
    """Check what a compiler made of a kernel against what the driver says that a device has room for.

    Args:
        kernel: The kernel, or what the compiler was given of it.
        device: Name of the device.
        most_threads: How many threads of this kernel a group can have.
        local_bytes: Local memory that a group takes.
        most_local_bytes: Local memory that there is.

    Raises:
        UnsupportedError: A group takes too many registers, or too much local memory.
    """
    threads = math.prod(kernel.threads if isinstance(kernel, Rendered) else kernel.grid[1])
    if threads > most_threads:
        raise UnsupportedError(
            f"kernel {kernel.name} has groups of {threads} threads; as it is compiled for {device}, at most "
            f"{most_threads} fit"
        )
    if local_bytes > most_local_bytes:
        raise UnsupportedError(
            f"kernel {kernel.name} takes {local_bytes} bytes of local memory; {device} has {most_local_bytes}"
        )


def _problems(kernel: Kernel, info: DeviceInfo) -> Iterator[str]:
    buffers = sum(isinstance(param, k.Define) for param in kernel.params)
    if buffers > info.max_params:
        yield f"it binds {buffers} buffers, at most {info.max_params} can be"
    yield from _grid_problems(kernel, info)
    local_bytes = private_bytes = 0
    registers = register_arrays(kernel)
    for number, op in enumerate(kernel.ops):
        where = f"operation {number}, {print_op(number, op)!r}"
        if isinstance(op, k.Define):
            nbytes = op.length * op.dtype.itemsize
            if not info.can_store(op.dtype):
                yield f"{where}: {op.dtype} cannot be stored; {_way_out(op.dtype, info)}"
            if op.memory is k.Memory.GLOBAL and nbytes > info.max_buffer_bytes:
                yield f"{where}: a buffer of {nbytes} bytes, at most {info.max_buffer_bytes} can be bound"
            if op.memory is k.Memory.LOCAL:
                local_bytes += nbytes
                if local_bytes > info.local_bytes:
                    yield f"{where}: {local_bytes} bytes of local memory, there are {info.local_bytes}"
            if op.memory is k.Memory.REGISTER and number not in registers:
                private_bytes += nbytes * op.lanes
                if private_bytes > info.private_bytes:
                    yield f"{where}: {private_bytes} bytes of arrays a thread, at most {info.private_bytes} can be"
        elif isinstance(op, k.Value) and not op.type.dtype.is_bool and not info.can_store(op.type.dtype):
            yield f"{where}: there is no {op.type.dtype}; {_way_out(op.type.dtype, info)}"
        if isinstance(op, k.Swap) and (op.threads > info.subgroup_size or op.type.dtype not in info.swaps):
            have = f"{info.subgroup_size} swap {', '.join(sorted(map(str, info.swaps)))}" if info.swaps else "none swap"
            yield f"{where}: {op.threads} threads cannot swap {op.type.dtype}; {have}"
        if isinstance(op, k.Wmma):
            factor = kernel.ops[op.a]
            assert isinstance(factor, k.Value)
            if (op.dims, factor.type.dtype) not in info.wmma:
                yield f"{where}: there is no Wmma of {op.dims} and {factor.type.dtype}"


def _way_out(dtype: DType, info: DeviceInfo) -> str:
    """Return what to do on a device without `dtype`."""
    family = dtypes.FLOATS if dtype.is_float else dtypes.INTEGERS
    near = [other for other in family if info.can_store(other) and other.is_unsigned == dtype.is_unsigned]
    cast = f"cast to {max(near, key=lambda other: other.bits)} (`astype`), or " if near else ""
    return f"{cast}use a device that has it"


def _grid_problems(kernel: Kernel, info: DeviceInfo) -> Iterator[str]:
    groups, threads = kernel.grid
    for what, shape, most in (
        ("groups", groups, info.max_groups),
        ("threads of a group", threads, info.max_group_shape),
    ):
        if len(shape) > len(most) or any(size > limit for size, limit in zip(shape, most, strict=False)):
            yield f"the grid has {shape} {what}, at most {most} can be"
    if math.prod(threads) > info.max_group_threads:
        yield f"a group has {math.prod(threads)} threads, at most {info.max_group_threads} can be"
