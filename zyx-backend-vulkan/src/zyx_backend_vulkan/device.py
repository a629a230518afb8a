"""One Vulkan device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_vulkan.work`."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from zyx.drivers.arguments import native_arguments
from zyx.drivers.cached_build import digest, load_or_build
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Fault
from zyx.drivers.limits import check_limits
from zyx.drivers.work_event import QueuedEvent
from zyx.errors import CompileError, DeviceLostError, LaunchError, UnsupportedError
from zyx_backend_vulkan.program import KernelProgram, VulkanProgram, bindings_of
from zyx_backend_vulkan.render import Rendered, render
from zyx_backend_vulkan.sequence import VulkanSequence
from zyx_backend_vulkan.work import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.drivers.cache import ProgramCache
    from zyx.drivers.caching_pool import CachedBuffer
    from zyx.kernel.data import Kernel
    from zyx_backend_vulkan.blocks import Memory
    from zyx_backend_vulkan.driver_programs import Pipeline, Pipelines
    from zyx_backend_vulkan.memory import VulkanPool
    from zyx_backend_vulkan.target import Target
    from zyx_backend_vulkan.work import Lane

#: Pipelines that are built at once have nothing in common, and the calls let go of Python's lock.
_COMPILING_THREADS: Final = 8


class VulkanDevice(DriverDevice[VulkanProgram]):
    """A device of Vulkan.

    Args:
        name: Such as ``vulkan:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        target: What its modules may use.
        pipelines: Makes its pipelines.
        cache: Keeps what the driver compiled between runs; None if nothing is to be kept.
    """

    takes_fronts = True
    takes_loop_ends = True
    program_type = VulkanProgram
    rendered_type = Rendered

    def __init__(
        self,
        name: str,
        pool: VulkanPool,
        info: DeviceInfo,
        target: Target,
        pipelines: Pipelines,
        cache: ProgramCache | None,
    ) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool
        self.compiles_at_once = min(_COMPILING_THREADS, os.cpu_count() or 1)
        self.dialect: Final = target
        self._pipelines = pipelines
        self._cache = cache

    @property
    def in_flight(self) -> int:
        with suppress(DeviceLostError):
            return self.pool.compute.pending
        return 0

    # ---- programs

    def compile(self, kernel: Kernel) -> KernelProgram:
        """Return the program of `kernel`. May run in several threads while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return SPIR-V.

        Raises:
            UnsupportedError: The device cannot run it, or not as it is rendered: small types may take a word.
        """
        check_limits(kernel, self._info)
        self.pool.work.check(f"kernel {kernel.name} on {self.name}")
        try:
            rendered = render(kernel, self.dialect)
        except UnsupportedError as error:
            raise UnsupportedError(f"kernel {kernel.name}, on {self.name}: {error}") from error
        if rendered.local_bytes > self._info.local_bytes:
            raise UnsupportedError(
                f"kernel {kernel.name} takes {rendered.local_bytes} bytes of local memory, where small types may take "
                f"a word; {self.name} has {self._info.local_bytes}"
            )
        return rendered

    def build(self, rendered: Rendered) -> KernelProgram:
        """Return the program of a module; what the driver compiled is taken from the cache if it is there."""
        what = f"kernel {rendered.name} on {self.name}"
        self.pool.work.check(what)
        buffers, push_bytes = bindings_of(rendered)
        words, threads, pipelines = rendered.words, rendered.threads, self._pipelines

        def build(image: bytes = b"") -> tuple[Pipeline, bytes]:
            return pipelines.build(words, threads, buffers, push_bytes, image)

        listed = self.pool.session.listed
        key = digest(self._info.model, self._info.driver, listed.identity, str(threads), words.hex())
        try:
            pipeline = load_or_build(self._cache, key, what, lambda image: build(image)[0], build, Fault)
        except Fault as fault:
            raise self.pool.work.failed(what, fault, CompileError) from fault
        return KernelProgram(what, self.pool, pipeline, rendered, pipelines.free)

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        pool = self.pool
        tickets = pool.take(events) if events else ()
        own = self.own(program)
        natives = native_arguments(args, own.parameters, pool, own.what)
        lane = pool.compute
        with lane.lock:
            lane.wait_for(tickets, own.what)
            if isinstance(own, VulkanSequence) and own.is_empty:
                return pool.event(tickets)
            self._enqueue(own, natives)
            return QueuedEvent(pool, Ticket(lane, lane.queued(own.what)), lane)

    def _enqueue(self, own: VulkanProgram, natives: Sequence[object]) -> None:
        try:
            own.enqueue(natives)
        except Fault as fault:
            self.pool.compute.abandoned(own.what)
            raise self.pool.work.failed(own.what, fault, LaunchError) from fault

    def queue_of(self, program: Program) -> tuple[Callable[..., bool], Lane] | None:
        """Return what queues a kernel that is given buffers alone, on the queue of launches."""
        own = self.own(program)
        if not isinstance(own, KernelProgram) or own.takes_numbers:
            return None
        pool, lane = self.pool, self.pool.compute
        least = [parameter.nbytes for parameter in own.parameters]

        def queue(*args: CachedBuffer[Memory]) -> bool:
            if own.is_released or not self._is_open or len(args) != len(least):
                return False
            natives = []
            for arg, nbytes in zip(args, least, strict=True):
                if arg.pool is not pool or arg.freed or arg.nbytes < nbytes:
                    return False
                natives.append(arg.memory)
            with lane.lock:
                lane.work.check(own.what)
                self._enqueue(own, natives)
                lane.queued(own.what)
            return True

        return queue, lane

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration: by the device's clock if it has one, else by the host's."""
        own, pool = self.own(program), self.pool
        natives = native_arguments(args, own.parameters, pool, own.what)
        pool.work.finish(own.what)
        if isinstance(own, VulkanSequence) and own.is_empty:
            return 0.0
        lane, queue = pool.compute, pool.session.compute
        with lane.lock:  # until it is over: nothing else is to run, and there is one clock
            started = time.perf_counter()
            try:
                if queue.has_clock:
                    queue.start_clock(lane.commands())
                own.enqueue(natives)
                if queue.has_clock:
                    queue.stop_clock(lane.commands())
                lane.finish(lane.queued(own.what), own.what)
                return queue.seconds() if queue.has_clock else time.perf_counter() - started
            except Fault as fault:
                lane.abandoned(own.what)
                raise pool.work.failed(own.what, fault, LaunchError) from fault

    def capture(self, launches: Sequence[Launch], slots: int) -> VulkanSequence:
        """Return a program of `launches`, which becomes command buffers."""
        self.check_capture(launches)
        return VulkanSequence(launches, slots, self.pool, self.name)

    def stop(self) -> None:
        """Wait for all work. The session goes with the pool."""
        if self.pool.work.lost is None:
            self.pool.synchronize()
