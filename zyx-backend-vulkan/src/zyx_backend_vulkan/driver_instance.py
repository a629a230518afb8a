"""Foreign functions: Vulkan's loader, and the devices it lists, with all that can be asked of them while closed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from zyx.drivers.faults import Fault
from zyx.drivers.vulkan_loader import quiet
from zyx.errors import DriverNotFoundError, InitializationError
from zyx_backend_vulkan.driver import NULL, ffi, lib, listed, owned, struct
from zyx_backend_vulkan.driver_features import Features, Properties
from zyx_backend_vulkan.driver_validation import EXTENSION, LAYER, Messages, check_layer

if TYPE_CHECKING:
    from zyx_backend_vulkan.driver import Native

#: The oldest version that will do, and the latest that is asked for, of which all structures are known here.
LEAST_VERSION: Final = (1, 2)
LATEST_VERSION: Final = (1, 3)

#: VkPhysicalDeviceType, in the order of the enumeration.
_KINDS: Final = ("other", "integrated GPU", "discrete GPU", "virtual GPU", "CPU")
CPU: Final = "CPU"
#: VK_ERROR_INCOMPATIBLE_DRIVER: what the loader says if it finds none at all.
_NO_DRIVER: Final = -9
_GET_DRIVER: Final = (
    "Vulkan's loader finds no driver. A GPU's comes with its vendor's driver package (for AMD and Intel on Debian: apt "
    "install mesa-vulkan-drivers). Any CPU can do with Mesa's software driver, which is in mesa-vulkan-drivers too; "
    "VK_DRIVER_FILES names drivers that are elsewhere"
)


def version_of(number: int) -> tuple[int, int]:
    """Return major and minor version of a number of Vulkan's."""
    return number >> 22 & 0x7F, number >> 12 & 0x3FF


def _number(version: tuple[int, int]) -> int:
    return version[0] << 22 | version[1] << 12


class Instance:
    """Vulkan, open for this program. It is closed with the last of its `users`.

    Args:
        validation: Whether the validation layer looks on.

    Attributes:
        native: The handle.
        messages: What the layer said; None without it.
        users: How many need it.

    Raises:
        DriverNotFoundError: The loader finds no driver.
        InitializationError: The loader is too old, or has no such layer, or refused.
    """

    def __init__(self, *, validation: bool = False) -> None:
        self.users = 0
        self.messages: Final = Messages() if validation else None
        number = ffi.new("uint32_t *")
        lib.vkEnumerateInstanceVersion(number)
        if version_of(number[0]) < LEAST_VERSION:
            raise InitializationError(
                f"Vulkan's loader is of version {_text(version_of(number[0]))}, and at least {_text(LEAST_VERSION)} "
                "is needed: update it (on Debian, the package libvulkan1)"
            )
        layers: dict[str, Any] = {}
        if self.messages is not None:
            check_layer()
            layers = {
                "enabledLayerCount": 1,
                "ppEnabledLayerNames": [LAYER],
                "enabledExtensionCount": 1,
                "ppEnabledExtensionNames": [EXTENSION],
                "pNext": self.messages.info,
            }
        application = struct("VkApplicationInfo", pEngineName="zyx", apiVersion=_number(LATEST_VERSION))
        info = struct("VkInstanceCreateInfo", pApplicationInfo=application, **layers)
        try:
            with quiet():
                self.native: Any = owned(lib.vkCreateInstance, info, NULL, of="VkInstance")
            self._messenger = self.messages and self.messages.register(self.native)
        except Fault as fault:
            if fault.code == _NO_DRIVER:
                raise DriverNotFoundError(_GET_DRIVER) from fault
            raise InitializationError(f"Vulkan does not start: {fault}") from fault

    def devices(self) -> list[ListedDevice]:
        """Return all devices, in the order of the loader, but software behind GPUs.

        Raises:
            DriverNotFoundError: There is none.
            InitializationError: The loader fails.
        """
        try:
            with quiet():
                natives = listed("VkPhysicalDevice", lib.vkEnumeratePhysicalDevices, self.native)
        except Fault as fault:
            raise InitializationError(f"Vulkan lists no devices: {fault}") from fault
        if not natives:
            raise DriverNotFoundError(_GET_DRIVER)
        found = [ListedDevice(self, native) for native in natives]
        return sorted(found, key=lambda device: device.kind == CPU)

    def leave(self) -> None:
        """Note that one user less needs it."""
        self.users -= 1
        if self.users <= 0 and self.native is not None:
            if self.messages is not None:
                self.messages.unregister(self.native, self._messenger)
            lib.vkDestroyInstance(self.native, NULL)
            self.native = None


