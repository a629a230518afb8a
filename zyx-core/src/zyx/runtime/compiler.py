"""From nests to programs: schedule, lower, simplify, compile; each kernel once."""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.errors import BackendError
from zyx.ir.digest import digest_of_kernel, digest_of_nests
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.runtime.plan import LaunchStep
from zyx.schedule.heuristics import choose_schedule
from zyx.schedule.lower import lower_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device, Program
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.plan import Plan
    from zyx.runtime.trace import Trace


#: Programs that are kept where no plan launches most of them. Each takes tens of kilobytes of the process.
_MOST_PROGRAMS: Final = 1024
#: Digest of a kernel or of nests, and the device.
_Key: TypeAlias = tuple[str, bytes]


@dataclass(slots=True, eq=False)
class _Known:
    """A program, or the promise of one.

    Attributes:
        future: The promise.
        device: Whose it is.
        nests: The keys of the nests that became its kernel.
    """

    future: Future[Program]
    device: Device
    nests: list[_Key] = field(default_factory=list)


class Compiler:
    """Compiles kernels, and remembers their programs by nests and device, and by kernel and device.

    Backends compile in a thread of its own, while the next kernel is being scheduled here: most of that time is spent
    outside of Python.

    Programs stay as long as a plan that was given to `hold` is alive and launches them, and from when they are asked
    for until the next one is. Of others, those that were asked for last are kept: `_MOST_PROGRAMS` in all.

    Attributes:
        compiled: Number of programs that were compiled.
        scheduled: Number of kernels that were scheduled and lowered for that.
    """

    def __init__(self, trace: Trace) -> None:
        self.compiled = 0
        self.scheduled = 0
        self._trace: Final = trace
        self._programs: OrderedDict[_Key, _Known] = OrderedDict()  # by kernel, the one asked for last at the end
        self._kernels: dict[_Key, _Key] = {}  # by nests
        self._plans: weakref.WeakSet[Plan] = weakref.WeakSet()
        self._asked_for: set[_Known] = set()  # since the last plan: those of the one that is being made
        self._thread: ThreadPoolExecutor | None = None

    @property
    def programs(self) -> int:
        """Number of programs that are kept."""
        return len(self._programs)

    def start(self, nests: Sequence[Nest], name: str, device: Device) -> Future[Program]:
        """Return the future program of nests that run side by side; its buffers are their params, each once.

        Raises:
            UnsupportedError: The device cannot run it (also from the future).
        """
        nests_key = (device.name, digest_of_nests(nests))
        kernel_key = self._kernels.get(nests_key)
        if kernel_key is not None:
            found = self._find(kernel_key)
            if found is not None:
                return found.future
        kernel = self.kernel_of(nests, name, device)
        kernel_key = (device.name, digest_of_kernel(kernel))
        known = self._find(kernel_key) or self._started(kernel_key, kernel, device)
        if nests_key not in known.nests:
            known.nests.append(nests_key)
        self._kernels[nests_key] = kernel_key
        return known.future

    def start_kernel(self, kernel: Kernel, device: Device) -> Future[Program]:
        """Return the future program of a kernel that is ready for the device."""
        key = (device.name, digest_of_kernel(kernel))
        return (self._find(key) or self._started(key, kernel, device)).future

    def _find(self, key: _Key) -> _Known | None:
        """Return the program of that key, which nobody has to compile again, if there is one."""
        known = self._programs.get(key)
        if known is None or _has_failed(known.future):
            return None
        self._programs.move_to_end(key)
        self._asked_for.add(known)
        return known

    def _started(self, key: _Key, kernel: Kernel, device: Device) -> _Known:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="zyx-compile")
        future = self._thread.submit(copy_context().run, self._compile, kernel, device)
        known = self._programs[key] = _Known(future, device)
        self._asked_for.add(known)
        return known

    def hold(self, plan: Plan) -> None:
        """Keep the programs of `plan` for as long as it is alive, and let others go if there are too many."""
        self._plans.add(plan)
        self._asked_for.clear()
        if len(self._programs) > _MOST_PROGRAMS:
            self._release_unused(_MOST_PROGRAMS * 7 // 8)  # some at a time: finding them goes through all plans

    def drop_unused(self) -> None:
        """Release all programs that no plan launches, nor one that is being made."""
        self._release_unused(0)

    def _release_unused(self, most: int) -> None:
        """Release programs that no plan launches until `most` are left, those asked for longest ago first."""
        used = {step.program for plan in self._plans for step in plan.steps if isinstance(step, LaunchStep)}
        for key, known in list(self._programs.items()):
            if len(self._programs) <= most:
                break
            if known in self._asked_for or not known.future.done():
                continue
            if _has_failed(known.future) or known.future.result() not in used:
                self._forget(key)
                _release(known)

    def _forget(self, key: _Key) -> None:
        for nests in self._programs.pop(key).nests:
            del self._kernels[nests]

    def kernel_of(self, nests: Sequence[Nest], name: str, device: Device) -> Kernel:
        """Return the kernel of nests that run side by side, as the device is given it."""
        self.scheduled += 1
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
            for key in [key for key, known in self._programs.items() if known.future is future]:
                self._forget(key)
            raise

    def close(self) -> None:
        """Release all programs."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        for known in self._programs.values():
            if known.future.done():
                _release(known)
        self._programs.clear()
        self._kernels.clear()
        self._asked_for.clear()

    def after_fork(self) -> None:
        """Start over in a child process, which does not have the thread."""
        self._thread = None
        for key in [key for key, known in self._programs.items() if not known.future.done()]:
            self._forget(key)


def _release(known: _Known) -> None:
    """Release a program whose compilation is over, if it has become one."""
    if not _has_failed(known.future):
        with suppress(BackendError):  # a lost device
            known.device.release(known.future.result())


def _has_failed(future: Future[Program]) -> bool:
    """Whether a compilation is over and failed: nobody has asked for its result, or it would be forgotten."""
    return future.done() and future.exception() is not None
