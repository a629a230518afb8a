"""One HIP device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_hip.work`."""

from __future__ import annotations

import hashlib
import logging
import math
from typing import TYPE_CHECKING, Final

from zyx.backend import Device
from zyx.backend.arguments import parameters_of
from zyx.backend.limits import check_limits
from zyx.errors import CompileError, LaunchError, UnsupportedError
from zyx_backend_hip.driver import BuildError, Fault
from zyx_backend_hip.errors import failure
from zyx_backend_hip.info import build_options
from zyx_backend_hip.program import HipProgram, KernelProgram
from zyx_backend_hip.render import SYMBOL, render
from zyx_backend_hip.sequence import HipSequence
from zyx_backend_hip.work import HipEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.backend.cache import ProgramCache
    from zyx.backend.library import LibraryKernel
    from zyx.ir.kernel import Kernel
    from zyx_backend_hip.driver import Handle, Module
    from zyx_backend_hip.memory import HipPool
    from zyx_backend_hip.plugin import HipConfig

logger: Final = logging.getLogger("zyx.hip")


class HipDevice(Device):
    """A GPU of AMD's.

    Args:
        name: Such as ``hip:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        cache: Keeps code objects between runs; None if nothing is to be kept.
        section: The configuration of the backend.
    """

    def __init__(
        self, name: str, pool: HipPool, info: DeviceInfo, cache: ProgramCache | None, section: HipConfig
    ) -> None:
        super().__init__(name, pool)
        self.pool: Final = pool
        self._info = info
        self._options = build_options(pool.session.device.arch)
        self._cache = cache
        self.section: Final = section
        self.kernels: Sequence[LibraryKernel] | None = None  # of libraries, once they were asked for
        self._is_open = True

    @property
    def info(self) -> DeviceInfo:
        return self._info

    @property
    def free_compute(self) -> float:
        """FLOP/s that are left: shared out between the commands in flight and one more."""
        return self._info.flops_per_s / (1 + self.pool.work.count)

    # ---- programs

    def compile(self, kernel: Kernel) -> KernelProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        check_limits(kernel, self._info)
        groups, threads = (tuple((*sizes, 1, 1, 1)[:3]) for sizes in kernel.grid)
        source = render(kernel)
        what = f"kernel {kernel.name} on {self.name}"
        try:
            module, function = self._load(source, what) or self._build(source, what)
            self._check_group(kernel, function)
        except Fault as error:
            raise failure(what, error.code, CompileError) from error
        parameters = parameters_of(kernel)
        return KernelProgram(kernel.name, source, what, self.pool, parameters, module, function, (*groups, *threads))

    def _load(self, source: str, what: str) -> tuple[Module, Handle] | None:
        """Return the code object of `source` from the cache, or None."""
        code = None if self._cache is None else self._cache.get(self._key(source))
        if code is None:
            return None
        try:
            return self._loaded(code)
        except Fault as error:  # damaged; made again, and kept
            logger.info("%s: the driver does not take what the cache has of it: %s", what, error)
            return None

    def _build(self, source: str, what: str) -> tuple[Module, Handle]:
        try:
            code = self.pool.session.runtime.compile(source, self._options)
        except BuildError as error:
            raise CompileError(f"{what}: hiprtc refused it, {error}\n{source}") from error
        loaded = self._loaded(code)
        if self._cache is not None:
            self._cache.put(self._key(source), code)
        return loaded

    def _loaded(self, code: bytes) -> tuple[Module, Handle]:
        module = self.pool.session.load(code)
        return module, self.pool.session.function(module, SYMBOL)

    def _key(self, source: str) -> str:
        text = "\0".join((self._info.model, self._info.driver, *self._options, source))
        return hashlib.sha256(text.encode()).hexdigest()

    def _check_group(self, kernel: Kernel, function: Handle) -> None:
        """Raise `UnsupportedError` if the device lacks the room for a group of this kernel, as it was compiled."""
        most, local_bytes = self.pool.session.group_limits(function)
        threads = math.prod(kernel.grid[1])
        if threads > most:
            raise UnsupportedError(
                f"kernel {kernel.name} has groups of {threads} threads; as it is compiled for {self.name}, "
                f"at most {most} fit"
            )
        if local_bytes > self._info.local_bytes:
            raise UnsupportedError(
                f"kernel {kernel.name} takes {local_bytes} bytes of local memory; {self.name} has "
                f"{self._info.local_bytes}"
            )

    def release(self, program: Program) -> None:
        """Free `program`."""
        self._own(program).release()

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        behind = self.pool.take(events)
        return HipEvent(self.pool.work, (self._own(program).run(args, behind),))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock."""
        own = self._own(program)
        self.pool.work.finish()
        return own.timed(args)

    def capture(self, launches: Sequence[Launch], slots: int) -> HipSequence:
        """Return a program of `launches`: one graph, once it is launched with the same buffers for the second time."""
        for launch in launches:
            if isinstance(self._own(launch.program), HipSequence):
                raise LaunchError(f"{launch.program.name} is a captured sequence, and cannot be part of another")
        return HipSequence(launches, slots, self.pool, self.name, records=self.section.graphs)

    def close(self) -> None:
        """Wait for all work. The session goes with the pool."""
        if self._is_open:
            self._is_open = False
            self.pool.session.finish()

    def _own(self, program: Program) -> HipProgram:
        """Return `program`, checked."""
        if not isinstance(program, HipProgram) or program.pool is not self.pool:
            raise LaunchError(f"{program.name} is a program of another device than {self.name}")
        if program.is_released:
            raise LaunchError(f"{program.name} was released before, on {self.name}")
        if not self._is_open:
            raise LaunchError(f"{program.name} was launched on {self.name}, which is closed")
        return program
