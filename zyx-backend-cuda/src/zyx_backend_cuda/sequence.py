"""Captured sequences: launches that follow one another.

A sequence that is launched with the same buffers a second time is recorded as a CUDA graph, and from then on queued in
one call. A few graphs are kept, since programs take turns with the same few buffers. Where the driver cannot record
them, and the first time, the launches are queued one by one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from zyx.backend.arguments import native_arguments
from zyx.backend.sequences import Outline, Recordings, outline
from zyx.errors import LaunchError
from zyx_backend_cuda.errors import LOST, Fault, failure
from zyx_backend_cuda.program import CudaProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx.backend.sequences import Step
    from zyx_backend_cuda.driver import GraphExec, Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

logger: Final = logging.getLogger("zyx.cuda")

#: How many graphs a sequence keeps.
_GRAPHS: Final = 8


class CudaSequence(CudaProgram):
    """A captured sequence.

    Args:
        launches: The launches, of programs that are checked to be of this device.
        slots: Number of arguments.
        pool: The device's pool.
        device: The device's name.
        records: Whether to record graphs.

    Raises:
        LaunchError: An argument does not fit.
    """

    __slots__ = ("__weakref__", "_graphs", "_steps")

    is_sequence: ClassVar[bool] = True

    def __init__(self, launches: Sequence[Launch], slots: int, pool: CudaPool, device: str, *, records: bool) -> None:
        made: Outline[CudaProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._steps = [(step.program, _fixed(step), step.slots) for step in made.steps]
        for program, _, _ in self._steps:
            program.sequences += 1

        def drop(graph: GraphExec) -> None:
            pool.compute.finish()  # graphs that are running must not be freed
            pool.session.drop(graph)

        self._graphs: Recordings[GraphExec] = Recordings(_GRAPHS, is_on=records and len(self._steps) > 1, drop=drop)
        pool.holders.add(self)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        if self._graphs.is_on:
            graph = self._graphs.find(tuple(natives), lambda: self._record(natives))
            if graph is not None:
                self.pool.session.play(graph, stream)
                return
        self._queue(natives, stream)

    def let_go(self) -> None:
        """Drop the graphs, which take memory of the driver."""
        graphs = self._graphs.clear()
        lane = self.pool.compute
        try:
            with self.pool.session as session:
                lane.finish()
                for graph in graphs:
                    session.drop(graph)
        except Fault as error:
            raise failure(f"dropping graphs of {self.what}", error, LaunchError, lane.last) from error

    def free(self) -> None:
        """Drop everything, and the programs that nothing else needs."""
        if self._graphs:
            self.let_go()
        steps, self._steps = self._steps, []
        for program, _, _ in steps:
            program.sequences -= 1
            program.free_unless_used()

    def _queue(self, natives: Sequence[Native], stream: Stream) -> None:
        for program, fixed, slots in self._steps:
            arguments = list(fixed)
            for number, slot in slots:
                arguments[number] = natives[slot]
            program.enqueue(arguments, stream)

    def _record(self, natives: Sequence[Native]) -> GraphExec | None:
        """Return the graph for these buffers; None if the driver cannot record it."""
        stream = self.pool.capture_stream  # of its own: what is captured must not depend on what was queued before
        try:
            return self.pool.session.capture(stream, lambda: self._queue(natives, stream))
        except Fault as error:
            if error.code in LOST:
                raise
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            return None


def _fixed(step: Step[CudaProgram]) -> list[Native]:
    """Return the arguments of a step, with zeros where slots are."""
    program = step.program
    arguments: list[Native] = [0] * len(program.parameters)
    for number, argument in step.fixed:
        parameter = program.parameters[number]
        arguments[number : number + 1] = native_arguments([argument], [parameter], program.pool, program.what)
    return arguments
