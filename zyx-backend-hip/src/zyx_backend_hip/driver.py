"""What this backend asks of AMD's libraries, through ctypes.

Nothing else in the package calls foreign functions, but `blas` and what it shares with other backends.

Importing this module loads no library: `Runtime` does. A code that is no success leaves as `Fault`.

The device that calls are about is a property of the thread, which other libraries set as well. So every method selects
its own, and puts back the one that was.
"""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint64, c_void_p
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx.drivers.faults import Fault
from zyx.errors import DriverNotFoundError, InitializationError, NoDeviceError
from zyx_backend_hip import libraries
from zyx_backend_hip.errors import CODES, NO_DEVICE, OLD_DRIVER, PEER_ALREADY_ENABLED

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Handles and addresses.
Handle: TypeAlias = int

#: hipDeviceAttribute_t, the same since version 5.
ATTRIBUTES: Final = {
    "clock_khz": 5, "l2_bytes": 19, "max_group_x": 26, "max_group_y": 27, "max_group_z": 28, "max_groups_x": 29,
    "max_groups_y": 30, "max_groups_z": 31, "max_group_threads": 56, "memory_bus_bits": 59, "memory_clock_khz": 60,
    "units": 63, "local_bytes": 74, "wave": 87,
}  # fmt: skip

#: The oldest version whose functions and numbers are known to be these.
_OLDEST: Final = 50_200_000
_NON_BLOCKING: Final = 1
_NO_TIMING: Final = 2
_THREAD_LOCAL: Final = 1
_MAX_THREADS: Final = 0
_SHARED_BYTES: Final = 1
#: More than any version's record of a device has; the name of the model comes first in all of them.
_RECORD_BYTES: Final = 1 << 14
_NAME_BYTES: Final = 256


class BuildError(Exception):
    """The compiler refused a source; the text is its log. For this package alone."""


def check(code: int, function: str) -> None:
    """Raise `Fault` if `code` is no success."""
    if code:
        raise CODES.fault(code, function)


def _dotted(version: int) -> str:
    """Return a version of HIP for people: 5.2 for 50221153."""
    return f"{version // 10_000_000}.{version // 100_000 % 100}"


