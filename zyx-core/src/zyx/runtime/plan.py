"""What is done to compute a graph: a list of launches, copies and calls of the host over numbered buffers.

    buffers 0 .. inputs-1               given: the graph's leaves; some may be numbers, which are given by value
    then outputs                        asked for, allocated for every run
    then temporaries                    shared by values whose lifetimes do not overlap

A plan holds no buffers. It is made once for a structure of graph and run with any leaves of that structure.
"""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from zyx.backend import Launch as SequenceLaunch
from zyx.backend import Slot, SupportsCapture, SupportsEntry, SupportsQueue
from zyx.errors import AllocationError, BackendError, DeviceLostError, locate
from zyx.graph.lines import in_lines
from zyx.modes import shown
from zyx.runtime.buffer import Buffer, Pending, abandon, drain, settle, take_events
from zyx.runtime.copying import copy_buffer
from zyx.runtime.host_step import HostStep
from zyx.runtime.steps import CopyStep, LaunchStep, Step
from zyx.runtime.trace import SINGLE, TIMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from zyx.backend import Device, Event, MemoryPool, PoolBuffer, Program, Queue
    from zyx.dtype import Scalar
    from zyx.runtime.buffer import Allocator
    from zyx.runtime.trace import Trace


@dataclass(frozen=True, slots=True)
class Slice:
    """Where a buffer is allocated, and how large it is."""

    pool: MemoryPool
    nbytes: int


