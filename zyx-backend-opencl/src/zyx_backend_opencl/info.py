"""What an OpenCL device is and can do: limits and types as the driver reports them, rates as estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import ops
from zyx.backend import Capability, DeviceInfo
from zyx.ops import BinaryOp
from zyx_backend_opencl.render import LANES, SUBGROUPS, Features

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType
    from zyx.render.dialect import Dialect
    from zyx_backend_opencl.driver import ListedDevice

#: Bytes of a vector load that pays.
_VECTOR_BYTES: Final = 16
#: By these, the threads of a subgroup can shuffle, and a subgroup has as many as a kernel says.
_SUBGROUP_EXTENSIONS: Final = {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"}
#: Registers of a thread, which OpenCL does not tell: what NVIDIA's and AMD's compilers give before they spill.
_REGISTERS: Final = 128
#: Local memory that NVIDIA's driver counts to every kernel: 4 bytes were seen.
_TAKEN_BYTES: Final = 64
#: Most groups along each axis, which OpenCL does not tell, and most threads, over all groups: drivers of GPUs count
#: them in 32 bits.
_MAX_GROUPS: Final = ((1 << 31) - 1, 65535, 65535)
_AXIS_THREADS: Final = (1 << 32) - 1

#: Estimates, for what OpenCL does not tell. A unit of a GPU does this many float32 operations a cycle.
_GPU_LANES: Final = 64
_GPU_BYTES_PER_S: Final = 3e11
_CPU_BYTES_PER_S: Final = 2e10
#: Part of a processor's rate that kernels for many threads reach there; the C backend reaches more.
_CPU_PART: Final = 0.25


def features_of(device: ListedDevice) -> Features:
    """Return what kernels for `device` can be written with."""
    extensions = device.extensions
    has_i64 = "EMBEDDED" not in device.text("profile") or "cles_khr_int64" in extensions
    atomics = {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"}
    return Features(
        has_f16="cl_khr_fp16" in extensions,
        has_f64=has_i64 and "cl_khr_fp64" in extensions,
        has_i64=has_i64,
        has_i64_atomics=atomics <= extensions,
        has_fma=device.fuses_multiply_add,
        subgroups=_subgroups(device),
    )


def _subgroups(device: ListedDevice) -> str:
    """Return by whose means threads can swap values."""
    if device.query("warp_size_nv") == SUBGROUPS["nvidia"]:
        return "nvidia"
    return "khr" if device.extensions >= _SUBGROUP_EXTENSIONS else ""


def build_options(device: ListedDevice) -> str:
    """Return the options of the compiler: none that changes results, but for rounding quotients correctly."""
    return "-cl-std=CL1.2" + (" -cl-fp32-correctly-rounded-divide-sqrt" if device.divides_exactly else "")


def device_info(device: ListedDevice, dialect: Dialect, driver: str, subgroup_size: int = 0) -> DeviceInfo:
    """Return the record of a device.

    Args:
        device: The device.
        dialect: The language of its kernels.
        driver: Versions of this package and of pyopencl.
        subgroup_size: Threads that swap values, if the dialect says how.
    """
    units = max(1, device.query("max_compute_units", 1))
    clock_hz = 1e6 * (device.query("max_clock_frequency") or 1000)  # some drivers say 0
    if device.is_cpu:
        lanes = max(1, device.query("native_vector_width_float", 4))
        flops_per_s, bytes_per_s = _CPU_PART * units * clock_hz * 2 * lanes, _CPU_BYTES_PER_S
    else:
        flops_per_s, bytes_per_s = units * clock_hz * 2 * _GPU_LANES, _GPU_BYTES_PER_S
    threads = max(1, device.query("max_work_group_size", 1))
    address_bytes = device.query("address_bits", 64) // 8
    return DeviceInfo(
        model=f"{device.name} ({device.platform})",
        driver=f"{driver}, {device.platform_version}, {device.text('driver_version')}",
        capabilities=_capabilities(dialect, device.is_cpu),
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        units=units,
        max_groups=_MAX_GROUPS if device.is_cpu else tuple(min(most, _AXIS_THREADS // threads) for most in _MAX_GROUPS),
        max_group_threads=threads,
        max_group_shape=device.max_group_shape,
        warp_size=_warp_size(device),
        subgroup_size=subgroup_size if dialect.swaps else 0,
        swaps=frozenset(dialect.swaps),
        vector_bytes=_VECTOR_BYTES,
        registers=_REGISTERS,
        local_bytes=_local_bytes(device),
        cache_bytes=_cache_bytes(device),
        max_params=max(1, device.query("max_parameter_size", 256) // address_bytes),
        max_buffer_bytes=device.query("max_mem_alloc_size", 1 << 27),
        has_fma=bool(dialect.fma),
        # Compilers for processors copy all that is behind such a branch, and double it with every branch.
        meets_in_branches=not device.is_cpu,
    )


def _local_bytes(device: ListedDevice) -> int:
    """Return how many bytes of local memory a kernel can have; NVIDIA's compiler takes a few for itself."""
    if not device.has_local_memory:
        return 0
    return device.query("local_mem_size") - (_TAKEN_BYTES if device.is_nvidia else 0)


def _cache_bytes(device: ListedDevice) -> tuple[int, ...]:
    """Return the cache that the device tells of: of GPUs, one behind another that is about as large as local memory."""
    shared = device.query("global_mem_cache_size")
    if not shared:
        return ()
    return (shared,) if device.is_cpu else (min(shared, device.query("local_mem_size")), shared)


def _warp_size(device: ListedDevice) -> int:
    """Return how many threads run in step: as the vendor says, or what the sizes of groups should be multiples of."""
    for name in ("warp_size_nv", "wavefront_width_amd", "preferred_work_group_size_multiple"):
        size = device.query(name)
        if size > 0:
            return size
    return 1


def _lanes(dtype: DType, is_cpu: bool) -> tuple[int, ...]:
    """Return the lane counts: of GPUs, of what one load of a thread can bring.

    More would pay nothing there, and NVIDIA's compiler (driver 580) adds sixteen lanes of uint16 up wrongly.
    """
    return tuple(lanes for lanes in LANES if is_cpu or lanes * dtype.itemsize <= _VECTOR_BYTES)


def _capabilities(dialect: Dialect, is_cpu: bool) -> Mapping[DType, Capability]:
    """Return what the dialect has forms for: all but transcendental functions, powers, and arithmetic on bits.

    OpenCL's own exponentials and the like are less accurate than zyx's, and differ from driver to driver.
    """
    result = {}
    for dtype in dialect.types:
        if dtype.is_float and dialect.types[dtype] == "ushort":
            result[dtype] = Capability(lanes=_lanes(dtype, is_cpu))
            continue
        unary, binary = ops.unary_ops(dtype) - ops.TRANSCENDENTAL, ops.binary_ops(dtype) - {BinaryOp.POW}
        atomic = ops.reduce_ops(dtype) if dtype.bits in dialect.exchange and not dtype.is_bool else frozenset()
        result[dtype] = Capability(unary, binary, atomic, _lanes(dtype, is_cpu))
    return result
