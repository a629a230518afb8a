"""The foreign functions of this backend: OpenCL through pyopencl.

Nothing else in the package imports pyopencl or ctypes. Importing this module loads the ICD loader, so the business card
does not. What pyopencl raises leaves as `ClError`, of which only the code is to be used.
"""

from __future__ import annotations

import ctypes
import math
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyopencl as cl
from pyopencl import _cl

from zyx.errors import DriverNotFoundError, InitializationError
from zyx_backend_opencl.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What pyopencl raises. Its `code` is OpenCL's; its text has more for failed builds.
ClError: Final = cl.Error

#: Objects of the driver. They are freed with the last reference to them.
Memory: TypeAlias = Any
NativeEvent: TypeAlias = Any
Built: TypeAlias = Any
Kernel: TypeAlias = Any

_NO_PLATFORM: Final = -1001
_NO_DEVICE: Final = -1

#: Names of platforms that crash where two threads call them at once, against the standard: Oclgrind 21.10, in builds.
_ONE_THREAD: Final = frozenset({"Oclgrind"})

VERSION: Final = f"pyopencl {cl.VERSION_TEXT}"

#: The oldest version of OpenCL that has what is called here, and the version of its C that kernels are written in.
LEAST_VERSION: Final = (1, 2)


class ListedDevice:
    """A device that a platform lists; nothing of it is open.

    Attributes:
        name: What the driver calls it.
        platform: Name of its platform.
        version: Of OpenCL, (major, minor): the older one of the platform's and the device's.
        native: pyopencl's object.
    """

    def __init__(self, platform: Any, native: Any) -> None:  # noqa: ANN401  # pyopencl's objects
        self.platform: str = " ".join(platform.name.split())
        self.platform_version: str = platform.version
        self.version: Final = min(_version(platform.version), _version(native.version))
        self.name: str = " ".join(native.name.split())
        self.native = native
        self.extensions: Final = frozenset(native.extensions.split())

    def __str__(self) -> str:
        return f"{self.name} of {self.platform}"

    def query(self, what: str, default: int = 0) -> int:
        """Return a number that the driver tells, or `default` where it knows no such thing."""
        try:
            return int(getattr(self.native, what))
        except (ClError, AttributeError, TypeError):
            return default

    def text(self, what: str) -> str:
        """Return a text that the driver tells."""
        return str(getattr(self.native, what)).strip()

    @property
    def is_cpu(self) -> bool:
        """Whether it is the processor of this machine."""
        return bool(self.native.type & cl.device_type.CPU)

    @property
    def max_group_shape(self) -> tuple[int, ...]:
        """Most threads along each axis."""
        return tuple(int(size) for size in self.native.max_work_item_sizes[:3])

    @property
    def has_local_memory(self) -> bool:
        """Whether there is memory that a group shares."""
        return self.native.local_mem_type in (cl.device_local_mem_type.LOCAL, cl.device_local_mem_type.GLOBAL)

    @property
    def fuses_multiply_add(self) -> bool:
        """Whether fused multiply-adds are in its hardware."""
        return bool(self.native.single_fp_config & cl.device_fp_config.FMA)

    @property
    def divides_exactly(self) -> bool:
        """Whether float32 quotients and roots can be rounded correctly."""
        return bool(self.native.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT)

    @property
    def has_out_of_order_queues(self) -> bool:
        """Whether a queue can run commands in the order of their events alone.

        NVIDIA's driver (580) has such queues, but keeps the order in them, and lets all fail that is behind a failure.
        """
        has_them = bool(self.native.queue_properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return has_them and not self.is_nvidia

    @property
    def takes_threads(self) -> bool:
        """Whether its driver may be called from several threads at once, as the standard says of all drivers."""
        return self.platform not in _ONE_THREAD

    @property
    def is_nvidia(self) -> bool:
        """Whether it is driven by NVIDIA's own driver."""
        return self.query("warp_size_nv") > 0


def _version(text: str) -> tuple[int, int]:
    """Return the version in a text such as ``OpenCL 3.0 CUDA``; (0, 0) if there is none."""
    found = re.match(r"OpenCL (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def list_devices() -> tuple[list[ListedDevice], list[str]]:
    """Return all devices of all platforms, in the order of the ICD loader, and what is wrong with other platforms.

    Raises:
        DriverNotFoundError: There is no platform.
        InitializationError: The ICD loader fails.
    """
    try:
        platforms = cl.get_platforms()
    except ClError as error:
        if error.code != _NO_PLATFORM:
            raise InitializationError(f"OpenCL does not start: {CODES.name(error.code)}") from error
        platforms = []
    if not platforms:
        raise DriverNotFoundError(f"no OpenCL driver is installed. {_advice()}")
    devices: list[ListedDevice] = []
    problems: list[str] = []
    for platform in platforms:
        try:
            devices += [ListedDevice(platform, native) for native in platform.get_devices()]
        except ClError as error:
            if error.code != _NO_DEVICE:
                problems.append(f"platform {platform.name} lists no devices: {CODES.name(error.code)}")
    return devices, problems


def _advice() -> str:
    """Return which package brings a driver; one that is there, and only has to be announced or to load, goes first."""
    candidates = [
        Path(sys.prefix) / "lib" / "libintelocl.so",
        Path("/usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1"),
        Path("/usr/lib64/libnvidia-opencl.so.1"),
    ]
    for path in candidates:
        if path.exists():
            try:
                ctypes.CDLL(str(path))
            except OSError as error:  # such as a library that it needs in turn
                return f"{path} does not load: {error}. For Intel's, pip install intel-cmplr-lib-rt"
            return f"{path} is one that the loader was not told of: set the variable OCL_ICD_VENDORS to that path"
    return (
        "A GPU's comes with its vendor's driver package (for NVIDIA and Debian: nvidia-opencl-icd). Any CPU can do "
        "with PoCL (Debian: apt install pocl-opencl-icd), or pip install intel-opencl-rt intel-cmplr-lib-rt, and set "
        "OCL_ICD_VENDORS to its libintelocl.so"
    )


class Session:
    """A device that is open: a context with the one device, and its queues.

    Commands start when the events they are given are complete, and not before. Enqueueing methods return at once.

    Args:
        device: What to open.
        out_of_order: Whether to use one queue for everything, if the device has queues that keep no order.

    Raises:
        InitializationError: The driver refused.
    """

    def __init__(self, device: ListedDevice, *, out_of_order: bool = True) -> None:
        self.device = device
        try:
            self._context = cl.Context([device.native])
            if out_of_order and device.has_out_of_order_queues:
                order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
                self._queue = self._transfers = cl.CommandQueue(self._context, device.native, properties=order)
            else:
                self._queue = cl.CommandQueue(self._context, device.native)
                self._transfers = cl.CommandQueue(self._context, device.native)
        except ClError as error:
            raise InitializationError(f"{device} does not start: {CODES.name(error.code)}") from error
        self._timing_queue: Any = None

    @property
    def is_out_of_order(self) -> bool:
        """Whether there is one queue that keeps no order, not two that do."""
        return self._transfers is self._queue

    def close(self) -> None:
        """Wait for all commands."""
        with suppress(ClError):  # of a device that was lost
            self.finish()

    # ---- memory

    def allocate(self, nbytes: int) -> Memory:
        """Return memory that is really there: drivers put that off until the first use unless they are asked."""
        memory = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, nbytes)
        undefined = cl.mem_migration_flags.CONTENT_UNDEFINED
        cl.enqueue_migrate_mem_objects(self._transfers, [memory], undefined).wait()
        return memory

    def write(self, memory: Memory, source: memoryview, waits: Sequence[NativeEvent]) -> NativeEvent:
        """Copy host memory, which must stay as it is until the event."""
        event = _cl._enqueue_write_buffer(self._transfers, memory, source, 0, waits or None, False)
        self._transfers.flush()
        return event

    def read(self, memory: Memory, target: memoryview, offset: int, waits: Sequence[NativeEvent]) -> None:
        """Copy to host memory, from byte `offset` on, and return when that is done."""
        # Not as a blocking command: PoCL waits for everything in the queue then.
        event = _cl._enqueue_read_buffer(self._transfers, memory, target, offset, waits or None, False)
        self._transfers.flush()
        event.wait()

    # ---- programs

    def build(self, source: str, options: str) -> Built:
        """Compile OpenCL C.

        Raises:
            BuildError: The compiler refused it.
            ClError: The driver did.
        """
        # Not `cl.Program`, which has caches of its own and warns of everything a compiler has to say.
        built = _cl._Program(self._context, source)
        try:
            built._build(options=options.encode(), devices=[self.device.native])
        except ClError as error:
            if error.code in CODES.lost:
                raise
            log = str(built.get_build_info(self.device.native, cl.program_build_info.LOG))
            raise BuildError(f"{CODES.name(error.code)}\n{log.strip()}") from error
        return built

    def load(self, binary: bytes, options: str) -> Built:
        """Take over what `binary` gave."""
        built = _cl._Program(self._context, [self.device.native], [binary])
        built._build(options=options.encode(), devices=[self.device.native])
        return built

    def binary(self, built: Built) -> bytes:
        """Return the machine code of a program, or whatever the driver keeps of it."""
        (binary,) = built.get_info(cl.program_info.BINARIES)
        return bytes(binary)

    def kernel(self, built: Built, name: str) -> Kernel:
        """Return a function of a program, with arguments of its own."""
        return cl.Kernel(cl.Program(built), name)

    def group_limits(self, kernel: Kernel) -> tuple[int, int]:
        """Return how many threads a group of `kernel` may have here, and how many bytes of local memory it takes."""
        info = cl.kernel_work_group_info
        native = self.device.native
        # Kernels name the size of their groups, and compilers keep to it; NVIDIA's driver says 256 all the same.
        named = math.prod(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, native))
        threads = max(named, kernel.get_work_group_info(info.WORK_GROUP_SIZE, native))
        return int(threads), int(kernel.get_work_group_info(info.LOCAL_MEM_SIZE, native))

    # ---- commands

    def launch(
        self, kernel: Kernel, threads: tuple[int, ...], group: tuple[int, ...], waits: Sequence[NativeEvent]
    ) -> NativeEvent:
        """Run `kernel`; `flush` starts it."""
        return _cl.enqueue_nd_range_kernel(self._queue, kernel, threads, group, None, waits or None)

    def timed(self, launches: Sequence[tuple[Kernel, tuple[int, ...], tuple[int, ...]]]) -> float:
        """Run launches one after the other and return how many seconds the device took, from its first to its last."""
        if self._timing_queue is None:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            self._timing_queue = cl.CommandQueue(self._context, self.device.native, properties=profiling)
        queue = self._timing_queue
        events = [_cl.enqueue_nd_range_kernel(queue, kernel, threads, group) for kernel, threads, group in launches]
        events[-1].wait()
        return float(events[-1].profile.end - events[0].profile.start) * 1e-9

    def flush(self) -> None:
        """Let the device start on what was enqueued."""
        self._queue.flush()

    def finish(self) -> None:
        """Wait for everything that was enqueued."""
        self._queue.finish()
        if not self.is_out_of_order:
            self._transfers.finish()

    def wait(self, events: Sequence[NativeEvent]) -> None:
        """Wait for events."""
        cl.wait_for_events(list(events))

    def status(self, event: NativeEvent) -> int:
        """Return 0 if `event` is complete, a negative code if its command failed, else a positive number."""
        return int(event.get_info(cl.event_info.COMMAND_EXECUTION_STATUS))

    def command_buffers(self) -> CommandBuffers | None:
        """Return what records command buffers on this device; None if it has no such thing.

        Raises:
            RecordingError: It claims to have them, and has not.
        """
        if "cl_khr_command_buffer" not in self.device.extensions:
            return None
        return CommandBuffers(self.device, self._queue)


