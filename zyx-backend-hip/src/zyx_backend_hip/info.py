"""What a HIP device is and can do: limits as the driver reports them, rates from its clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import ops
from zyx.backend import Capability, DeviceInfo
from zyx.ops import BinaryOp
from zyx_backend_hip.render import DIALECT, LANES, SWAPS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from zyx.dtype import DType

    class Describable(Protocol):
        """A device that answers questions."""

        name: str
        arch: str

        def query(self, what: str, default: int = 0) -> int:
            """Return a number."""


#: Bytes of a vector load that pays.
_VECTOR_BYTES: Final = 16
#: Registers of a thread before a compute unit runs fewer than four waves on each of its processors.
_REGISTERS: Final = 128
#: Addresses that a kernel is given, so that all arguments fit 4 KiB with room for what the compiler adds.
_MAX_PARAMS: Final = 256
#: Most threads along one axis of a grid, over all groups, of any size.
_AXIS_THREADS: Final = (1 << 32) - 1
#: float32 operations that a compute unit does in a cycle: 64 multiply-adds.
_UNIT_FLOPS: Final = 128
#: Transfers of a memory bus in a cycle.
_DATA_RATE: Final = 2


def build_options(arch: str) -> tuple[str, ...]:
    """Return the options of the compiler: none that changes results, and products and sums fused only where asked for.

    Waves are as long as the architecture prefers, 64 threads on gfx9 and 32 on later ones, as the driver reports.
    """
    return (f"--offload-arch={arch}", "-O3", "-std=c++17", "-ffp-contract=off", "-fno-fast-math")


def device_info(device: Describable, driver: str, memory_bytes: int) -> DeviceInfo:
    """Return the record of a device.

    Args:
        device: The device.
        driver: Versions of this package and of the libraries.
        memory_bytes: Size of its memory.
    """
    units = device.query("units", 1)
    threads = device.query("max_group_threads", 256)
    bytes_per_s = _DATA_RATE * 1e3 * device.query("memory_clock_khz") * device.query("memory_bus_bits") / 8
    cache = device.query("l2_bytes")
    return DeviceInfo(
        model=f"{device.name} ({device.arch})",
        driver=driver,
        capabilities=capabilities(),
        flops_per_s=1e3 * device.query("clock_khz", 1_000_000) * units * _UNIT_FLOPS,
        bytes_per_s=bytes_per_s or 3e11,
        units=units,
        max_groups=tuple(min(device.query(f"max_groups_{axis}", 65535), _AXIS_THREADS // threads) for axis in "xyz"),
        max_group_threads=threads,
        max_group_shape=tuple(device.query(f"max_group_{axis}", threads) for axis in "xyz"),
        warp_size=device.query("wave", 64),
        subgroup_size=device.query("wave"),
        swaps=SWAPS if device.query("wave") else frozenset(),
        vector_bytes=_VECTOR_BYTES,
        registers=_REGISTERS,
        local_bytes=device.query("local_bytes", 65536),
        cache_bytes=(cache,) if cache else (),
        max_params=_MAX_PARAMS,
        max_buffer_bytes=memory_bytes,
        has_shuffle=True,  # lanes are variables of their own, so picking some costs nothing
        has_fma=True,
    )


def capabilities() -> Mapping[DType, Capability]:
    """Return what the dialect has forms for: all but transcendental functions, powers, remainders of floats, and
    arithmetic on bits.

    The functions of AMD's own mathematics are less accurate than zyx's, and come with its device libraries.
    """
    result = {}
    for dtype, name in DIALECT.types.items():
        if dtype.is_float and dtype.bits == 16 and "Float16" not in name:
            result[dtype] = Capability(lanes=LANES)
            continue
        unary, binary = ops.unary_ops(dtype) - ops.TRANSCENDENTAL, ops.binary_ops(dtype) - {BinaryOp.POW}
        if dtype.is_float:
            binary -= {BinaryOp.MOD}
        atomic = ops.reduce_ops(dtype) if dtype.bits in DIALECT.exchange and not dtype.is_bool else frozenset()
        result[dtype] = Capability(unary, binary, atomic, LANES)
    return result