class ListedDevice:
    """A device as the loader lists it; nothing of it is open.

    Attributes:
        instance: What listed it.
        native: The handle.
        name: What the driver calls it.
        kind: One of `_KINDS`.
        version: Of Vulkan that it has: at most `LATEST_VERSION` counts.
        extensions: Names of the extensions that it offers.
        limits: VkPhysicalDeviceLimits.
        vendor: Number of the vendor, by the PCI register.
    """

    def __init__(self, instance: Instance, native: Native) -> None:
        self.instance: Final = instance
        self.native: Final = native
        self._properties = struct("VkPhysicalDeviceProperties")
        lib.vkGetPhysicalDeviceProperties(native, self._properties)
        self.name: Final = " ".join(ffi.string(self._properties.deviceName).decode(errors="replace").split())
        self.kind: Final = _KINDS[min(self._properties.deviceType, len(_KINDS) - 1)]
        self.own_version: Final = version_of(self._properties.apiVersion)
        self.version: Final = min(self.own_version, LATEST_VERSION)
        self.limits: Final = self._properties.limits
        self.vendor: Final = int(self._properties.vendorID)
        properties = listed("VkExtensionProperties", lib.vkEnumerateDeviceExtensionProperties, native, NULL)
        self.extensions: Final = frozenset(ffi.string(entry.extensionName).decode() for entry in properties)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"

    def check_version(self) -> None:
        """Raise `InitializationError` if it is too old."""
        if self.version < LEAST_VERSION:
            raise InitializationError(
                f"{self} has Vulkan {_text(self.own_version)}, and at least {_text(LEAST_VERSION)} is needed: "
                "update its driver"
            )
        if not self.features.v12.timelineSemaphore:
            raise InitializationError(
                f"{self} has Vulkan {_text(self.own_version)}, but no timeline semaphores, which are needed: "
                "update its driver"
            )

    # ---- what it is and can do

    @cached_property
    def features(self) -> Features:
        """What it can do."""
        found = Features(self)
        lib.vkGetPhysicalDeviceFeatures2(self.native, found.head)
        return found

    @cached_property
    def properties(self) -> Properties:
        """What it is."""
        return Properties(self)

    @cached_property
    def driver(self) -> str:
        """Name and version of its driver."""
        told = self.properties.v12
        name, info = (ffi.string(text).decode(errors="replace") for text in (told.driverName, told.driverInfo))
        return " ".join(f"{name} {info} {self._properties.driverVersion}".split())

    @cached_property
    def identity(self) -> str:
        """Digits that tell its compiler from others: what it makes for one may be no good for another."""
        return bytes(ffi.buffer(self._properties.pipelineCacheUUID)).hex()

    @cached_property
    def queue_families(self) -> list[Any]:
        """VkQueueFamilyProperties, by number."""
        return listed("VkQueueFamilyProperties", lib.vkGetPhysicalDeviceQueueFamilyProperties, self.native)

    @cached_property
    def memory(self) -> Native:
        """VkPhysicalDeviceMemoryProperties."""
        told = struct("VkPhysicalDeviceMemoryProperties")
        lib.vkGetPhysicalDeviceMemoryProperties(self.native, told)
        return told

    def heap_available_bytes(self, heap: int) -> int | None:
        """Return how much of a heap this process may still take, as others leave it; None if the driver does not tell.

        That of a processor is everybody's, and changes with whatever else runs: no answer either.
        """
        if "VK_EXT_memory_budget" not in self.extensions or self.kind == CPU:
            return None
        budget = struct("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
        told = struct("VkPhysicalDeviceMemoryProperties2", pNext=budget)
        lib.vkGetPhysicalDeviceMemoryProperties2(self.native, told)
        return max(0, int(budget.heapBudget[heap]) - int(budget.heapUsage[heap]))

    @property
    def has_varying_subgroups(self) -> bool:
        """Whether the driver chooses how many threads run in step, kernel by kernel, unless it is told."""
        sizes = self.properties.subgroups
        return bool(sizes.minSubgroupSize != sizes.maxSubgroupSize)

    @cached_property
    def matrices(self) -> list[Any]:
        """VkCooperativeMatrixPropertiesKHR of all shapes there are."""
        if not self.features.matrices:
            return []
        name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
        address = lib.vkGetInstanceProcAddr(self.instance.native, ffi.new("char[]", name.encode()))
        if address == NULL:  # the extension is listed, and its function is not there
            return []
        return listed("VkCooperativeMatrixPropertiesKHR", ffi.cast(f"PFN_{name}", address), self.native)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
