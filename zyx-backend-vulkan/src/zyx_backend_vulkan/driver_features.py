"""Foreign functions: what a device has and can do, as far as it matters here, and what of it is turned on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx_backend_vulkan.driver import NULL, Switches, lib, struct

if TYPE_CHECKING:
    from zyx_backend_vulkan.driver_instance import ListedDevice

#: Extensions; the first is part of Vulkan from version 1.3 on.
_SUBGROUP_SIZES: Final = "VK_EXT_subgroup_size_control"
_MATRICES: Final = "VK_KHR_cooperative_matrix"
_BFLOAT16: Final = "VK_KHR_shader_bfloat16"
_PUSHES: Final = "VK_KHR_push_descriptor"
_NVIDIA_UNITS: Final = "VK_NV_shader_sm_builtins"
_AMD_UNITS: Final = "VK_AMD_shader_core_properties"
#: VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR, and the fields of that structure.
_BFLOAT16_TYPE: Final = 1000141000
_BFLOAT16_FEATURES: Final = ("shaderBFloat16Type", "shaderBFloat16DotProduct", "shaderBFloat16CooperativeMatrix")


class Features:
    """The features that matter, as structures that hang together: what a device has, or is opened with.

    Attributes:
        head: VkPhysicalDeviceFeatures2, the first of them.
        v10, v11, v12: Those of these versions of Vulkan.
        subgroups: VkPhysicalDeviceSubgroupSizeControlFeatures; None if there is no such thing.
        extensions: The extensions that these structures need.
    """

    def __init__(self, device: ListedDevice) -> None:
        self.extensions: list[str] = []
        chain = NULL
        self._matrices = self.subgroups = self._maintenance = self._bfloat16 = None
        is_late = device.version >= (1, 3)
        if is_late or _SUBGROUP_SIZES in device.extensions:
            chain = self.subgroups = struct("VkPhysicalDeviceSubgroupSizeControlFeatures", pNext=chain)
            self.extensions += [] if is_late else [_SUBGROUP_SIZES]
        if is_late:
            chain = self._maintenance = struct("VkPhysicalDeviceMaintenance4Features", pNext=chain)
        if _MATRICES in device.extensions:
            chain = self._matrices = struct("VkPhysicalDeviceCooperativeMatrixFeaturesKHR", pNext=chain)
            self.extensions.append(_MATRICES)
        if _BFLOAT16 in device.extensions:
            self._bfloat16 = Switches(_BFLOAT16_TYPE, _BFLOAT16_FEATURES, chain)
            chain = self._bfloat16.native
            self.extensions.append(_BFLOAT16)
        self.v12 = chain = struct("VkPhysicalDeviceVulkan12Features", pNext=chain)
        self.v11 = chain = struct("VkPhysicalDeviceVulkan11Features", pNext=chain)
        self.head = struct("VkPhysicalDeviceFeatures2", pNext=chain)
        self.v10 = self.head.features

    @property
    def matrices(self) -> bool:
        """Whether there are cooperative matrices."""
        return self._matrices is not None and bool(self._matrices.cooperativeMatrix)

    @property
    def bfloat16_matrices(self) -> bool:
        """Whether there are such of bfloat16."""
        found = self._bfloat16
        return found is not None and bool(found.shaderBFloat16Type and found.shaderBFloat16CooperativeMatrix)

    def take(self, other: Features) -> None:
        """Turn on what is used here, as far as `other`, the device's own, has it."""
        for own, theirs, names in (
            (self.v10, other.v10, ("shaderFloat64", "shaderInt64", "shaderInt16")),
            (self.v11, other.v11, ("storageBuffer16BitAccess",)),
            (
                self.v12,
                other.v12,
                (
                    "storageBuffer8BitAccess", "shaderBufferInt64Atomics", "shaderSharedInt64Atomics", "shaderFloat16",
                    "shaderInt8", "timelineSemaphore", "bufferDeviceAddress", "vulkanMemoryModel",
                    "vulkanMemoryModelDeviceScope", "shaderSubgroupExtendedTypes", "uniformBufferStandardLayout",
                    "scalarBlockLayout",
                ),
            ),
            (self.subgroups, other.subgroups, ("subgroupSizeControl", "computeFullSubgroups")),
            (self._maintenance, other._maintenance, ("maintenance4",)),
            (self._matrices, other._matrices, ("cooperativeMatrix",)),
            (self._bfloat16, other._bfloat16, ("shaderBFloat16Type", "shaderBFloat16CooperativeMatrix")),
        ):  # fmt: skip
            if own is not None:
                for name in names:
                    setattr(own, name, getattr(theirs, name))


class Properties:
    """The properties that matter.

    Attributes:
        v11, v12: VkPhysicalDeviceVulkan11Properties and VkPhysicalDeviceVulkan12Properties.
        subgroups: VkPhysicalDeviceSubgroupSizeControlProperties, all zero if there is no such thing.
        max_pushed: How many descriptors can be pushed at most; 0 if none can.
        max_buffer_bytes: Size of the largest buffer; None if the driver does not tell.
        units: Processors that run groups; 0 if the driver does not tell.
    """

    def __init__(self, device: ListedDevice) -> None:
        self.subgroups = struct("VkPhysicalDeviceSubgroupSizeControlProperties")
        pushed = struct("VkPhysicalDevicePushDescriptorPropertiesKHR")
        largest = struct("VkPhysicalDeviceMaintenance4Properties")
        nvidia = struct("VkPhysicalDeviceShaderSMBuiltinsPropertiesNV")
        amd = struct("VkPhysicalDeviceShaderCorePropertiesAMD")
        self.v12 = struct("VkPhysicalDeviceVulkan12Properties")
        self.v11 = struct("VkPhysicalDeviceVulkan11Properties", pNext=self.v12)
        is_late = device.version >= (1, 3)
        chain = self.v11
        for has_it, structure in (
            (is_late or _SUBGROUP_SIZES in device.extensions, self.subgroups),
            (_PUSHES in device.extensions, pushed),
            (is_late, largest),
            (_NVIDIA_UNITS in device.extensions, nvidia),
            (_AMD_UNITS in device.extensions, amd),
        ):
            if has_it:
                structure.pNext, chain = chain, structure
        lib.vkGetPhysicalDeviceProperties2(device.native, struct("VkPhysicalDeviceProperties2", pNext=chain))
        self.max_pushed = int(pushed.maxPushDescriptors)
        self.max_buffer_bytes = int(largest.maxBufferSize) or None
        of_amd = amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray
        self.units = int(nvidia.shaderSMCount or of_amd)
