"""What this processor is and can do."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import Capability, DeviceInfo
from zyx.ops import BinaryOp, UnaryOp
from zyx.render.llvm.types import LANES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx_backend_c.target import Target

#: Bytes of the first, second and last level of cache where the system does not say.
_TYPICAL_CACHES: Final = (32 << 10, 512 << 10, 8 << 20)

_CACHE_FOLDER: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

#: Estimates for choosing schedules, of a core of the 2020s: clock, and bytes a second from memory.
_CLOCK_HZ: Final = 3.5e9
_BYTES_PER_S: Final = 25e9


def device_info(
    target: Target, threads: int, driver: str, *, has_fmod: bool, can_stream: bool, has_byte_products: bool = False
) -> DeviceInfo:
    """Return the record of a device that runs on `threads` threads of this processor.

    Args:
        target: The processor.
        threads: How many threads run groups.
        driver: Toolchain and its version.
        has_fmod: Whether the C library's fmod can be called.
        can_stream: Whether the toolchain compiles streaming stores as such.
        has_byte_products: Whether it compiles sums of pairs of products of bytes to one instruction.
    """
    caches = cache_sizes()
    return DeviceInfo(
        model=f"{processor_name()} ({target.cpu}, {target.vector_bytes * 8}-bit vectors)",
        driver=driver,
        capabilities=capabilities(target, has_fmod=has_fmod),
        flops_per_s=threads * target.vector_bytes / 4 * 2 * _CLOCK_HZ,  # a fused multiply-add a cycle
        bytes_per_s=min(threads, 8) * _BYTES_PER_S,
        units=threads,
        max_groups=((1 << 31) - 1,) * 3,
        max_group_threads=1,
        max_group_shape=(1, 1, 1),
        vector_bytes=target.vector_bytes,
        registers=target.registers,
        local_bytes=caches[1] if len(caches) > 1 else _TYPICAL_CACHES[1],  # scratch memory, which should stay near
        cache_bytes=caches,
        max_params=1024,
        has_shuffle=True,
        has_fma=target.has_fma,
        has_streaming=can_stream,
        has_byte_products=has_byte_products,
    )


def capabilities(target: Target, *, has_fmod: bool) -> Mapping[DType, Capability]:
    """Return what the renderers have forms for: all but transcendental functions, powers, and arithmetic on halves."""
    lanes = LANES[1:]
    result = {}
    for dtype in dtypes.ALL:
        if dtype.is_float and dtype.bits == 16:
            result[dtype] = Capability(lanes=lanes)
            continue
        unary, binary = ops.unary_ops(dtype) - ops.TRANSCENDENTAL, ops.binary_ops(dtype) - {BinaryOp.POW}
        if dtype.is_float and not target.has_rounding:
            unary -= {UnaryOp.FLOOR, UnaryOp.TRUNC}
        if dtype.is_float and not has_fmod:
            binary -= {BinaryOp.MOD}
        result[dtype] = Capability(unary, binary, ops.reduce_ops(dtype), lanes)
    return result


def processor_name() -> str:
    """Return what the processor calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def cache_sizes(folder: Path = _CACHE_FOLDER) -> tuple[int, ...]:
    """Return the bytes of the caches for data that one core sees, nearest first."""
    sizes = {}
    try:
        for index in folder.glob("index[0-9]*"):
            if (index / "type").read_text(encoding="ascii").strip() == "Instruction":
                continue
            text = (index / "size").read_text(encoding="ascii").strip()
            sizes[int((index / "level").read_text(encoding="ascii"))] = int(text.rstrip("KMG")) * _UNITS.get(
                text[-1], 1
            )
    except (OSError, ValueError):  # another system, or a container that hides it
        return _TYPICAL_CACHES
    return tuple(sizes[level] for level in sorted(sizes)) or _TYPICAL_CACHES
