"""What a step would take in many processes, from running that of one of them here.

    def train():
        mesh = dist.Mesh({"data": -1})
        model = dist.fully_shard(Net(), mesh)
        ...
        return lambda: step(x, y)

    print(dist.simulate(train, 64, Network(inside, between, per_host=8)))

The program runs as one rank of a group of which there is no other: what is exchanged is noted, and each operation gives
what it would give if all processes had the values of this one. Time is then added up:

    computing     measured on a device here, or estimated from the record of a device that need not be here
    exchanging    by the formulas of `zyx.distributed.network`
    a step        both, one after the other

Nothing is taken to overlap, because nothing does: what the host carries, a plan waits for, and what devices exchange is
queued between kernels, on their stream. `Simulation.overlapped_s` is the limit of what overlap could bring.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from zyx import tree
from zyx.builtin.dummy import DummyDevice
from zyx.distributed.engine import Engine
from zyx.distributed.group import Group, in_group
from zyx.errors import InvalidArgumentError, TraceError
from zyx.integers import as_index
from zyx.modes import Rank, as_rank
from zyx.ops import ReduceOp
from zyx.plugins.describe import columns, size
from zyx.runtime.profile import Profile, duration
from zyx.runtime.runtime import Runtime, current, use
from zyx.tensor.generator import take_generator
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zyx.backend import Argument, DeviceInfo, Event, MemoryPool, PoolBuffer
    from zyx.distributed.network import Network
    from zyx.runtime.host_step import HostStep
    from zyx.runtime.steps import LaunchStep

__all__ = ["Exchanged", "Simulation", "simulate"]

Array: TypeAlias = "npt.NDArray[Any]"

#: Calls before the one that is noted: the first ones trace and compile.
_WARM: Final = 3
#: Calls that are timed.
_TIMED: Final = 7
#: A runtime has one profile at a time, and ranks that are threads may all simulate.
_RECORDING: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Exchanged:
    """An operation of a step.

    Attributes:
        kind: What it is, as `Network.seconds` names it.
        bytes: Of the whole array.
        ranks: Who takes part.
        seconds: What it takes, the meeting before it included.

    >>> link = zyx.distributed.Link(1e-6, 1e9)
    >>> network = zyx.distributed.Network(link, link, per_host=2)
    >>> step = lambda: zyx.distributed.all_reduce(zyx.ones(1))
    >>> found = zyx.distributed.simulate(lambda: step, 2, network, record=zyx.device_info())
    >>> [(each.kind, each.ranks) for each in found.exchanges]
    [('all_reduce', (0, 1))]
    """

    kind: str
    bytes: int
    ranks: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a step takes in each process.

    Attributes:
        size: How many processes there are.
        compute_s: Kernels, copies and what the host does for them.
        is_measured: Whether that was measured; if not, it is an estimate, of kernels and copies alone.
        exchanges: The operations, in order.
        launches: Kernels.
        parts: Bytes of what the program names, such as its parameters.
        held_bytes: What the program's tensors hold of the device's memory between steps, and plans for the next one.
        peak_bytes: The most that they hold during one.

    >>> link = zyx.distributed.Link(1e-6, 1e9)
    >>> network = zyx.distributed.Network(link, link, per_host=2)
    >>> found = zyx.distributed.simulate(lambda: zyx.distributed.barrier, 2, network, record=zyx.device_info())
    >>> found.size, found.is_measured
    (2, False)
    """

    size: int
    compute_s: float
    is_measured: bool
    exchanges: tuple[Exchanged, ...]
    launches: int
    parts: Mapping[str, int]
    held_bytes: int
    peak_bytes: int

    @property
    def exchange_s(self) -> float:
        """All operations, one after the other."""
        return sum(each.seconds for each in self.exchanges)

    @property
    def step_s(self) -> float:
        """A step as the runtime does it: exchanges and kernels take turns."""
        return self.compute_s + self.exchange_s

    @property
    def overlapped_s(self) -> float:
        """A step in which exchanges were hidden behind kernels as far as that could be: it takes no less."""
        return max(self.compute_s, self.exchange_s)

    def __str__(self) -> str:
        rows: dict[tuple[str, int, int], list[Exchanged]] = {}
        for each in self.exchanges:
            apart = each.ranks[1] - each.ranks[0]
            rows.setdefault((each.kind, len(each.ranks), apart), []).append(each)
        table = [("EXCHANGE", "PROCESSES", "APART", "NUMBER", "BYTES", "TIME")]
        for (kind, count, apart), found in rows.items():
            moved = size(sum(each.bytes for each in found))
            seconds = duration(sum(each.seconds for each in found))
            table.append((kind, str(count), str(apart), str(len(found)), moved, seconds))
        how = "measured" if self.is_measured else "estimated"
        held = "".join(f"{size(nbytes)} {name}, " for name, nbytes in self.parts.items())
        lines = [
            f"a step in each of {self.size}: {duration(self.step_s)}; no less than {duration(self.overlapped_s)} if "
            "exchanges were hidden",
            f"computing: {duration(self.compute_s)}, {how}, {self.launches} kernels",
            f"exchanging: {duration(self.exchange_s)}",
            f"memory: {held}{size(self.held_bytes)} between steps, {size(self.peak_bytes)} at most",
        ]
        return "\n".join([*lines, *(columns(table) if rows else [])])


