"""Foreign functions: a queue of a device, the commands it is given, and how far it has come.

A queue has a timeline, a semaphore that counts: each submission brings it to the number of the last piece of work in
it, and other queues and the host wait for numbers.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from zyx_backend_vulkan.driver import NULL, check, ffi, lib, struct
from zyx_backend_vulkan.driver_instance import CPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_device import Session

#: VkPipelineStageFlagBits.
_COMPUTE_SHADER: Final = 0x800
_TRANSFER: Final = 0x1000
_BOTTOM_OF_PIPE: Final = 0x2000
_HOST: Final = 0x4000
_ALL_COMMANDS: Final = 0x10000
#: VkAccessFlagBits.
_SHADER_READ: Final = 0x20
_SHADER_WRITE: Final = 0x40
_TRANSFER_READ: Final = 0x800
_TRANSFER_WRITE: Final = 0x1000
_HOST_READ: Final = 0x2000

_COMPUTES: Final = 2  # VK_QUEUE_COMPUTE_BIT
_TIMELINE: Final = 1  # VK_SEMAPHORE_TYPE_TIMELINE
_RESET_ONE_BY_ONE: Final = 2  # VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
_ONCE: Final = 1  # VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
_AGAIN: Final = 4  # VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
_TIMEOUT: Final = 2  # VK_TIMEOUT
#: How long a wait looks at the timeline of a GPU before the driver puts the thread to sleep, which takes 15 to 50 us to
#: wake on an H200: at most 5 % of what is waited for longer.
_LOOKED_NS: Final = 1_000_000
_TIMESTAMP: Final = 2  # VK_QUERY_TYPE_TIMESTAMP
_64_BIT_WAIT: Final = 3  # VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT


class Queue:
    """A queue. All methods but `value` and `wait` have to be called by one thread at a time.

    Args:
        session: The device.
        family: Number of its queue family.
        index: Number of the queue in that.

    Attributes:
        timeline: The semaphore.
        is_mapped: Whether the host reads what kernels write where it is, and not copies of it alone.

    Raises:
        Fault: The driver refused.
    """

    def __init__(self, session: Session, family: int, index: int) -> None:
        self._session: Final = session
        self._device: Final = session.native
        place = ffi.new("VkQueue *")
        lib.vkGetDeviceQueue(session.native, family, index, place)
        self._native: Final = place[0]
        kind = struct("VkSemaphoreTypeCreateInfo", semaphoreType=_TIMELINE)
        self.timeline: Final = session.make("VkSemaphore", struct("VkSemaphoreCreateInfo", pNext=kind)).native
        pool = struct("VkCommandPoolCreateInfo", queueFamilyIndex=family, flags=_RESET_ONE_BY_ONE)
        self._pool: Final = session.make("VkCommandPool", pool).native
        self.is_mapped = True
        # A processor has better things to do: it is what runs the kernels.
        self._looked_ns: Final = 0 if session.listed.kind == CPU else _LOOKED_NS
        self._spare: list[Any] = []
        told = session.listed.queue_families[family]
        self._clock_bits: Final = int(told.timestampValidBits)
        self._queries: Any = None
        self._stages: Final = _TRANSFER | (_COMPUTE_SHADER if told.queueFlags & _COMPUTES else 0)
        reads = _TRANSFER_READ | (_SHADER_READ if told.queueFlags & _COMPUTES else 0)
        writes = _TRANSFER_WRITE | (_SHADER_WRITE if told.queueFlags & _COMPUTES else 0)
        self._between: Final = struct("VkMemoryBarrier", srcAccessMask=writes, dstAccessMask=reads | writes)
        self._behind: Final = struct("VkMemoryBarrier", srcAccessMask=writes, dstAccessMask=_HOST_READ)
        self._asked: Final = struct("VkCommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1)
        self._once: Final = struct("VkCommandBufferBeginInfo", flags=_ONCE)
        self._again: Final = struct("VkCommandBufferBeginInfo", flags=_AGAIN)
        self._value: Final = ffi.new("uint64_t *")
        self._values: Final = struct("VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1)
        self._values.pSignalSemaphoreValues = self._value
        self._timelines: Final = ffi.new("VkSemaphore[]", [self.timeline])
        self._submission: Final = struct("VkSubmitInfo", pNext=self._values, signalSemaphoreCount=1)
        self._submission.pSignalSemaphores = self._timelines
        self._region: Final = ffi.new("VkBufferCopy *")

    # ---- commands

    def begin(self, *, is_kept: bool = False) -> Native:
        """Return a command buffer that is being recorded.

        Args:
            is_kept: It will be submitted more than once, also while it runs.
        """
        if self._spare:
            commands = self._spare.pop()
        else:
            place = ffi.new("VkCommandBuffer *")
            check(lib.vkAllocateCommandBuffers(self._device, self._asked, place), "vkAllocateCommandBuffers")
            commands = place[0]
        code = lib.vkBeginCommandBuffer(commands, self._again if is_kept else self._once)
        if code:
            self._spare.append(commands)
        check(code, "vkBeginCommandBuffer")
        return commands

    def barrier(self, commands: Native) -> None:
        """Let whatever comes next wait for whatever was given to the queue before, and see what it wrote."""
        lib.vkCmdPipelineBarrier(commands, self._stages, self._stages, 0, 1, self._between, 0, NULL, 0, NULL)

    def copy(self, commands: Native, source: Native, target: Native, nbytes: int) -> None:
        """Copy the first bytes of one piece of memory to another; both have a `buffer` and an `offset`.

        They are there for the host when that is done.
        """
        region = self._region
        region.srcOffset, region.dstOffset, region.size = source.offset, target.offset, nbytes
        lib.vkCmdCopyBuffer(commands, source.buffer, target.buffer, 1, region)
        if not self.is_mapped:
            self._show(commands)

    def _show(self, commands: Native) -> None:
        """Let the host see what was written."""
        lib.vkCmdPipelineBarrier(commands, self._stages, _HOST, 0, 1, self._behind, 0, NULL, 0, NULL)

    def end(self, commands: Native) -> None:
        """End the recording; what the host reads of it is there when it is done."""
        if self.is_mapped:
            self._show(commands)
        check(lib.vkEndCommandBuffer(commands), "vkEndCommandBuffer")

    def give_back(self, commands: Native) -> None:
        """Take a command buffer that is not running to be recorded anew."""
        self._spare.append(commands)

    # ---- work

    def submit(self, commands: Sequence[Any], waits: Sequence[tuple[Any, int]], value: int) -> None:
        """Start command buffers, one after the other.

        Args:
            commands: They have ended.
            waits: Timelines of other queues, and how far these have to be first.
            value: Where the timeline is when they, and all before them, are done.

        Raises:
            Fault: The driver refused. Nothing of it runs.
        """
        buffers = ffi.new("VkCommandBuffer[]", commands)
        submission, values = self._submission, self._values
        submission.commandBufferCount, submission.pCommandBuffers = len(commands), buffers
        submission.waitSemaphoreCount = values.waitSemaphoreValueCount = len(waits)
        self._value[0] = value
        if waits:
            semaphores = ffi.new("VkSemaphore[]", [timeline for timeline, _ in waits])
            numbers = ffi.new("uint64_t[]", [number for _, number in waits])
            stages = ffi.new("VkPipelineStageFlags[]", [_ALL_COMMANDS] * len(waits))
            submission.pWaitSemaphores, submission.pWaitDstStageMask = semaphores, stages
            values.pWaitSemaphoreValues = numbers
        check(lib.vkQueueSubmit(self._native, 1, submission, NULL), "vkQueueSubmit")

    def value(self) -> int:
        """Return where the timeline is.

        Raises:
            Fault: The device is lost.
        """
        place = ffi.new("uint64_t *")
        check(lib.vkGetSemaphoreCounterValue(self._device, self.timeline, place), "vkGetSemaphoreCounterValue")
        return int(place[0])

    def wait(self, value: int, timeout_ns: int) -> bool:
        """Return whether the timeline has come to `value`, after waiting for so long at most.

        Raises:
            Fault: The device is lost.
        """
        end = time.perf_counter_ns() + min(timeout_ns, self._looked_ns)
        while time.perf_counter_ns() < end:
            if value <= self.value() <= self._value[0]:  # a device that is lost may be anywhere
                return True
        number = ffi.new("uint64_t *", value)
        info = struct("VkSemaphoreWaitInfo", semaphoreCount=1)
        info.pSemaphores, info.pValues = self._timelines, number
        code = lib.vkWaitSemaphores(self._device, info, timeout_ns)
        check(code, "vkWaitSemaphores")
        return bool(code != _TIMEOUT)

    # ---- the clock

    @property
    def has_clock(self) -> bool:
        """Whether `start_clock` and `stop_clock` can be recorded."""
        return self._clock_bits > 0 and self._session.listed.limits.timestampPeriod > 0

    def start_clock(self, commands: Native) -> None:
        """Note the time when whatever was given to the queue before is done."""
        if self._queries is None:
            info = struct("VkQueryPoolCreateInfo", queryType=_TIMESTAMP, queryCount=2)
            self._queries = self._session.make("VkQueryPool", info).native
        lib.vkCmdResetQueryPool(commands, self._queries, 0, 2)
        self.barrier(commands)
        lib.vkCmdWriteTimestamp(commands, _BOTTOM_OF_PIPE, self._queries, 0)

    def stop_clock(self, commands: Native) -> None:
        """Note the time when whatever came since is done."""
        self.barrier(commands)
        lib.vkCmdWriteTimestamp(commands, _BOTTOM_OF_PIPE, self._queries, 1)

    def seconds(self) -> float:
        """Return the time between the two, once they are done."""
        found = ffi.new("uint64_t[2]")
        code = lib.vkGetQueryPoolResults(self._device, self._queries, 0, 2, 16, found, 8, _64_BIT_WAIT)
        check(code, "vkGetQueryPoolResults")
        ticks = int(found[1] - found[0]) % (1 << self._clock_bits)  # it may have begun anew
        # A clock may be coarser than a kernel is short.
        return max(ticks, 1) * float(self._session.listed.limits.timestampPeriod) * 1e-9
