"""A device that runs kernels by the interpreter of the IR: the oracle of the tests, and the device of last resort.

It needs nothing but NumPy and is hundreds of times slower than compiled code. Its threads run as the elements of
arrays, so kernels with large groups are its fast ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.backend.device import Argument, Device, Launch, Program, Slot
from zyx.backend.info import DeviceInfo, full_capability
from zyx.backend.pool import MemoryPool, PoolBuffer
from zyx.builtin.host import HostPool
from zyx.errors import InitializationError, InvalidBufferError, LaunchError, UnsupportedError
from zyx.kernel.data import Define, Memory
from zyx.kernel.run import Executable
from zyx.ops import reduce_ops
from zyx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from zyx.backend.event import Event
    from zyx.backend.rates import Rates
    from zyx.dtype import Scalar
    from zyx.kernel.data import Kernel

_GROUP_THREADS: Final = 1024
_LOCAL_BYTES: Final = 1 << 20
#: Threads that swap values: any number could.
_SUBGROUP: Final = 32


class InterpreterProgram(Program):
    """A kernel, ready to be run."""

    __slots__ = ("executable", "params")

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.name)
        self.executable = Executable(kernel)
        self.params = kernel.params


class CapturedProgram(Program):
    """Launches that are done one after the other."""

    __slots__ = ("launches", "slots")

    def __init__(self, launches: Sequence[Launch], slots: int) -> None:
        super().__init__(" ".join(launch.program.name for launch in launches))
        self.launches = tuple(launches)
        self.slots = slots


class InterpreterDevice(Device):
    """Runs kernels with NumPy, at once: a launch is complete when it returns.

    Args:
        name: Such as ``interpreter:0``.
        pool: A `HostPool`.

    Raises:
        InitializationError: The pool is not host memory.
    """

    takes_fronts = True
    takes_loop_ends = True

    def __init__(self, name: str, pool: MemoryPool) -> None:
        super().__init__(name, pool)
        if not isinstance(pool, HostPool):
            raise InitializationError(f"device {name} works on host memory, not on pool {pool.name}")
        self._pool = pool
        self._info = DeviceInfo(
            model="zyx interpreter",
            driver=f"zyx {__version__}, numpy {np.__version__}",
            capabilities={dtype: full_capability(dtype, atomic=reduce_ops(dtype)) for dtype in dtypes.ALL},
            flops_per_s=1e8,
            bytes_per_s=1e9,
            max_groups=((1 << 31) - 1,) * 3,
            max_group_threads=_GROUP_THREADS,
            max_group_shape=(_GROUP_THREADS,) * 3,
            subgroup_size=_SUBGROUP,
            swaps=frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64)),
            local_bytes=_LOCAL_BYTES,
            has_fma=False,
        )

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def take_rates(self, rates: Rates) -> None:
        self._info = self._info.with_rates(rates)

    def compile(self, kernel: Kernel) -> Program:
        _, local = kernel.grid
        if math.prod(local) > _GROUP_THREADS:
            raise UnsupportedError(
                f"kernel {kernel.name}: {math.prod(local)} threads a group; device {self.name} takes {_GROUP_THREADS}"
            )
        arrays = [op for op in kernel.ops if isinstance(op, Define) and op.memory is Memory.LOCAL]
        local_bytes = sum(array.length * array.lanes * array.dtype.itemsize for array in arrays)
        if local_bytes > _LOCAL_BYTES:
            raise UnsupportedError(
                f"kernel {kernel.name}: {local_bytes} bytes of local memory; device {self.name} has {_LOCAL_BYTES}"
            )
        return InterpreterProgram(kernel)

    def release(self, program: Program) -> None:
        pass  # a program is a kernel, and those belong to nobody

    def capture(self, launches: Sequence[Launch], slots: int) -> Program:
        """Return a program that runs `launches` in order, with `slots` of their buffers given at its launch."""
        return CapturedProgram(launches, slots)

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self._pool.sync_events(events)
        match program:
            case InterpreterProgram():
                self._run(program, args)
            case CapturedProgram():
                if len(args) != program.slots:
                    raise LaunchError(
                        f"{program.name} on {self.name}: {len(args)} buffers for {program.slots} free places"
                    )
                for launch in program.launches:
                    filled = [args[item.number] if isinstance(item, Slot) else item for item in launch.args]
                    self._pool.release_events([self.launch(launch.program, filled)])
            case _:
                raise LaunchError(f"program {program.name} was not made by device {self.name}")
        return self._pool.completed()

    def close(self) -> None:
        pass  # nothing is queued, and nothing is held

    def _run(self, program: InterpreterProgram, args: Sequence[Argument]) -> None:
        values: list[NDArray[Any] | Scalar] = []
        try:
            for number, argument in enumerate(args):
                if not isinstance(argument, PoolBuffer):
                    values.append(argument)
                    continue
                param = program.params[number] if number < len(program.params) else None
                if not isinstance(param, Define):
                    raise LaunchError(f"argument {number} is a buffer, and the kernel has no array there")
                nbytes = param.length * param.dtype.itemsize
                if param.is_front:
                    nbytes = min(nbytes, max(argument.nbytes, param.dtype.itemsize))
                values.append(self._pool.own(argument, nbytes).array[:nbytes].view(param.dtype.numpy))
            program.executable(values)
        except (LaunchError, InvalidBufferError) as error:
            raise LaunchError(f"kernel {program.name} on device {self.name}: {error}") from error
