"""What a device is and can do: limits and types as the driver reports them, rates as estimates."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend import DeviceInfo
from zyx_backend_vulkan.target import Product, Target, capabilities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.dtype import DType
    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_device import Session
    from zyx_backend_vulkan.driver_instance import ListedDevice
    from zyx_backend_vulkan.driver_memory import Heaps

#: SPIR-V of each version of Vulkan.
_SPIRV: Final = {(1, 2): (1, 5), (1, 3): (1, 6)}
_COMPUTE_STAGE: Final = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
#: VkSubgroupFeatureFlagBits: basic, and shuffle.
_SWAPPING: Final = 0x1 | 0x10
_SUBGROUP_SCOPE: Final = 3  # VK_SCOPE_SUBGROUP_KHR
#: VkComponentTypeKHR.
_COMPONENTS: Final = {0: dtypes.float16, 1: dtypes.float32, 2: dtypes.float64, 3: dtypes.int8, 4: dtypes.int16,
    5: dtypes.int32, 6: dtypes.int64, 7: dtypes.uint8, 8: dtypes.uint16, 9: dtypes.uint32, 10: dtypes.uint64,
    1000141000: dtypes.bfloat16,
}  # fmt: skip
#: What becomes of the descriptors of a stage beside its buffers: one for numbers that are too many for push constants.
_SPARE_BUFFERS: Final = 1

#: What Vulkan does not tell: bytes of a vector load that pays, and registers of a thread before they spill.
_VECTOR_BYTES: Final = 16
_REGISTERS: Final = 128
#: The same by vendor, where it is known: NVIDIA's (CUDA C++ Programming Guide, technical specifications).
_REGISTERS_BY_VENDOR: Final = {0x10DE: 255}
#: Widths of floats that drivers round to nearest even without being asked, and compile kernels wrongly if they are, by
#: VkDriverId: NVIDIA's 580.159.04 takes wrong elements in some kernels with sums that ask for it in float32.
_ROUNDS_UNASKED: Final = {4: frozenset({32, 64})}  # VK_DRIVER_ID_NVIDIA_PROPRIETARY
#: Bytes of arrays of a thread. NVIDIA's driver compiles 12 KiB, and loses the device over 16.
_PRIVATE_BYTES: Final = 12 << 10

#: Estimates by kind of device: processors, if the driver does not tell, float32 operations and bytes a second.
_RATES: Final = {
    "discrete GPU": (64, 1e13, 4e11),
    "integrated GPU": (16, 1e12, 5e10),
    "virtual GPU": (32, 2e12, 1e11),
}
#: Bytes of the cache that all processors share, which Vulkan does not tell: what small ones have.
_CACHE_BYTES: Final = {"discrete GPU": 1 << 22, "integrated GPU": 1 << 20, "virtual GPU": 1 << 20}
#: Of a processor: operations a second and core in generated code of a software driver.
_CPU_FLOPS_PER_S: Final = 4e9
_CPU_BYTES_PER_S: Final = 1e10


def target_of(session: Session) -> Target:
    """Return what modules for a device may use, but for what has to be tried (`zyx_backend_vulkan.probes`)."""
    listed, used = session.listed, session.features
    limits, told = listed.limits, listed.properties.v12
    arithmetic = {dtypes.bool_, dtypes.int32, dtypes.uint32, dtypes.float32}
    for has_it, more in (
        (used.v12.shaderInt8, (dtypes.int8, dtypes.uint8)),
        (used.v10.shaderInt16, (dtypes.int16, dtypes.uint16)),
        (used.v10.shaderInt64, (dtypes.int64, dtypes.uint64)),
        (used.v12.shaderFloat16, (dtypes.float16,)),
        (used.v10.shaderFloat64 and used.v10.shaderInt64, (dtypes.float64,)),  # whose bits are looked at as integers
    ):
        arithmetic |= set(more) if has_it else set()
    subgroup_size = _subgroup_size(session)
    return Target(
        version=_SPIRV[listed.version],
        arithmetic=frozenset(arithmetic),
        storage_bits=_widths(
            (8, used.v12.storageBuffer8BitAccess),
            (16, used.v11.storageBuffer16BitAccess),
            (64, used.v10.shaderInt64 or used.v10.shaderFloat64),
        ),
        shared_bits=_widths(
            (8, used.v12.shaderInt8),
            (16, used.v10.shaderInt16),
            (64, used.v10.shaderInt64 or used.v10.shaderFloat64),
        ),
        preserves=_floats(told, "shaderSignedZeroInfNanPreserve"),
        denormals=_floats(told, "shaderDenormPreserve"),
        rounds=_floats(told, "shaderRoundingModeRTE") - _ROUNDS_UNASKED.get(told.driverID, frozenset()),
        atomic_bits=_widths((64, used.v12.shaderBufferInt64Atomics)),
        subgroup_size=subgroup_size,
        swaps=_swaps(session) if subgroup_size else frozenset(),
        max_buffers=_max_buffers(listed),
        has_addresses=bool(used.v12.bufferDeviceAddress),
        push_bytes=int(limits.maxPushConstantsSize),
        has_memory_model=bool(used.v12.vulkanMemoryModel and used.v12.vulkanMemoryModelDeviceScope),
    )


def listed_products(session: Session) -> tuple[Product, ...]:
    """Return the products of cooperative matrices that a driver lists, of whose threads nothing is known."""
    if not session.features.matrices:
        return ()
    found = {
        Product((entry.MSize, entry.NSize, entry.KSize), _COMPONENTS[entry.AType], _COMPONENTS[entry.ResultType]): None
        for entry in session.listed.matrices
        if entry.scope == _SUBGROUP_SCOPE
        and entry.AType == entry.BType
        and entry.CType == entry.ResultType
        and {entry.AType, entry.ResultType} <= set(_COMPONENTS)
        and (_COMPONENTS[entry.AType] is not dtypes.bfloat16 or session.features.bfloat16_matrices)
    }
    return tuple(found)


def device_info(session: Session, heaps: Heaps, target: Target, versions: str) -> DeviceInfo:
    """Return the record of a device.

    Args:
        session: The device, open.
        heaps: Its memory.
        target: What its modules may use, after trial.
        versions: Of this package and of the binding.
    """
    listed = session.listed
    limits = listed.limits
    cores = os.cpu_count() or 1
    units, flops_per_s, bytes_per_s = _RATES.get(listed.kind, (cores, cores * _CPU_FLOPS_PER_S, _CPU_BYTES_PER_S))
    told = listed.properties.units
    if told:
        units, flops_per_s, bytes_per_s = told, flops_per_s * told / units, bytes_per_s * told / units
    shared = _CACHE_BYTES.get(listed.kind)
    local_bytes = int(limits.maxComputeSharedMemorySize)
    floats = {dtypes.float32, dtypes.float64} & target.arithmetic
    return DeviceInfo(
        model=str(listed),
        driver=f"{versions}, {listed.driver}",
        capabilities=capabilities(target),
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        units=units,
        max_groups=tuple(map(int, limits.maxComputeWorkGroupCount)),
        max_group_threads=_max_group_threads(listed, target.subgroup_size),
        max_group_shape=tuple(map(int, limits.maxComputeWorkGroupSize)),
        warp_size=max(1, int(listed.properties.v11.subgroupSize)),
        subgroup_size=target.subgroup_size,
        swaps=target.swaps,
        vector_bytes=_VECTOR_BYTES,
        registers=_REGISTERS_BY_VENDOR.get(listed.vendor, _REGISTERS),
        local_bytes=local_bytes,
        private_bytes=_PRIVATE_BYTES,
        cache_bytes=(local_bytes, shared) if shared else (),
        max_params=target.max_buffers,
        max_buffer_bytes=heaps.largest_bytes,
        has_fma=floats <= target.fuses,
        wmma=tuple((one.dims, one.factor) for one in target.products),
    )


def _widths(*widths: tuple[int, Any]) -> frozenset[int]:
    """Return the widths that there are: 32 bits in any case."""
    return frozenset({32} | {bits for bits, has_it in widths if has_it})


def _floats(told: Native, name: str) -> frozenset[int]:
    """Return the widths of floats that a device has some control over."""
    return frozenset(bits for bits in (16, 32, 64) if getattr(told, f"{name}Float{bits}"))


def _max_buffers(listed: ListedDevice) -> int:
    """Return how many storage buffers a kernel can bind, beside one that is ours."""
    limits = listed.limits
    most: Iterable[int] = (
        limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers, limits.maxPerStageResources,
    )  # fmt: skip
    return int(min(most)) - _SPARE_BUFFERS


def _max_group_threads(listed: ListedDevice, subgroup_size: int) -> int:
    """Return how many threads a group has at most: a driver that is told the size of subgroups may take fewer."""
    most = int(listed.limits.maxComputeWorkGroupInvocations)
    if subgroup_size and listed.has_varying_subgroups:
        most = min(most, subgroup_size * int(listed.properties.subgroups.maxComputeWorkgroupSubgroups))
    return most


def _subgroup_size(session: Session) -> int:
    """Return how many threads run in step and can swap values; 0 if they cannot, or are not always as many."""
    told, sizes = session.listed.properties.v11, session.listed.properties.subgroups
    size = int(told.subgroupSize)
    can_swap = (
        told.subgroupSupportedStages & _COMPUTE_STAGE and told.subgroupSupportedOperations & _SWAPPING == _SWAPPING
    )
    controls = session.features.subgroups
    is_told = (
        controls is not None and controls.subgroupSizeControl and sizes.requiredSubgroupSizeStages & _COMPUTE_STAGE
    )
    is_fixed = 0 < sizes.minSubgroupSize == sizes.maxSubgroupSize == size
    is_power = size > 1 and not size & (size - 1)
    return size if can_swap and is_power and (is_told or is_fixed) else 0


def _swaps(session: Session) -> frozenset[DType]:
    """Return what threads swap: 64 bits where shuffles are extended to them, and there are such types."""
    found = {dtypes.float32, dtypes.int32, dtypes.uint32}
    used = session.features
    if used.v12.shaderSubgroupExtendedTypes and used.v10.shaderInt64:
        found |= {dtypes.int64, dtypes.uint64} | ({dtypes.float64} if used.v10.shaderFloat64 else set())
    return frozenset(found)
