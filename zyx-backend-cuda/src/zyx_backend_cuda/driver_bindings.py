"""The driver through cuda-bindings. Nothing else in the package imports it, but for `graphs`."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import cuda.bindings
import numpy as np
from cuda.bindings import driver as cu

from zyx.drivers.faults import Fault
from zyx.errors import DriverNotFoundError, InitializationError
from zyx_backend_cuda.driver_launches import Programs
from zyx_backend_cuda.errors import CODES, NO_DEVICE, NOT_READY, PEER_ALREADY_ENABLED
from zyx_backend_cuda.graphs import Graphs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from zyx_backend_cuda.argument_block import ArgumentBlock
    from zyx_backend_cuda.driver import Address, Function, GraphExec, NativeEvent, Session, Shape, Stream

_NON_BLOCKING: Final = 1
_NO_TIMING: Final = 2
_PORTABLE: Final = 1


def call(function: str, *args: Any) -> Any:  # noqa: ANN401  # whatever the driver's function gives
    """Call a function of the driver, and return what it gives besides its status.

    Raises:
        Fault: It failed.
    """
    status, *results = getattr(cu, function)(*args)
    if status != 0:
        raise CODES.fault(int(status), function)
    return results[0] if len(results) == 1 else results


class BindingsDriver:
    """The driver.

    Raises:
        DriverNotFoundError: There is no libcuda.
        InitializationError: It does not start.
    """

    def __init__(self) -> None:
        try:
            call("cuInit", 0)
            number = call("cuDriverGetVersion")
        except RuntimeError as error:  # how cuda-bindings says that a library, or a function of it, is not there
            raise DriverNotFoundError(f"there is no libcuda ({error})") from error
        except Fault as error:
            if error.code != NO_DEVICE:
                raise InitializationError(f"CUDA does not start: {error}") from error
            number = 0
        self.name = f"cuda-bindings {cuda.bindings.__version__}"
        self.version = (number // 1000, number % 1000 // 10)

    def count(self) -> int:
        """Return the number of devices."""
        return int(call("cuDeviceGetCount")) if self.version[0] else 0

    def open(self, ordinal: int) -> BindingsSession:
        """Open a device."""
        return BindingsSession(ordinal)


class BindingsSession(Programs):
    """A device that is open; see `zyx_backend_cuda.driver.Session`."""

    def __init__(self, ordinal: int) -> None:
        self._device = call("cuDeviceGet", ordinal)
        self.name = bytes(call("cuDeviceGetName", 256, self._device)).split(b"\0")[0].decode()
        self.total_bytes = int(call("cuDeviceTotalMem", self._device))
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._graphs: Final = Graphs()
        self.can_capture = True
        self._pinned: list[int] = []
        self._streams: list[Stream] = []

    def __enter__(self) -> BindingsSession:
        """Make the context current."""
        (status,) = cu.cuCtxPushCurrent(self._context)
        if status != 0:
            raise CODES.fault(int(status), "cuCtxPushCurrent")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make current what was before."""
        cu.cuCtxPopCurrent()

    def attribute(self, name: str, default: int = 0) -> int:
        """Return a number of the device."""
        which = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
        if which is None:
            return default
        status, value = cu.cuDeviceGetAttribute(which, self._device)
        return default if status != 0 else int(value)

    # ---- memory

    def allocate(self, nbytes: int) -> Address:
        """Return memory of the device."""
        return int(call("cuMemAlloc", nbytes))

    def free(self, address: Address) -> None:
        """Free it."""
        call("cuMemFree", address)

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Return pinned memory of the host."""
        address = int(call("cuMemHostAlloc", nbytes, _PORTABLE))
        self._pinned.append(address)
        memory: NDArray[np.uint8] = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
        return memory

    # ---- order

    def stream(self) -> Stream:
        """Return a new stream."""
        self._streams.append(call("cuStreamCreate", _NON_BLOCKING))
        return self._streams[-1]

    def event(self, *, timing: bool = False) -> NativeEvent:
        """Return a new event."""
        return call("cuEventCreate", 0 if timing else _NO_TIMING)

    def record(self, event: NativeEvent, stream: Stream) -> None:
        """Let `event` stand for the end of what `stream` was given."""
        call("cuEventRecord", event, stream)

    def wait(self, stream: Stream, event: NativeEvent) -> None:
        """Let `stream` wait for `event`."""
        call("cuStreamWaitEvent", stream, event, 0)

    def is_done(self, event: NativeEvent) -> bool:
        """Return whether `event` has come."""
        (status,) = cu.cuEventQuery(event)
        if status not in (0, NOT_READY):
            raise CODES.fault(int(status), "cuEventQuery")
        return bool(status == 0)

    def synchronize(self, event: NativeEvent) -> None:
        """Wait for `event`."""
        call("cuEventSynchronize", event)

    def drain(self, stream: Stream) -> None:
        """Wait for all that `stream` was given."""
        (status,) = cu.cuStreamSynchronize(stream)
        if status != 0:
            raise CODES.fault(int(status), "cuStreamSynchronize")

    def elapsed(self, start: NativeEvent, end: NativeEvent) -> float:
        """Return the seconds between two events."""
        return float(call("cuEventElapsedTime", start, end)) * 1e-3

    # ---- copies

    def upload(self, target: Address, source: NDArray[np.uint8], stream: Stream) -> None:
        """Copy from the host."""
        call("cuMemcpyHtoDAsync", target, source.ctypes.data, source.nbytes, stream)

    def download(self, target: NDArray[np.uint8], source: Address, stream: Stream) -> None:
        """Copy to the host."""
        call("cuMemcpyDtoHAsync", target.ctypes.data, source, target.nbytes, stream)

    def copy_from(self, peer: Session, target: Address, source: Address, nbytes: int, stream: Stream) -> None:
        """Copy from another device."""
        assert isinstance(peer, BindingsSession)  # sessions of one process are of one driver
        call("cuMemcpyPeerAsync", target, self._context, source, peer._context, nbytes, stream)

    def enable_peer(self, peer: Session) -> bool:
        """Let this device reach the memory of `peer`."""
        assert isinstance(peer, BindingsSession)
        if not call("cuDeviceCanAccessPeer", self._device, peer._device):
            return False
        (status,) = cu.cuCtxEnablePeerAccess(peer._context, 0)
        return int(status) in (0, PEER_ALREADY_ENABLED)

    # ---- programs

    def launch(self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream) -> None:
        """Queue a kernel."""
        super().launch(function, groups, threads, block, int(stream))

    def launcher(
        self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream
    ) -> Callable[[Sequence[int | bytes]], None]:
        """Return what queues a kernel."""
        return self.launcher_in(int(self._context), function, groups, threads, block, int(stream))

    # ---- graphs

    def capture(self, stream: Stream, queue: Callable[[], None]) -> GraphExec:
        """Return a graph of what `queue` queues."""
        return self._graphs.capture(int(stream), queue)

    def play(self, graph: GraphExec, stream: Stream) -> None:
        """Queue a graph."""
        self._graphs.play(graph, int(stream))

    def drop(self, graph: GraphExec) -> None:
        """Free a graph."""
        self._graphs.drop(graph)

    def stream_handle(self, stream: Stream) -> int:
        """Return the number of a stream."""
        return int(stream)

    def close(self) -> None:
        """Free what is left, and give the context back."""
        with self:
            for stream in self._streams:
                cu.cuStreamDestroy(stream)
            for address in self._pinned:
                cu.cuMemFreeHost(address)
        self._streams, self._pinned = [], []
        cu.cuDevicePrimaryCtxRelease(self._device)
