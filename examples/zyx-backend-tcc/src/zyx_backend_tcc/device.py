"""One core as a device, on host memory: a launch is complete when it returns."""

import ctypes
from collections.abc import Sequence
from typing import Any

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import STORAGE_ONLY, Argument, Device, DeviceInfo, Event, Program, full_capability
from zyx.backend.arguments import check_arguments, parameters_of, scalar_bytes
from zyx.backend.limits import check_limits
from zyx.builtin.host import HostPool
from zyx.errors import LaunchError
from zyx.ir.kernel import Kernel
from zyx_backend_tcc.driver import Compiler
from zyx_backend_tcc.render import SYMBOL, render


class TccProgram(Program):
    """A function in memory; `state` owns it, and is None once it is freed."""

    def __init__(self, kernel: Kernel, source: str, state: ctypes.c_void_p, address: int) -> None:
        super().__init__(kernel.name, source)
        self.state: ctypes.c_void_p | None = state
        self.function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self.parameters = parameters_of(kernel)


class TccDevice(Device):
    """One core of the processor. What its capabilities leave out, core makes of the rest."""

    def __init__(self, name: str, pool: HostPool) -> None:
        super().__init__(name, pool)
        self._pool = pool
        self._compiler = Compiler()
        capabilities = {
            dtype: full_capability(dtype, atomic=ops.reduce_ops(dtype), transcendental=False) for dtype in dtypes.ALL
        }
        capabilities |= dict.fromkeys((dtypes.float16, dtypes.bfloat16), STORAGE_ONLY)
        self._info = DeviceInfo("one core", "tcc 0.1.0", capabilities, max_groups=((1 << 31) - 1,) * 3, has_fma=False)

    @property
    def info(self) -> DeviceInfo:
        return self._info

    def compile(self, kernel: Kernel) -> TccProgram:
        check_limits(kernel, self._info)
        return TccProgram(kernel, text := render(kernel), *self._compiler.build(text, SYMBOL))

    def release(self, program: Program) -> None:
        own = self._own(program)
        self._compiler.free(own.state)
        own.state = None

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self._pool.sync_events(events)
        own = self._own(program)
        check_arguments(args, own.parameters, self._pool, f"kernel {own.name} on {self.name}")
        words = (ctypes.c_uint64 * len(args))()
        for number, (arg, parameter) in enumerate(zip(args, own.parameters, strict=True)):
            if parameter.scalar is None:
                words[number] = self._pool.own(arg).address
            else:
                words[number] = int.from_bytes(scalar_bytes(arg, parameter.scalar, own.name), "little")
        own.function(words)
        return self._pool.completed()

    def close(self) -> None:
        pass  # nothing is queued, and programs are freed by `release`

    def _own(self, program: Program) -> TccProgram:
        if not isinstance(program, TccProgram) or program.state is None:
            raise LaunchError(f"program {program.name} is not one of device {self.name}, or was released")
        return program
