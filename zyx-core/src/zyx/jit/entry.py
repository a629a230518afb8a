"""One trace of a function, compiled, and how it is run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.errors import BackendError, DeviceLostError, TraceError
from zyx.jit.structure import put_together
from zyx.runtime.buffer import Buffer
from zyx.runtime.handle import Handle
from zyx.runtime.ownership import is_sole_owner
from zyx.runtime.tracing import SupportsTraceKey, Tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.graph.node import Leaf, Node
    from zyx.runtime.plan import Plan
    from zyx.runtime.runtime import Runtime


class _Result:
    """A tensor that the function returned: its class, and its node in the trace."""

    __slots__ = ("kind", "node")

    def __init__(self, kind: type[Handle], node: Node) -> None:
        self.kind = kind
        self.node = node


class Entry:
    """A function traced for one signature.

    A run computes new buffers for what the function returns. What it assigns is stored over the old values where the
    plan allows it and no other tensor shares them. Its temporaries are kept from run to run.

    The function runs here, once, and without the runtime's lock: it may take its time, and wait for other threads. Runs
    of the trace, and all questions about it, are for whoever holds the lock.
    """

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, runtime: Runtime) -> None:  # noqa: ANN401
        self._runtime = runtime
        tracing = Tracing(runtime)
        placeholders: list[Leaf] = []

        def placeholder(handle: Handle) -> Handle:
            node = handle._node
            leaf = runtime.graph.leaf(node.shape, node.dtype, node.device)
            placeholders.append(leaf)
            return type(handle).of(leaf, runtime)

        with runtime.traced_by(tracing):
            put_together((args, kwargs), SupportsTraceKey, tracing.depends_on)  # type: ignore[type-abstract]  # only tested for
            traced_args, traced_kwargs = put_together((args, kwargs), Handle, placeholder)
            result = function(*traced_args, **traced_kwargs)
            returned: list[Node] = []
            self._result = put_together(result, Handle, lambda handle: _result(handle, returned))
        with runtime.lock:
            self._compile(tracing, placeholders, returned)

    def _compile(self, tracing: Tracing, placeholders: Sequence[Leaf], returned: Sequence[Node]) -> None:
        """Make a plan of what the function did; nobody may change what it captured meanwhile."""
        runtime = self._runtime
        self._watched = [(watched, watched.trace_key) for watched in tracing.watched.values()]
        self._captured = list(tracing.captured.values())
        self._outside = [handle for handle, _ in self._captured]
        self._states = [
            (handle, node)
            for handle, node in tracing.assigned.values()
            if tracing.captured.get(id(handle), (None, None))[1] is not node
        ]
        self._given: dict[Node, int] = {}
        for leaf in [*placeholders, *(leaf for _, leaf in self._captured), *(leaf for leaf, _ in tracing.constants)]:
            self._given[leaf] = len(self._given)
        self._constants = [buffer for _, buffer in tracing.constants]
        wanted = dict.fromkeys([*returned, *(node for _, node in self._states)])
        self._computed = [
            node for node in wanted if node not in self._given and node.storage is None and 0 not in node.shape
        ]
        self._check_states()
        # What is returned or assigned as it was must not be stored over.
        donations = {
            node: tracing.captured[id(handle)][1]
            for handle, node in self._states
            if id(handle) in tracing.captured and tracing.captured[id(handle)][1] not in wanted
        }
        self._plan: Plan = runtime.plan(self._computed, list(self._given), donations)
        self._plan.capture()
        self._number = {node: number for node, number in zip(self._computed, self._plan.results, strict=True)}
        overwritten = [
            (handle, self._number[node])
            for handle, node in self._states
            if node in donations and self._number.get(node) == self._given[donations[node]]
        ]
        self._overwritten = [handle for handle, _ in overwritten]
        self._written = {number for _, number in overwritten}
        self._temporaries: list[Buffer] | None = None

    @property
    def plan(self) -> Plan:
        """What one run does."""
        return self._plan

    def _check_states(self) -> None:
        """Refuse an assignment that changes what a tensor from outside is."""
        for handle, node in self._states:
            old = handle._node
            if (old.shape, old.dtype, old.device) != (node.shape, node.dtype, node.device):
                raise TraceError(f"a traced function assigned {node!r} to a tensor that was {old!r}; they must agree")

    def fits(self) -> bool:
        """Whether what the function found outside still is as it was, but for the values of tensors."""
        if not self._captured and not self._watched:
            return True
        return self.fits_tensors() and all(watched.trace_key == key for watched, key in self._watched)

    def is_stale(self) -> bool:
        """Whether the trace will not be used again."""
        return not self.fits_tensors() or any(watched.trace_key[0] != key[0] for watched, key in self._watched)

    def fits_tensors(self) -> bool:
        """Whether the tensors that the function found outside have the shapes, dtypes and devices that they had."""
        for handle, leaf in self._captured:
            node = handle._node
            if node.shape != leaf.shape or node.dtype is not leaf.dtype or node.device != leaf.device:
                return False
        return True

    def run(self, tensors: Sequence[Handle]) -> Any:  # noqa: ANN401  # what the function returns
        """Run the trace on other arguments of the same signature."""
        runtime = self._runtime
        for handle in self._overwritten:
            if not is_sole_owner(handle):
                self._separate(handle)
        leaves: list[Buffer] = []
        for handle in [*tensors, *self._outside]:
            node = handle._node
            storage = node.storage
            leaves.append(self._storage(handle) if type(storage) is not Buffer or node.sources else storage)
        leaves += self._constants
        plan = self._plan
        if runtime.memory.lost:
            for buffer in leaves:
                runtime.memory.check(buffer.pool)
        if plan.placed:
            leaves = runtime.placement.gather(self._given, leaves, plan.placed, self._written)
        outputs = plan.allocate(runtime.memory, plan.outputs) if plan.outputs else []
        temporaries = self._temporaries
        if temporaries is None or (temporaries and _have_failed(temporaries)):
            temporaries = self._temporaries = plan.allocate(runtime.memory, plan.temporaries)
        buffers = [*leaves, *outputs, *temporaries]
        try:
            plan.queue(buffers, runtime.trace)
        except BackendError as error:
            self._temporaries = None  # work on them may have failed, which must not fail the next run
            if isinstance(error, DeviceLostError):
                runtime.lose(error)
            raise
        leaf = runtime.graph.leaf
        new = {
            node: leaf(node.shape, node.dtype, node.device, buffers[number], history_lost=True)
            for node, number in self._number.items()
        }
        result = self._result
        if type(result) is _Result:
            results = result.kind.of(self._value(result.node, new, leaves), runtime)
        else:
            results = put_together(
                result, _Result, lambda part: part.kind.of(self._value(part.node, new, leaves), runtime)
            )
        for handle, node in self._states:
            runtime.assign(handle, self._value(node, new, leaves))
        return results

    def _value(self, node: Node, new: dict[Node, Leaf], leaves: Sequence[Buffer]) -> Node:
        """Return the leaf for a node of the trace: computed, or given and passed on."""
        if node in new:
            return new[node]
        if node in self._given:
            storage = leaves[self._given[node]]
            return self._runtime.graph.leaf(node.shape, node.dtype, node.device, storage, history_lost=True)
        if 0 in node.shape:
            return self._runtime.graph.const(0, node.dtype, node.device, node.shape)
        return node

    def _storage(self, handle: Handle) -> Buffer:
        node = self._runtime.current_node(handle)
        if node.storage is None:
            self._runtime.realize([handle])
            node = self._runtime.current_node(handle)
        return self._runtime.buffer_of(node)

    def _separate(self, handle: Handle) -> None:
        """Give `handle` values that no other tensor shares: computed ones, or a copy."""
        self._storage(handle)
        if not is_sole_owner(handle):
            handle._node = self._runtime.copy(handle._node)

    def close(self) -> None:
        """Release what the device keeps for the trace."""
        self._plan.close()
        self._temporaries = None


def _have_failed(buffers: Sequence[Buffer]) -> bool:
    """Whether work on one of `buffers` is known to have failed; much of it is the same work."""
    return any(pending is not None and pending.has_failed for pending in {buffer.pending for buffer in buffers})


def _result(handle: Handle, returned: list[Node]) -> _Result:
    returned.append(handle.node)
    return _Result(type(handle), handle.node)