class Runtime:
    """libamdhip64 and libhiprtc, loaded and started.

    Args:
        runtime, compiler: Paths of the libraries; empty means to look for them.

    Raises:
        DriverNotFoundError: One is missing.
        NoDeviceError: They are there, and no device is.
        InitializationError: The driver does not start, or is too old.
    """

    def __init__(self, runtime: str = "", compiler: str = "") -> None:
        self.native = libraries.load("amdhip64", runtime, libraries.RUNTIME)
        try:
            self.compiler = libraries.load("hiprtc", compiler, libraries.COMPILER)
        except DriverNotFoundError:
            if compiler or not all(hasattr(self.native, name) for name in libraries.COMPILER):
                raise
            self.compiler = libraries.load("hiprtc", self.native._name, libraries.COMPILER)  # as version 5 has it
        count = c_int(0)
        code = self.native.hipInit(0) or self.native.hipGetDeviceCount(byref(count))
        if code == NO_DEVICE or (not code and not count.value):
            raise NoDeviceError("AMD's driver works, and lists no device")
        if code:
            advice = ": update amdgpu, the driver of the system, to the one of this ROCm" if code == OLD_DRIVER else ""
            raise InitializationError(f"AMD's driver does not start: {CODES.name(code)}{advice}")
        self.count = count.value
        version, major, minor = c_int(0), c_int(0), c_int(0)
        self.native.hipRuntimeGetVersion(byref(version))
        self.compiler.hiprtcVersion(byref(major), byref(minor))
        self.hip_version = version.value
        if self.hip_version < _OLDEST:
            raise InitializationError(
                f"HIP {_dotted(self.hip_version)} is too old, at least {_dotted(_OLDEST)} is needed: install ROCm 5.2 "
                "or later, or set ZYX_HIP_RUNTIME and ZYX_HIP_COMPILER to another installation's libraries"
            )
        self.versions = f"HIP {version.value}, hiprtc {major.value}.{minor.value}"

    def compile(self, source: str, options: Sequence[str]) -> bytes:
        """Return the code object of a source. Needs no device.

        Raises:
            BuildError: The compiler refused it.
            Fault: It failed otherwise.
        """
        native = self.compiler
        program = c_void_p()
        check(
            native.hiprtcCreateProgram(byref(program), source.encode(), b"zyx.hip", 0, None, None),
            "hiprtcCreateProgram",
        )
        try:
            texts = (c_char_p * len(options))(*[option.encode() for option in options])
            code = native.hiprtcCompileProgram(program, len(options), texts)
            if code:
                raise BuildError(f"hiprtc error {code}\n{self._text(program, 'ProgramLog').strip()}")
            return self._bytes(program, "Code")
        finally:
            native.hiprtcDestroyProgram(byref(program))

    def _bytes(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t(0)
        check(getattr(self.compiler, f"hiprtcGet{what}Size")(program, byref(size)), f"hiprtcGet{what}Size")
        target = ctypes.create_string_buffer(max(1, size.value))
        check(getattr(self.compiler, f"hiprtcGet{what}")(program, target), f"hiprtcGet{what}")
        return target.raw[: size.value]

    def _text(self, program: c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace")


class ListedDevice:
    """A device that the driver lists; nothing of it is open.

    Attributes:
        number: The driver's number of it.
        name: What the vendor calls it.
        arch: What code objects are made for, with features, such as ``gfx90a:sramecc+:xnack-``.

    Raises:
        InitializationError: The driver does not answer.
    """

    def __init__(self, runtime: Runtime, number: int) -> None:
        self.runtime = runtime
        self.number = number
        name = ctypes.create_string_buffer(_NAME_BYTES)
        record = ctypes.create_string_buffer(_RECORD_BYTES)
        try:
            check(runtime.native.hipDeviceGetName(name, _NAME_BYTES, number), "hipDeviceGetName")
            properties = next(text for text in libraries.PROPERTIES if hasattr(runtime.native, text))
            check(getattr(runtime.native, properties)(record, c_int(number)), properties)
        except Fault as error:
            raise InitializationError(f"device {number} does not answer: {error}") from error
        self.name = " ".join(name.value.decode(errors="replace").split())
        found = re.search(rb"gfx[0-9a-f]+(:[a-z]+[+-])*(?=\0)", record.raw[_NAME_BYTES:])
        if found is None:
            raise InitializationError(f"{self.name} does not say of which architecture it is")
        self.arch = found[0].decode()

    def __str__(self) -> str:
        return f"{self.name} ({self.arch})"

    def query(self, what: str, default: int = 0) -> int:
        """Return an attribute, or `default` where the driver does not tell."""
        value = c_int(0)
        code = self.runtime.native.hipDeviceGetAttribute(byref(value), ATTRIBUTES[what], self.number)
        return default if code or value.value <= 0 else value.value


class Selected:
    """Makes a device the current one of this thread, within a ``with`` block."""

    __slots__ = ("_native", "_number", "_was")

    def __init__(self, native: Any, number: int) -> None:  # noqa: ANN401  # a library of ctypes
        self._native = native
        self._number = number
        self._was = c_int(0)

    def __enter__(self) -> None:
        check(self._native.hipGetDevice(byref(self._was)), "hipGetDevice")
        if self._was.value != self._number:
            check(self._native.hipSetDevice(self._number), "hipSetDevice")

    def __exit__(self, *exception: object) -> None:
        if self._was.value != self._number:
            self._native.hipSetDevice(self._was.value)


class Session:
    """A device that is open, with a stream for launches, one for transfers, and one to record graphs on.

    Methods that queue return at once. All may be called from any thread.

    Raises:
        InitializationError: The driver refused.
    """

    def __init__(self, device: ListedDevice) -> None:
        self.device = device
        self.runtime = device.runtime
        self._native = device.runtime.native
        self.number = device.number
        self.lock: Final = RLock()
        self.is_open = True
        self._idle_events: list[Handle] = []
        self._streams: list[Handle] = []
        free, total = c_size_t(0), c_size_t(0)
        try:
            with self.selected():
                for _ in range(3):
                    self._streams.append(self._made("hipStreamCreateWithFlags", _NON_BLOCKING))
                check(self._native.hipMemGetInfo(byref(free), byref(total)), "hipMemGetInfo")
        except Fault as error:
            self.close()
            raise InitializationError(f"{device.name} does not start: {error}") from error
        self.launches, self.transfers, self.recording = self._streams
        self.total_bytes: Final = total.value
        self._peers: set[int] = set()

    def selected(self) -> Selected:
        """Return what makes this device the current one within a ``with`` block."""
        return Selected(self._native, self.number)

    def _made(self, function: str, *arguments: object) -> Handle:
        """Return the handle that a function writes to its first argument."""
        handle = c_void_p()
        check(getattr(self._native, function)(byref(handle), *arguments), function)
        return handle.value or 0

    def close(self) -> None:
        """Wait for all work, and give the streams and events back."""
        if not self.is_open:
            return
        self.is_open = False
        with suppress(Fault), self.selected():
            for stream in self._streams:
                self._native.hipStreamSynchronize(stream)
                self._native.hipStreamDestroy(stream)
            for event in self._idle_events:
                self._native.hipEventDestroy(event)

    # ---- memory

    def allocate(self, nbytes: int) -> Handle:
        """Return the address of memory."""
        with self.selected():
            return self._made("hipMalloc", nbytes)

    def free(self, address: Handle) -> None:
        """Give memory back. Waits for whatever is running."""
        with suppress(Fault), self.selected():
            self._native.hipFree(address)

    def write(self, address: Handle, source: memoryview) -> None:
        """Queue a copy of host memory, which must stay as it is until that is done."""
        with self.selected():
            code = self._native.hipMemcpyHtoDAsync(address, host_address(source), source.nbytes, self.transfers)
            check(code, "hipMemcpyHtoDAsync")

    def read(self, address: Handle, target: memoryview) -> None:
        """Copy to host memory, and return when that is done."""
        with self.selected():
            code = self._native.hipMemcpyDtoHAsync(host_address(target), address, target.nbytes, self.transfers)
            check(code, "hipMemcpyDtoHAsync")
            check(self._native.hipStreamSynchronize(self.transfers), "hipStreamSynchronize")

    def copy_from(self, peer: Session, source: Handle, target: Handle, nbytes: int) -> None:
        """Queue a copy from another device."""
        with self.selected():
            if peer.number not in self._peers:
                self._reach(peer.number)
            code = self._native.hipMemcpyPeerAsync(target, self.number, source, peer.number, nbytes, self.transfers)
            check(code, "hipMemcpyPeerAsync")

    def _reach(self, peer: int) -> None:
        """Let this device read another's memory, if it can; if not, the driver copies through the host."""
        can = c_int(0)
        if not self._native.hipDeviceCanAccessPeer(byref(can), self.number, peer) and can.value:
            code = self._native.hipDeviceEnablePeerAccess(peer, 0)
            if code != PEER_ALREADY_ENABLED:
                check(code, "hipDeviceEnablePeerAccess")
        self._peers.add(peer)

    # ---- programs

    def load(self, code: bytes) -> Module:
        """Return a code object, loaded."""
        with self.selected():
            return Module(self, self._made("hipModuleLoadData", code))

    def unload(self, module: Handle) -> None:
        """Unload a code object. Nothing of it may be running."""
        if self.is_open:
            with suppress(Fault), self.selected():
                self._native.hipModuleUnload(module)

    def function(self, module: Module, name: str) -> Handle:
        """Return a kernel of a code object."""
        with self.selected():
            return self._made("hipModuleGetFunction", module.handle, name.encode())

    def group_limits(self, function: Handle) -> tuple[int, int]:
        """Return how many threads a group of a kernel may have here, and how many bytes of local memory it takes."""
        values = []
        with self.selected():
            for attribute in (_MAX_THREADS, _SHARED_BYTES):
                value = c_int(0)
                check(self._native.hipFuncGetAttribute(byref(value), attribute, function), "hipFuncGetAttribute")
                values.append(value.value)
        return values[0], values[1]

    def launch(self, function: Handle, grid: Sequence[int], arguments: Arguments, stream: Handle) -> None:
        """Queue a kernel. The device must be selected."""
        code = self._native.hipModuleLaunchKernel(function, *grid, 0, stream, arguments.pointers, None)
        check(code, "hipModuleLaunchKernel")

    # ---- order

    def mark(self, stream: Handle) -> Handle:
        """Return an event that is complete when everything queued on `stream` is. The device must be selected."""
        event = self._idle_events.pop() if self._idle_events else self._made("hipEventCreateWithFlags", _NO_TIMING)
        code = self._native.hipEventRecord(event, stream)
        if code:
            self._idle_events.append(event)
            raise CODES.fault(code, "hipEventRecord")
        return event

    def give_back(self, event: Handle) -> None:
        """Keep an event, which is complete, for the next `mark`."""
        self._idle_events.append(event)

    def is_complete(self, event: Handle) -> int:
        """Return 0 if an event is complete, `NOT_READY`, or what went wrong with the device."""
        code: int = self._native.hipEventQuery(event)
        return code

    def wait(self, event: Handle) -> int:
        """Wait for an event; return what went wrong with the device, or 0."""
        code: int = self._native.hipEventSynchronize(event)
        return code

    def finish(self) -> int:
        """Wait for everything that was queued; return what went wrong with the device, or 0."""
        codes = [self._native.hipStreamSynchronize(stream) for stream in (self.transfers, self.launches)]
        return int(codes[0] or codes[1])

    def order(self, stream: Handle, event: Handle) -> None:
        """Let what is queued on `stream` from here on wait for an event, which may be another device's."""
        check(self._native.hipStreamWaitEvent(stream, event, 0), "hipStreamWaitEvent")

    # ---- time and graphs

    def clock(self) -> Clock:
        """Return what measures work on the stream of launches. The device must be selected."""
        return Clock(self._native, self.launches, [self._made("hipEventCreateWithFlags", 0) for _ in range(2)])

    def begin_recording(self) -> None:
        """Let launches on the stream `recording` be noted, and not run. The device must be selected."""
        check(self._native.hipStreamBeginCapture(self.recording, _THREAD_LOCAL), "hipStreamBeginCapture")

    def end_recording(self) -> Graph:
        """Return what was noted."""
        graph = c_void_p()
        check(self._native.hipStreamEndCapture(self.recording, byref(graph)), "hipStreamEndCapture")
        try:
            return Graph(self, self._made("hipGraphInstantiate", graph, None, None, 0))
        finally:
            self._native.hipGraphDestroy(graph)

    def abandon_recording(self) -> None:
        """Forget what was noted."""
        graph = c_void_p()
        if not self._native.hipStreamEndCapture(self.recording, byref(graph)) and graph.value:
            self._native.hipGraphDestroy(graph)

    def play(self, graph: Graph) -> None:
        """Queue a graph on the stream of launches. The device must be selected."""
        check(self._native.hipGraphLaunch(graph.handle, self.launches), "hipGraphLaunch")

    def drop(self, graph: Handle) -> None:
        """Free a graph, which is not running."""
        if self.is_open:
            with suppress(Fault), self.selected():
                self._native.hipGraphExecDestroy(graph)


class Arguments:
    """The arguments of a kernel, where the driver reads them from. Each takes 8 bytes at most."""

    __slots__ = ("_values", "pointers")

    def __init__(self, count: int) -> None:
        self._values = (c_uint64 * max(1, count))()
        first = ctypes.addressof(self._values)
        self.pointers = (c_void_p * max(1, count))(*[first + 8 * number for number in range(max(1, count))])

    def set(self, values: Sequence[int]) -> None:
        """Take addresses, and the bytes of numbers as little-endian integers."""
        self._values[: len(values)] = list(values)


class Module:
    """A code object; unloaded with the last reference to it."""

    def __init__(self, session: Session, handle: Handle) -> None:
        self._session = session
        self.handle = handle

    def __del__(self) -> None:
        self._session.unload(self.handle)


class Graph:
    """A recorded sequence; freed with the last reference to it."""

    def __init__(self, session: Session, handle: Handle) -> None:
        self._session = session
        self.handle = handle

    def __del__(self) -> None:
        self._session.drop(self.handle)


class Clock:
    """Measures work by the device's clock."""

    def __init__(self, native: Any, stream: Handle, events: list[Handle]) -> None:  # noqa: ANN401  # of ctypes
        self._native = native
        self._stream = stream
        self._events = events

    def start(self) -> None:
        """Start where the work so far ends."""
        check(self._native.hipEventRecord(self._events[0], self._stream), "hipEventRecord")

    def stop(self) -> float:
        """Wait for the work since `start`, and return its seconds."""
        milliseconds = c_float(0)
        check(self._native.hipEventRecord(self._events[1], self._stream), "hipEventRecord")
        check(self._native.hipEventSynchronize(self._events[1]), "hipEventSynchronize")
        code = self._native.hipEventElapsedTime(byref(milliseconds), *self._events)
        check(code, "hipEventElapsedTime")
        return milliseconds.value * 1e-3

    def close(self) -> None:
        """Give the events back."""
        for event in self._events:
            self._native.hipEventDestroy(event)


def host_address(memory: memoryview) -> int:
    """Return where contiguous host memory lies."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
