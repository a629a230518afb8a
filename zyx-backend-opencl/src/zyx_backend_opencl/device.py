"""One OpenCL device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_opencl.work`."""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING, Final

from zyx.drivers.cached_build import digest, load_or_build
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.limits import check_compiled, check_limits
from zyx.drivers.rendered import Rendered
from zyx.drivers.work_event import WorkEvent
from zyx.errors import CompileError
from zyx_backend_opencl.declarations import WITHOUT_HEADER, declared, reads_header
from zyx_backend_opencl.driver import BuildError, ClError
from zyx_backend_opencl.errors import CODES
from zyx_backend_opencl.program import ClProgram
from zyx_backend_opencl.render import SYMBOL, render
from zyx_backend_opencl.sequence import ClSequence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.drivers.cache import ProgramCache
    from zyx.kernel.data import Kernel
    from zyx.render.dialect import Dialect
    from zyx_backend_opencl.driver import Built, CommandBuffers
    from zyx_backend_opencl.memory import ClPool

#: Programs that are built at once have nothing in common but the context, and the calls let go of Python's lock.
_COMPILING_THREADS: Final = 8


class ClDevice(DriverDevice[ClProgram | ClSequence]):
    """A device of an OpenCL platform.

    Args:
        name: Such as ``opencl:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        dialect: The language of its kernels.
        options: Of its compiler.
        cache: Keeps programs between runs; None if nothing is to be kept.
        recorder: Records command buffers; None if there are none.
        note: Tells people something about the device.
    """

    takes_fronts = True
    takes_loop_ends = True
    rendered_type = Rendered

    def __init__(
        self,
        name: str,
        pool: ClPool,
        info: DeviceInfo,
        dialect: Dialect,
        options: str,
        cache: ProgramCache | None,
        recorder: CommandBuffers | None,
        note: Callable[[str], None],
    ) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool
        takes_threads = pool.session.device.takes_threads
        self.compiles_at_once = min(_COMPILING_THREADS, os.cpu_count() or 1) if takes_threads else 1
        self.dialect: Final = dialect
        self._options = options
        self._cache = cache
        self._recorder = recorder
        self._note = note
        self._declares = reads_header(pool.session.device.platform)
        self._declaring: Final = Lock()  # for who finds that it does not do

    @property
    def in_flight(self) -> int:
        return self.pool.work.count

    # ---- programs

    def compile(self, kernel: Kernel) -> ClProgram:
        """Return the program of `kernel`. May run in several threads while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return OpenCL C."""
        check_limits(kernel, self._info)
        return Rendered.of(kernel, render(kernel, self.dialect))

    def build(self, rendered: Rendered) -> ClProgram:
        """Return the program of a text, from the cache if it is there."""
        name, source = rendered.name, rendered.text
        what = f"kernel {name} on {self.name}"
        session = self.pool.session
        try:
            built = load_or_build(
                self._cache, self._key(source), what, self._loaded, lambda: self._built(source, what), ClError
            )
            function = session.kernel(built, SYMBOL)
            most, local_bytes = session.group_limits(function)
        except ClError as error:
            raise CODES.failure(what, error.code, CompileError) from error
        check_compiled(rendered, self.name, most, local_bytes, session.device.query("local_mem_size"))
        local = rendered.threads
        threads = tuple(count * size for count, size in zip(rendered.groups, local, strict=True))
        return ClProgram(name, source, what, self.pool, rendered.parameters, built, function, (threads, local))

    def _key(self, source: str) -> str:
        options = f"{self._options} {WITHOUT_HEADER}" if self._declares else self._options
        return digest(self._info.model, self._info.driver, options, source)

    def _loaded(self, binary: bytes) -> Built:
        return self.pool.session.load(binary, self._options)

    def _built(self, source: str, what: str) -> tuple[Built, bytes]:
        session = self.pool.session
        try:
            built = self._declared(source) or session.build(source, self._options)
        except BuildError as error:
            raise CompileError(f"{what}: the OpenCL compiler refused it, {error}\n{source}") from error
        return built, b"" if self._cache is None else session.binary(built)

    def _declared(self, source: str) -> Built | None:
        """Return the program of a source that declares what it names; None where that is of no use, or not taken."""
        if not self._declares:
            return None
        session = self.pool.session
        try:
            return session.build(declared(source), f"{self._options} {WITHOUT_HEADER}")
        except BuildError as error:
            built = session.build(source, self._options)  # which fails as well if the kernel is at fault
            with self._declaring:
                is_first, self._declares = self._declares, False
            reason = str(error).splitlines()[-1]
            if is_first:  # others may have begun with it before
                self._note(f"{self.name} builds slowly: its compiler takes no program without its header: {reason}")
            return built

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        behind = self.pool.take(events)
        last = self.own(program).run(args, behind)
        return WorkEvent(self.pool, behind if last is None else (last,))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock: its profiling events."""
        own = self.own(program)
        self.pool.work.finish()
        return own.timed(args)

    def capture(self, launches: Sequence[Launch], slots: int) -> ClSequence:
        """Return a program of `launches`, queued together, or played as a command buffer."""
        self.check_capture(launches)
        return ClSequence(launches, slots, self.pool, self.name, SYMBOL, self._recorder)

    def stop(self) -> None:
        """Wait for all work. The session goes with the pool."""
        self.pool.session.close()
