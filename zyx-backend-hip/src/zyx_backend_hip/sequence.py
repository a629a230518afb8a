"""Captured sequences: launches that follow one another, as one graph.

A graph has the addresses of its buffers in it. So a sequence records one when it is launched with the same buffers for
the second time, and plays it from then on; a few are kept, since programs take turns with the same few buffers. What
the driver cannot record is queued launch by launch.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from zyx.backend import Slot
from zyx.backend.arguments import Parameter, check_arguments
from zyx.errors import LaunchError
from zyx_backend_hip.driver import Fault
from zyx_backend_hip.errors import LOST
from zyx_backend_hip.program import HipProgram, native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_hip.driver import Graph, Handle
    from zyx_backend_hip.memory import HipPool

logger: Final = logging.getLogger("zyx.hip")

#: How many graphs a sequence keeps, and how many sets of buffers it remembers to know them again.
_GRAPHS: Final = 4
_REMEMBERED: Final = 64


class HipSequence(HipProgram):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's pool.
        device: The device's name.
        records: Whether to make graphs.

    Raises:
        LaunchError: An argument does not fit.
    """

    __slots__ = ("__weakref__", "_graphs", "_records", "_remembered", "_steps")

    def __init__(self, launches: Sequence[Launch], slots: int, pool: HipPool, device: str, *, records: bool) -> None:
        names = [launch.program.name for launch in launches]
        what = f"a sequence of {len(names)} kernels on {device} ({', '.join(dict.fromkeys(names))})"
        least = [0] * slots
        self._steps = [_step(launch, least, pool) for launch in launches]
        name = f"{len(names)} steps: {', '.join(names)}"
        super().__init__(name, "", what, pool, [Parameter(nbytes) for nbytes in least])
        self._records = records and len(self._steps) > 1
        self._graphs: OrderedDict[tuple[int, ...], Graph] = OrderedDict()
        self._remembered: set[tuple[int, ...]] = set()
        pool.holders.add(self)

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        graph = self._graph(tuple(values)) if self._records else None
        if graph is not None:
            self.pool.session.play(graph)
            return
        self._queue_steps(values, stream)

    def let_go(self) -> None:
        """Drop graphs: the addresses in them may become others'."""
        self._graphs.clear()
        self._remembered.clear()

    def release(self) -> None:
        super().release()
        if self._graphs:
            self.pool.session.finish()  # graphs that are running must not be freed
        self.let_go()
        self._steps = []

    def _queue_steps(self, values: Sequence[int], stream: Handle) -> None:
        for program, fixed, slots in self._steps:
            arguments = list(fixed)
            for number, slot in slots:
                arguments[number] = values[slot]
            program.queue(arguments, stream)

    def _graph(self, key: tuple[int, ...]) -> Graph | None:
        """Return the graph for these buffers, recorded when they come for the second time."""
        found = self._graphs.get(key)
        if found is not None:
            self._graphs.move_to_end(key)
            return found
        if key not in self._remembered:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered.add(key)
            return None
        session = self.pool.session
        try:
            session.begin_recording()
            try:
                self._queue_steps(key, session.recording)
            except Fault:
                session.abandon_recording()
                raise
            graph = session.end_recording()
        except Fault as error:
            if error.code in LOST:
                raise
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            self._records = False
            return None
        self._graphs[key] = graph
        if len(self._graphs) > _GRAPHS:
            session.finish()  # it may be running
            self._graphs.popitem(last=False)
        return graph


def _step(
    launch: Launch, least: list[int], pool: HipPool
) -> tuple[HipProgram, tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return a program, its arguments, and (number, slot) of those of them that are filled in later.

    Raises the sizes that the slots need to those of the program's parameters.
    """
    program = launch.program
    assert isinstance(program, HipProgram)  # checked before
    what = program.what
    if len(launch.args) != len(program.parameters):
        raise LaunchError(f"{what} was given {len(launch.args)} arguments; it takes {len(program.parameters)}")
    fixed: list[int] = []
    slots: list[tuple[int, int]] = []
    for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
        if isinstance(arg, Slot):
            if parameter.scalar is not None or not 0 <= arg.number < len(least):
                raise LaunchError(
                    f"argument {number} of {what} is slot {arg.number}; there are {len(least)} slots, for buffers"
                )
            least[arg.number] = max(least[arg.number], parameter.nbytes)
            slots.append((number, arg.number))
            fixed.append(0)
        else:
            place = f"argument {number} of {what}"
            check_arguments([arg], [parameter], pool, place)
            fixed.append(native(arg, parameter, place))
    return program, tuple(fixed), tuple(slots)
