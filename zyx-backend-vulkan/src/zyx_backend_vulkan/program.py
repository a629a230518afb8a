"""What a kernel becomes: a pipeline, built once, with its grid and the places of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zyx.drivers.device_program import DeviceProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.drivers.arguments import Parameter
    from zyx_backend_vulkan.blocks import Memory
    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_programs import Pipeline
    from zyx_backend_vulkan.memory import VulkanPool
    from zyx_backend_vulkan.render import Rendered

_ADDRESS_BYTES: Final = 8


def bindings_of(rendered: Rendered) -> tuple[int, int]:
    """Return how many descriptors a kernel binds, and how many bytes of push constants it takes."""
    buffers = 0 if rendered.uses_addresses else sum(one.scalar is None for one in rendered.parameters)
    return (buffers + 1, 0) if rendered.push_bytes < 0 else (buffers, rendered.push_bytes)


class VulkanProgram(DeviceProgram):
    """What is launched on a device.

    Attributes:
        sequences: How many captured sequences need it.
    """

    __slots__ = ("sequences",)

    pool: VulkanPool

    def __init__(self, name: str, source: str, what: str, pool: VulkanPool, parameters: Sequence[Parameter]) -> None:
        super().__init__(name, source, what, pool, parameters)
        self.sequences = 0

    def enqueue(self, natives: Sequence[Any]) -> None:
        """Record itself on the queue of launches, whose lock the caller has; `Lane.queued` has to follow.

        Raises:
            Fault: The driver refused. Nothing was recorded.
        """
        raise NotImplementedError

    def release(self) -> None:
        super().release()
        self.free_unless_used()

    def free_unless_used(self) -> None:
        """Free what is the driver's if the program was released, and no sequence needs it."""
        if self.is_released and not self.sequences:
            self.free()

    def free(self) -> None:
        """Free what is the driver's, once it runs no more."""
        raise NotImplementedError


class KernelProgram(VulkanProgram):
    """A kernel, built.

    Args:
        what: What it is and on which device, for error texts.
        pool: The device's memory.
        pipeline: The driver's object.
        rendered: What it was built from.
        free: Frees the pipeline.
    """

    __slots__ = ("_addresses", "_block_bytes", "_buffers", "_free", "_groups", "_numbers", "_pipeline", "_words")

    def __init__(
        self, what: str, pool: VulkanPool, pipeline: Pipeline, rendered: Rendered, free: Callable[[Pipeline], object]
    ) -> None:
        self._words = rendered.words
        super().__init__(rendered.name, "", what, pool, rendered.parameters)
        self._pipeline = pipeline
        self._free = free
        self._groups = rendered.groups
        places = list(enumerate(rendered.parameters))
        buffers = [number for number, parameter in places if parameter.scalar is None]
        offsets = rendered.push_offsets
        self._buffers = [] if rendered.uses_addresses else buffers
        self._addresses = [(number, offsets[number]) for number in buffers] if rendered.uses_addresses else []
        self._numbers = [(number, offsets[number]) for number, parameter in places if parameter.scalar is not None]
        self._block_bytes = rendered.push_bytes

    @property
    def source(self) -> str:
        """Its module as text, which is made when somebody asks for it."""
        from zyx_backend_vulkan.disassembly import disassembly

        return disassembly(self._words)

    @source.setter
    def source(self, text: str) -> None:  # by the class that this is one of, before there is any
        assert not text

    @property
    def takes_numbers(self) -> bool:
        """Whether an argument is a number."""
        return bool(self._numbers)

    def enqueue(self, natives: Sequence[Any]) -> None:
        lane = self.pool.compute
        self.record(lane.commands(), natives, lane.bury)

    def record(
        self,
        commands: Native,
        natives: Sequence[Any],
        bury: Callable[[Callable[[], object]], object],
    ) -> None:
        """Record a launch.

        Args:
            commands: Where.
            natives: The arguments: memory of buffers, bytes of numbers.
            bury: Is given what is to be called when the launch is done, and not to be repeated.

        Raises:
            Fault: The driver refused. Nothing was recorded.
        """
        pipeline = self._pipeline
        infos = [natives[number].info for number in self._buffers]
        numbers = self._block(natives) if self._block_bytes else b""
        if self._block_bytes < 0:
            constants = self.pool.constants
            memory = constants.obtain(len(numbers))
            view = memory.view
            assert view is not None  # memory of this type can be reached
            view[: len(numbers)] = memoryview(numbers)
            infos.append(memory.info)
            bury(lambda: constants.discard(memory))
            numbers = b""
        taken = pipeline.record(commands, infos, numbers, self._groups)
        if taken is not None:
            bury(lambda: pipeline.give_back(taken))

    def _block(self, natives: Sequence[Any]) -> bytearray:
        """Return the push constants; what belongs to no argument is 0, which the emitter relies on."""
        block = bytearray(abs(self._block_bytes))
        for number, offset in self._numbers:
            native: bytes = natives[number]
            block[offset : offset + len(native)] = native
        for number, offset in self._addresses:
            memory: Memory = natives[number]
            block[offset : offset + _ADDRESS_BYTES] = memory.address.to_bytes(_ADDRESS_BYTES, "little")
        return block

    def free(self) -> None:
        pipeline, free = self._pipeline, self._free
        self.pool.compute.bury(lambda: free(pipeline))
