"""From nests to programs: schedule, lower, simplify, compile; each kernel once."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

from zyx.errors import BackendError
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule.heuristics import choose_schedule
from zyx.schedule.lower import lower_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device, Program
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.trace import Trace


class Compiler:
    """Compiles kernels, and remembers their programs by kernel and device.

    Backends compile in a thread of its own, while the next kernel is being scheduled here: most of that time is spent
    outside of Python.

    Attributes:
        compiled: Number of programs that were compiled.
    """

    def __init__(self, trace: Trace) -> None:
        self.compiled = 0
        self._trace: Final = trace
        self._programs: dict[tuple[str, Kernel], Future[Program]] = {}
        self._devices: dict[str, Device] = {}
        self._thread: ThreadPoolExecutor | None = None

    def start(self, nests: Sequence[Nest], name: str, device: Device) -> Future[Program]:
        """Return the future program of nests that run side by side; its buffers are their params, each once.

        Raises:
            UnsupportedError: The device cannot run it (also from the future).
        """
        return self.start_kernel(self.kernel_of(nests, name, device), device)

    def start_kernel(self, kernel: Kernel, device: Device) -> Future[Program]:
        """Return the future program of a kernel that is ready for the device."""
        key = (device.name, kernel)
        found = self._programs.get(key)
        if found is not None and not _has_failed(found):
            return found
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="zyx-compile")
        future = self._thread.submit(copy_context().run, self._compile, kernel, device)
        self._programs[key] = future
        self._devices[device.name] = device
        return future

    def kernel_of(self, nests: Sequence[Nest], name: str, device: Device) -> Kernel:
        """Return the kernel of nests that run side by side, as the device is given it."""
        scheduled = []
        for nest in nests:
            chosen, moves = choose_schedule(nest, device.info, is_alone=len(nests) == 1)
            self._trace.scheduled(name, nest, chosen, moves)
            scheduled.append(chosen)
        return self.simplified(lower_together(scheduled, name), device)

    def simplified(self, kernel: Kernel, device: Device) -> Kernel:
        """Return `kernel` after the passes that the device needs."""
        kernel = run_passes(kernel, standard_passes(device.info), check=self._trace.checks)
        self._trace.lowered(kernel)
        return kernel

    def _compile(self, kernel: Kernel, device: Device) -> Program:
        started = time.perf_counter()
        program = device.compile(kernel)
        self.compiled += 1
        self._trace.compiled(device, program, time.perf_counter() - started)
        return program

    def result(self, future: Future[Program]) -> Program:
        """Return the program that `start` promised. One that failed is forgotten, so that it is tried again next time.

        Raises:
            BackendError: The device refused the kernel.
        """
        try:
            return future.result()
        except BaseException:
            self._programs = {key: known for key, known in self._programs.items() if known is not future}
            raise

    def close(self) -> None:
        """Release all programs."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        for (device, _), future in self._programs.items():
            if future.done() and future.exception() is None:
                with suppress(BackendError):  # a lost device
                    self._devices[device].release(future.result())
        self._programs.clear()

    def after_fork(self) -> None:
        """Start over in a child process, which does not have the thread."""
        self._thread = None
        self._programs = {key: future for key, future in self._programs.items() if future.done()}


def _has_failed(future: Future[Program]) -> bool:
    """Whether a compilation is over and failed: nobody has asked for its result, or it would be forgotten."""
    return future.done() and future.exception() is not None
