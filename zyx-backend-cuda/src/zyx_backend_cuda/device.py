"""One CUDA device: compiles kernels and queues launches. Launches are asynchronous; see `zyx_backend_cuda.lanes`."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final

from zyx.backend import Device
from zyx.backend.arguments import parameters_of
from zyx.backend.limits import check_limits
from zyx.errors import CompileError, LaunchError, UnsupportedError
from zyx_backend_cuda.blas import GemmProgram
from zyx_backend_cuda.errors import Fault, failure
from zyx_backend_cuda.lanes import CudaEvent
from zyx_backend_cuda.nvrtc import OPTIONS, CompilationError
from zyx_backend_cuda.program import CudaProgram, native_arguments
from zyx_backend_cuda.render import SYMBOL, render
from zyx_backend_cuda.sequence import CudaSequence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from zyx.backend import Argument, DeviceInfo, Event, Launch, Program
    from zyx.backend.cache import ProgramCache
    from zyx.ir.kernel import Kernel
    from zyx.render.dialect import Dialect
    from zyx_backend_cuda.blas import Blas
    from zyx_backend_cuda.driver import Module
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.nvrtc import Nvrtc

    OwnProgram: TypeAlias = "CudaProgram | CudaSequence | GemmProgram"

logger: Final = logging.getLogger("zyx.cuda")

_OWN: Final = (CudaProgram, CudaSequence, GemmProgram)


class CudaDevice(Device):
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
        super().__init__(name, pool)
        self.pool: Final = pool
        self._info = info
        self._dialect = dialect
        self._compiler = compiler
        self._options: Final = (*OPTIONS, f"--gpu-architecture={target}")
        self._cache = cache
        self._records = records
        self._is_open = True
        self._clock: tuple[object, object] | None = None
        self.blas: Blas | None = None  # opened when products are first asked for

    @property
    def info(self) -> DeviceInfo:
        return self._info

    @property
    def free_compute(self) -> float:
        """FLOP/s that are left: shared out between the launches in flight and one more."""
        return self._info.flops_per_s / (1 + self.pool.in_flight)

    # ---- programs

    def compile(self, kernel: Kernel) -> CudaProgram:
        """Return the program of `kernel`. May run in one thread while another uses the device."""
        check_limits(kernel, self._info)
        source = render(kernel, self._dialect)
        what = f"kernel {kernel.name} on {self.name}"
        try:
            with self.pool.session as session:
                module = self._load(source, what)
                function = session.function(module, SYMBOL)
                self._check_group(kernel, session.function_attribute(function, "MAX_THREADS_PER_BLOCK"))
        except Fault as error:
            raise failure(what, error, CompileError, self.pool.compute.last) from error
        groups, threads = (tuple((*sizes, 1, 1, 1)[:3]) for sizes in kernel.grid)
        grid = (groups, threads)
        return CudaProgram(kernel.name, source, self.name, self.pool, module, function, grid, parameters_of(kernel))  # type: ignore[arg-type]

    def _load(self, source: str, what: str) -> Module:
        """Return the module of `source`, from the cache if it is there."""
        session, key = self.pool.session, self._key(source)
        image = None if self._cache is None else self._cache.get(key)
        if image is not None:
            try:
                return session.load(image)
            except Fault as error:  # made again, and kept
                logger.info("%s: the driver does not take what the cache has of it: %s", what, error)
        try:
            image = self._compiler.compile(source, self._options)
        except CompilationError as error:
            raise CompileError(f"{what}: NVRTC refused it, {error}\n{source}") from error
        module = session.load(image)
        if self._cache is not None:
            self._cache.put(key, image)
        return module

    def _key(self, source: str) -> str:
        version = ".".join(map(str, self._compiler.version))
        return hashlib.sha256("\0".join((version, *self._options, source)).encode()).hexdigest()

    def _check_group(self, kernel: Kernel, most: int) -> None:
        """Raise `UnsupportedError` if a group of this kernel, as it was compiled, takes too many registers."""
        threads = 1
        for size in kernel.grid[1]:
            threads *= size
        if threads > most:
            raise UnsupportedError(
                f"kernel {kernel.name} has groups of {threads} threads; as it is compiled for {self.name}, at most "
                f"{most} fit"
            )

    def release(self, program: Program) -> None:
        """Free `program`; captured sequences that contain it go on."""
        self._own(program).release()

    # ---- launches

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        pool = self.pool
        tickets = pool.take(events) if events else ()
        own = self._own(program)
        natives = native_arguments(args, own.parameters, pool, own.what)
        lane = pool.compute
        try:
            with pool.session:
                lane.wait_for(tickets)
                own.enqueue(natives, lane.stream)
                place = lane.queued(own.what)
        except Fault as error:
            raise failure(own.what, error, LaunchError, lane.last) from error
        return CudaEvent(pool, ((lane, place),))

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` alone and return its duration by the device's clock."""
        own, pool = self._own(program), self.pool
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
        for launch in launches:
            if isinstance(self._own(launch.program), CudaSequence):
                raise LaunchError(f"{launch.program.name} is a captured sequence, and cannot be part of another")
        return CudaSequence(launches, slots, self.pool, self.name, records=self._records)

    def close(self) -> None:
        """Wait for all work. The session goes with the pool."""
        if self._is_open:
            self._is_open = False
            try:
                self.pool.synchronize()
            finally:
                if self.blas is not None:
                    self.blas.close()

    def _own(self, program: Program) -> OwnProgram:
        """Return `program`, checked."""
        if not isinstance(program, _OWN) or program.pool is not self.pool:
            raise LaunchError(f"{program.name} is a program of another device than {self.name}")
        if program.is_released:
            raise LaunchError(f"{program.name} was released before, on {self.name}")
        if not self._is_open:
            raise LaunchError(f"{program.name} was launched on {self.name}, which is closed")
        return program
