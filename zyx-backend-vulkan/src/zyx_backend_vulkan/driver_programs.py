"""Foreign functions: kernels as pipelines, and the buffers and numbers that they are launched with."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx_backend_vulkan.driver import NULL, check, ffi, lib, struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx_backend_vulkan.driver import Native
    from zyx_backend_vulkan.driver_device import Handle, Session

_STORAGE_BUFFER: Final = 7  # VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
_COMPUTE_STAGE: Final = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
_COMPUTE: Final = 1  # VK_PIPELINE_BIND_POINT_COMPUTE
_PUSHED: Final = 1  # VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
_FULL_SUBGROUPS: Final = 2  # VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
#: Descriptor sets of a layout are made so many at a time.
_SETS: Final = 32


class _Layout(NamedTuple):
    """What pipelines share that bind as many buffers and take as many bytes of numbers.

    Attributes:
        buffers: Number of storage buffers, bindings 0 and on of set 0.
        push_bytes: Bytes of push constants.
        is_pushed: Whether the buffers are pushed; else they are put into a descriptor set.
        of_set: Layout of the set; None if there are no buffers.
        native: Layout of pipelines.
        spare: Descriptor sets that are not in use.
    """

    buffers: int
    push_bytes: int
    is_pushed: bool
    of_set: Handle | None
    native: Handle
    spare: list[Any]


class Pipeline:
    """A kernel, ready to be launched. `record` is for one thread at a time.

    Attributes:
        native: The handle.
    """

    __slots__ = ("_layout", "_owner", "_slots", "_writes", "native")

    def __init__(self, owner: Pipelines, native: Handle, layout: _Layout) -> None:
        self.native = native
        self._owner = owner
        self._layout = layout
        one = struct("VkWriteDescriptorSet", descriptorCount=1, descriptorType=_STORAGE_BUFFER)
        self._writes = ffi.new("VkWriteDescriptorSet[]", [one[0]] * layout.buffers)
        self._slots = [self._writes[number] for number in range(layout.buffers)]
        for number, slot in enumerate(self._slots):
            slot.dstBinding = number

    def record(
        self, commands: Native, buffers: Sequence[Native], numbers: bytes | bytearray, groups: tuple[int, int, int]
    ) -> Native:
        """Record a launch.

        Args:
            commands: Where.
            buffers: VkDescriptorBufferInfo of each buffer.
            numbers: The push constants.
            groups: Number of groups along each axis.

        Returns:
            The descriptor set that it uses, which `give_back` takes when nothing uses it; None if there is none.

        Raises:
            Fault: The driver has no descriptor set. Nothing was recorded.
        """
        layout = self._layout
        native = layout.native.native
        for slot, buffer in zip(self._slots, buffers, strict=True):
            slot.pBufferInfo = buffer
        taken = None
        if layout.is_pushed:
            self._owner.push(commands, _COMPUTE, native, 0, layout.buffers, self._writes)
        elif layout.buffers:
            taken = self._owner.take_set(layout)
            for slot in self._slots:
                slot.dstSet = taken
            lib.vkUpdateDescriptorSets(self._owner.device, layout.buffers, self._writes, 0, NULL)
            lib.vkCmdBindDescriptorSets(
                commands, _COMPUTE, native, 0, 1, ffi.new("VkDescriptorSet[]", [taken]), 0, NULL
            )
        lib.vkCmdBindPipeline(commands, _COMPUTE, self.native.native)
        if numbers:
            lib.vkCmdPushConstants(commands, native, _COMPUTE_STAGE, 0, len(numbers), ffi.from_buffer(numbers))
        lib.vkCmdDispatch(commands, *groups)
        return taken

    def give_back(self, taken: Native) -> None:
        """Take back a descriptor set that nothing uses any more."""
        self._layout.spare.append(taken)


class Pipelines:
    """Makes pipelines of a device. Any thread may call `build`.

    Args:
        session: The device.
        subgroup_size: How many threads are to run in step; 0 leaves it to the driver. Where it may be told, groups have
            at most so many subgroups as it says (`zyx_backend_vulkan.info`).
    """

    def __init__(self, session: Session, subgroup_size: int = 0) -> None:
        self.device: Final = session.native
        self.push: Final[Any] = session.push
        self._session: Final = session
        self._lock: Final = Lock()
        self._layouts: dict[tuple[int, int], _Layout] = {}
        controls = session.features.subgroups
        self._subgroup_size: Final = subgroup_size
        self._can_be_full: Final = controls is not None and bool(controls.computeFullSubgroups)
        told = struct("VkPipelineShaderStageRequiredSubgroupSizeCreateInfo", requiredSubgroupSize=subgroup_size)
        self._told: Final[Any] = told if subgroup_size and session.listed.has_varying_subgroups else NULL

    def build(
        self, words: bytes, threads: tuple[int, int, int], buffers: int, push_bytes: int, image: bytes = b""
    ) -> tuple[Pipeline, bytes]:
        """Compile SPIR-V.

        Args:
            words: The module, whose entry point is ``main``.
            threads: Threads of a group along each axis: the values of specialisation constants 0, 1 and 2.
            buffers: How many storage buffers it binds.
            push_bytes: Bytes of its push constants.
            image: What was returned of it before, with which the driver need not compile.

        Returns:
            The pipeline, and what the driver is to be given the next time.

        Raises:
            Fault: The driver refused.
        """
        session = self._session
        layout = self._layout(buffers, push_bytes)
        code = ffi.new("uint32_t[]", len(words) // 4)
        ffi.memmove(code, words, len(words))
        module = session.make("VkShaderModule", struct("VkShaderModuleCreateInfo", codeSize=len(words), pCode=code))
        cache = None
        try:
            cache = session.make(
                "VkPipelineCache",
                struct(
                    "VkPipelineCacheCreateInfo",
                    initialDataSize=len(image),
                    pInitialData=ffi.from_buffer(image) if image else NULL,
                ),
            )
            native = self._pipeline(module, cache, threads, layout)
            return Pipeline(self, native, layout), self._image(cache)
        finally:
            session.free(module, *(() if cache is None else (cache,)))

    def _pipeline(self, module: Handle, cache: Handle, threads: tuple[int, int, int], layout: _Layout) -> Handle:
        sizes = ffi.new("uint32_t[3]", threads)
        entries = [
            struct("VkSpecializationMapEntry", constantID=number, offset=4 * number, size=4) for number in range(3)
        ]
        constants = struct("VkSpecializationInfo", mapEntryCount=3, pMapEntries=entries, dataSize=12, pData=sizes)
        is_even = self._subgroup_size and threads[0] % self._subgroup_size == 0
        stage = struct(
            "VkPipelineShaderStageCreateInfo",
            pNext=self._told,
            flags=_FULL_SUBGROUPS if is_even and self._can_be_full else 0,
            stage=_COMPUTE_STAGE,
            module=module.native,
            pName="main",
            pSpecializationInfo=constants,
        )
        info = struct("VkComputePipelineCreateInfo", stage=stage[0], layout=layout.native.native, basePipelineIndex=-1)
        place = ffi.new("VkPipeline *")
        code = lib.vkCreateComputePipelines(self.device, cache.native, 1, info, NULL, place)
        check(code, "vkCreateComputePipelines")
        return self._session.hold(place[0], lib.vkDestroyPipeline)

    def _image(self, cache: Handle) -> bytes:
        size = ffi.new("size_t *")
        check(lib.vkGetPipelineCacheData(self.device, cache.native, size, NULL), "vkGetPipelineCacheData")
        data = ffi.new("char[]", size[0])
        check(lib.vkGetPipelineCacheData(self.device, cache.native, size, data), "vkGetPipelineCacheData")
        return bytes(ffi.buffer(data, size[0]))

    def free(self, pipeline: Pipeline) -> None:
        """Free a pipeline, which nothing uses any more."""
        self._session.free(pipeline.native)

    # ---- layouts and descriptor sets

    def _layout(self, buffers: int, push_bytes: int) -> _Layout:
        with self._lock:
            found = self._layouts.get((buffers, push_bytes))
            if found is None:
                found = self._layouts[buffers, push_bytes] = self._new_layout(buffers, push_bytes)
            return found

    def _new_layout(self, buffers: int, push_bytes: int) -> _Layout:
        session = self._session
        is_pushed = self.push is not None and 0 < buffers <= session.listed.properties.max_pushed
        of_set = None
        if buffers:
            bindings = [
                struct(
                    "VkDescriptorSetLayoutBinding",
                    binding=number,
                    descriptorType=_STORAGE_BUFFER,
                    descriptorCount=1,
                    stageFlags=_COMPUTE_STAGE,
                )
                for number in range(buffers)
            ]
            info = struct(
                "VkDescriptorSetLayoutCreateInfo",
                flags=_PUSHED if is_pushed else 0,
                bindingCount=buffers,
                pBindings=bindings,
            )
            of_set = session.make("VkDescriptorSetLayout", info)
        ranges = [struct("VkPushConstantRange", stageFlags=_COMPUTE_STAGE, size=push_bytes)] if push_bytes else []
        info = struct(
            "VkPipelineLayoutCreateInfo",
            setLayoutCount=0 if of_set is None else 1,
            pSetLayouts=NULL if of_set is None else [of_set.native],
            pushConstantRangeCount=len(ranges),
            pPushConstantRanges=ranges or NULL,
        )
        return _Layout(buffers, push_bytes, is_pushed, of_set, session.make("VkPipelineLayout", info), [])

    def take_set(self, layout: _Layout) -> Native:
        """Return a descriptor set that is not in use.

        Raises:
            Fault: The driver has none.
        """
        if not layout.spare:
            assert layout.of_set is not None
            size = struct("VkDescriptorPoolSize", type=_STORAGE_BUFFER, descriptorCount=_SETS * layout.buffers)
            info = struct("VkDescriptorPoolCreateInfo", maxSets=_SETS, poolSizeCount=1, pPoolSizes=[size])
            pool = self._session.make("VkDescriptorPool", info)
            asked = struct(
                "VkDescriptorSetAllocateInfo",
                descriptorPool=pool.native,
                descriptorSetCount=_SETS,
                pSetLayouts=[layout.of_set.native] * _SETS,
            )
            sets = ffi.new("VkDescriptorSet[]", _SETS)
            code = lib.vkAllocateDescriptorSets(self.device, asked, sets)
            if code:
                self._session.free(pool)
            check(code, "vkAllocateDescriptorSets")
            layout.spare.extend(sets)
        return layout.spare.pop()
