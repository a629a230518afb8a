"""A device on paper that computes on tiles, and on nothing else: nests become tile programs, which NumPy runs.

with open_tiles() as runtime, use(runtime):
    ...                                               # on tiles of 32 x 32, and the rest on the host
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.backend.device import Device, Program
from zyx.backend.info import STORAGE_ONLY, Capability, DeviceInfo, TileUnit
from zyx.backend.pool import PoolBuffer
from zyx.builtin.host import HostPool
from zyx.errors import LaunchError, UnsupportedError
from zyx.hookspecs import API_VERSION, BackendInfo, hookimpl
from zyx.ops import COMPARISONS, BinaryOp, binary_ops, unary_ops
from zyx.testing.opening import open_runtime
from zyx.tiles.build import build_program
from zyx.tiles.run import run_program
from zyx.tiles.text import print_program
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zyx.backend import Argument, Event, MemoryPool
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.runtime.runtime import Runtime
    from zyx.tiles.data import TileProgram

_FLOAT: Final = Capability(unary_ops(dtypes.float32), binary_ops(dtypes.float32) - {BinaryOp.MOD, BinaryOp.POW})
_BOOL: Final = Capability(unary_ops(dtypes.bool_), binary_ops(dtypes.bool_) - COMPARISONS)


def tiles_info(rows: int = 32, columns: int = 32, local_bytes: int = 1 << 20, most_buffers: int = 32) -> DeviceInfo:
    """Return the record of a device that computes on tiles, in float32, bfloat16 and float16, and stores everything."""
    computed = dict.fromkeys((dtypes.float32, dtypes.bfloat16, dtypes.float16), _FLOAT)
    capabilities = {**dict.fromkeys(dtypes.ALL, STORAGE_ONLY), dtypes.bool_: _BOOL, **computed}
    tiles = TileUnit(rows, columns, most_buffers)
    return DeviceInfo("tiles on paper", "paper", capabilities, local_bytes=local_bytes, tiles=tiles)


class PaperTileProgram(Program):
    """A tile program to run."""

    __slots__ = ("program",)

    def __init__(self, program: TileProgram) -> None:
        super().__init__(program.name, print_program(program))
        self.program = program


class PaperTileDevice(Device):
    """A device that takes nests.

    Attributes:
        programs: What was compiled.
    """

    def __init__(self, name: str, pool: MemoryPool, info: DeviceInfo) -> None:
        super().__init__(name, pool)
        self._info = info
        self.programs: list[TileProgram] = []

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def compile(self, kernel: Kernel) -> Program:
        raise UnsupportedError(f"kernel {kernel.name}: {self.name} takes nests, and no kernels")

    def compile_nests(self, nests: Sequence[Nest], name: str) -> Program:
        """Return the program of nests."""
        program = build_program(nests, name, self._info)
        self.programs.append(program)
        return PaperTileProgram(program)

    def release(self, program: Program) -> None:
        pass  # nothing is held

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self.memory_pool.sync_events(events)
        if not isinstance(program, PaperTileProgram) or len(args) != len(program.program.params):
            raise LaunchError(f"{program.name} does not take {len(args)} arguments on {self.name}")
        arrays: list[np.ndarray[Any, Any]] = []
        for arg, param in zip(args, program.program.params, strict=True):
            if isinstance(arg, PoolBuffer):
                own = self.memory_pool.own(arg, param.length * param.dtype.itemsize)  # type: ignore[attr-defined]
                arrays.append(own.array[: param.length * param.dtype.itemsize].view(param.dtype.numpy))
            else:
                arrays.append(np.full(1, arg, param.dtype.numpy))
        run_program(program.program, arrays)
        return self.memory_pool.completed()

    def close(self) -> None:
        pass  # nothing is queued


class PaperTileBackend:
    """Declares one device that computes on tiles, with memory of its own.

    Args:
        info: Its record.
    """

    def __init__(self, info: DeviceInfo) -> None:
        self._info = info

    @hookimpl
    def zyx_backend_info(self) -> BackendInfo:
        """Say who this is."""
        return BackendInfo("tiles", __version__, API_VERSION, self._info.model)

    @hookimpl
    def zyx_memory_pools(self) -> Sequence[MemoryPool]:
        """Return its memory."""
        return [HostPool("tiles:0 memory", 1 << 30)]

    @hookimpl
    def zyx_devices(self, pools: Mapping[str, MemoryPool]) -> Sequence[Device]:
        """Return the device."""
        return [PaperTileDevice("tiles:0", pools["tiles:0 memory"], self._info)]


@contextmanager
def open_tiles(info: DeviceInfo | None = None) -> Iterator[Runtime]:
    """Open a runtime whose default device computes on tiles."""
    runtime = open_runtime("tiles:0", [PaperTileBackend(info or tiles_info())])
    try:
        yield runtime
    finally:
        runtime.close()