def simulate(
    program: Callable[[], Any],
    size: int,
    network: Network,
    *,
    device: str | None = None,
    record: DeviceInfo | None = None,
    rank: int = 0,
) -> Simulation:
    """Return what a step of a program would take in many processes.

    Args:
        program: Makes everything that a step needs, as one process of a group, and returns what does a step: a function
            of no arguments. Or that and a dict of tensors, modules and optimisers by name, whose bytes are told. It
            must not decide by values that other processes would have. With a `record` all values are zeros.
        size: How many processes there would be.
        network: What would connect them.
        device: Runs the steps, whose time is measured; None is the default one.
        record: Of a device (`zyx.device_info`), which need not be here: nothing is computed then, and times of kernels
            are estimates. What is there of the program's tensors takes memory of nobody.
        rank: Which of the processes runs here.

    Raises:
        InvalidArgumentError: Numbers of processes below 1, no such rank, or both a device and a record.
        NoDeviceError: There is no such device.
        TraceError: A function is being traced here.

    >>> from zyx.distributed import Link, Network
    >>> def train():
    ...     x = zyx.ones(1 << 20)
    ...     return lambda: zyx.distributed.all_reduce(x).numpy()
    >>> link = Link(1e-6, 1e9)
    >>> found = zyx.distributed.simulate(train, 8, Network(link, link, per_host=8), record=zyx.device_info())
    >>> [(each.kind, each.bytes, f"{each.seconds:.4f}") for each in found.exchanges]
    [('all_reduce', 4194304, '0.0073')]
    """
    count, own = as_index(size, "size"), as_index(rank, "rank")
    if count < 1 or not 0 <= own < count:
        raise InvalidArgumentError(f"simulate: there is no rank {own} of {count} processes")
    if device is not None and record is not None:
        raise InvalidArgumentError("simulate: steps are measured on a device, or estimated from a record, not both")
    if current().tracing is not None:
        raise TraceError("simulate: it cannot be part of a traced function; call it outside")
    recorder = _Recorder()
    engine = SimulatedEngine(range(count), own, recorder) if count > 1 else None
    with nullcontext(current()) if record is None else _posing(record) as runtime:
        name = runtime.device_name("dummy:0" if record is not None else device)
        with as_rank(Rank()), in_group(Group(own, count, engine)), runtime.default(name):
            take_generator()
            return _simulated(program, runtime, recorder, network, count, record)


