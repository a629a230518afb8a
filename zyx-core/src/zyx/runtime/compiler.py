"""From nests to programs: schedule, lower, simplify, compile; each kernel once."""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from zyx.errors import BackendError, CompileError, UnsupportedError
from zyx.ir.digest import digest_of_kernel, digest_of_nests
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.runtime.background import Background
from zyx.runtime.plan import LaunchStep
from zyx.schedule import fallback
from zyx.schedule.lower import lower_together

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.plan import Plan
    from zyx.runtime.trace import Trace


#: Programs that are kept where no plan launches most of them. Each takes tens of kilobytes of the process.
_MOST_PROGRAMS: Final = 1024
#: What a device says of a kernel that another schedule may mend.
REFUSALS: Final = (UnsupportedError, CompileError)
#: The device, and the digest of a kernel or of nests, or what a library is asked for.
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


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Nests whose program is being compiled.

    Attributes:
        nests: They run side by side.
        name: Of the kernel.
        device: To run them.
        schedule: Number of the schedule that they have.
        refused: Keys of the kernels that the device has refused, and what it said of the last one.
    """

    nests: Sequence[Nest]
    name: str
    device: Device
    schedule: int
    refused: tuple[_Key, ...] = ()
    error: Exception | None = None


class Compiler:
    """Compiles kernels, and remembers their programs by nests and device, and by kernel and device.

    Backends compile in a thread of its own, while the next kernel is being scheduled here: most of that time is spent
    outside of Python.

    Programs stay as long as a plan that was given to `hold` is alive and launches them, and from when they are asked
    for until the next one is. Of others, those that were asked for last are kept: `_MOST_PROGRAMS` in all.

    Nests whose schedule fails, or is refused by the device, get the next simpler one of `zyx.schedule.fallback`.

    Attributes:
        compiled: Number of programs that were compiled.
        scheduled: Number of kernels that were scheduled and lowered for that.
        trace: Is told of what happens.
    """

    def __init__(self, trace: Trace) -> None:
        self.compiled = 0
        self.scheduled = 0
        self.trace = trace
        self._programs: OrderedDict[_Key, _Known] = OrderedDict()  # by kernel, the one asked for last at the end
        self._kernels: dict[_Key, _Key] = {}  # by nests
        self._plans: weakref.WeakSet[Plan] = weakref.WeakSet()
        self._attempts: dict[Future[Program], _Attempt] = {}
        self._instead: dict[Future[Program], Future[Program]] = {}  # of one that failed
        self._schedules: dict[_Key, int] = {}  # by nests, the number of the schedule that works, if not the first
        self._asked_for: set[_Known] = set()  # since the last plan: those of the one that is being made
        self._background = Background("zyx-compile")

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
                self.trace.started(found.future, nests, device, self._schedules.get(nests_key, 0))
                return found.future
        return self._start(_Attempt(nests, name, device, self._schedules.get(nests_key, 0)), nests_key)

    def _start(self, attempt: _Attempt, nests_key: _Key) -> Future[Program]:
        device = attempt.device
        kernel, attempt = self._lowered(attempt)
        kernel_key = (device.name, digest_of_kernel(kernel))
        while kernel_key in attempt.refused and attempt.error is not None:
            kernel, attempt = self._lowered(self._simpler(attempt, attempt.error))
            kernel_key = (device.name, digest_of_kernel(kernel))
        if attempt.schedule:
            self._schedules[nests_key] = attempt.schedule
        known = self._find(kernel_key) or self._started(kernel_key, kernel, device)
        if nests_key not in known.nests:
            known.nests.append(nests_key)
        self._kernels[nests_key] = kernel_key
        self._attempts[known.future] = attempt
        self.trace.started(known.future, attempt.nests, device, attempt.schedule)
        return known.future

    def start_kernel(self, kernel: Kernel, device: Device) -> Future[Program]:
        """Return the future program of a kernel that is ready for the device."""
        key = (device.name, digest_of_kernel(kernel))
        return (self._find(key) or self._started(key, kernel, device)).future

    def prepared(self, library: LibraryKernel, problem: Problem, device: Device) -> Program:
        """Return a library's program for `problem`, kept and released as those of kernels are.

        Raises:
            UnsupportedError: The library has none.
        """
        key = (device.name, f"{library.name} {id(library)} {problem}".encode())
        known = self._find(key)
        if known is None:  # made where kernels are compiled: both may need what only one thread can have
            known = _Known(self._background.submit(copy_context().run, library.prepare, problem), device)
            known.future.result()
            self._programs[key] = known
            self._asked_for.add(known)
        return known.future.result()

    def _find(self, key: _Key) -> _Known | None:
        """Return the program of that key, which nobody has to compile again, if there is one."""
        known = self._programs.get(key)
        if known is None or _has_failed(known.future):
            return None
        self._programs.move_to_end(key)
        self._asked_for.add(known)
        return known

    def _started(self, key: _Key, kernel: Kernel, device: Device) -> _Known:
        future = self._background.submit(copy_context().run, self._compile, kernel, device)
        known = self._programs[key] = _Known(future, device)
        self._asked_for.add(known)
        return known

    def hold(self, plan: Plan) -> None:
        """Keep the programs of `plan` for as long as it is alive, and let others go if there are too many."""
        self._plans.add(plan)
        self._finish()
        if len(self._programs) > _MOST_PROGRAMS:
            self._release_unused(_MOST_PROGRAMS * 7 // 8)  # some at a time: finding them goes through all plans

    def _finish(self) -> None:
        """Forget what is of interest only while a plan is being made."""
        self._asked_for.clear()
        self._attempts.clear()
        self._instead.clear()

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
        schedule = self._schedules.get((device.name, digest_of_nests(nests)), 0)
        return self._lowered(_Attempt(nests, name, device, schedule))[0]

    def _lowered(self, attempt: _Attempt) -> tuple[Kernel, _Attempt]:
        """Return the kernel of the first schedule, from that of `attempt` on, that can be lowered; and the attempt."""
        nests, name, device = attempt.nests, attempt.name, attempt.device
        while True:
            self.scheduled += 1
            try:
                scheduled = []
                for nest in nests:
                    chosen, moves = fallback.SCHEDULES[attempt.schedule].choose(nest, device.info, len(nests) == 1)
                    self.trace.scheduled(name, nest, chosen, moves)
                    scheduled.append(chosen)
                return self.simplified(lower_together(scheduled, name), device), attempt
            # Border to what is there for speed only: whatever it raises is no reason not to compute. The last schedule
            # has nothing of it, and what it raises is raised.
            except Exception as error:  # noqa: BLE001
                attempt = self._simpler(attempt, error)

    def _simpler(self, attempt: _Attempt, error: Exception) -> _Attempt:
        """Return what to try after an attempt that ended in `error`, which is raised if there is nothing more."""
        if attempt.schedule + 1 >= len(fallback.SCHEDULES):
            raise error
        tried, following = fallback.SCHEDULES[attempt.schedule : attempt.schedule + 2]
        self.trace.fell_back(attempt.name, tried.name, following.name, error)
        return replace(attempt, schedule=attempt.schedule + 1)

    def simplified(self, kernel: Kernel, device: Device) -> Kernel:
        """Return `kernel` after the passes that the device needs."""
        kernel = run_passes(kernel, standard_passes(device.info), check=self.trace.checks)
        self.trace.lowered(kernel)
        return kernel

    def _compile(self, kernel: Kernel, device: Device) -> Program:
        started = time.perf_counter()
        program = device.compile(kernel)
        self.compiled += 1
        self.trace.compiled(device, program, time.perf_counter() - started)
        return program

    def result(self, future: Future[Program]) -> Program:
        """Return the program that `start` promised, with a simpler schedule if the device refused the one it had.

        One that failed is forgotten, so that it is tried again next time.

        Raises:
            BackendError: The device refused the kernel.
        """
        while True:
            future = self._instead.get(future, future)
            try:
                return future.result()
            except REFUSALS as error:
                refused = self._forget_failed(future)
                attempt = self._attempts.get(future)
                if attempt is None:
                    raise
                attempt = self._simpler(replace(attempt, refused=attempt.refused + refused, error=error), error)
                nests_key = (attempt.device.name, digest_of_nests(attempt.nests))
                self._instead[future] = self._start(attempt, nests_key)
            except BaseException:
                self._forget_failed(future)
                raise

    def _forget_failed(self, future: Future[Program]) -> tuple[_Key, ...]:
        """Forget a program that did not come about; return its key, if it was known."""
        keys = tuple(key for key, known in self._programs.items() if known.future is future)
        for key in keys:
            self._forget(key)
        return keys

    def close(self) -> None:
        """Release all programs."""
        self._background.close()
        for known in self._programs.values():
            if known.future.done():
                _release(known)
        self._programs.clear()
        self._kernels.clear()
        self._schedules.clear()
        self._finish()

    def after_fork(self) -> None:
        """Start over in a child process, which does not have the thread."""
        self._background = Background("zyx-compile")
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
