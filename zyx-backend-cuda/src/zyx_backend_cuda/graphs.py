"""CUDA graphs through cuda-bindings: what a stream is given, recorded once and queued again in one call.

Streams are known by their numbers here, so this serves every driver of the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cuda.bindings import driver as cu

from zyx.drivers.faults import Fault
from zyx_backend_cuda.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Callable

#: Calls of other threads, such as allocations, go on while something is captured.
_RELAXED: Final = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Recorded(NamedTuple):
    """A graph.

    Attributes:
        made: What can be queued.
        number: The driver's number of that.
        recorded: What it was made of, which its nodes belong to.
        nodes: The driver's numbers of these, in the order in which they were recorded.
    """

    made: Any
    number: int
    recorded: Any
    nodes: list[int]


class Graphs:
    """Records and plays graphs; the context must be current."""

    def capture(self, stream: int, queue: Callable[[], None]) -> Recorded:
        """Return a graph of what `queue` queues on `stream`, which is to be idle.

        Raises:
            Fault: The driver cannot capture it.
        """
        native = cu.CUstream(stream)
        _check("cuStreamBeginCapture", cu.cuStreamBeginCapture(native, _RELAXED)[0])
        try:
            queue()
        except BaseException:
            status, graph = cu.cuStreamEndCapture(native)
            if status == 0 and int(graph):
                cu.cuGraphDestroy(graph)
            raise
        status, graph = cu.cuStreamEndCapture(native)
        _check("cuStreamEndCapture", status)
        try:
            status, made = cu.cuGraphInstantiate(graph, 0)
            _check("cuGraphInstantiate", status)
            status, _, count = cu.cuGraphGetNodes(graph)
            _check("cuGraphGetNodes", status)
            status, nodes, _ = cu.cuGraphGetNodes(graph, count)
            _check("cuGraphGetNodes", status)
        except Fault:
            cu.cuGraphDestroy(graph)
            raise
        return Recorded(made, int(made), graph, [int(node) for node in nodes])

    def play(self, graph: Recorded, stream: int) -> None:
        """Queue a graph."""
        (status,) = cu.cuGraphLaunch(graph.made, stream)
        if status != 0:
            raise CODES.fault(int(status), "cuGraphLaunch")

    def drop(self, graph: Recorded) -> None:
        """Free a graph, once it is not running any more."""
        cu.cuGraphExecDestroy(graph.made)
        cu.cuGraphDestroy(graph.recorded)


def _check(function: str, status: int) -> None:
    if status != 0:
        raise CODES.fault(int(status), function)