def _simulated(
    program: Callable[[], Any],
    runtime: Runtime,
    recorder: _Recorder,
    network: Network,
    size: int,
    record: DeviceInfo | None,
) -> Simulation:
    pool = runtime.device(runtime.default_device).memory_pool
    gc.collect()  # what is left in cycles is no part of what is there before
    before = runtime.memory.live_by_pool().get(pool, 0)
    with _RECORDING, runtime.profiled(recorder):
        made = program()
        step, named = made if isinstance(made, tuple) else (made, {})
        for _ in range(_WARM):
            step()
            runtime.synchronize()
        gc.collect()
        held = runtime.memory.live_by_pool().get(pool, 0)
        with recorder.noting(pool, held):
            step()
            runtime.synchronize()
    compute_s = _measured_s(step, runtime, recorder) if record is None else _estimated_s(recorder, network, record)
    exchanges = []
    meeting_s = 0.0
    for kind, nbytes, ranks in recorder.operations:
        seconds = network.seconds(kind, nbytes, ranks)
        if kind == "agree":
            meeting_s += seconds
        else:
            exchanges.append(Exchanged(kind, nbytes, ranks, seconds + meeting_s))
            meeting_s = 0.0
    parts = {name: _bytes_of(what) for name, what in named.items()}
    return Simulation(
        size,
        compute_s,
        record is None,
        tuple(exchanges),
        len(recorder.launched),
        parts,
        held - before,
        recorder.peak_bytes - before,
    )


def _measured_s(step: Callable[[], object], runtime: Runtime, recorder: _Recorder) -> float:
    """Return the median of calls, without what the simulated operations took here."""
    times = []
    for number in range(1 + _TIMED):  # the first one without a profile may plan anew
        recorder.spent_s = 0.0
        started = time.perf_counter()
        step()
        runtime.synchronize()
        if number:
            times.append(time.perf_counter() - started - recorder.spent_s)
    return statistics.median(times)


def _estimated_s(recorder: _Recorder, network: Network, record: DeviceInfo) -> float:
    """Return what the kernels of a step take by the model of cost, one after the other, with the copies of the host.

    What has no estimate, such as a library's kernel, takes what its bytes or its operations take at the device's rates.
    """
    rows = recorder.launched_programs()
    seconds = recorder.copied_bytes / network.copy_bytes_per_s
    for launched in recorder.launched:
        row = rows[launched.program]
        least = max(row.bytes / record.bytes_per_s, row.flops / record.flops_per_s)
        seconds += least if row.expected_s is None else row.expected_s
    return seconds


def _bytes_of(what: Any) -> int:  # noqa: ANN401  # tensors, modules and optimisers in any structure
    leaves = tree.leaves(what)
    states = (leaf.state_dict() for leaf in leaves if hasattr(leaf, "state_dict"))
    return sum(leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor)) + sum(map(_bytes_of, states))


@contextmanager
def _posing(record: DeviceInfo) -> Iterator[Runtime]:
    """Make a runtime the current one, whose device computes nothing and has the record of another."""
    runtime = Runtime({"backends": {"dummy": {"enabled": True}}})
    try:
        device = runtime.device("dummy:0")
        assert isinstance(device, DummyDevice)
        device.pose_as(record)
        with use(runtime):
            yield runtime
    finally:
        runtime.close()


