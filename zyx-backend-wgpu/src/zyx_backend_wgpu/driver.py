"""The foreign functions of this backend: WebGPU through wgpu-py.

Nothing else in the package imports wgpu. Importing this module loads the native library, so the business card does not.

wgpu-py's own classes serve where time does not matter. Where it does, and where they leave something out (waiting for
one submission, modules without run-time checks), the functions of its native library are called: `lib` as they are,
`libf` with their errors raised. That library ends the process if a submission is refused, so nothing is submitted that
was not accepted as a command buffer before; of a device that is lost, none is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import wgpu
from wgpu.backends import wgpu_native
from wgpu.backends.wgpu_native import _api, _helpers, extras

from zyx.drivers.faults import Cause, Fault
from zyx.drivers.vulkan_loader import quiet
from zyx.errors import DriverNotFoundError, InitializationError
from zyx_backend_wgpu.bindings import READ, UNIFORM, WORD, WRITE, Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zyx_backend_wgpu.bindings import Dispatch, Group, Pipeline

VERSION: Final = f"wgpu {wgpu.__version__}, wgpu-native {'.'.join(map(str, wgpu_native.version_info))}"

#: Reads go through buffers that the host can see, at most so large, of which some are kept.
_STAGING_BYTES: Final = 1 << 26
_STAGING_KEPT: Final = 2

_OPENGL: Final = "OpenGL"

ffi, lib, libf = _api.ffi, _api.lib, _api.libf

#: Functions of the native library that wgpu-py has no classes for, and that come and go with its versions.
_NEEDED: Final = ("wgpuDeviceCreateShaderModuleTrusted", "wgpuQueueSubmitForIndex", "wgpuDevicePoll")
for _name in _NEEDED:
    if not hasattr(lib, _name):
        raise ImportError(f"wgpu {wgpu.__version__} has no {_name}")


class ListedAdapter:
    """An adapter, that is, a device as one of the system's interfaces shows it; nothing of it is open.

    Attributes:
        name: What the driver calls it.
        road: The interface: Vulkan, Metal, D3D12 or OpenGL.
        driver: The driver's name and version.
        subgroup_threads, most_subgroup_threads: Least and most threads that run in step; 0 if it does not tell.
        kind: ``DiscreteGPU``, ``IntegratedGPU``, ``VirtualGPU``, ``CPU`` or ``Unknown``.
        features: What it offers besides what WebGPU always has.
        limits: Its sizes and counts.
        subgroup_threads: How many threads run in step at least; 0 if the driver does not tell.
        native: wgpu-py's object.
    """

    def __init__(self, native: Any) -> None:  # noqa: ANN401  # wgpu-py's object
        info = native.info
        self.name: Final = " ".join(info["device"].split()) or "unnamed adapter"
        self.road: Final = str(info["backend_type"])
        self.driver: Final = " ".join(f"{info['vendor']} {info['description']}".split())
        self.kind: Final = str(info["adapter_type"])
        self.ids: Final = int(info["vendor_id"]), int(info["device_id"])
        self.subgroup_threads, self.most_subgroup_threads = _subgroup_threads(native)
        self.features: Final = frozenset(str(feature) for feature in native.features)
        self.limits: Final = {str(name): int(limit) for name, limit in native.limits.items()}
        self.native: Final = native

    def __str__(self) -> str:
        return f"{self.name} ({self.road})"


def _subgroup_threads(native: Any) -> tuple[int, int]:  # noqa: ANN401  # wgpu-py's object
    """Return what the native library tells: wgpu-py (0.32) leaves it out, and gives 4 and 128 for every adapter."""
    told = ffi.new("WGPUAdapterInfo *")
    libf.wgpuAdapterGetInfo(native._internal, told)
    least, most = (int(getattr(told, name, 0)) for name in ("subgroupMinSize", "subgroupMaxSize"))
    libf.wgpuAdapterInfoFreeMembers(told[0])
    return least, most


def list_adapters(*, opengl: bool = False) -> list[ListedAdapter]:
    """Return all adapters, in the order of the driver.

    Args:
        opengl: Whether to look for OpenGL as well, which shows the same devices again, less able.

    Raises:
        DriverNotFoundError: There is none.
        InitializationError: The native library fails.
    """
    try:
        with quiet():
            if not opengl and _helpers._the_instance is None:  # else somebody in this process chose before
                extras.set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
            natives = wgpu.gpu.enumerate_adapters_sync()
    except (RuntimeError, OSError, wgpu.GPUError) as error:
        raise InitializationError(f"WebGPU does not start: {error}") from error
    adapters = [ListedAdapter(native) for native in natives]
    found = [adapter for adapter in adapters if opengl or adapter.road != _OPENGL]
    if not found:
        raise DriverNotFoundError(
            "there is no adapter. A GPU's Vulkan driver comes with its vendor's driver package (for AMD and Intel on "
            "Debian: apt install mesa-vulkan-drivers libvulkan1). Any CPU can do with Mesa's software driver, which is "
            "in mesa-vulkan-drivers too. Devices that have OpenGL only are used if backends.wgpu.opengl is set"
        )
    return found


class Session:
    """A device that is open. What is submitted runs in that order; nothing but `read`, `wait` and `timed` waits for it.

    Args:
        adapter: What to open.
        wanted: Features to use, as far as they are there.
        limits: Sizes and counts to go without more of than so; of the others, and by default, there is all there is.

    Attributes:
        adapter: The same.
        features: The features that are used.

    Raises:
        InitializationError: The driver refused.
    """

    def __init__(self, adapter: ListedAdapter, wanted: Iterable[str], limits: Mapping[str, int] | None = None) -> None:
        self.adapter: Final = adapter
        self.features: Final = adapter.features & frozenset(wanted)
        asked = {name: min(limit, adapter.limits[name]) for name, limit in (limits or {}).items()}
        try:
            self._owner = adapter.native.request_device_sync(
                required_features=sorted(self.features), required_limits=asked
            )
        except (RuntimeError, KeyError, wgpu.GPUError) as error:
            raise InitializationError(f"{adapter} does not start: {error}") from error
        self._device = self._owner._internal
        self._queue = self._owner.queue._internal
        self.limits: Final = {str(name): int(limit) for name, limit in self._owner.limits.items()}
        self._lock = threading.Lock()  # kernels are compiled in other threads
        self._layouts: dict[tuple[str, ...], tuple[Any, Any]] = {}
        self._staging: list[Memory] = []
        self._count = 0
        # What tensors have, by its numbers, until it is freed. Garbage with a cycle in it may hold a tensor, whose
        # memory is saved and used again; cffi would have released it by then, with all else that is to be finalised.
        self._held: dict[int, Any] = {}
        self._encoder_descriptor = ffi.new("WGPUCommandEncoderDescriptor *")
        self._buffer_descriptor = ffi.new("WGPUCommandBufferDescriptor *")
        self._pass_descriptor = ffi.new("WGPUComputePassDescriptor *")
        self._queries: Any = None

    # ---- memory

    def allocate(self, nbytes: int) -> Memory:
        """Return memory that kernels can use."""
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        memory = self._buffer(nbytes, usage)
        self._held[memory.number] = memory.native
        return memory

    def uniform(self, data: bytes) -> Memory:
        """Return memory of constants, with `data` in it."""
        memory = self._buffer(len(data), wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
        self.write(memory, 0, memoryview(data))
        return memory

    def _buffer(self, nbytes: int, usage: int) -> Memory:
        descriptor = ffi.new("WGPUBufferDescriptor *")
        descriptor.size, descriptor.usage = nbytes, int(usage)
        try:
            native = libf.wgpuDeviceCreateBuffer(self._device, descriptor)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        with self._lock:
            self._count += 1
            return Memory(ffi.gc(native, lib.wgpuBufferRelease), self._count, nbytes)

    def free(self, memory: Memory) -> None:
        """Give memory back once nothing that was submitted uses it. Groups with it must not be submitted any more."""
        lib.wgpuBufferDestroy(memory.native)
        self._held.pop(memory.number, None)

    def write(self, memory: Memory, offset: int, source: memoryview) -> None:
        """Copy host memory, whose size and `offset` are multiples of `WORD`, before whatever is submitted next."""
        data = ffi.from_buffer(source)
        try:
            libf.wgpuQueueWriteBuffer(self._queue, memory.native, offset, data, source.nbytes)
        except wgpu.GPUError as error:
            raise _fault(error) from error

    def read(self, memory: Memory, offset: int, target: memoryview) -> None:
        """Copy to host memory, after all that was submitted. `offset` is a multiple of `WORD`; the size may be any."""
        for start in range(0, target.nbytes, _STAGING_BYTES):
            part = target[start : start + _STAGING_BYTES]
            self._read_part(memory, offset + start, part)

    def _read_part(self, memory: Memory, offset: int, target: memoryview) -> None:
        nbytes = -(-target.nbytes // WORD) * WORD
        staging = self._staging_of(nbytes)
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, self._encoder_descriptor)
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, memory.native, offset, staging.native, 0, nbytes)
        index = self._submit(encoder)
        status: list[int] = []

        @ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)")  # type: ignore[untyped-decorator]
        def mapped(code: int, _message: object, _first: object, _second: object) -> None:
            status.append(code)

        info = ffi.new("WGPUBufferMapCallbackInfo *")
        info.mode, info.callback = lib.WGPUCallbackMode_AllowProcessEvents, mapped
        try:
            libf.wgpuBufferMapAsync(staging.native, lib.WGPUMapMode_Read, 0, nbytes, info[0])
            self.wait(index)
            if not status:
                lib.wgpuDevicePoll(self._device, True, ffi.NULL)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        if status != [lib.WGPUMapAsyncStatus_Success]:
            raise Fault(Cause.REFUSED, f"memory cannot be mapped (status {status})")
        source = lib.wgpuBufferGetConstMappedRange(staging.native, 0, nbytes)
        ffi.memmove(ffi.from_buffer(target, require_writable=True), source, target.nbytes)
        lib.wgpuBufferUnmap(staging.native)
        with self._lock:
            if len(self._staging) < _STAGING_KEPT:
                self._staging.append(staging)

    def _staging_of(self, nbytes: int) -> Memory:
        """Return memory to read through; whoever takes it owns it."""
        with self._lock:
            for number, staging in enumerate(self._staging):
                if staging.nbytes >= nbytes:
                    return self._staging.pop(number)
            if len(self._staging) == _STAGING_KEPT:
                self._staging.pop(0)
        size = min(_STAGING_BYTES, 1 << max(12, (nbytes - 1).bit_length()))
        return self._buffer(size, wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST)

    # ---- programs

    def build(self, source: str, name: str, kinds: tuple[str, ...]) -> Pipeline:
        """Compile WGSL, which has a function ``main`` and a binding of each of `kinds`, in group 0."""
        _, layout = self._layout(kinds)
        text, label, entry = (ffi.new("char[]", part.encode()) for part in (source, name, "main"))
        wgsl = ffi.new("WGPUShaderSourceWGSL *")
        wgsl.chain.sType, wgsl.code = lib.WGPUSType_ShaderSourceWGSL, _view(text)
        described = ffi.new("WGPUShaderModuleDescriptor *")
        described.nextInChain, described.label = ffi.cast("WGPUChainedStruct *", wgsl), _view(label)
        wanted = ffi.new("WGPUComputePipelineDescriptor *")
        wanted.layout, wanted.label, wanted.compute.entryPoint = layout, _view(label), _view(entry)
        try:
            # Kernels are verified, and the sizes of buffers checked at each launch.
            module = libf.wgpuDeviceCreateShaderModuleTrusted(self._device, described, 0)
            wanted.compute.module = module = ffi.gc(module, lib.wgpuShaderModuleRelease)
            pipeline = libf.wgpuDeviceCreateComputePipeline(self._device, wanted)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        return ffi.gc(pipeline, lib.wgpuComputePipelineRelease)

    def group(self, kinds: tuple[str, ...], bound: Sequence[tuple[Memory, int]]) -> Group:
        """Return buffers put together for a kernel: of each the memory, and how many bytes from its start."""
        layout, _ = self._layout(kinds)
        entries = ffi.new("WGPUBindGroupEntry[]", len(bound))
        for number, (memory, nbytes) in enumerate(bound):
            entry = entries[number]
            entry.binding, entry.buffer, entry.size = number, memory.native, nbytes
        descriptor = ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout, descriptor.entryCount, descriptor.entries = layout, len(bound), entries
        try:
            group = libf.wgpuDeviceCreateBindGroup(self._device, descriptor)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        return ffi.gc(group, lib.wgpuBindGroupRelease)

    def _layout(self, kinds: tuple[str, ...]) -> tuple[Any, Any]:
        """Return the layout of a group with these bindings, and that of pipelines with such a group."""
        with self._lock:
            found = self._layouts.get(kinds)
            if found is None:
                found = self._layouts[kinds] = self._new_layout(kinds)
            return found

    def _new_layout(self, kinds: tuple[str, ...]) -> tuple[Any, Any]:
        types = {
            READ: lib.WGPUBufferBindingType_ReadOnlyStorage,
            WRITE: lib.WGPUBufferBindingType_Storage,
            UNIFORM: lib.WGPUBufferBindingType_Uniform,
        }
        entries = ffi.new("WGPUBindGroupLayoutEntry[]", len(kinds))
        for number, kind in enumerate(kinds):
            entry = entries[number]
            entry.binding, entry.visibility, entry.buffer.type = number, wgpu.ShaderStage.COMPUTE, types[kind]
        of_group = ffi.new("WGPUBindGroupLayoutDescriptor *")
        of_group.entryCount, of_group.entries = len(kinds), entries
        of_pipeline = ffi.new("WGPUPipelineLayoutDescriptor *")
        try:
            group = libf.wgpuDeviceCreateBindGroupLayout(self._device, of_group)
            group = ffi.gc(group, lib.wgpuBindGroupLayoutRelease)
            groups = ffi.new("WGPUBindGroupLayout[]", [group])
            of_pipeline.bindGroupLayoutCount, of_pipeline.bindGroupLayouts = 1, groups
            pipeline = libf.wgpuDeviceCreatePipelineLayout(self._device, of_pipeline)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        return group, ffi.gc(pipeline, lib.wgpuPipelineLayoutRelease)

    # ---- work

    def submit(self, dispatches: Iterable[Dispatch]) -> int:
        """Start kernels, one after the other, and return the number of the submission. There may be none."""
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, self._encoder_descriptor)
        self._encode(encoder, dispatches, self._pass_descriptor)
        return self._submit(encoder)

    def _encode(self, encoder: Any, dispatches: Iterable[Dispatch], descriptor: Any) -> None:  # noqa: ANN401
        compute = lib.wgpuCommandEncoderBeginComputePass(encoder, descriptor)
        set_pipeline, set_group = lib.wgpuComputePassEncoderSetPipeline, lib.wgpuComputePassEncoderSetBindGroup
        dispatch, null = lib.wgpuComputePassEncoderDispatchWorkgroups, ffi.NULL
        for pipeline, group, x, y, z in dispatches:
            set_pipeline(compute, pipeline)
            set_group(compute, 0, group, 0, null)
            dispatch(compute, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute)
        lib.wgpuComputePassEncoderRelease(compute)

    def _submit(self, encoder: Any) -> int:  # noqa: ANN401  # the driver's object
        buffer = self._finish(encoder)
        try:
            return int(libf.wgpuQueueSubmitForIndex(self._queue, 1, ffi.new("WGPUCommandBuffer[]", [buffer])))
        except wgpu.GPUError as error:
            raise _fault(error) from error
        finally:
            lib.wgpuCommandBufferRelease(buffer)

    def _finish(self, encoder: Any) -> Any:  # noqa: ANN401  # the driver's objects
        try:
            return libf.wgpuCommandEncoderFinish(encoder, self._buffer_descriptor)
        except wgpu.GPUError as error:
            raise _fault(error) from error
        finally:
            lib.wgpuCommandEncoderRelease(encoder)

    def wait(self, index: int) -> None:
        """Return when a submission, and all before it, are complete."""
        lib.wgpuDevicePoll(self._device, True, ffi.new("WGPUSubmissionIndex *", index))
        self.probe()

    def is_idle(self) -> bool:
        """Whether all that was submitted is complete."""
        # The function returns one byte; wgpu-py takes it for four.
        return bool(lib.wgpuDevicePoll(self._device, False, ffi.NULL) & 1)

    def probe(self) -> None:
        """Raise the `Fault` if the device is lost: the driver tells nobody who waits, only those who ask for more."""
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, self._encoder_descriptor)
        lib.wgpuCommandBufferRelease(self._finish(encoder))

    @property
    def has_clock(self) -> bool:
        """Whether `timed` can be called."""
        return "timestamp-query" in self.features

    def timed(self, dispatches: Sequence[Dispatch]) -> float:
        """Run kernels, wait for them, and return how many seconds the device took."""
        if self._queries is None:
            usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
            self._queries = self._owner.create_query_set(type="timestamp", count=2), self._buffer(16, usage)
        queries, resolved = self._queries
        writes = ffi.new("WGPUPassTimestampWrites *")
        writes.querySet, writes.beginningOfPassWriteIndex, writes.endOfPassWriteIndex = queries._internal, 0, 1
        descriptor = ffi.new("WGPUComputePassDescriptor *")
        descriptor.timestampWrites = writes
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, self._encoder_descriptor)
        self._encode(encoder, dispatches, descriptor)
        lib.wgpuCommandEncoderResolveQuerySet(encoder, queries._internal, 0, 2, resolved.native, 0)
        self._submit(encoder)
        ticks = memoryview(bytearray(16))
        self.read(resolved, 0, ticks)
        start, end = ticks.cast("Q")
        # A clock may be coarser than a kernel is short.
        return max(end - start, 1) * float(lib.wgpuQueueGetTimestampPeriod(self._queue)) * 1e-9

    def close(self) -> None:
        """Wait for all work."""
        lib.wgpuDevicePoll(self._device, True, ffi.NULL)
        self._staging.clear()
        self._held.clear()


def _view(text: Any) -> Any:  # noqa: ANN401  # cffi's objects
    """Return the structure for a text, which has to stay alive."""
    return ffi.new("WGPUStringView *", {"data": text, "length": lib.WGPU_STRLEN})[0]


def _fault(error: Exception) -> Fault:
    """Return what an error of wgpu-py means."""
    text = "\n".join(line.rstrip() for line in str(error).splitlines() if line.strip())
    if isinstance(error, wgpu.GPUOutOfMemoryError):
        return Fault(Cause.MEMORY, text)
    is_lost = "device is lost" in text.lower()
    return Fault(Cause.LOST if is_lost else Cause.REFUSED, text)
