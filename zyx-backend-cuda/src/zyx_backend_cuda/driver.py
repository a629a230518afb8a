"""What this backend needs of a CUDA driver, and who serves it.

The protocol is small, so that two packages can serve it: pycuda (`driver_pycuda`), which has to be built for the
machine, and cuda-bindings (`driver_bindings`), which pip installs anywhere. Both share the primary context of a device
with all other libraries of the process. Whatever fails raises `Fault`. Handles are opaque.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from zyx.errors import DriverNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from zyx_backend_cuda.argument_block import ArgumentBlock

Stream: TypeAlias = Any
NativeEvent: TypeAlias = Any
Module: TypeAlias = Any
Function: TypeAlias = Any
GraphExec: TypeAlias = Any
Address: TypeAlias = int
Shape: TypeAlias = "tuple[int, int, int]"

Choice: TypeAlias = Literal["auto", "pycuda", "cuda-bindings"]

#: The oldest CUDA that a driver has to support: it loads nothing that a compiler of a later major version made, and
#: compilers before 12 are not looked for.
LEAST_VERSION: Final = (12, 0)


class Session(Protocol):
    """A device that is open. Its methods may be called within ``with session:`` alone, from any thread.

    Attributes:
        name: What the driver calls the device.
        total_bytes: Size of its memory.
        can_capture: Whether the methods about graphs work.
    """

    name: str
    total_bytes: int
    can_capture: bool

    def __enter__(self) -> Session:
        """Make the context current in this thread; what was current before is again, at the end."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def attribute(self, name: str, default: int = 0) -> int:
        """Return a number of the device: ``CU_DEVICE_ATTRIBUTE_`` and `name`; `default` if the driver has none."""

    # ---- memory

    def allocate(self, nbytes: int) -> Address:
        """Return memory of the device."""

    def free(self, address: Address) -> None:
        """Free it; nothing may be using it."""

    def pinned(self, nbytes: int) -> NDArray[np.uint8]:
        """Return memory of the host that transfers go to and from without the processor. It stays until `close`."""

    # ---- order

    def stream(self) -> Stream:
        """Return a stream that does not wait for the default one."""

    def event(self, *, timing: bool = False) -> NativeEvent:
        """Return an event, with or without a time."""

    def record(self, event: NativeEvent, stream: Stream) -> None:
        """Let `event` stand for the end of what `stream` was given."""

    def wait(self, stream: Stream, event: NativeEvent) -> None:
        """Let `stream` wait for `event`, which may be another device's."""

    def is_done(self, event: NativeEvent) -> bool:
        """Return whether `event` has come."""

    def synchronize(self, event: NativeEvent) -> None:
        """Wait for `event`."""

    def drain(self, stream: Stream) -> None:
        """Wait for all that `stream` was given."""

    def elapsed(self, start: NativeEvent, end: NativeEvent) -> float:
        """Return the seconds between two events that have come."""

    # ---- copies; host memory is pinned

    def upload(self, target: Address, source: NDArray[np.uint8], stream: Stream) -> None:
        """Copy from the host."""

    def download(self, target: NDArray[np.uint8], source: Address, stream: Stream) -> None:
        """Copy to the host."""

    def copy_from(self, peer: Session, target: Address, source: Address, nbytes: int, stream: Stream) -> None:
        """Copy from another device, straight where the two are linked. `stream` is of this device."""

    def enable_peer(self, peer: Session) -> bool:
        """Let this device reach the memory of `peer`, and return whether it can. Both are of one driver."""

    # ---- programs

    def load(self, image: bytes) -> Module:
        """Return a module made of a cubin, or of PTX that ends with a zero byte."""

    def unload(self, module: Module) -> None:
        """Free a module, of which nothing is running."""

    def function(self, module: Module, name: str) -> Function:
        """Return a kernel of a module."""

    def function_attribute(self, function: Function, name: str) -> int:
        """Return a number of a kernel: ``CU_FUNC_ATTRIBUTE_`` and `name`."""

    def launch(self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream) -> None:
        """Queue a kernel; `block` holds its arguments, and may change when this returns."""

    def launcher(
        self, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock, stream: Stream
    ) -> Callable[[Sequence[int | bytes]], None]:
        """Return what puts arguments into `block` and does `launch`, in few calls; the context need not be current."""

    # ---- graphs

    def capture(self, stream: Stream, queue: Callable[[], None]) -> GraphExec:
        """Return a graph of what `queue` queues on `stream`, without running it."""

    def play(self, graph: GraphExec, stream: Stream) -> None:
        """Queue a graph."""

    def drop(self, graph: GraphExec) -> None:
        """Free a graph; it may still be running."""

    def can_change(self, graph: GraphExec, functions: Sequence[Function]) -> bool:
        """Return whether a graph is launches of these kernels in their order, whose arguments can be changed."""

    def change(
        self, graph: GraphExec, number: int, function: Function, groups: Shape, threads: Shape, block: ArgumentBlock
    ) -> None:
        """Give a launch of a graph the arguments that `block` holds, from the next time on that it is queued."""

    # ---- for libraries

    def stream_handle(self, stream: Stream) -> int:
        """Return the number that other libraries know a stream by."""

    def close(self) -> None:
        """Free what is left, and give the context back. Not to be called within ``with``."""


class Driver(Protocol):
    """A driver.

    Attributes:
        name: The package that serves it, with its version.
        version: Of CUDA, (major, minor), that the driver supports.
    """

    name: str
    version: tuple[int, int]

    def count(self) -> int:
        """Return the number of devices."""

    def open(self, ordinal: int) -> Session:
        """Open a device."""


def open_driver(choice: Choice, note: Callable[[str], None]) -> Driver:
    """Return the driver, through pycuda where that is installed, else through cuda-bindings.

    Args:
        choice: ``auto``, or the package to take.
        note: Is told why pycuda, though installed, is not taken.

    Raises:
        DriverNotFoundError: There is no driver, or no package for it; the text says what brings it.
        ImportError: Of zyx's own modules.
    """
    reasons: list[str] = []
    for package, start in _packages(choice):
        try:
            return start()
        except (ImportError, DriverNotFoundError) as error:
            if isinstance(error, ImportError) and (error.name or "").startswith("zyx"):  # of ours, and no driver
                raise
            if isinstance(error, ModuleNotFoundError):
                reasons.append(f"the package {package} is not installed ({error})")
                continue
            reasons.append(f"{package}: {error}")
            if choice == "auto" and package == "pycuda":
                note(f"pycuda is installed, and not used: {error}")
    raise DriverNotFoundError(f"{'; '.join(reasons)}. {_advice(reasons)}")


def _packages(choice: Choice) -> Sequence[tuple[str, Callable[[], Driver]]]:
    def pycuda() -> Driver:
        from zyx_backend_cuda import driver_pycuda

        return driver_pycuda.PycudaDriver()

    def bindings() -> Driver:
        from zyx_backend_cuda import driver_bindings

        return driver_bindings.BindingsDriver()

    both: list[tuple[str, Callable[[], Driver]]] = [("pycuda", pycuda), ("cuda-bindings", bindings)]
    return [one for one in both if choice in ("auto", one[0])]


def _advice(reasons: Sequence[str]) -> str:
    """Return what to install."""
    if all("is not installed" in reason for reason in reasons):
        return "pip install cuda-bindings serves every machine with an NVIDIA driver"
    return (
        "The library libcuda.so.1 comes with NVIDIA's driver (Debian: apt install nvidia-driver libcuda1; containers: "
        "start them with --gpus all)"
    )