class _Recorder(Profile):
    """Knows what programs were made from, and notes one step.

    Attributes:
        operations: Kind, bytes and ranks of what is exchanged.
        launched: The launches.
        copied_bytes: What the host copies for operations, to it and back.
        peak_bytes: The most that tensors held of the pool.
        spent_s: What simulated operations took.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_noting = False
        self._rank = threading.get_ident()
        self.operations: list[tuple[str, int, tuple[int, ...]]] = []
        self.launched: list[LaunchStep] = []
        self.copied_bytes = self.peak_bytes = 0
        self.spent_s = 0.0
        self._pool: MemoryPool | None = None

    @contextmanager
    def noting(self, pool: MemoryPool, live_bytes: int) -> Iterator[None]:
        """Note what this thread does in a ``with`` block, of a pool of which tensors hold so much."""
        self._is_noting, self._pool, self.peak_bytes = True, pool, live_bytes
        try:
            yield
        finally:
            self._is_noting = False

    @property
    def is_noting(self) -> bool:
        """Whether that step is under way, in this thread."""
        return self._is_noting and threading.get_ident() == self._rank

    def launch(self, step: LaunchStep, args: Sequence[Argument], events: Sequence[Event]) -> Event:
        if self.is_noting:
            self.launched.append(step)
        return super().launch(step, args, events)

    def called(self, step: HostStep, seconds: float, buffers: Sequence[Any]) -> None:
        if self.is_noting:
            self.copied_bytes += step.bytes_moved
        super().called(step, seconds, buffers)

    def held(self, pool: MemoryPool, raw: PoolBuffer, live_bytes: int) -> None:
        if self.is_noting and pool is self._pool:
            self.peak_bytes = max(self.peak_bytes, live_bytes)
        super().held(pool, raw, live_bytes)


class SimulatedEngine(Engine):
    """One process of a group of which there is no other, each of which is taken to have the same arrays.

    Args:
        names: The numbers of its processes among all.
        rank: Which of them this is.
        recorder: Is told of operations.
    """

    name = "nobody"
    connects_devices = False

    def __init__(self, names: Sequence[int], rank: int, recorder: _Recorder) -> None:
        self.rank, self.size = rank, len(names)
        self._names, self._recorder = tuple(names), recorder

    @contextmanager
    def _noted(self, kind: str, nbytes: int) -> Iterator[None]:
        recorder = self._recorder
        if recorder.is_noting:
            recorder.operations.append((kind, nbytes, self._names))
        started = time.perf_counter()
        yield
        recorder.spent_s += time.perf_counter() - started

    def agree(self, call: str) -> None:
        with self._noted("agree", 0):
            pass  # the others call the same

    def _reduced(self, op: ReduceOp, array: Array) -> Array:
        match op:
            case ReduceOp.SUM:
                return np.multiply(array, self.size, dtype=array.dtype)
            case ReduceOp.PROD:
                return np.power(array, self.size, dtype=array.dtype)
            case _:
                return np.array(array)

    def all_reduce(self, op: ReduceOp, array: Array) -> Array:
        with self._noted("all_reduce", array.nbytes), np.errstate(all="ignore"):
            return self._reduced(op, array)

    def reduce(self, op: ReduceOp, array: Array, root: int) -> Array:
        with self._noted("reduce", array.nbytes), np.errstate(all="ignore"):
            return self._reduced(op, array) if root == self.rank else np.zeros_like(array)

    def reduce_scatter(self, op: ReduceOp, array: Array) -> Array:
        with self._noted("reduce_scatter", array.nbytes), np.errstate(all="ignore"):
            return self._reduced(op, array[self.rank])

    def all_gather(self, array: Array) -> Array:
        with self._noted("all_gather", self.size * array.nbytes):
            return np.repeat(array[None], self.size, 0)

    def broadcast(self, root: int, array: Array) -> Array:
        with self._noted("broadcast", array.nbytes):
            return np.array(array)

    def all_to_all(self, array: Array) -> Array:
        with self._noted("all_to_all", array.nbytes):
            return np.repeat(array[self.rank][None], self.size, 0)

    def send(self, array: Array, to: int) -> None:
        with self._noted("send", array.nbytes):
            pass  # nobody is there to take it

    def receive(self, like: Array, source: int) -> Array:
        with self._noted("receive", like.nbytes):
            return np.zeros_like(like)

    def split(self, ranks: Sequence[int]) -> SimulatedEngine:
        return SimulatedEngine([self._names[rank] for rank in ranks], list(ranks).index(self.rank), self._recorder)

    def end(self, status: int) -> None:
        raise SystemExit(status)
