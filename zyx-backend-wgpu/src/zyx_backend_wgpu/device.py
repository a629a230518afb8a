"""One WebGPU device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_wgpu.work`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx.drivers.arguments import check_arguments
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Cause, Fault
from zyx.drivers.limits import check_limits
from zyx.errors import CompileError, LaunchError, UnsupportedError
from zyx_backend_wgpu.program import WgpuProgram
from zyx_backend_wgpu.render import Rendered, render
from zyx_backend_wgpu.sequence import WgpuSequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.kernel.data import Kernel
    from zyx_backend_wgpu.memory import WgpuPool
    from zyx_backend_wgpu.render import Language


class WgpuDevice(DriverDevice[WgpuProgram | WgpuSequence]):
    """A device of an adapter.

    Args:
        name: Such as ``wgpu:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        language: What its kernels are written with.
    """

    takes_fronts = True
    takes_loop_ends = True
    rendered_type = Rendered

    def __init__(self, name: str, pool: WgpuPool, info: DeviceInfo, language: Language) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool
        self.dialect: Final = language

    @property
    def in_flight(self) -> int:
        return self.pool.work.count

    # ---- programs

    def compile(self, kernel: Kernel) -> WgpuProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return WGSL.

        Raises:
            UnsupportedError: The device cannot run it, or not as it is rendered: small types take a word.
        """
        check_limits(kernel, self._info)
        self.pool.work.check(f"kernel {kernel.name} on {self.name}")
        try:
            rendered = render(kernel, self.dialect)
        except UnsupportedError as error:
            raise UnsupportedError(f"kernel {kernel.name}, on {self.name}: {error}") from error
        if rendered.local_bytes > self._info.local_bytes:
            raise UnsupportedError(
                f"kernel {kernel.name} takes {rendered.local_bytes} bytes of local memory, where small types take a "
                f"word; {self.name} has {self._info.local_bytes}"
            )
        return rendered

    def build(self, rendered: Rendered) -> WgpuProgram:
        """Return the program of WGSL."""
        what = f"kernel {rendered.name} on {self.name}"
        self.pool.work.check(what)
        try:
            pipeline = self.pool.session.build(rendered.text, rendered.name, rendered.bindings)
        except Fault as fault:
            if fault.cause is Cause.REFUSED:
                raise CompileError(f"{what}: the WGSL compiler refused it\n{fault}") from fault
            raise self.pool.work.failed(what, fault, CompileError) from fault
        return WgpuProgram(self.name, self.pool, pipeline, rendered)

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self.pool.take(events)
        return self.pool.event_of(self.own(program).run(args))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration: by the device's clock if it has one, else by the host's."""
        own = self.own(program)
        check_arguments(args, own.parameters, self.pool, own.what)
        dispatches = (own.checked_dispatch(args),) if isinstance(own, WgpuProgram) else own.dispatches(args)
        self.pool.work.finish()
        if not self.pool.session.has_clock:
            started = time.perf_counter()
            self.pool.work.wait(self.pool.work.submit(dispatches, own.what))
            return time.perf_counter() - started
        try:
            seconds = self.pool.session.timed(dispatches)
        except Fault as fault:
            raise self.pool.work.failed(own.what, fault, LaunchError) from fault
        self.pool.work.drained()
        return seconds

    def capture(self, launches: Sequence[Launch], slots: int) -> WgpuSequence:
        """Return a program of `launches` that starts them all by one submission."""
        self.check_capture(launches)
        return WgpuSequence(launches, slots, self.pool, self.name)

    def stop(self) -> None:
        """Wait for all work. The session goes with the pool."""
        self.pool.session.close()
