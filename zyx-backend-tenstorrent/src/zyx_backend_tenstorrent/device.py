"""One device: makes programs of tiles of nests, and runs them. Everything is done when a call returns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.faults import Cause, Fault
from zyx.errors import CompileError, UnsupportedError
from zyx.tiles.build import build_program
from zyx_backend_tenstorrent.program import TenstorrentProgram, likes_of
from zyx_backend_tenstorrent.render import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Argument, DeviceInfo, Event, Program
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx_backend_tenstorrent.memory import TenstorrentPool


class TenstorrentDevice(DriverDevice[TenstorrentProgram]):
    """A device of a servant.

    Args:
        name: Such as ``tenstorrent:0``.
        pool: Its memory, with the servant.
        info: What it is and can do.
    """

    program_type = TenstorrentProgram

    def __init__(self, name: str, pool: TenstorrentPool, info: DeviceInfo) -> None:
        super().__init__(name, pool, info)
        self.pool: Final = pool

    def compile(self, kernel: Kernel) -> Program:
        """Refuse: there are no scalar kernels."""
        raise UnsupportedError(
            f"kernel {kernel.name}: {self.name} computes on tiles, and takes nests and no kernels; the host can run it"
        )

    def compile_nests(self, nests: Sequence[Nest], name: str) -> TenstorrentProgram:
        """Return the program of nests."""
        what = f"kernel {name} on {self.name}"
        self.pool.work.check(what)
        program = build_program(nests, name, self._info)
        text = render(program, self.pool.servant.grid)
        try:
            operation = self.pool.servant.build(text.source, text.name, likes_of(program, text))
            return TenstorrentProgram(self.name, self.pool, program, text, operation)
        except Fault as fault:
            if fault.cause is Cause.REFUSED:
                raise CompileError(f"{what}: {fault}\n{text.source}") from fault
            raise self.pool.work.failed(what, fault, CompileError) from fault

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self.pool.take(events)
        self.pool.work.check(f"a launch of {program.name}")
        self.own(program).run(args)
        return self.pool.completed()

    def timed_launch(self, program: Program, args: Sequence[Argument]) -> float:
        """Run `program` and return its duration by the host's clock: nothing is queued."""
        started = time.perf_counter()
        self.own(program).run(args)
        return time.perf_counter() - started
