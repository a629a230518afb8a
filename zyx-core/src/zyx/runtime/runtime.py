"""The one place with state: devices, pools, buffers, plans, caches, trace."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import BackendError, DeviceLostError, TraceError, locate
from zyx.graph import node as n
from zyx.graph.live import LiveGraph
from zyx.graph.making import SIZED_TRACES, computed_leaf
from zyx.graph.signature import Key, signature
from zyx.lazy_import import lazy_import
from zyx.runtime import lifetime
from zyx.runtime.buffer import Buffer, abandon, drain, settle, take_events
from zyx.runtime.lazy import Unread, read_slices_only, read_unread
from zyx.runtime.observer import Observers
from zyx.runtime.ownership import KNOWN, RARELY_COMPUTED, WRITTEN_TO, is_ours, source_with_same_layout, written_over
from zyx.runtime.plans import Plans, of_parent
from zyx.runtime.waiting import Waiting, check_may_wait, working
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zyx.backend import Device, sharing
    from zyx.dtype import DType, Scalar
    from zyx.graph import host_call
    from zyx.graph.node import Node
    from zyx.runtime.handle import Handle
    from zyx.runtime.placement import Placed
    from zyx.runtime.tracing import Tracing
    from zyx.settings.record import Settings
    from zyx.shape import Shape
else:
    sharing = lazy_import("zyx.backend.sharing", globals())
    host_call = lazy_import("zyx.graph.host_call", globals())

#: What has a short way to its plan if it reads leaves.
_SINGLE: Final = frozenset({n.Unary, n.Binary, n.Fourier})


class Runtime(Plans):
    """Devices, memory and what was compiled, for the tensors that belong to it.

    Nothing is opened before a device is needed. All methods may be called from any thread.

    Args:
        settings: What the program says, over environment and configuration file; see `zyx.settings`.

    Attributes:
        graph: Makes the nodes of all tensors.
        observers: Who follows what becomes of handles.
        forked: What has something to do in the child of a fork.
        spares: What keeps memory that it can do without when there is no more: temporaries for its next run.
        traces: The traces of functions that are under way, in whatever thread. Mostly there is none, so what every
            tensor goes through asks for this first: `tracing` takes longer.
    """

    def __init__(self, settings: Settings | Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self.graph = LiveGraph()
        self.observers = Observers()
        self.traces: set[Tracing] = set()
        self._waiting = Waiting(self.lock, self.lose)
        self._tracing: ContextVar[Tracing | None] = ContextVar("tracing", default=None)
        self.spares: weakref.WeakSet[lifetime.SupportsSpare] = weakref.WeakSet()
        self._empty: dict[str, Buffer] = {}
        self._later: list[weakref.ref[Handle]] = []
        self.forked: weakref.WeakSet[lifetime.SupportsFork] = weakref.WeakSet()
        self.memory.droppers += [self._drop_spares, self.drop_plans, self._drop_programs]
        lifetime.begin(self)

    # ---- traces

    @property
    def tracing(self) -> Tracing | None:
        """The trace of a function that is under way in this thread or task, if one is; others have nothing of it."""
        return self._tracing.get()

    @contextmanager
    def traced_by(self, tracing: Tracing | None) -> Iterator[None]:
        """Let a trace take what this thread does with tensors, or none, for the length of a ``with`` block."""
        token = self._tracing.set(tracing)
        begun = set() if tracing is None else {tracing} - self.traces
        self.traces |= begun
        sized = {each for each in begun if each.has_sizes}
        SIZED_TRACES.update(sized)
        try:
            yield
        finally:
            self._tracing.reset(token)
            self.traces -= begun
            SIZED_TRACES.difference_update(sized)

    # ---- handles

    def current_node(self, handle: Handle) -> Node:
        """Return the node of `handle`; once it is computed, a leaf that has forgotten how."""
        node = handle._node
        tracing = self._tracing.get() if self.traces else None
        if handle.tracing is not tracing:
            if tracing is not None:
                return tracing.node_of(handle)
            raise TraceError(
                f"{node!r} was made while a function was being traced, and has no values: return it from that "
                "function instead of keeping it"
            )
        if node.storage is not None and tracing is None and (node.sources or type(node) in KNOWN):
            leaf = computed_leaf(node, node.storage)
            handle._node = leaf
            if self.observers.references or self.observers.pasts or self.observers.leaves:
                self.observers.computed(handle, node, leaf)
            return leaf
        return node

    def assign(self, handle: Handle, node: Node, *, is_fresh: bool = False) -> None:
        """Let `handle` stand for `node` from now on. `is_fresh` says that nobody else has the node."""
        if self.observers.leaves:
            node = self.observers.assigning(handle, node, is_fresh=is_fresh)
        if self.traces and (tracing := self._tracing.get()) is not None:
            tracing.assign(handle, node)
            return
        old = handle._node
        handle._node = node
        self.observers.assigned(handle, old)

    # ---- data

    def upload(self, array: np.ndarray, device: str) -> Node:
        """Return a leaf with a copy of `array`, of any of our dtypes and any strides, on `device`.

        Raises:
            AllocationError: The device has no room.
        """
        dtype = dtypes.as_dtype(array.dtype)
        if self.traces and (tracing := self._tracing.get()) is not None:
            return tracing.upload(array, device)
        source = np.ascontiguousarray(array)
        with self.lock:
            try:
                started = self.trace.before_launch()
                buffer = self._uploaded(source, device)
                if self.trace.waits:
                    buffer.wait()
                    self.trace.copied("an array", buffer.pool.name, buffer.nbytes, started)
            except DeviceLostError as error:
                self.lose(error)
                raise
        if buffer.pending is not None and np.may_share_memory(source, array):
            self._waiting.finish(buffer)  # the caller may change the array as soon as this returns
        return self.graph.leaf(array.shape, dtype, device, buffer)

    def _uploaded(self, source: np.ndarray, device: str) -> Buffer:
        """Return a new buffer to which `source` is being copied."""
        buffer = self.allocate(device, source.nbytes)
        pool = buffer.pool
        if buffer.raw is not None:
            events, taken = take_events((buffer,), pool)
            try:
                event = pool.host_to_pool(source.reshape(-1).view(np.uint8).data, buffer.raw, events)
                settle(event, pool, (buffer,), taken, (buffer,))
            except BackendError as error:
                locate(error, pool.name)
                abandon(taken)
                raise
            except BaseException:
                drain(pool)
                raise
        return buffer

    def download(self, handle: Handle) -> np.ndarray:
        """Return the values of `handle` as a new array, computing them first.

        Raises:
            TraceError: A function is being traced: there are no values.
            BackendError: The work failed.
        """
        if self.traces and (tracing := self._tracing.get()) is not None:
            return tracing.read(handle, self.download)
        if threading.get_ident() in working:
            check_may_wait()
        with self.lock:
            self.observers.looked(handle._node)
            self.realize_one(handle)
            node = handle._node
            buffer = self.buffer_of(node)
        result = np.empty(node.shape, node.dtype.numpy)
        if buffer.raw is not None:
            self._waiting.finish(buffer)
            started = self.trace.before_launch()
            self._waiting.read(buffer, result.reshape(-1).view(np.uint8).data)
            self.trace.copied(buffer.pool.name, "an array", buffer.nbytes, started)
        return result

    def shared_buffer(self, handle: Handle, *, copy: bool = False) -> Buffer:
        """Return the buffer of `handle`, or a copy of it, all work on it done. Raises as `download` does."""
        if self.traces and (tracing := self._tracing.get()) is not None:
            return tracing.read(handle, lambda outside: self.shared_buffer(outside, copy=copy))
        with self.lock:
            self.observers.looked(handle._node)
            self.realize_one(handle)
            buffer = self.buffer_of(self.copy(handle._node) if copy else handle._node)
        self._waiting.finish(buffer)
        return buffer

    def adopt(self, address: int, owner: object, shape: Shape, dtype: DType, device: Device) -> Node:
        """Return a leaf on memory of another library, of which `owner` is kept. Its pool is one that takes it."""
        pool, nbytes = device.memory_pool, size_of(shape) * dtype.itemsize
        assert isinstance(pool, sharing.SupportsSharing | sharing.SupportsHostArrays)
        with self.lock:
            if nbytes == 0:
                buffer = self.memory.allocate(pool, 0)
            else:
                wrap = pool.wrap if isinstance(pool, sharing.SupportsSharing) else pool.wrap_host
                buffer = self.memory.adopt(pool, *wrap(address, nbytes, owner))
        return self.graph.leaf(shape, dtype, device.name, buffer)

    def realize_one(self, handle: Handle) -> None:
        """Compute the values of `handle`, as `realize` does; in a fraction of the time if it is a single operation."""
        if handle._node.storage is None and not self.traces:
            with self.lock:
                node = handle._node
                if (
                    node.storage is None
                    and not self._later
                    and type(node) in _SINGLE
                    and (leaf := self._compute_single(node)) is not None
                ):
                    handle._node = leaf
                    if self.observers.references or self.observers.pasts or self.observers.leaves:
                        self.observers.computed(handle, node, leaf)
                    return
        self.realize([handle])

    def realize(self, handles: Sequence[Handle]) -> None:
        """Compute the values of `handles`, together; returns before the work is done.

        In a function that is being traced this does nothing: what it returns and assigns is computed at the end.

        Raises:
            BackendError: A kernel was refused or memory ran out. Then no handle has changed.
        """
        if self.traces and self._tracing.get() is not None:
            return
        for handle in handles:
            if handle._node.storage is None or handle._node.sources:
                break
        else:
            return  # what it comes to where realize() follows each step
        with self.lock:
            wanted = self._uncomputed(handles)
            if wanted:
                if self._later:
                    handles = [*handles, *self._others()]
                    wanted = self._uncomputed(handles)
                self._compute(wanted)
            for handle in handles:
                self.current_node(handle)
            for node in wanted:
                if type(node) in KNOWN:  # an equal one is a part of what it is met in, and no leaf
                    node.storage = None

    @staticmethod
    def _uncomputed(handles: Iterable[Handle]) -> list[Node]:
        """Return what `handles` stand for and is not computed, each node once."""
        found: dict[Node, None] = {}
        for handle in handles:
            if (node := handle._node).storage is None:
                found[node] = None
        return list(found)

    def realize_along(self, handle: Handle) -> None:
        """Compute `handle` together with whatever is computed next, unless it has died by then.

        For values that follow others and are asked for late or never, such as losses and statistics of batches: by
        themselves they would be computed again from the beginning, or pile up.
        """
        if self.tracing is None:
            self._later.append(weakref.ref(handle))

    def _others(self) -> list[Handle]:
        """Return the handles that are to be computed along now, of which none waits any more."""
        waiting, self._later = self._later, []
        return [alive for reference in waiting if (alive := reference()) is not None]

    def synchronize(self) -> None:
        """Wait for all queued work on all devices. Errors of that work surface here.

        A device that is lost is no reason not to wait for the others, and an error once.

        Raises:
            BackendError: The first error, when all work is over; notes on it say what else failed.
        """
        with self.lock:
            opened = () if self._opened is None else self._opened.pools.values()
            pools = [pool for pool in opened if pool in self.memory.queued]
        if self.lost_pools:
            pools = [pool for pool in pools if pool not in self.lost_pools]
        if not pools:
            return
        self._waiting.synchronize(pools)

    # ---- computing

    def _compute(self, nodes: Sequence[Node]) -> None:
        given: dict[Node, Buffer] = {}
        for node in nodes:
            if type(node) in RARELY_COMPUTED or 0 in node.shape:
                if (buffer := self._given(node)) is not None:
                    given[node] = buffer
        remaining = [node for node in nodes if node not in given] if given else nodes
        if remaining:
            if self.graph.calls_host:
                remaining = [*remaining, *host_call.outputs_beside(self.graph, remaining)]
            for number, buffer in enumerate(self._computed(remaining)):
                remaining[number].storage = buffer
        for node, buffer in given.items():
            node.storage = buffer

    def _given(self, node: Node) -> Buffer | None:
        """Return a buffer with the values of `node` that is there already, if there is one."""
        if isinstance(node, n.Leaf):
            raise TraceError(f"{node!r} stands for an argument of a traced function and has no values")
        if 0 in node.shape:
            return self._empty_buffer(node.device)
        shared = source_with_same_layout(node)
        return None if shared is None else self.buffer_of(shared)

    def _computed(self, nodes: Sequence[Node]) -> list[Buffer]:
        """Compute `nodes`, and return their buffers."""
        key, leaves, order = signature(nodes)
        for leaf in leaves:
            if type(leaf.storage) is Unread:
                nodes = read_slices_only(self.graph, nodes, order)
                key, leaves, order = signature(nodes)
                read_unread(self, leaves)
                break
        if self.lines is not None:
            key = self.lines.key(key, order)
        if self._placement is not None and self._placement.groups:
            attempt = functools.partial(self._run, nodes, leaves, order, key)
            return self.placement.run(order, nodes, self.trace, attempt)
        return self._run(nodes, leaves, order, key, {})

    def _run(
        self, nodes: Sequence[Node], leaves: Sequence[Node], order: Sequence[Node], key: Key, placed: Placed
    ) -> list[Buffer]:
        """Run the plan for `nodes`, which is made if there is none of that key, and return their buffers."""
        if placed:
            key = Key((key.structure, *(device.name for device in placed.values())), key.constants)
        donations: dict[Node, Node] = {}
        for node in nodes:
            if type(node) in WRITTEN_TO and not placed and not self.observers.are_following:
                if (leaf := written_over(node)) is not None and is_ours(leaf.storage) and not self.observers.keep(node):
                    donations[node] = leaf
        if donations and not (self.graph.calls_host and self._waits(order)):  # others may come to have old values
            over = [(nodes.index(node), leaves.index(old)) for node, old in donations.items()]
            key = Key((key.structure, "over", *over), key.constants)
        plan = self._plans.get(key)
        given: Sequence[Scalar] = ()
        if plan is None:
            plan, given = self._plan_for(nodes, leaves, order, key, placed, donations)
        else:
            self._plans.move_to_end(key)
        if len(order) <= 3 and len(nodes) == 1 and type(nodes[0]) in _SINGLE and not placed:  # it, and two operands
            self._note_single(nodes[0], plan, is_given=bool(given))
        buffers: list[Buffer] = []
        has_lost = bool(self.memory.lost)
        for leaf in leaves:
            storage = leaf.storage
            buffers.append(storage if type(storage) is Buffer and not has_lost else self.buffer_of(leaf))
        if placed:
            buffers = self.placement.gather(leaves, buffers, placed)
        try:
            return plan.run([*buffers, *given] if given else buffers, self.memory, self._trace or self.trace)
        except DeviceLostError as error:
            self.lose(error)
            raise

    def buffer_of(self, node: Node) -> Buffer:
        """Return the buffer of a node with storage, read from its file if it lies in one.

        Raises:
            AllocationError: No room for it.
            TransferError: The file is gone, or shorter than it was.
            TraceError: It is the argument of a function that was traced.
        """
        storage = node.storage
        if isinstance(storage, Unread):
            storage = node.storage = storage.read(functools.partial(self.allocate, node.device))
        if not isinstance(storage, Buffer):
            raise TraceError(
                f"{node!r} stands for an argument of a traced function and has no values: what is made of it must be "
                "returned by that function, not kept"
            )
        if self.memory.lost:
            self.memory.check(storage.pool)
        return storage

    def copy(self, node: Node) -> Node:
        """Return a leaf with the values of `node`, which has storage, in a buffer of its own."""
        same = self.graph.copy(node)
        self._compute([same])
        return self.graph.leaf(node.shape, node.dtype, node.device, same.storage, history_lost=True)

    def _empty_buffer(self, device: str) -> Buffer:
        if device not in self._empty:
            self._empty[device] = self.allocate(device, 0)
        return self._empty[device]

    def _drop_spares(self) -> None:
        for thing in list(self.spares):
            thing.drop_spare()

    def close(self) -> None:
        """Wait for all work, release programs, free memory, close devices, in this order. A second call does nothing.

        Work that failed, and that nobody has waited for, is no error here: nobody wants its results any more. Tensors
        of this runtime must not be used after it. A runtime that is still open when the interpreter ends is closed.
        """
        with self.lock:
            if self._opened is not None:
                self._opened.settle()
            self._waiting.end()
            if self._opened is None:
                self.forget_discarded()
            self.drop_plans()
            if self._compiler is not None:
                self._compiler.close()
            self._compiler = self._planner = None
            if self._opened is not None:
                self._empty.clear()
                self._forget_placement()
                with suppress(BackendError):  # a lost device; what closes its pool notes what is wrong
                    self.memory.reclaim()
                self._opened.close()
                self._opened = None

    def end(self) -> None:
        """Close at the end of the process. Threads that still compute end when they have, or ask for, the lock."""
        with self.lock:
            self.close()
            self.memory.end()
            self.lock = lifetime.LastLock()  # type: ignore[assignment]  # it has what is used of one

    def before_fork(self) -> None:
        """Let no thread be at work while the process forks."""
        self.lock.acquire()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on. In a child, devices with drivers of their own are lost; those that work on host memory are not."""
        self.lock.release()
        if not is_child:
            return
        self.lock = threading.RLock()
        self._waiting = Waiting(self.lock, self.lose)
        if self._compiler is not None:
            self._compiler.after_fork()
        if self._opened is not None:
            lost = self._opened.lose_drivers()
            self.memory.lost.update(lost)
            if lost:
                # Kept, since their finalisers would call drivers that are the parent's.
                of_parent.append((self._plans, self._forget_singles(), self._compiler, self._planner, self._empty))
                self._plans, self._empty, self._compiler, self._planner = OrderedDict(), {}, None, None
                self._default = None
                self._forget_placement()
        for each in list(self.forked):
            each.after_fork()


#: What a thread or task has put to use; a list would be one for all threads, which end their blocks in any order.
_used: Final[ContextVar[Runtime | None]] = ContextVar("runtime", default=None)
#: The default one, once it has started. Of threads that start it at once, one keeps its own: nothing is opened yet.
_started: Final[dict[str, Runtime]] = {}


def current() -> Runtime:
    """Return the runtime that new tensors belong to here, starting the default one on the first call."""
    return _used.get() or _started.get("default") or _started.setdefault("default", Runtime())


@contextmanager
def use(runtime: Runtime) -> Iterator[Runtime]:
    """Make `runtime` the current one in this thread or task, for the length of a ``with`` block."""
    before = _used.get()
    _used.set(runtime)
    try:
        yield runtime
    finally:
        _used.set(before)
