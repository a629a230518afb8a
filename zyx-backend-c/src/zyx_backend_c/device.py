"""The CPU as a device: compiles kernels by a toolchain, and runs them on the worker pool.

A launch returns when its work is done, so every event of this device is complete when it is made.

Handlers of signals may launch, too. Python runs them in the main thread between any two of its steps, so also in the
middle of a launch, when arguments are half written: see `CpuDevice.launch`. Small programs have no such arguments: see
`zyx_backend_c.entry`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx.backend import Device, Slot
from zyx.errors import LaunchError
from zyx_backend_c.pieces import LONG_NS, run_in_pieces
from zyx_backend_c.program import CpuProgram, Enters, Parameter, Rendered, Step, check_buffer, encoder
from zyx_backend_c.toolchain import SYMBOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, MemoryPool, PoolBuffer, Program
    from zyx.backend.rates import Rates
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel
    from zyx_backend_c.toolchain import Toolchain
    from zyx_backend_c.workers import WorkerPool

#: Nanoseconds, for estimates: of a vector instruction (two or three run in a cycle if their operands are near), and of
#: a byte moved from or to the last level of cache or memory.
NS_PER_INSTRUCTION: Final = 0.2
NS_PER_BYTE: Final = 0.015

#: Nanoseconds; longer estimates are all the same, and sums of them must fit 64 bits.
_LONG_NS: Final = 1e15


class CpuDevice(Device):
    """The processor of this machine.

    Args:
        pool: The pool of host memory.
        toolchain: What compiles kernels.
        workers: Threads, shared by all devices of the process; closed with the last of them.
    """

    takes_fronts = True
    takes_loop_ends = True
    rendered_type = Rendered

    def __init__(
        self, name: str, pool: MemoryPool, info: DeviceInfo, toolchain: Toolchain, workers: WorkerPool
    ) -> None:
        super().__init__(name, pool)
        self.toolchain = toolchain
        self.workers = workers
        self._info = info
        self._is_open = True
        workers.users += 1

    @property
    def info(self) -> DeviceInfo:
        """What the processor is and can do."""
        return self._info

    @property
    def dialect(self) -> str:
        """The toolchain's version, which has the processor and its features."""
        return self.toolchain.version

    def take_rates(self, rates: Rates) -> None:
        """Have `info` say what was measured of the processor."""
        self._info = self._info.with_rates(rates)

    def compile(self, kernel: Kernel) -> CpuProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return LLVM IR or C."""
        return self.toolchain.render(kernel)

    def build(self, rendered: Rendered) -> CpuProgram:
        """Return the program of a text, from the cache if it is there."""
        code = self.toolchain.build(rendered.name, rendered.text)
        workers = self.workers
        # Not waiting: the handler of a signal may want this program in the middle of a launch, which has the lock.
        # What is not reserved now is at the launch.
        if rendered.scratch_bytes and workers.lock.acquire(blocking=False):
            try:
                workers.reserve_scratch(rendered.scratch_bytes)
            finally:
                workers.lock.release()
        cost_ns = int(min(max(rendered.work * NS_PER_INSTRUCTION, rendered.traffic * NS_PER_BYTE), _LONG_NS))
        step = Step(
            code,
            code.addresses[SYMBOL],
            (0,) * len(rendered.parameters),
            rendered.groups,
            workers.chunk(rendered.groups, cost_ns),
            cost_ns,
        )
        text, toolchain = rendered.text, self.toolchain
        is_small = cost_ns < workers.least_shared_ns and not rendered.scratch_bytes
        return CpuProgram(
            rendered.name,
            text,
            [step],
            rendered.parameters,
            rendered.scratch_bytes,
            lambda: toolchain.assembly(text),
            enters=Enters(workers.entries, workers.address, self.memory_pool) if is_small and workers.entries else None,
        )

    def entry(self, program: Program) -> Callable[..., bool] | None:
        """Return what runs a small program on the calling thread, see `zyx_backend_c.entry`."""
        own = self._own(program)
        return None if own.takes_numbers else own.entry

    def release(self, program: Program) -> None:
        """Free `program`; captured sequences that contain it keep its code."""
        self._own(program).is_released = True

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        """Run `program` on `args` and return when it is done.

        Raises:
            LaunchError: The arguments do not fit.
            AllocationError: There is no room for the scratch memory of the threads.
            InvalidEventError: An event is of another pool, or was used before.

        What handlers of signals raise comes through, such as KeyboardInterrupt. Then nothing was run, all of it, or, if
        the program takes long and does not write over what it reads, a part of it.
        """
        if events:
            self.memory_pool.sync_events(events)
        if type(program) is not CpuProgram or program.is_released or not self._is_open:
            program = self._own(program)
        workers = self.workers
        if program.enter(args):
            return self.memory_pool.completed()
        with workers.lock:
            if workers.is_launching:
                self._launch_within(program, args)
                return self.memory_pool.completed()
            workers.is_launching = True
            try:
                program.bind(args, self.memory_pool)
                self._run(program)
            finally:
                workers.is_launching = False
        return self.memory_pool.completed()

    def _launch_within(self, program: CpuProgram, args: Sequence[Argument]) -> None:
        """Launch from the handler of a signal that came during a launch: that one must find its arguments again."""
        before = program.arguments()
        try:
            program.bind(args, self.memory_pool)
            self._run(program)
        finally:
            program.restore(before)

    def _run(self, program: CpuProgram) -> None:
        """Run a program whose arguments are bound, once there is all that it takes."""
        workers = self.workers
        if program.scratch_bytes > workers.scratch_bytes:
            workers.reserve_scratch(program.scratch_bytes)
        if not workers.is_started and program.cost_ns >= workers.least_shared_ns:
            workers.start()
        if program.cost_ns < LONG_NS or program.overwrites:
            workers.run(workers.address, program.address)
        else:
            run_in_pieces(workers, program)

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` and return how many seconds it took."""
        start = time.perf_counter_ns()
        self.launch(program, args)
        return (time.perf_counter_ns() - start) * 1e-9

    def capture(self, launches: Sequence[Launch], slots: int) -> CpuProgram:
        """Return a program of all `launches`, one after the other in one native call."""
        steps: list[Step] = []
        places: list[list[tuple[int, int]]] = [[] for _ in range(slots)]
        least = [0] * slots
        scalars: dict[int, DType | None] = {}  # dtypes of the slots that are known, None for buffers
        needed: set[object] = set()  # slots and addresses whose values from before the launch are read
        written: set[object] = set()
        names = []
        scratch_bytes = 0
        for launch in launches:
            program = self._own(launch.program)
            names.append(program.name)
            scratch_bytes = max(scratch_bytes, program.scratch_bytes)
            if len(launch.args) != len(program.parameters):
                raise LaunchError(
                    f"{program.name} was given {len(launch.args)} arguments; it takes {len(program.parameters)}"
                )
            first = len(steps)
            filled = [list(step.args) for step in program.steps]
            writes: list[object] = []
            for number, (arg, parameter) in enumerate(zip(launch.args, program.parameters, strict=True)):
                what = f"argument {number} of {program.name}"
                if isinstance(arg, Slot):
                    if not 0 <= arg.number < slots:
                        raise LaunchError(f"{what} is slot {arg.number}; there are {slots} slots")
                    kind = scalars.setdefault(arg.number, parameter.scalar)
                    if kind is not parameter.scalar:
                        kinds = " and ".join(
                            "buffers" if one is None else f"{one}s" for one in (kind, parameter.scalar)
                        )
                        raise LaunchError(f"{what} is slot {arg.number}, which cannot stand for {kinds}")
                    places[arg.number] += [(first + step, slot) for step, slot in parameter.places]
                    least[arg.number] = max(least[arg.number], parameter.nbytes)
                    array: object = arg
                else:
                    array = word = self._word(arg, parameter, what)
                    for step, slot in parameter.places:
                        filled[step][slot] = word
                if parameter.is_needed and array not in written:
                    needed.add(array)
                if parameter.is_written:
                    writes.append(array)
            written.update(writes)
            steps += [
                Step(step.code, step.function, tuple(args), step.groups, step.chunk, step.cost_ns)
                for step, args in zip(program.steps, filled, strict=True)
            ]
        parameters = [
            Parameter(tuple(where), nbytes, scalars.get(number), Slot(number) in needed, Slot(number) in written)
            for number, (where, nbytes) in enumerate(zip(places, least, strict=True))
        ]
        name = f"{len(steps)} steps: {', '.join(names)}"
        fixed = any(array in written and not isinstance(array, Slot) for array in needed)
        return CpuProgram(name, "", steps, parameters, scratch_bytes, overwrites_fixed=fixed)

    def close(self) -> None:
        """Stop the workers if no other device uses them."""
        if not self._is_open:
            return
        self._is_open = False
        self.workers.users -= 1
        if not self.workers.users:
            with self.workers.lock:
                self.workers.close()

    def _word(self, arg: Argument, parameter: Parameter, what: str) -> int:
        if parameter.scalar is not None:
            if not isinstance(arg, (bool, int, float)):
                raise LaunchError(f"{what} is {arg!r}, not a number")
            return encoder(parameter.scalar)(arg)
        check_buffer(arg, parameter.nbytes, self.memory_pool, what)
        buffer: PoolBuffer = arg  # type: ignore[assignment]  # just checked
        address: int = buffer.extent[0]  # type: ignore[attr-defined]  # a buffer of the host pool has an extent
        return address

    def _own(self, program: Program) -> CpuProgram:
        """Return `program`, checked."""
        if not self._is_open:
            raise LaunchError(f"{program.name} was launched on {self.name}, which is closed")
        if not isinstance(program, CpuProgram):
            raise LaunchError(f"{program.name} is a program of another device than {self.name}")
        if program.is_released:
            raise LaunchError(f"{program.name} was released before, on {self.name}")
        return program
