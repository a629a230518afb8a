"""One CUDA device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_cuda.lanes`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from zyx.drivers.arguments import native_arguments
from zyx.drivers.cached_build import digest, load_or_build
from zyx.drivers.caching_pool import CachedBuffer
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Fault
from zyx.drivers.limits import check_compiled, check_limits
from zyx.drivers.rendered import Rendered
from zyx.drivers.work_event import QueuedEvent
from zyx.errors import CompileError, LaunchError
from zyx_backend_cuda.errors import failure
from zyx_backend_cuda.lanes import Ticket
from zyx_backend_cuda.nvrtc import OPTIONS, CompilationError
from zyx_backend_cuda.program import CudaProgram, KernelProgram
from zyx_backend_cuda.render import SYMBOL, render
from zyx_backend_cuda.sequence import CudaSequence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.drivers.cache import ProgramCache
    from zyx.drivers.nccl_group import NcclGroup
    from zyx.kernel.data import Kernel
    from zyx.render.dialect import Dialect
    from zyx_backend_cuda.blas import Blas
    from zyx_backend_cuda.cudnn import Dnn
    from zyx_backend_cuda.driver import Address, Module
    from zyx_backend_cuda.lanes import Lane
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.nvrtc import Nvrtc

#: NVRTC compiles in several threads at the same time, on processors of the host.
_COMPILING_THREADS: Final = 8


class CudaDevice(DriverDevice[CudaProgram]):
    """A GPU.

    Args:
        name: Such as ``cuda:0``.
        pool: Its memory, with the session.
        info: What it is and can do.
        dialect: The language of its kernels.
        compiler: NVRTC.
        target: The architecture to compile for.
        cache: Keeps programs between runs; None if nothing is to be kept.
        records: Whether captured sequences become graphs.
    """

    takes_fronts = True
    takes_loop_ends = True
    rendered_type = Rendered

    def __init__(
        self,
        name: str,
        pool: CudaPool,
        info: DeviceInfo,
        dialect: Dialect,
        compiler: Nvrtc,
        target: str,
        cache: ProgramCache | None,
        *,
        records: bool,
    ) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool
        self.compiles_at_once = min(_COMPILING_THREADS, os.cpu_count() or 1)
        self.dialect: Final = dialect
        self._compiler = compiler
        self._options: Final = (*OPTIONS, f"--gpu-architecture={target}")
        self._cache = cache
        self._records = records
        self._clock: tuple[object, object] | None = None
        self.blas: Blas | None = None  # opened when products are first asked for
        self.dnn: Dnn | None = None  # likewise
        self.groups: list[NcclGroup] = []  # that it is a member of

    @property
    def in_flight(self) -> int:
        return self.pool.in_flight

    # ---- programs

    def compile(self, kernel: Kernel) -> KernelProgram:
        """Return the program of `kernel`. May run in several threads while another uses the device."""
        return self.build(self.render(kernel))

    def render(self, kernel: Kernel) -> Rendered:
        """Return CUDA C."""
        check_limits(kernel, self._info)
        return Rendered.of(kernel, render(kernel, self.dialect))

    def build(self, rendered: Rendered) -> KernelProgram:
        """Return the program of a text, from the cache if it is there."""
        name, source = rendered.name, rendered.text
        what = f"kernel {name} on {self.name}"
        try:
            module = load_or_build(
                self._cache, self._key(source), what, self._loaded, lambda: self._built(source, what), Fault
            )
            with self.pool.session as session:
                function = session.function(module, SYMBOL)
                most = session.function_attribute(function, "MAX_THREADS_PER_BLOCK")
        except Fault as error:
            raise failure(what, error, CompileError, self.pool.compute.last) from error
        check_compiled(rendered, self.name, most)
        grid = rendered.groups, rendered.threads
        return KernelProgram(name, source, what, self.pool, rendered.parameters, module, function, grid)

    def _key(self, source: str) -> str:
        return digest(".".join(map(str, self._compiler.version)), *self._options, source)

    def _built(self, source: str, what: str) -> tuple[Module, bytes]:
        try:
            image = self._compiler.compile(source, self._options)
        except CompilationError as error:
            raise CompileError(f"{what}: NVRTC refused it, {error}\n{source}") from error
        return self._loaded(image), image

    def _loaded(self, image: bytes) -> Module:
        with self.pool.session as session:
            return session.load(image)

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        pool = self.pool
        tickets = pool.take(events) if events else ()
        own = self.own(program)
        natives = native_arguments(args, own.parameters, pool, own.what)
        lane = pool.compute
        try:
            with pool.session:
                lane.wait_for(tickets)
                own.enqueue(natives, lane.stream)
                place = lane.queued(own.what)
        except Fault as error:
            raise failure(own.what, error, LaunchError, lane.last) from error
        return QueuedEvent(pool, Ticket(lane, place), lane)

    def queue_of(self, program: Program) -> tuple[Callable[..., bool], Lane] | None:
        """Return what queues a kernel that is given buffers alone, on the stream of launches."""
        own = self.own(program)
        if not isinstance(own, KernelProgram) or any(parameter.scalar is not None for parameter in own.parameters):
            return None
        pool, lane = self.pool, self.pool.compute
        least = [parameter.nbytes for parameter in own.parameters]
        put = own.put_on(lane.stream)

        def queue(*args: CachedBuffer[Address]) -> bool:
            if own.is_released or not self._is_open or len(args) != len(least):
                return False
            addresses = []
            for arg, nbytes in zip(args, least, strict=True):
                if type(arg) is not CachedBuffer or arg.pool is not pool or arg.freed or arg.nbytes < nbytes:
                    return False
                addresses.append(arg.memory)
            try:
                put(addresses)
                lane.queued(own.what)
            except Fault as error:
                raise failure(own.what, error, LaunchError, lane.last) from error
            return True

        return queue, lane

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock."""
        own, pool = self.own(program), self.pool
        natives = native_arguments(args, own.parameters, pool, own.what)
        pool.synchronize()
        lane = pool.compute
        try:
            with pool.session as session:
                if self._clock is None:
                    self._clock = session.event(timing=True), session.event(timing=True)
                start, end = self._clock
                session.record(start, lane.stream)
                own.enqueue(natives, lane.stream)
                session.record(end, lane.stream)
                lane.finish(lane.queued(own.what), own.what)
                return session.elapsed(start, end)
        except Fault as error:
            raise failure(own.what, error, LaunchError, lane.last) from error

    def capture(self, launches: Sequence[Launch], slots: int) -> CudaSequence:
        """Return a program of `launches`, which becomes a graph."""
        self.check_capture(launches)
        return CudaSequence(launches, slots, self.pool, self.name, records=self._records)

    def stop(self) -> None:
        """Wait for all work. The session goes with the pool."""
        for group in self.groups:
            group.close()
        try:
            self.pool.synchronize()
        finally:
            for library in (self.blas, self.dnn):
                if library is not None:
                    library.close()
