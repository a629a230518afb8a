"""Captured sequences: launches that follow one another.

A sequence that is launched with the same buffers a second time is recorded as a CUDA graph, and from then on queued in
one call. A few graphs are kept, since programs take turns with the same few buffers. Where the driver cannot record
them, and the first time, the launches are queued one by one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zyx.backend import Program, Slot
from zyx.backend.arguments import Parameter, check_arguments
from zyx.errors import LaunchError
from zyx_backend_cuda.errors import LOST, Fault, failure
from zyx_backend_cuda.program import Native, native_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_cuda.driver import GraphExec, Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Queueable

logger: Final = logging.getLogger("zyx.cuda")

#: How many graphs a sequence keeps, and how many sets of buffers it remembers to know them again.
_GRAPHS: Final = 8
_REMEMBERED: Final = 64


@dataclass(frozen=True, slots=True)
class Step:
    """A launch of a sequence.

    Attributes:
        program: What is launched.
        args: Its arguments; a `Slot` stands for one of the sequence's.
    """

    program: Queueable
    args: tuple[Native | Slot, ...]


class CudaSequence(Program):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's pool.
        device: The device's name.
        records: Whether to record graphs.

    Raises:
        LaunchError: An argument does not fit.

    Attributes:
        what: The kernels and their device, for error texts.
        pool: Memory of that device.
        parameters: The arguments.
        is_released: Whether it was given back.
    """

    __slots__ = (
        "__weakref__", "_graphs", "_records", "_remembered", "_steps", "is_released", "parameters", "pool", "what",
    )  # fmt: skip

    def __init__(self, launches: Sequence[Launch], slots: int, pool: CudaPool, device: str, *, records: bool) -> None:
        names = [launch.program.name for launch in launches]
        super().__init__(f"{len(names)} steps: {', '.join(names)}")
        self.what = f"a sequence of {len(names)} kernels on {device} ({', '.join(dict.fromkeys(names))})"
        self.is_released = False
        self.pool = pool
        least = [0] * slots
        self._steps = [_step(launch, least, pool) for launch in launches]
        self.parameters = tuple(Parameter(nbytes) for nbytes in least)
        self._records = records and len(launches) > 1
        self._graphs: OrderedDict[tuple[Native, ...], GraphExec] = OrderedDict()
        self._remembered: set[tuple[Native, ...]] = set()
        pool.holders.add(self)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        """Queue all launches. Raises `Fault`."""
        if self._records:
            graph = self._graph(tuple(natives))
            if graph is not None:
                self.pool.session.play(graph, stream)
                return
        self._queue(natives, stream)

    def let_go(self) -> None:
        """Drop the graphs, which take memory of the driver."""
        graphs, self._graphs = self._graphs, OrderedDict()
        lane = self.pool.compute
        try:
            with self.pool.session:
                lane.finish()
                for graph in graphs.values():
                    self.pool.session.drop(graph)
        except Fault as error:
            raise failure(f"dropping graphs of {self.what}", error, LaunchError, lane.last) from error

    def release(self) -> None:
        """Drop everything."""
        self.is_released = True
        if self._graphs:
            self.let_go()
        self._steps = []

    def _queue(self, natives: Sequence[Native], stream: Stream) -> None:
        for step in self._steps:
            step.program.enqueue([natives[arg.number] if isinstance(arg, Slot) else arg for arg in step.args], stream)

    def _graph(self, key: tuple[Native, ...]) -> GraphExec | None:
        """Return the graph for these buffers, made when they come for the second time."""
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
            # On a stream of its own: what is captured must not depend on what was queued before.
            graph = session.capture(self.pool.capture_stream, lambda: self._queue(key, self.pool.capture_stream))
        except Fault as error:
            if error.code in LOST:
                raise
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            self._records = False
            return None
        self._graphs[key] = graph
        if len(self._graphs) > _GRAPHS:
            self.pool.compute.finish()
            session.drop(self._graphs.popitem(last=False)[1])
        return graph


def _step(launch: Launch, least: list[int], pool: CudaPool) -> Step:
    """Return a step; raise the sizes that the slots need to those of its parameters."""
    program: Any = launch.program  # checked before
    what = program.what
    if len(launch.args) != len(program.parameters):
        check_arguments(launch.args, program.parameters, pool, what)  # type: ignore[arg-type]  # raises, for their number
    args: list[Native | Slot] = []
    for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
        if isinstance(arg, Slot):
            if parameter.scalar is not None or not 0 <= arg.number < len(least):
                raise LaunchError(
                    f"argument {number} of {what} is slot {arg.number}; there are {len(least)} slots, for buffers"
                )
            least[arg.number] = max(least[arg.number], parameter.nbytes)
            args.append(arg)
        else:
            args += native_arguments([arg], [parameter], pool, f"{what}, argument {number}")
    return Step(program, tuple(args))
