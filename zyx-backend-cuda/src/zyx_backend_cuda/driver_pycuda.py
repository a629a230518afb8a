"""The driver through pycuda. Nothing else in the package imports it.

pycuda wraps no graphs; where cuda-bindings is installed too, it plays them on pycuda's streams.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pycuda
import pycuda.driver as drv

from zyx.drivers.faults import Fault
from zyx.errors import InitializationError
from zyx_backend_cuda.driver_launches import Programs
from zyx_backend_cuda.errors import CODES, NO_DEVICE, PEER_ALREADY_ENABLED, code_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from zyx_backend_cuda.argument_block import ArgumentBlock
    from zyx_backend_cuda.driver import Address, Function, GraphExec, NativeEvent, Session, Shape, Stream
    from zyx_backend_cuda.graphs import Graphs


def fault(error: Exception) -> Fault:
    """Return an error of pycuda, which has the driver's text and not its number, as this package's."""
    function, _, text = str(error).partition(" failed: ")
    return CODES.fault(code_of(text), function)


def call(function: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401  # whatever pycuda gives
    """Call a function of pycuda.

    Raises:
        Fault: It failed.
    """
    try:
        return function(*args, **options)
    except drv.Error as error:
        raise fault(error) from error


class PycudaDriver:
    """The driver.

    Raises:
        InitializationError: It does not start.
    """

    def __init__(self) -> None:
        self._has_devices = True
        try:
            call(drv.init)
        except Fault as error:
            if error.code != NO_DEVICE:
                raise InitializationError(f"CUDA does not start: {error}") from error
            self._has_devices = False
        number = drv.get_driver_version() if self._has_devices else 0
        self.name = f"pycuda {pycuda.VERSION_TEXT}"
        self.version = (number // 1000, number % 1000 // 10)

    def count(self) -> int:
        """Return the number of devices."""
        return int(drv.Device.count()) if self._has_devices else 0

    def open(self, ordinal: int) -> PycudaSession:
        """Open a device."""
        return PycudaSession(ordinal)


class PycudaSession(Programs):
    """A device that is open; see `zyx_backend_cuda.driver.Session`."""

    def __init__(self, ordinal: int) -> None:
        self._device = call(drv.Device, ordinal)
        self.name = str(self._device.name())
        self.total_bytes = int(self._device.total_memory())
        self._context = call(self._device.retain_primary_context)
        self._graphs: Graphs | None = None
        with suppress(ImportError):
            from zyx_backend_cuda.graphs import Graphs

            self._graphs = Graphs()
        self.can_capture = self._graphs is not None
        self._allocations: dict[Address, Any] = {}
        # pycuda frees with the last reference, which must not be outside of the context.
        self._alive: list[Any] = []

    def __enter__(self) -> PycudaSession:
        """Make the context current."""
        call(self._context.push)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make current what was before."""
        self._context.pop()

    def attribute(self, name: str, default: int = 0) -> int:
        """Return a number of the device."""
        which = getattr(drv.device_attribute, name, None)
        try:
            return default if which is None else int(self._device.get_attribute(which))
        except drv.Error:
            return default

    # ---- memory

    def allocate(self, nbytes: int) -> Address:
        """Return memory of the device."""
        allocation = call(drv.mem_alloc, nbytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: Address) -> None:
        """Free it."""
        call(self._allocations.pop(address).free)

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Return pinned memory of the host."""
        array: NDArray[np.uint8] = call(drv.pagelocked_empty, nbytes, np.uint8, mem_flags=drv.host_alloc_flags.PORTABLE)
        self._alive.append(array)
        return array

    # ---- order

    def stream(self) -> Stream:
        """Return a new stream."""
        self._alive.append(call(drv.Stream, 1))
        return self._alive[-1]

    def event(self, *, timing: bool = False) -> NativeEvent:
        """Return a new event."""
        event = call(drv.Event, 0 if timing else drv.event_flags.DISABLE_TIMING)
        self._alive.append(event)
        return event

    def record(self, event: NativeEvent, stream: Stream) -> None:
        """Let `event` stand for the end of what `stream` was given."""
        call(event.record, stream)

    def wait(self, stream: Stream, event: NativeEvent) -> None:
        """Let `stream` wait for `event`."""
        call(stream.wait_for_event, event)

    def is_done(self, event: NativeEvent) -> bool:
        """Return whether `event` has come."""
        return bool(call(event.query))

    def synchronize(self, event: NativeEvent) -> None:
        """Wait for `event`."""
        call(event.synchronize)

    def drain(self, stream: Stream) -> None:
        """Wait for all that `stream` was given."""
        call(stream.synchronize)

    def elapsed(self, start: NativeEvent, end: NativeEvent) -> float:
        """Return the seconds between two events."""
        return float(call(start.time_till, end)) * 1e-3

    # ---- copies

    def upload(self, target: Address, source: NDArray[np.uint8], stream: Stream) -> None:
        """Copy from the host."""
        call(drv.memcpy_htod_async, target, source, stream)

    def download(self, target: NDArray[np.uint8], source: Address, stream: Stream) -> None:
        """Copy to the host."""
        call(drv.memcpy_dtoh_async, target, source, stream)

    def copy_from(self, peer: Session, target: Address, source: Address, nbytes: int, stream: Stream) -> None:
        """Copy from another device."""
        assert isinstance(peer, PycudaSession)  # sessions of one process are of one driver
        call(drv.memcpy_peer_async, target, source, nbytes, self._context, peer._context, stream)

    def enable_peer(self, peer: Session) -> bool:
        """Let this device reach the memory of `peer`."""
        assert isinstance(peer, PycudaSession)
        if not self._device.can_access_peer(peer._device):
            return False
        try:
            call(self._context.enable_peer_access, peer._context)
        except Fault as error:
            return error.code == PEER_ALREADY_ENABLED
        return True

    # ---- programs

    def launch(self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream) -> None:
        """Queue a kernel."""
        super().launch(function, groups, threads, block, int(stream.handle))

    def launcher(
        self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream
    ) -> Callable[[Sequence[int | bytes]], None]:
        """Return what queues a kernel."""
        with self:
            context = self.current_context()
        return self.launcher_in(context, function, groups, threads, block, int(stream.handle))

    # ---- graphs

    def capture(self, stream: Stream, queue: Callable[[], None]) -> GraphExec:
        """Return a graph of what `queue` queues."""
        assert self._graphs is not None
        return self._graphs.capture(stream.handle, queue)

    def play(self, graph: GraphExec, stream: Stream) -> None:
        """Queue a graph."""
        assert self._graphs is not None
        self._graphs.play(graph, stream.handle)

    def drop(self, graph: GraphExec) -> None:
        """Free a graph."""
        assert self._graphs is not None
        self._graphs.drop(graph)

    def stream_handle(self, stream: Stream) -> int:
        """Return the number of a stream."""
        return int(stream.handle)

    def close(self) -> None:
        """Free what is left, and give the context back."""
        with self:
            self._alive.clear()
            self._allocations.clear()
        self._context.detach()
