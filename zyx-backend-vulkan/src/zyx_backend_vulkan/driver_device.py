"""Foreign functions: a device that is open, its queues, and whatever of the driver belongs to it."""

from __future__ import annotations

from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from zyx.drivers.faults import Fault
from zyx.errors import InitializationError
from zyx_backend_vulkan.driver import NULL, check, device_function, lib, owned, struct
from zyx_backend_vulkan.driver_features import Features
from zyx_backend_vulkan.driver_queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_instance import ListedDevice

#: VkQueueFlagBits.
_GRAPHICS: Final = 1
_COMPUTE: Final = 2
_TRANSFER: Final = 4
_VIDEO: Final = 0x20 | 0x40  # decoding and encoding
_ALL: Final = _GRAPHICS | _COMPUTE | _TRANSFER | _VIDEO
#: Uploads and downloads have a queue each, where there are so many for nothing but transfers.
_TRANSFER_QUEUES: Final = 2
_PUSHES: Final = "VK_KHR_push_descriptor"
_BUDGET: Final = "VK_EXT_memory_budget"


class Handle:
    """An object of the driver that belongs to a device.

    Attributes:
        native: What the driver knows it by; None once it is freed.
    """

    __slots__ = ("destroy", "native", "number")

    def __init__(self, native: Native, destroy: Callable[..., object], number: int) -> None:
        self.native = native
        self.destroy = destroy
        self.number = number


class _Families(NamedTuple):
    """Numbers of queue families: of launches, and of transfers alone, None if there is none."""

    compute: int
    transfer: int | None


class Session:
    """A device that is open. Any thread may call; queues have locks of their own (`zyx_backend_vulkan.work`).

    Args:
        listed: What to open.

    Attributes:
        listed: The same.
        native: The handle.
        features: What is turned on.
        compute, uploads, downloads: The queues; the same one where the device has but one.
        families: The queue families that buffers are used by.
        push: The function that pushes descriptors; None if there is none.

    Raises:
        InitializationError: The device is too old, or has no queue that computes, or the driver refused.
    """

    def __init__(self, listed: ListedDevice) -> None:
        listed.check_version()
        self.listed: Final = listed
        self.features: Final = Features(listed)
        self.features.take(listed.features)
        self._lock: Final = Lock()
        self._handles: dict[int, Handle] = {}
        self._numbers: Final = count()
        self._is_open = False
        families = _families(listed)
        self.families: Final = sorted({families.compute, *(() if families.transfer is None else (families.transfer,))})
        try:
            self.native: Final = self._open(families)
            self._is_open = True
            listed.instance.users += 1
            self.compute: Final = Queue(self, families.compute, 0)
            self.uploads = self.downloads = self.compute
            if families.transfer is not None:
                self.uploads = self.downloads = Queue(self, families.transfer, 0)
                if listed.queue_families[families.transfer].queueCount >= _TRANSFER_QUEUES:
                    self.downloads = Queue(self, families.transfer, 1)
            has_pushes = listed.properties.max_pushed > 0
            self.push: Final = device_function(self.native, "vkCmdPushDescriptorSetKHR") if has_pushes else None
        except Fault as fault:
            self.close()
            raise InitializationError(f"{listed} does not start: {fault}") from fault

    def _open(self, families: _Families) -> Native:
        listed = self.listed
        extensions = [*self.features.extensions, *({_PUSHES, _BUDGET} & listed.extensions)]
        wanted = []
        for family in self.families:
            most = 1 if family == families.compute else _TRANSFER_QUEUES
            number = min(most, listed.queue_families[family].queueCount)
            wanted.append(
                struct(
                    "VkDeviceQueueCreateInfo",
                    queueFamilyIndex=family,
                    queueCount=number,
                    pQueuePriorities=[1.0] * number,
                )
            )
        info = struct(
            "VkDeviceCreateInfo",
            pNext=self.features.head,
            queueCreateInfoCount=len(wanted),
            pQueueCreateInfos=wanted,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extensions or NULL,
        )
        return owned(lib.vkCreateDevice, listed.native, info, NULL, of="VkDevice")

    # ---- what belongs to it

    def make(self, of: str, info: Native) -> Handle:
        """Return a new object of a type such as ``VkBuffer``, which lives until it is freed or the device is closed.

        Raises:
            Fault: The driver refused.
        """
        noun = of.removeprefix("Vk")
        native = owned(getattr(lib, f"vkCreate{noun}"), self.native, info, NULL, of=of)
        return self.hold(native, getattr(lib, f"vkDestroy{noun}"))

    def hold(self, native: Native, destroy: Callable[..., object]) -> Handle:
        """Return an object of the driver as one that belongs to the device."""
        with self._lock:
            handle = Handle(native, destroy, next(self._numbers))
            self._handles[handle.number] = handle
            return handle

    def free(self, *handles: Handle) -> None:
        """Free objects, which nothing that runs uses any more; those that are free already are left alone."""
        for handle in handles:
            with self._lock:
                is_there = self._handles.pop(handle.number, None) is not None
            if is_there:
                handle.destroy(self.native, handle.native, NULL)
                handle.native = None

    @property
    def held(self) -> int:
        """How many objects belong to it."""
        return len(self._handles)

    def finish(self) -> None:
        """Wait for all queues.

        Raises:
            Fault: The device is lost.
        """
        check(lib.vkDeviceWaitIdle(self.native), "vkDeviceWaitIdle")

    def close(self, *, is_lost: bool = False) -> None:
        """Free everything. A second call does nothing.

        Args:
            is_lost: The device does not answer, so it is not waited for.
        """
        if not self._is_open:
            return
        self._is_open = False
        if not is_lost:
            lib.vkDeviceWaitIdle(self.native)  # a device that is lost now ends the wait, and can be closed
        for handle in reversed(list(self._handles.values())):
            self.free(handle)
        lib.vkDestroyDevice(self.native, NULL)
        self.listed.instance.leave()

    def address(self, buffer: Handle) -> int:
        """Return where a buffer begins for kernels; 0 if there are no addresses."""
        if not self.features.v12.bufferDeviceAddress:
            return 0
        info = struct("VkBufferDeviceAddressInfo", buffer=buffer.native)
        return int(lib.vkGetBufferDeviceAddress(self.native, info))


def _families(listed: ListedDevice) -> _Families:
    """Choose queue families: for launches one without graphics, whose queues nobody draws with, where there is one.

    Raises:
        InitializationError: None computes.
    """
    flags = [int(family.queueFlags) for family in listed.queue_families]
    able = [number for number, flag in enumerate(flags) if flag & _COMPUTE]
    if not able:
        raise InitializationError(f"{listed} has no queue that computes, so its driver can only draw")
    compute = min(able, key=lambda number: flags[number] & _GRAPHICS)
    copies = [number for number, flag in enumerate(flags) if flag & _ALL == _TRANSFER]
    return _Families(compute, copies[0] if copies else None)
