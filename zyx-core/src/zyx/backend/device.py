"""What runs kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend.event import Event
    from zyx.backend.info import DeviceInfo
    from zyx.backend.pool import MemoryPool, PoolBuffer
    from zyx.backend.rates import Rates
    from zyx.dtype import Scalar
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest

Argument: TypeAlias = "PoolBuffer | Scalar"


class Program:
    """Something a device can launch. Backends subclass it with what their driver needs.

    Attributes:
        name: The kernel's name.
        source: What the backend's compiler was given, for people; empty if there is no such thing.

    >>> zyx.backend.Program("add").name
    'add'
    """

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: str = "") -> None:
        self.name = name
        self.source = source


class Device(ABC):
    """One device, tied to one pool: its kernels touch that pool's buffers only.

    Launches are ordered by events alone, as transfers are (`MemoryPool`).

    Attributes:
        compiles_at_once: In how many threads `compile` may run at the same time, beside one that uses the device.
        takes_fronts: Whether a launch may give less of an array than it has, where `zyx.kernel.data.Define` says so;
            what `zyx.drivers.arguments.parameters_of` returns does.
        takes_loop_ends: Whether the loops of kernels may have ends, as `zyx.kernel.data.Loop` says.
    """

    compiles_at_once: int = 1
    takes_fronts: bool = False
    takes_loop_ends: bool = False

    def __init__(self, name: str, pool: MemoryPool) -> None:
        self.name = name
        self.memory_pool = pool

    @property
    @abstractmethod
    def info(self) -> DeviceInfo:
        """What the device is and can do; the same object at every call."""

    def take_rates(self, rates: Rates) -> None:  # noqa: B027  # what was measured is left aside
        """Have `info` say what was measured of this device (``zyx calibrate``).

        Called at most once, when the device was opened and nothing was asked of it yet. By default nothing changes, and
        the rates are what is assumed.
        """

    @property
    def free_compute(self) -> float:
        """FLOP/s that are left beside the work in flight; by default all of them."""
        return self.info.flops_per_s

    @abstractmethod
    def compile(self, kernel: Kernel) -> Program:
        """Return the program of a verified kernel.

        Raises:
            UnsupportedError: A dtype, operation, size or count that the device cannot do; the text has kernel, op and
                limit.
            CompileError: The compiler refused; the text has its log.
        """

    @abstractmethod
    def release(self, program: Program) -> None:
        """Free `program`. It must not be launched again."""

    @abstractmethod
    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        """Queue `program` on `args`, in the order of the kernel's params, once `events` are complete.

        Does not compile and looks nothing up by name. `events` are used up, also when the call raises.

        Raises:
            LaunchError: The arguments do not fit, or the driver refused.
            InvalidEventError: One of `events` is of another pool than `memory_pool`, or was used before.
        """

    @abstractmethod
    def close(self) -> None:
        """Wait for all work and free everything. A second call does nothing."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument that is filled in when a captured sequence is launched: number `number` of its arguments.

    >>> zyx.backend.Slot(2).number
    2
    """

    number: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a sequence to capture.

    >>> zyx.backend.Launch(zyx.backend.Program("add"), (zyx.backend.Slot(0), 2.0)).args
    (Slot(number=0), 2.0)
    """

    program: Program
    args: tuple[PoolBuffer | Scalar | Slot, ...]


@runtime_checkable
class SupportsCapture(Protocol):
    """A device that turns a sequence of launches into one program, where it can: that only saves time."""

    def capture(self, launches: Sequence[Launch], slots: int) -> Program:
        """Return a program that, launched with `slots` arguments, runs `launches` in order, one after the other.

        A slot stands for a buffer, or for a number of one dtype; a device may refuse the latter.

        The buffers named in `launches` and the programs must outlive it. Whatever this raises but `DeviceLostError`
        means that there is no such program: the launches are made one by one then, and this sequence is not asked for
        again. It must leave the programs and what is in flight as they were.

        Raises:
            UnsupportedError: The device cannot do these launches as one.
            LaunchError: An argument does not fit, or a slot stands for a number where the device takes buffers only.
            AllocationError: No room for what it keeps of them.
        """


@runtime_checkable
class SupportsNests(Protocol):
    """A device that takes what a kernel computes as nests, and runs it in a way of its own: one without scalar kernels.

    Core neither schedules nor lowers for it. What it refuses, as hand-written kernels, which `Device.compile` is given
    all the same, is divided, and computed by the host where that does not help.
    """

    def compile_nests(self, nests: Sequence[Nest], name: str) -> Program:
        """Return the program of nests that run side by side, on the launch arguments `zyx.nest.data.params_of` them.

        May run in one thread while another uses the device.

        Raises:
            UnsupportedError: The device cannot do it; the text has the name, what is lacking, and the limit.
            CompileError: The compiler refused; the text has its log.
        """


@runtime_checkable
class SupportsEntry(Protocol):
    """A device with a shorter way than `Device.launch` into some programs: those that are over in no time."""

    def entry(self, program: Program) -> Callable[..., bool] | None:
        """Return what runs `program` at once, if there is such a thing.

        It is called with the arguments of a launch, which are buffers all of them; no work is queued on these. It
        returns True when the work is done, or False if something does not fit: then nothing was run, and `launch` says
        what is wrong. It may be called from any thread, until the program is released or the device is closed.
        """


class Queue(Protocol):
    """A queue of a device, which does one piece of work after another.

    Attributes:
        segment: The latest pieces, of which one event may tell: whoever waits for one of them waits for those before
            it and some behind it. Another object from time to time, so that these are few.
        tail: For the runtime, which keeps there what it knows of the latest segment.
    """

    segment: object
    tail: object

    def event(self) -> Event:
        """Begin a segment with the latest piece, and return the event of all that comes in it.

        Its `Event.queue` is this queue, and its `Event.segment` the segment.
        """


@runtime_checkable
class SupportsQueue(Protocol):
    """A device with a shorter way than `Device.launch` to queue programs, behind all work that it has queued before."""

    def queue_of(self, program: Program) -> tuple[Callable[..., bool], Queue] | None:
        """Return what queues `program`, and where; None if there is no such way.

        It is called with the arguments of a launch, which are buffers all of them; what is queued on these has events
        of the same queue. It returns False if something does not fit: then nothing was queued, and `launch` says what
        is wrong. It may be called until the program is released or the device is closed.

        Raises:
            LaunchError: When called: the device refused.
        """


@runtime_checkable
class SupportsAssembly(Protocol):
    """A program whose machine code can be read by people."""

    @property
    def assembly(self) -> Callable[[], str]:
        """Gives its text; empty if there is none any more, as of code that was kept on disk."""


@runtime_checkable
class SupportsTiming(Protocol):
    """A device that can tell how long a launch took on it."""

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` and return its duration in seconds by the device's own clock, without queueing."""