@dataclass(slots=True, eq=False, weakref_slot=True)
class Plan:
    """A plan; see the module.

    Attributes:
        inputs: Number of leaves.
        outputs: One for each output that is computed.
        results: For each node asked for, the number of the buffer that holds it.
        temporaries: Memory for what is neither.
        steps: In order.
        placed: For each group of devices that nodes belong to, the one that it runs on.
    """

    inputs: int
    outputs: tuple[Slice, ...]
    results: tuple[int, ...]
    temporaries: tuple[Slice, ...]
    steps: tuple[Step, ...]
    placed: Mapping[str, Device] = field(default_factory=dict)
    _runs: int = 0
    #: All steps as one launch: the only one there is, or that of a program which a device made of them.
    _whole: LaunchStep | None = None
    _is_refused: bool = False
    _singles: list[weakref.ref[Single]] = field(default_factory=list)
    #: Whether launches stand for calls, which are announced before.
    _announces: bool = False

    def __post_init__(self) -> None:
        self._announces = any(isinstance(step, LaunchStep) and step.call is not None for step in self.steps)

    @property
    def launches(self) -> int:
        """Number of kernels that one run launches."""
        return sum(isinstance(step, LaunchStep) for step in self.steps)

    @property
    def copies(self) -> int:
        """Number of buffers that one run copies to another pool."""
        return sum(isinstance(step, CopyStep) for step in self.steps)

    @property
    def calls(self) -> int:
        """Number of functions of the host that one run calls."""
        return sum(isinstance(step, HostStep) for step in self.steps)

    @property
    def devices(self) -> set[Device]:
        """The devices that launch something."""
        return {step.device for step in self.steps if isinstance(step, LaunchStep)}

    def allocate(self, memory: Allocator, slices: Sequence[Slice]) -> list[Buffer]:
        """Return new buffers for outputs or temporaries.

        Raises:
            AllocationError: No room; the text has the buffer's size, and what the plan needs in each pool.
        """
        buffers: list[Buffer] = []
        try:
            for slice_ in slices:  # not in brackets, which would be a call more
                buffers.append(memory.allocate(slice_.pool, slice_.nbytes))
        except AllocationError as error:
            raise self._no_room(error) from error
        return buffers

    def _no_room(self, error: AllocationError) -> AllocationError:
        lines = dict.fromkeys(line for step in self.steps if not isinstance(step, CopyStep) for line in step.lines)
        return AllocationError(f"{error}; {self._needs()}{in_lines(tuple(lines))}")

    def _needs(self) -> str:
        """Say what one run needs."""
        devices = self.devices
        needs: list[str] = []
        for pool in dict.fromkeys(slice_.pool for slice_ in (*self.outputs, *self.temporaries)):
            results, between = (
                sum(slice_.nbytes for slice_ in slices if slice_.pool is pool)
                for slices in (self.outputs, self.temporaries)
            )
            names = ", ".join(sorted(device.name for device in devices if device.memory_pool is pool))
            needs.append(f"{results} bytes for results and {between} for what is between, on {names or pool.name}")
        return f"in all, {' and '.join(needs)}"

    def sized(self, nbytes: Iterable[tuple[int, int]]) -> list[Slice]:
        """Return the outputs with new sizes, which are given by numbers of buffers; inputs keep theirs."""
        outputs = [*self.outputs]
        for number, size in nbytes:
            if number >= self.inputs:
                outputs[number - self.inputs] = Slice(outputs[number - self.inputs].pool, size)
        return outputs

    def run(
        self,
        leaves: Sequence[Buffer | Scalar],
        memory: Allocator,
        trace: Trace,
        outputs: Sequence[Slice] | None = None,
    ) -> list[Buffer]:
        """Queue the plan on the buffers of the leaves, or what they are given as, and return those of `results`.

        Args:
            leaves: They.
            memory: Where buffers come from.
            trace: Is told of launches.
            outputs: Its outputs, with other sizes; see `sized`.

        Raises:
            BackendError: A step was refused. What was queued before it runs; nothing that it computes is kept.
            LinAlgError: The host found no result, likewise.
        """
        buffers = [*leaves, *self.allocate(memory, self.outputs if outputs is None else outputs)]
        if self.temporaries:
            buffers += self.allocate(memory, self.temporaries)
        self.queue(buffers, trace)
        return [buffers[number] for number in self.results]  # type: ignore[misc]  # none of them is a number

    @property
    def is_single(self) -> bool:
        """Whether it is one launch, which computes one buffer and needs no other; then there is `Single`."""
        return len(self.steps) == len(self.outputs) == len(self.results) == 1 and (
            isinstance(self.steps[0], LaunchStep)
            and not self.temporaries
            and self.results[0] == self.inputs
            and not self._announces
        )

    def run_single(self, buffers: list[Buffer | Scalar], memory: Allocator, trace: Trace) -> Buffer:
        """Run a plan of one launch with one output (`is_single`): what most eager operations are."""
        (step,), (output,) = self.steps, self.outputs
        try:
            result = memory.allocate(output.pool, output.nbytes)
        except AllocationError as error:
            raise self._no_room(error) from error
        buffers.append(result)
        scoped = shown()
        is_shown = (trace.configured if scoped is None else scoped | trace.configured & TIMED) & SINGLE
        _launch(step, buffers, trace if is_shown else None)  # type: ignore[arg-type]  # it is a launch
        return result

    @property
    def waits(self) -> bool:
        """Whether one run waits for others while the runtime's lock is free."""
        return self._announces or any(isinstance(step, HostStep) and step.waits for step in self.steps)

    def written_before_waiting(self) -> set[int]:
        """Return the numbers of the buffers that are written to before the last step that waits, or by it.

        For calls that launches stand for, a plan waits where these are announced: before all that is launched together.
        """
        written: set[int] = set()
        found: set[int] = set()
        announced: set[int] = set()  # what was written when launches were announced last
        for step in self.steps:
            match step:
                case LaunchStep():
                    if step.call is not None:
                        found = found | announced
                    written.update(step.written)
                case CopyStep():
                    written.add(step.target)
                case HostStep():
                    written.update(place.buffer for place in step.writes)
                    if step.waits:
                        found = set(written)
                    announced = set(written)
        return found

    def queue(
        self,
        buffers: Sequence[Buffer | Scalar],
        trace: Trace,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Queue the steps on the buffers of a run. From the second run on, a device that can captures them as one.

        Args:
            buffers: They.
            trace: Is told of launches.
            around: Makes what is entered for the length of each step that waits while the runtime's lock is free; it
                may put others in the place of `buffers`.

        Raises:
            BackendError: A step was refused. What was queued before it runs.
            CollectiveError: Other processes do not come to the same steps; likewise.
        """
        if self._announces:
            with around():
                self._announce(0)
        scoped = shown()
        if not (trace.configured if scoped is None else scoped | trace.configured & TIMED) & SINGLE:  # without a call
            if self._whole is None:
                self._runs += 1
                if self._runs == 2:
                    self.capture(trace)
            if self._whole is not None:
                _launch(self._whole, buffers)
                return
        for number in range(len(self.steps)):
            step = self.steps[number]  # which may be launched by another program since the last one has waited
            if isinstance(step, CopyStep):
                source, target = buffers[step.source], buffers[step.target]
                assert isinstance(source, Buffer) and isinstance(target, Buffer)
                started = trace.before_launch()
                copy_buffer(source, target)
                if trace.waits:
                    target.wait()
                    trace.copied(source.pool.name, target.pool.name, target.nbytes, started)
            elif isinstance(step, HostStep):
                with around() if step.waits else nullcontext():
                    step.run(buffers, trace)
                if self._announces:
                    with around():
                        self._announce(number + 1)
            else:
                _launch(step, buffers, trace)

    def _announce(self, start: int) -> None:
        """Announce the calls that launches stand for, from step `start` on, up to the next call of the host.

        So they come in the order of the plan, and before any of what is launched together.
        """
        for step in self.steps[start:]:
            if isinstance(step, HostStep):
                return
            if isinstance(step, LaunchStep) and step.call is not None and step.call.on_device is not None:
                with nullcontext() if step.call.around is None else step.call.around():
                    step.call.on_device.announce()

    def capture(self, trace: Trace) -> bool:
        """Turn the steps into one program, if they are launches on one device that can; return whether it is done.

        A device that refuses is not asked again, and the steps are launched one by one.

        Raises:
            DeviceLostError: The device does not answer.
        """
        if self._whole is not None or self._is_refused:
            return self._whole is not None
        if len(self.steps) == 1 and isinstance(self.steps[0], LaunchStep):
            self._whole = self.steps[0]
            return True
        devices = self.devices
        if len(devices) != 1 or not all(isinstance(step, LaunchStep) for step in self.steps):
            return False
        (device,) = devices
        if not isinstance(device, SupportsCapture):
            return False
        launches = [step for step in self.steps if isinstance(step, LaunchStep)]
        buffers = tuple(sorted({number for step in launches for number in step.args}))
        given = tuple(sorted({number for step in launches for number in step.given}))
        slot = {number: Slot(position) for position, number in enumerate((*buffers, *given))}
        sequence = [
            SequenceLaunch(step.program, (*(slot[number] for number in (*step.args, *step.given)), *step.starts))
            for step in launches
        ]
        written = tuple({number for step in launches for number in step.written})
        moved = sum(step.bytes_moved for step in launches)
        try:
            program = device.capture(sequence, len(slot))
        except DeviceLostError as error:
            locate(error, device.name)
            raise
        except Exception as error:  # noqa: BLE001  # code of a backend, which is asked for speed only
            self._is_refused = True
            trace.not_captured(device, len(launches), error)
            return False
        self._whole = LaunchStep(device, program, buffers, moved, written, given)
        return True

    def take_over(self, programs: Mapping[Program, tuple[Program, Sequence[int]]]) -> None:
        """Launch other programs in place of some: each with the places of its arguments among those of the one before.

        What was captured is captured anew.
        """
        steps = list(self.steps)
        for number, step in enumerate(steps):
            if isinstance(step, LaunchStep) and step.program in programs:
                program, order = programs[step.program]
                buffers = tuple(step.args[place] for place in order if place < len(step.args))
                steps[number] = replace(step, program=program, args=buffers)
        if steps != list(self.steps):
            self.close()
            self.steps = tuple(steps)
            self._runs, self._is_refused = min(self._runs, 1), False
            for known in self._singles:
                if (single := known()) is not None:
                    single.enter()

    def close(self) -> None:
        """Release what was captured."""
        whole, self._whole = self._whole, None
        if whole is not None and whole is not self.steps[0]:
            whole.device.release(whole.program)


class Single:
    """A plan that `is_single`, and a short way to run it: such are most that compute a tensor by itself.

    Attributes:
        plan: The plan.
    """

    __slots__ = ("__weakref__", "_arrange", "_device", "_enter", "_nbytes", "_pool", "_put", "_queue", "plan")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        plan._singles = [known for known in plan._singles if known() is not None]
        plan._singles.append(weakref.ref(self))
        self.enter()

    def enter(self) -> None:
        """Look for the short way into the program that the plan launches."""
        plan = self.plan
        (step,), (output,) = plan.steps, plan.outputs
        assert isinstance(step, LaunchStep)
        self._pool, self._nbytes = output.pool, output.nbytes
        self._enter: Callable[..., bool] | None = None
        self._arrange = itemgetter(*step.args)
        takes_all = len(step.args) == plan.inputs + 1 and not step.starts  # so that no input is a number
        self._device = step.device.name
        self._put: Callable[..., bool] | None = None
        self._queue: Queue | None = None
        if len(step.args) > 1 and takes_all:
            if isinstance(step.device, SupportsEntry):
                self._enter = step.device.entry(step.program)
            elif isinstance(step.device, SupportsQueue) and (found := step.device.queue_of(step.program)) is not None:
                self._put, self._queue = found

    def run(self, buffers: list[Buffer | Scalar], memory: Allocator, trace: Trace) -> Buffer:
        """Queue the plan on the buffers of the leaves, or what they are given as; put that of the result behind them.

        Raises:
            BackendError: It was refused.
        """
        enter = self._enter
        scoped = shown()
        if (trace.configured if scoped is None else scoped | trace.configured & TIMED) & SINGLE:
            return self.plan.run_single(buffers, memory, trace)
        if self._put is not None:
            return self._queued(buffers, memory) or self.plan.run_single(buffers, memory, trace)
        if enter is not None:
            raw: list[PoolBuffer | None] = []
            for buffer in buffers:
                if buffer.pending is not None:  # type: ignore[union-attr]  # no entry is given numbers
                    break
                raw.append(buffer.raw)  # type: ignore[union-attr]
            else:
                try:
                    result = memory.allocate(self._pool, self._nbytes)
                except AllocationError as error:
                    raise self.plan._no_room(error) from error
                raw.append(result.raw)
                if result.pending is None and enter(*self._arrange(raw)):
                    buffers.append(result)
                    return result
        return self.plan.run_single(buffers, memory, trace)

    def _queued(self, buffers: list[Buffer | Scalar], memory: Allocator) -> Buffer | None:
        """Queue the plan behind work that is all in one queue; None if something does not fit, and nothing was queued.

        What was queued on the buffers before is done when this is, so that no event is taken from anything; and work
        of one segment of the queue has one event.
        """
        queue = self._queue
        assert queue is not None  # this is called where there is one
        tail: Pending | None = queue.tail  # type: ignore[assignment]  # nothing else is put there
        raw: list[PoolBuffer | None] = []
        for buffer in buffers:
            pending = buffer.pending  # type: ignore[union-attr]  # none of them is a number
            if (
                pending is not None
                and pending is not tail
                and ((event := pending.event) is None or event.queue is not queue)
            ):
                return None
            raw.append(buffer.raw)  # type: ignore[union-attr]
        try:
            result = memory.allocate(self._pool, self._nbytes)
        except AllocationError as error:
            raise self.plan._no_room(error) from error
        pending = result.pending
        if (
            pending is not None
            and pending is not tail
            and ((event := pending.event) is None or event.queue is not queue)
        ):
            return None
        raw.append(result.raw)
        try:
            if not self._put(*self._arrange(raw)):  # type: ignore[misc]  # whoever calls this has looked
                return None
            event = None if tail is None else tail.event
            if event is None or event.segment is not queue.segment:
                tail = queue.tail = Pending(queue.event(), self._pool)
        except BackendError as error:
            locate(error, self._device)
            raise
        except BaseException:
            drain(self._pool)
            raise
        result.pending = result.writer = tail
        for buffer in buffers:
            buffer.pending = tail  # type: ignore[union-attr]
        buffers.append(result)
        return result


def _launch(step: LaunchStep, buffers: Sequence[Any], trace: Trace | None = None) -> None:
    """Queue a launch on the buffers of a run, and show it if there is a trace.

    This is done for every tensor of a program that computes each by itself.
    """
    device = step.device
    raw: list[PoolBuffer | Scalar] = []  # but for what is empty, which takes no part in a kernel
    events: Sequence[Event] = ()
    taken: Sequence[Pending] = ()
    is_busy = False
    for number in step.args:
        buffer = buffers[number]
        if buffer.raw is not None:
            raw.append(buffer.raw)
        if buffer.pending is not None:
            is_busy = True
    if step.given:
        raw += [buffers[number] for number in step.given]
    if step.starts:
        raw += step.starts
    if is_busy:
        events, taken = take_events([buffers[number] for number in step.args], device.memory_pool)
    try:
        if trace is None:
            event = device.launch(step.program, raw, events)
        else:
            started = trace.before_launch()
            event = trace.after_launch(step, trace.launch(step, raw, events), started, buffers)
        if is_busy or not event.complete_when_made:  # what is complete may be dropped
            args = [buffers[number] for number in step.args]
            settle(event, device.memory_pool, args, taken, [buffers[number] for number in step.written])
    except BackendError as error:
        locate(error, device.name)
        if step.lines:
            error.add_note(f"{step.program.name}{in_lines(step.lines)}")
        abandon(taken)
        raise
    except BaseException:
        drain(device.memory_pool)
        raise
