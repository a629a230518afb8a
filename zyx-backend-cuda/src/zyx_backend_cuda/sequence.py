"""Captured sequences: launches that follow one another.

A sequence that is launched with the same buffers a second time is recorded as a CUDA graph, and from then on queued in
one call. A few graphs are kept, since programs take turns with the same few buffers. Numbers that are others than
before are put into the graph, where it is made of kernels alone. Where the driver cannot record launches, and the first
time, they are queued one by one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from zyx.drivers.faults import Cause, Fault
from zyx.drivers.sequences import Outline, Recordings, bound, outline
from zyx.errors import LaunchError
from zyx_backend_cuda.errors import failure
from zyx_backend_cuda.program import CudaProgram, KernelProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_cuda.driver import GraphExec, Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

logger: Final = logging.getLogger("zyx.cuda")

#: How many graphs a sequence keeps.
_GRAPHS: Final = 8


class _Graph:
    """A graph, and what it is given: the arguments of the sequence.

    Attributes:
        made: The graph.
        natives: The arguments.
        is_fixed: Whether it is for these numbers alone.
    """

    __slots__ = ("is_fixed", "made", "natives")

    def __init__(self, made: GraphExec, natives: Sequence[Native], *, is_fixed: bool) -> None:
        self.made = made
        self.natives = natives
        self.is_fixed = is_fixed


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

    __slots__ = ("__weakref__", "_given", "_graphs", "_kernels", "_steps")

    is_sequence: ClassVar[bool] = True

    def __init__(self, launches: Sequence[Launch], slots: int, pool: CudaPool, device: str, *, records: bool) -> None:
        made: Outline[CudaProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._steps = [bound(step) for step in made.steps]
        for step in self._steps:
            step.program.sequences += 1

        kernels = [step.program for step in made.steps if isinstance(step.program, KernelProgram)]
        #: The launches that are given numbers, if those of a graph can be changed as far as is known; products of a
        #: library are several launches, or other ones.
        self._given = [
            (number, program)
            for number, (step, program) in enumerate(zip(made.steps, kernels, strict=False))
            if len(kernels) == len(made.steps)
            and any(made.parameters[slot].scalar is not None for _, slot in step.slots)
        ]
        self._kernels = kernels

        def drop(graph: _Graph) -> None:
            pool.compute.finish()  # graphs that are running must not be freed
            pool.session.drop(graph.made)

        self._graphs: Recordings[_Graph] = Recordings(_GRAPHS, is_on=records and len(self._steps) > 1, drop=drop)
        pool.holders.add(self)

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        if self._graphs.is_on:
            key = [native for native in natives if type(native) is int] if self._given else natives
            graph = self._graphs.find(tuple(key), lambda: self._record(natives))
            if graph is not None and (graph.natives == natives or self._changed(graph, natives)):
                self.pool.session.play(graph.made, stream)
                return
        self._queue(natives, stream)

    def _changed(self, graph: _Graph, natives: Sequence[Native]) -> bool:
        """Put numbers into a graph; return whether that can be done."""
        if graph.is_fixed:
            return False
        before, graph.natives, graph.is_fixed = graph.natives, (), True  # unless all of them are changed
        try:
            for number, program in self._given:
                arguments = self._steps[number].arguments(natives)
                if arguments != self._steps[number].arguments(before):
                    program.change(graph.made, number, arguments)
        except Fault as error:
            if error.cause is Cause.LOST:
                raise
            logger.info("%s is queued launch by launch when its numbers change: %s", self.what, error)
            return False
        graph.natives, graph.is_fixed = natives, False
        return True

    def let_go(self) -> None:
        """Drop the graphs, which take memory of the driver."""
        graphs = self._graphs.clear()
        lane = self.pool.compute
        try:
            with self.pool.session as session:
                lane.finish()
                for graph in graphs:
                    session.drop(graph.made)
        except Fault as error:
            raise failure(f"dropping graphs of {self.what}", error, LaunchError, lane.last) from error

    def free(self) -> None:
        """Drop everything, and the programs that nothing else needs."""
        if self._graphs:
            self.let_go()
        steps, self._steps = self._steps, []
        self._kernels, self._given = [], []
        for step in steps:
            step.program.sequences -= 1
            step.program.free_unless_used()

    def _queue(self, natives: Sequence[Native], stream: Stream) -> None:
        for step in self._steps:
            step.program.enqueue(step.arguments(natives), stream)

    def _record(self, natives: Sequence[Native]) -> _Graph | None:
        """Return the graph for these buffers; None if the driver cannot record it."""
        stream = self.pool.capture_stream  # of its own: what is captured must not depend on what was queued before
        try:
            session = self.pool.session
            made = session.capture(stream, lambda: self._queue(natives, stream))
            can_change = bool(self._given) and session.can_change(made, [kernel.function for kernel in self._kernels])
            if not can_change:
                self._given = []
            return _Graph(made, natives, is_fixed=not can_change)
        except Fault as error:
            if error.cause is Cause.LOST:
                raise
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            return None
