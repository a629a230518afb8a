"""What a CUDA device is and can do: limits as the driver reports them, rates as estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import Capability, DeviceInfo
from zyx.ops import BinaryOp, UnaryOp
from zyx_backend_cuda.render import LANES, SWAPS, products_of_warps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.render.dialect import Dialect
    from zyx_backend_cuda.driver import Session

#: float32 operations a cycle of one unit, by compute capability; others have as many as the newest.
_LANES: Final = {70: 64, 75: 64, 80: 64}
_NEWEST_LANES: Final = 128
#: Registers of a thread: the most that an instruction can name.
_REGISTERS: Final = 255
#: Bytes of the largest load of a thread.
_VECTOR_BYTES: Final = 16
#: Bytes of arguments that a kernel may have, in all CUDA versions; a pointer takes 8.
_PARAMETER_BYTES: Final = 4096
_BYTES_PER_S: Final = 3e11


def capability_of(session: Session) -> int:
    """Return the compute capability: 90 for 9.0."""
    return 10 * session.attribute("COMPUTE_CAPABILITY_MAJOR") + session.attribute("COMPUTE_CAPABILITY_MINOR")


def device_info(session: Session, dialect: Dialect, driver: str, *, tf32: bool = False) -> DeviceInfo:
    """Return the record of a device.

    Args:
        session: The device, open.
        dialect: The language of its kernels.
        driver: Versions of this package, the driver and the compiler.
        tf32: Whether factors of float32 may be rounded for tensor cores.
    """
    capability = capability_of(session)
    units = max(1, session.attribute("MULTIPROCESSOR_COUNT", 1))
    clock_hz = 1e3 * session.attribute("CLOCK_RATE", 1_000_000)
    bus_bytes = session.attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8
    memory_hz = 1e3 * session.attribute("MEMORY_CLOCK_RATE")
    return DeviceInfo(
        model=f"{session.name} (sm_{capability})",
        driver=driver,
        capabilities=_capabilities(dialect),
        flops_per_s=units * clock_hz * 2 * _LANES.get(capability, _NEWEST_LANES),
        bytes_per_s=2 * bus_bytes * memory_hz or _BYTES_PER_S,  # two transfers a cycle
        units=units,
        max_groups=tuple(session.attribute(f"MAX_GRID_DIM_{axis}", 65535) for axis in "XYZ"),
        max_group_threads=session.attribute("MAX_THREADS_PER_BLOCK", 1024),
        max_group_shape=tuple(session.attribute(f"MAX_BLOCK_DIM_{axis}", 64) for axis in "XYZ"),
        warp_size=session.attribute("WARP_SIZE", 32),
        subgroup_size=session.attribute("WARP_SIZE"),
        swaps=SWAPS if session.attribute("WARP_SIZE") else frozenset(),
        vector_bytes=_VECTOR_BYTES,
        registers=_REGISTERS,
        local_bytes=session.attribute("MAX_SHARED_MEMORY_PER_BLOCK", 48 << 10),
        cache_bytes=tuple(
            size
            for size in (session.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"), session.attribute("L2_CACHE_SIZE"))
            if size
        ),
        max_params=_PARAMETER_BYTES // 8,
        max_buffer_bytes=session.total_bytes,
        has_shuffle=True,  # lanes are variables of their own, so picking some costs nothing
        has_fma=True,
        wmma=tuple(each for each in products_of_warps(capability) if tf32 or each[1] is not dtypes.float32),
    )


def _lanes(dtype: DType) -> tuple[int, ...]:
    """Return the lane counts of what one load can bring.

    More would pay nothing, and are not safe: a kernel with thirteen operations on sixteen lanes of uint16 is assembled
    wrongly by NVRTC 13.0 for compute capability 9.0, unless it does not optimise.
    """
    return tuple(lanes for lanes in LANES if lanes * dtype.itemsize <= _VECTOR_BYTES)


def _capabilities(dialect: Dialect) -> Mapping[DType, Capability]:
    """Return what the dialect has forms for: all but transcendental functions and powers, and those of base 2 of these.

    CUDA's own exponentials and the like are less accurate than zyx's, and not the same on all devices. That of base 2
    is an instruction, off by 2 ulp at most (CUDA C++ Programming Guide, appendix on mathematical functions), where
    zyx's takes sixteen.
    """
    result = {}
    for dtype in dialect.types:
        if dtype.is_float and dtype.bits == 16:
            result[dtype] = Capability(
                frozenset(op for op in UnaryOp if (op, dtype) in dialect.unary),
                frozenset(op for op in BinaryOp if (op, dtype) in dialect.binary),
                frozenset(),
                _lanes(dtype),
            )
            continue
        unary = frozenset(
            op for op in ops.unary_ops(dtype) if op not in ops.TRANSCENDENTAL or (op, dtype) in dialect.unary
        )
        binary = ops.binary_ops(dtype) - {BinaryOp.POW}
        atomic = ops.reduce_ops(dtype) if dtype.bits in dialect.exchange and not dtype.is_bool else frozenset()
        result[dtype] = Capability(unary, binary, atomic, _lanes(dtype))
    return result