class CommandBuffers:
    """Records sequences of launches and plays them: the extension cl_khr_command_buffer, which pyopencl does not wrap.

    Raises:
        RecordingError: The driver names the extension, and lacks a function of it.
    """

    _CAPABILITIES: Final = 0x12A9
    _FLAGS: Final = 0x1293
    _SIMULTANEOUS_USE: Final = 1
    _CAN_SIMULTANEOUS_USE: Final = 4

    def __init__(self, device: ListedDevice, queue: Any) -> None:  # noqa: ANN401  # pyopencl's object
        pointer, number, status = ctypes.c_void_p, ctypes.c_uint, ctypes.c_int
        library = ctypes.CDLL(_cl.__file__)  # finds the functions of the loader that pyopencl itself is linked with
        find = library.clGetExtensionFunctionAddressForPlatform
        find.restype, find.argtypes = pointer, (pointer, ctypes.c_char_p)

        def function(name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401  # types of ctypes
            address = find(device.native.platform.int_ptr, name.encode())
            if not address:
                raise RecordingError(f"{device.name} has cl_khr_command_buffer, but not its function {name}")
            return ctypes.CFUNCTYPE(result, *arguments)(address)

        self._create = function("clCreateCommandBufferKHR", pointer, number, pointer, pointer, pointer)
        self._finalize = function("clFinalizeCommandBufferKHR", status, pointer)
        self._release = function("clReleaseCommandBufferKHR", status, pointer)
        self._enqueue = function(
            "clEnqueueCommandBufferKHR", status, number, pointer, pointer, number, pointer, pointer
        )
        self._launch = function(
            "clCommandNDRangeKernelKHR", status, pointer, pointer, pointer, pointer, number, pointer, pointer, pointer,
            number, pointer, pointer, pointer,
        )  # fmt: skip
        self._queue = queue
        able = ctypes.c_uint64(0)
        library.clGetDeviceInfo.argtypes = (pointer, number, ctypes.c_size_t, pointer, pointer)
        code = library.clGetDeviceInfo(device.native.int_ptr, self._CAPABILITIES, 8, ctypes.byref(able), None)
        self._can_overlap = code == 0 and bool(able.value & self._CAN_SIMULTANEOUS_USE)

    def record(self, launches: Sequence[tuple[Kernel, tuple[int, ...], tuple[int, ...]]]) -> Recording:
        """Return a recording of launches, one after the other. Their kernels must keep the arguments that they have.

        Raises:
            RecordingError: The driver refused.
        """
        properties = (ctypes.c_uint64 * 3)(self._FLAGS, self._SIMULTANEOUS_USE, 0) if self._can_overlap else None
        code = ctypes.c_int(0)
        handle = self._create(1, (ctypes.c_void_p * 1)(self._queue.int_ptr), properties, ctypes.byref(code))
        _check(code.value, "clCreateCommandBufferKHR")
        recording = Recording(handle, self._release, [kernel for kernel, _, _ in launches])
        after = None
        for kernel, threads, group in launches:
            axes = len(threads)
            sizes = ctypes.c_size_t * axes
            point = ctypes.c_uint(0)
            code.value = self._launch(
                handle, None, None, kernel.int_ptr, axes, None, sizes(*threads), sizes(*group),
                0 if after is None else 1, after, ctypes.byref(point), None,
            )  # fmt: skip
            _check(code.value, "clCommandNDRangeKernelKHR")
            after = (ctypes.c_uint * 1)(point.value)
        _check(self._finalize(handle), "clFinalizeCommandBufferKHR")
        return recording

    def play(self, recording: Recording, waits: Sequence[NativeEvent]) -> NativeEvent:
        """Enqueue a recording.

        Raises:
            RecordingError: The driver refused, for instance since it is still running and cannot run twice at once.
        """
        event = ctypes.c_void_p(0)
        handles = (ctypes.c_void_p * len(waits))(*[wait.int_ptr for wait in waits]) if waits else None
        code = self._enqueue(0, None, recording.handle, len(waits), handles, ctypes.byref(event))
        _check(code, "clEnqueueCommandBufferKHR")
        return cl.Event.from_int_ptr(event.value or 0, False)


class BuildError(Exception):
    """A compiler refused a program; the text is its log. For this package alone."""


class RecordingError(Exception):
    """Command buffers, or one of them, cannot be had; the text says at which step and why. For this package alone."""


class Recording:
    """A command buffer; freed with the last reference to it."""

    def __init__(self, handle: int, release: Any, kernels: list[Kernel]) -> None:  # noqa: ANN401  # a function of ctypes
        self.handle = handle
        self._release = release
        self._kernels = kernels  # their arguments are looked at when it is played, by some drivers

    def __del__(self) -> None:
        self._release(self.handle)


def _check(code: int, function: str) -> None:
    if code:
        raise RecordingError(f"{function}: {CODES.name(code)}")
