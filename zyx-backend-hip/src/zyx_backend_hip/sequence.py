"""Captured sequences: launches that follow one another, as one graph.

A graph has the addresses of its buffers in it. So a sequence records one when it is launched with the same buffers for
the second time, and plays it from then on; a few are kept, since programs take turns with the same few buffers. What
the driver cannot record is queued launch by launch.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

from zyx.drivers.faults import Cause, Fault
from zyx.drivers.sequences import Outline, Recordings, bound, outline
from zyx_backend_hip.program import HipProgram, as_word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Launch
    from zyx_backend_hip.driver import Graph, Handle
    from zyx_backend_hip.memory import HipPool

logger: Final = logging.getLogger("zyx.hip")

#: How many graphs a sequence keeps.
_GRAPHS: Final = 4


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

    __slots__ = ("__weakref__", "_graphs", "_steps")

    is_sequence: ClassVar[bool] = True

    def __init__(self, launches: Sequence[Launch], slots: int, pool: HipPool, device: str, *, records: bool) -> None:
        made: Outline[HipProgram] = outline(launches, slots, pool, device)
        super().__init__(made.name, "", made.what, pool, made.parameters)
        self._steps = [bound(step, as_word) for step in made.steps]
        finish = pool.session.finish  # graphs that are running must not be freed
        self._graphs: Recordings[Graph] = Recordings(
            _GRAPHS, is_on=records and len(self._steps) > 1, drop=lambda graph: finish()
        )
        pool.holders.add(self)

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        if self._graphs.is_on:
            graph = self._graphs.find(tuple(values), lambda: self._record(values))
            if graph is not None:
                self.pool.session.play(graph)
                return
        self._queue_steps(values, stream)

    def let_go(self) -> None:
        """Drop graphs: the addresses in them may become others'."""
        self._graphs.clear()

    def release(self) -> None:
        super().release()
        if self._graphs:
            self.pool.session.finish()  # graphs that are running must not be freed
        self.let_go()
        self._steps = []

    def _queue_steps(self, values: Sequence[int], stream: Handle) -> None:
        for step in self._steps:
            step.program.queue(step.arguments(values), stream)

    def _record(self, values: Sequence[int]) -> Graph | None:
        """Return the graph for these buffers; None if the driver cannot record it."""
        session = self.pool.session
        try:
            session.begin_recording()
            try:
                self._queue_steps(values, session.recording)
            except Fault:
                session.abandon_recording()
                raise
            return session.end_recording()
        except Fault as error:
            if error.cause is Cause.LOST:
                raise
            logger.info("%s cannot be recorded, and is queued launch by launch: %s", self.what, error)
            return None
