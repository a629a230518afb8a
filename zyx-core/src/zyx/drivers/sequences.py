"""Captured sequences: their launches, checked, and what is recorded of them for the buffers that they come with."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from zyx.backend.device import Slot
from zyx.drivers.arguments import Parameter, check_argument, native_arguments
from zyx.drivers.device_program import DeviceProgram
from zyx.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zyx.backend.device import Argument, Launch
    from zyx.backend.pool import MemoryPool

ProgramT = TypeVar("ProgramT", bound=DeviceProgram)
RecordingT = TypeVar("RecordingT")

#: How many sets of buffers are remembered, to know them again.
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class Step(Generic[ProgramT]):
    """A launch of a sequence.

    Attributes:
        program: What is launched.
        fixed: (number, value) of the arguments that are the same every time.
        slots: (number, slot) of the others.
    """

    program: ProgramT
    fixed: tuple[tuple[int, Argument], ...]
    slots: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BoundStep(Generic[ProgramT]):
    """A launch of a sequence, with its fixed arguments as the driver takes them.

    Attributes:
        program: What is launched.
        fixed: The arguments of the program; None where slots are.
        slots: (number, slot) of the others.
    """

    program: ProgramT
    fixed: tuple[Any, ...]
    slots: tuple[tuple[int, int], ...]

    def arguments(self, natives: Sequence[Any]) -> list[Any]:
        """Return the arguments of the launch, of those of the sequence."""
        arguments = list(self.fixed)
        for number, slot in self.slots:
            arguments[number] = natives[slot]
        return arguments


def bound(step: Step[ProgramT], convert: Callable[[Any], Any] | None = None) -> BoundStep[ProgramT]:
    """Return a step with its fixed arguments as `native_arguments` gives them, or what `convert` makes of each."""
    program = step.program
    fixed: list[Any] = [None] * len(program.parameters)
    for number, argument in step.fixed:
        (native,) = native_arguments([argument], [program.parameters[number]], program.pool, program.what)
        fixed[number] = native if convert is None else convert(native)
    return BoundStep(program, tuple(fixed), step.slots)


@dataclass(frozen=True, slots=True)
class Outline(Generic[ProgramT]):
    """What a sequence is made of.

    Attributes:
        name: Its name as a program.
        what: Its kernels and their device, for error texts.
        steps: The launches.
        parameters: Its arguments, one a slot: a buffer as large as the launches that it is given to need, or a number.
    """

    name: str
    what: str
    steps: tuple[Step[ProgramT], ...]
    parameters: tuple[Parameter, ...]


def outline(launches: Sequence[Launch], slots: int, pool: MemoryPool, device: str) -> Outline[ProgramT]:
    """Return what `launches` make up, as `SupportsCapture.capture` is given them.

    Args:
        launches: Launches of programs that are checked to be of the device.
        slots: Number of arguments of the sequence.
        pool: The device's pool.
        device: The device's name.

    Raises:
        LaunchError: An argument does not fit, or a slot is not one of `slots`, or stands for different things.
    """
    filled: list[Parameter | None] = [None] * slots
    steps: list[Step[ProgramT]] = [_step(launch, filled, pool) for launch in launches]
    names = [launch.program.name for launch in launches]
    what = f"a sequence of {len(names)} kernels on {device} ({', '.join(dict.fromkeys(names))})"
    parameters = tuple(Parameter() if parameter is None else parameter for parameter in filled)
    return Outline(f"{len(names)} steps: {', '.join(names)}", what, tuple(steps), parameters)


def _step(launch: Launch, filled: list[Parameter | None], pool: MemoryPool) -> Step[ProgramT]:
    """Return a step; let `filled`, what each slot stands for, be what its parameters need as well."""
    program = launch.program
    assert isinstance(program, DeviceProgram)  # checked before
    what = program.what
    if len(launch.args) != len(program.parameters):
        raise LaunchError(f"{what} was given {len(launch.args)} arguments; it takes {len(program.parameters)}")
    fixed: list[tuple[int, Argument]] = []
    slots: list[tuple[int, int]] = []
    for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
        if isinstance(arg, Slot):
            if not 0 <= arg.number < len(filled):
                raise LaunchError(f"argument {number} of {what} is slot {arg.number}; there are {len(filled)} slots")
            before = filled[arg.number] or Parameter(0, parameter.scalar)
            if before.scalar is not parameter.scalar:
                kinds = " and ".join(
                    "buffers" if one is None else f"{one}s" for one in (before.scalar, parameter.scalar)
                )
                raise LaunchError(f"argument {number} of {what} is slot {arg.number}, which cannot stand for {kinds}")
            filled[arg.number] = Parameter(max(before.nbytes, parameter.nbytes), parameter.scalar)
            slots.append((number, arg.number))
        else:
            check_argument(arg, parameter, pool, f"argument {number} of {what}")
            fixed.append((number, arg))
    return Step(program, tuple(fixed), tuple(slots))  # type: ignore[arg-type]  # of the device's class


class Recordings(Generic[RecordingT]):
    """What a driver recorded of a sequence, by the buffers in it.

    Recording takes long, and programs take turns with the same few buffers. So it is done when a set of buffers comes
    for the second time, and a few recordings are kept.

    Args:
        most: How many.
        is_on: Whether anything is to be recorded.
        drop: Called with a recording that gives way to others, before it is let go; None if nothing is to be done.

    Attributes:
        is_on: Whether the driver can record the sequence, as far as is known.
    """

    def __init__(self, most: int, *, is_on: bool, drop: Callable[[RecordingT], object] | None = None) -> None:
        self.is_on = is_on
        self._most = most
        self._drop = drop
        self._kept: OrderedDict[Hashable, RecordingT] = OrderedDict()
        self._seen: set[Hashable] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Hashable, record: Callable[[], RecordingT | None]) -> RecordingT | None:
        """Return the recording for some buffers; None if there is none yet, or there can be none.

        Args:
            key: Tells sets of buffers apart.
            record: Makes the recording; None says that the driver cannot, and from then on nothing is recorded.
        """
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        if key not in self._seen:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen.add(key)
            return None
        made = record()
        if made is None:
            self.is_on = False
            return None
        self._kept[key] = made
        if len(self._kept) > self._most:
            if self._drop is not None:
                self._drop(next(iter(self._kept.values())))
            self._kept.popitem(last=False)
        return made

    def clear(self) -> Sequence[RecordingT]:
        """Let go of all recordings, and return them."""
        kept = list(self._kept.values())
        self._kept.clear()
        self._seen.clear()
        return kept
