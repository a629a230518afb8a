"""Operations of several processes happen, once each, in the order in which the program calls them.

A graph knows what reads what, and nothing else: two operations of which neither reads the other could change places,
two that look alike would be one, and one that nobody reads would not happen. So each of them reads a tensor that the
one before gives, and gives it to the next:

    %0: f32[3]       = leaf                                             x
    %1: u8[1]        = leaf                                             what the last operation left
    %2: f32[3]       = custom %0, %1, kernel=host all_reduce (MPI), output=0
    %3: u8[1]        = custom %0, %1, kernel=host all_reduce (MPI), output=1

That tensor is a state, as that of a random generator: a function under `zyx.jit` is given the present one and leaves
the new one, so that each call does what it did when it was traced, read or not. Outside of such functions an operation
is done where it is called: a process that reads its result later than others would let these wait, and one that never
reads it, for ever.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.autograd.custom import is_inside_checkpoint
from zyx.distributed.waiting import traced_at
from zyx.errors import TraceError
from zyx.modes import own_of
from zyx.runtime.buffer import Buffer
from zyx.runtime.handle import Handle
from zyx.runtime.lines import line_of_caller
from zyx.runtime.mapping import MappedRun
from zyx.runtime.waiting import unlocked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.distributed.group import Group
    from zyx.dtype import DType
    from zyx.graph.host_call import HostCall
    from zyx.graph.node import Node
    from zyx.runtime.runtime import Runtime
    from zyx.shape import Shape

_ATTRIBUTE: Final = "_order_of_collectives"
#: Shape and dtype of what one operation leaves to the next: the last input and the last output of each.
STATE: Final[tuple[Shape, DType]] = ((1,), dtypes.uint8)


def ordered(runtime: Runtime, group: Group, call: HostCall, sources: Sequence[Node], device: str) -> list[Node]:
    """Return the values that a call gives, which happens after all before it; outside of traces, they are computed.

    Args:
        runtime: Of the nodes.
        group: Who does it.
        call: Takes the sources and the state, and gives values and the state.
        sources: What it is given, on `device`.
        device: Where its values are to lie.

    Raises:
        TraceError: It is called inside `zyx.vmap`, where it would be for one example, or inside `zyx.checkpoint`, where
            it would be done again on the way back, out of order.
        CollectiveError: The operation failed. Then it has not happened.
    """
    with _turn(runtime, group), runtime.lock:
        tracing = runtime.tracing
        if tracing is not None and _is_mapped(tracing):
            raise TraceError(
                f"{call.name}: processes do it for all examples or not at all, and inside zyx.vmap there is one; call "
                "it on what vmap gives"
            )
        if is_inside_checkpoint():
            raise TraceError(
                f"{call.name}: inside zyx.checkpoint it would be done again on the way back, out of order; let the "
                "checkpointed part end before it, and begin another one behind it"
            )
        line = "" if tracing is None else line_of_caller()
        call = replace(call, around=partial(_waiting, runtime, group, line))
        state = _state(runtime)
        *values, after = call.apply(runtime.graph, [*sources, runtime.graph.to_device(state.node, device)])
        if tracing is None:
            # What is computed is noted in the nodes, so that a call is not repeated for whoever has them.
            runtime.realize([Handle.of(node, runtime) for node in (*values, after)])
        runtime.assign(state, after)
        return values


@contextmanager
def _turn(runtime: Runtime, group: Group) -> Iterator[None]:
    """Let no other thread of this process have an operation of `group` meanwhile.

    Two of them would be the same node, which reads what the last one left, and be done twice.
    """
    if not group.turn.acquire(blocking=False):
        with unlocked(runtime):  # which the thread that has the turn may need
            group.turn.acquire()
    try:
        yield
    finally:
        group.turn.release()


@contextmanager
def _waiting(runtime: Runtime, group: Group, line: str) -> Iterator[None]:
    """Let other threads compute while an operation, of some line of a traced function, waits for other processes."""
    with unlocked(runtime), group.turn, traced_at(line):
        yield


def _state(runtime: Runtime) -> Handle:
    """Return the tensor that holds the order, which is kept among the attributes of the runtime: they die together.

    Of ranks that are threads each has its own.
    """
    own = own_of(runtime)
    found = own.get(_ATTRIBUTE)
    if isinstance(found, Handle):
        storage = found._node.storage
        if storage is None or (isinstance(storage, Buffer) and storage.pool not in runtime.memory.lost):
            return found
    with runtime.traced_by(None):  # the first operation, or the first one after its device was lost or closed
        node = runtime.upload(np.zeros(STATE[0], STATE[1].numpy), runtime.default_device)
        made = own[_ATTRIBUTE] = Handle(node, runtime)
    return made


def _is_mapped(tracing: object) -> bool:
    return isinstance(tracing, MappedRun)
