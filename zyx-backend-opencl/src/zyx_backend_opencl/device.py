"""One OpenCL device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_opencl.work`."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

from zyx.backend import Device
from zyx.backend.limits import check_limits
from zyx.errors import CompileError, LaunchError, UnsupportedError
from zyx_backend_opencl.driver import BuildError, Fault
from zyx_backend_opencl.errors import failure
from zyx_backend_opencl.program import ClProgram, parameters_of
from zyx_backend_opencl.render import SYMBOL, render
from zyx_backend_opencl.sequence import ClSequence
from zyx_backend_opencl.work import ClEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.backend.cache import ProgramCache
    from zyx.ir.kernel import Kernel
    from zyx.render.dialect import Dialect
    from zyx_backend_opencl.driver import Built, CommandBuffers
    from zyx_backend_opencl.driver import Kernel as NativeKernel
    from zyx_backend_opencl.memory import ClPool

logger: Final = logging.getLogger("zyx.opencl")


class ClDevice(Device):
    """A device of an OpenCL platform.

    Args:
        name: Such as ``opencl:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        dialect: The language of its kernels.
        options: Of its compiler.
        cache: Keeps programs between runs; None if nothing is to be kept.
        recorder: Records command buffers; None if there are none.
    """

    def __init__(
        self,
        name: str,
        pool: ClPool,
        info: DeviceInfo,
        dialect: Dialect,
        options: str,
        cache: ProgramCache | None,
        recorder: CommandBuffers | None,
    ) -> None:
        super().__init__(name, pool)
        self.pool: Final = pool
        self._info = info
        self._dialect = dialect
        self._options = options
        self._cache = cache
        self._recorder = recorder
        self._is_open = True

    @property
    def info(self) -> DeviceInfo:
        return self._info

    @property
    def free_compute(self) -> float:
        """FLOP/s that are left: shared out between the commands in flight and one more."""
        return self._info.flops_per_s / (1 + self.pool.work.count)

    # ---- programs

    def compile(self, kernel: Kernel) -> ClProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        check_limits(kernel, self._info)
        source = render(kernel, self._dialect)
        what = f"kernel {kernel.name} on {self.name}"
        try:
            built = self._load(source, what) or self._build(source, what)
            function = self.pool.session.kernel(built, SYMBOL)
            self._check_group(kernel, function)
        except Fault as error:
            raise failure(what, error.code, CompileError) from error
        groups, local = (tuple((*sizes, 1, 1, 1)[:3]) for sizes in kernel.grid)
        threads = tuple(count * size for count, size in zip(groups, local, strict=True))
        grid = threads, local
        return ClProgram(kernel.name, source, self.name, self.pool, built, function, grid, parameters_of(kernel))

    def _load(self, source: str, what: str) -> Built | None:
        """Return the program of `source` from the cache, or None."""
        binary = None if self._cache is None else self._cache.get(self._key(source))
        if binary is None:
            return None
        try:
            return self.pool.session.load(binary, self._options)
        except Fault as error:  # of another build of the driver with the same version; made again, and kept
            logger.info("%s: the driver does not take what the cache has of it: %s", what, error)
            return None

    def _build(self, source: str, what: str) -> Built:
        session = self.pool.session
        try:
            built = session.build(source, self._options)
        except BuildError as error:
            raise CompileError(f"{what}: the OpenCL compiler refused it, {error}\n{source}") from error
        if self._cache is not None:
            self._cache.put(self._key(source), session.binary(built))
        return built

    def _key(self, source: str) -> str:
        text = "\0".join((self._info.model, self._info.driver, self._options, source))
        return hashlib.sha256(text.encode()).hexdigest()

    def _check_group(self, kernel: Kernel, function: NativeKernel) -> None:
        """Raise `UnsupportedError` if the device lacks the room for a group of this kernel, as it was compiled."""
        most, local_bytes = self.pool.session.group_limits(function)
        threads = 1
        for size in kernel.grid[1]:
            threads *= size
        if threads > most:
            raise UnsupportedError(
                f"kernel {kernel.name} has groups of {threads} threads; as it is compiled for {self.name}, "
                f"at most {most} fit"
            )
        there = self.pool.session.device.query("local_mem_size")
        if local_bytes > there:
            raise UnsupportedError(
                f"kernel {kernel.name} takes {local_bytes} bytes of local memory; {self.name} has {there}"
            )

    def release(self, program: Program) -> None:
        """Free `program`; captured sequences that contain it go on."""
        self._own(program).release()

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        behind = self.pool.take(events)
        last = self._own(program).run(args, behind)
        return ClEvent(self.pool.work, behind if last is None else (last,))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock: its profiling events."""
        own = self._own(program)
        self.pool.work.finish()
        return own.timed(args)

    def capture(self, launches: Sequence[Launch], slots: int) -> ClSequence:
        """Return a program of `launches`, queued together, or played as a command buffer."""
        for launch in launches:
            if not isinstance(self._own(launch.program), ClProgram):
                raise LaunchError(f"{launch.program.name} is a captured sequence, and cannot be part of another")
        return ClSequence(launches, slots, self.pool, self.name, SYMBOL, self._recorder)

    def close(self) -> None:
        """Wait for all work. The session goes with the pool."""
        if self._is_open:
            self._is_open = False
            self.pool.session.close()

    def _own(self, program: Program) -> ClProgram | ClSequence:
        """Return `program`, checked."""
        if not isinstance(program, ClProgram | ClSequence) or program.pool is not self.pool:
            raise LaunchError(f"{program.name} is a program of another device than {self.name}")
        if program.is_released:
            raise LaunchError(f"{program.name} was released before, on {self.name}")
        if not self._is_open:
            raise LaunchError(f"{program.name} was launched on {self.name}, which is closed")
        return program
