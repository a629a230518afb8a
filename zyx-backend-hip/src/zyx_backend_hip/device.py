"""One HIP device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_hip.work`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.drivers.cached_build import digest, load_or_build
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Fault, failure
from zyx.drivers.limits import check_compiled, check_limits
from zyx.drivers.rendered import Rendered
from zyx.drivers.work_event import WorkEvent
from zyx.errors import CompileError
from zyx_backend_hip.driver import BuildError
from zyx_backend_hip.info import build_options
from zyx_backend_hip.program import HipProgram, KernelProgram
from zyx_backend_hip.render import SYMBOL, render
from zyx_backend_hip.sequence import HipSequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.backend.library import LibraryKernel
    from zyx.drivers.cache import ProgramCache
    from zyx.drivers.nccl_group import NcclGroup
    from zyx.kernel.data import Kernel
    from zyx_backend_hip.driver import Handle, Module
    from zyx_backend_hip.memory import HipPool
    from zyx_backend_hip.plugin import HipConfig


class HipDevice(DriverDevice[HipProgram]):
    """A GPU of AMD's.

    Args:
        name: Such as ``hip:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        cache: Keeps code objects between runs; None if nothing is to be kept.
        section: The configuration of the backend.
    """

    takes_fronts = True
    takes_loop_ends = True
    rendered_type = Rendered

    def __init__(
        self, name: str, pool: HipPool, info: DeviceInfo, cache: ProgramCache | None, section: HipConfig
    ) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool
        self._options = build_options(pool.session.device.arch)
        self._cache = cache
        self.section: Final = section
        self.kernels: Sequence[LibraryKernel] | None = None  # of libraries, once they were asked for
        self.groups: list[NcclGroup] = []  # that it is a member of

    @property
    def in_flight(self) -> int:
        return self.pool.work.count

    # ---- programs

    @property
    def dialect(self) -> None:
        """Nothing: kernels are written alike for all devices of one record."""

    def compile(self, kernel: Kernel) -> KernelProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return HIP C++."""
        check_limits(kernel, self._info)
        return Rendered.of(kernel, render(kernel))

    def build(self, rendered: Rendered) -> KernelProgram:
        """Return the program of a text, from the cache if it is there."""
        name, source = rendered.name, rendered.text
        what = f"kernel {name} on {self.name}"
        try:
            module, function = load_or_build(
                self._cache, self._key(source), what, self._loaded, lambda: self._built(source, what), Fault
            )
            most, local_bytes = self.pool.session.group_limits(function)
        except Fault as error:
            raise failure(what, error, CompileError) from error
        check_compiled(rendered, self.name, most, local_bytes, self._info.local_bytes)
        grid = (*rendered.groups, *rendered.threads)
        return KernelProgram(name, source, what, self.pool, rendered.parameters, module, function, grid)

    def _key(self, source: str) -> str:
        return digest(self._info.model, self._info.driver, *self._options, source)

    def _built(self, source: str, what: str) -> tuple[tuple[Module, Handle], bytes]:
        try:
            code = self.pool.session.runtime.compile(source, self._options)
        except BuildError as error:
            raise CompileError(f"{what}: hiprtc refused it, {error}\n{source}") from error
        return self._loaded(code), code

    def _loaded(self, code: bytes) -> tuple[Module, Handle]:
        module = self.pool.session.load(code)
        return module, self.pool.session.function(module, SYMBOL)

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        behind = self.pool.take(events)
        return WorkEvent(self.pool, (self.own(program).run(args, behind),))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock."""
        own = self.own(program)
        self.pool.work.finish()
        return own.timed(args)

    def capture(self, launches: Sequence[Launch], slots: int) -> HipSequence:
        """Return a program of `launches`: one graph, once it is launched with the same buffers for the second time."""
        self.check_capture(launches)
        return HipSequence(launches, slots, self.pool, self.name, records=self.section.graphs)

    def stop(self) -> None:
        """Wait for all work. The session goes with the pool."""
        for group in self.groups:
            group.close()
        self.pool.session.finish()
