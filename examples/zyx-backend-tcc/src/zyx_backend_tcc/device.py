"""One core as a device, on host memory: a launch is complete when it returns."""

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import STORAGE_ONLY, Argument, DeviceInfo, Event, Program, full_capability
from zyx.builtin.host import HostPool
from zyx.drivers.arguments import check_arguments, parameters_of, scalar_bytes
from zyx.drivers.device_program import DeviceProgram
from zyx.drivers.driver_device import DriverDevice
from zyx.drivers.limits import check_limits
from zyx.kernel.data import Kernel
from zyx_backend_tcc.driver import Compiler
from zyx_backend_tcc.render import SYMBOL, render


class TccProgram(DeviceProgram):
    """A function in memory; `state` owns it, until `free` is called with it."""

    def __init__(self, kernel: Kernel, source: str, device: "TccDevice", state: ctypes.c_void_p, address: int) -> None:
        what = f"kernel {kernel.name} on {device.name}"
        super().__init__(kernel.name, source, what, device.memory_pool, parameters_of(kernel))
        self.function: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self._free = partial(device.compiler.free, state)

    def release(self) -> None:
        super().release()
        self._free()


class TccDevice(DriverDevice[TccProgram]):
    """One core of the processor. What its capabilities leave out, core makes of the rest."""

    program_type = TccProgram
    takes_fronts = True
    takes_loop_ends = True

    def __init__(self, name: str, pool: HostPool) -> None:
        capabilities = {
            dtype: full_capability(dtype, atomic=ops.reduce_ops(dtype), transcendental=False) for dtype in dtypes.ALL
        }
        capabilities |= dict.fromkeys((dtypes.float16, dtypes.bfloat16), STORAGE_ONLY)
        info = DeviceInfo("one core", "tcc 0.1.0", capabilities, max_groups=((1 << 31) - 1,) * 3, has_fma=False)
        super().__init__(name, pool, info)
        self._pool = pool
        self.compiler = Compiler()

    def compile(self, kernel: Kernel) -> TccProgram:
        check_limits(kernel, self.info)
        return TccProgram(kernel, text := render(kernel), self, *self.compiler.build(text, SYMBOL))

    def launch(self, program: Program, args: Sequence[Argument], events: Sequence[Event] = ()) -> Event:
        self._pool.sync_events(events)
        own = self.own(program)
        check_arguments(args, own.parameters, self._pool, own.what)
        words = (ctypes.c_uint64 * len(args))()
        for number, (arg, parameter) in enumerate(zip(args, own.parameters, strict=True)):
            if parameter.scalar is None:
                words[number] = self._pool.own(arg).address
            else:
                words[number] = int.from_bytes(scalar_bytes(arg, parameter.scalar, own.name), "little")
        own.function(words)
        return self._pool.completed()
