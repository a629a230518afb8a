"""From nests to programs, each compiled once: what was found before, in this process or on disk, is not lowered."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import OrderedDict
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from zyx.autotune.store import TuningStore, digest_with
from zyx.backend import SupportsNests
from zyx.drivers.rendered import SupportsRendering
from zyx.errors import BackendError, CompileError, UnsupportedError
from zyx.kernel.digest import digest_of_kernel
from zyx.lazy_import import lazy_import
from zyx.nest.digest import digest_of_nests
from zyx.runtime.attempt import Attempt
from zyx.runtime.background import Background
from zyx.runtime.kernel_cache import KernelCache, Origin
from zyx.runtime.steps import LaunchStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any

    from zyx.autotune.store import Winner
    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.runtime import lowering
    from zyx.runtime.attempt import Key
    from zyx.runtime.kept_plan import KeptPlan
    from zyx.runtime.lowering import Lowering
    from zyx.runtime.plan import Plan
    from zyx.runtime.trace import Trace
    from zyx.schedule.moves import Move
else:
    lowering = lazy_import("zyx.runtime.lowering", globals())


#: Programs that are kept where no plan launches most of them. Each takes tens of kilobytes of the process.
_MOST_PROGRAMS: Final = 1024
#: What a device says of a kernel that another schedule may mend.
REFUSALS: Final = (UnsupportedError, CompileError)


@dataclass(slots=True, eq=False)
class _Known:
    """A program, or the promise of one.

    Attributes:
        future: The promise.
        device: Whose it is.
        nests: The keys of the nests that became its kernel.
        kernel: The digest of its kernel, as far as that may be kept on disk.
    """

    future: Future[Program]
    device: Device
    nests: list[Key] = field(default_factory=list)
    kernel: bytes | None = None


class Compiler:
    """Compiles kernels, and remembers their programs by nests and device, and by kernel and device.

    Backends compile in a thread of its own, or in several (`Device.compiles_at_once`), while the next kernel is being
    scheduled here: most of that time is spent outside of Python.

    Programs stay as long as a plan that was given to `hold` is alive and launches them, and from when they are asked
    for until the next one is. Of others, those that were asked for last are kept: `_MOST_PROGRAMS` in all.

    Nests for which a schedule was found by measuring get that; one that does not do is dropped. Nests whose schedule
    fails, or is refused by the device, get the next simpler one of `zyx.schedule.fallback`. What was rendered of
    kernels is kept on disk for the processes that come later, unless schedules or kernels are shown.

    Args:
        trace: Is told of what happens.
        kept: Rendered kernels on disk.
        store: What was found by measuring.
        tuned: Called with nests for which nothing was found, their name and device: it may look for something now.
        others: What reads the moves of other packages that a device has.

    Attributes:
        compiled: Number of programs that were made.
        restored: Number of those that were made of what was kept on disk.
        kept: Rendered kernels on disk.
        store: What was found by measuring.
    """

    def __init__(
        self,
        trace: Trace,
        kept: KernelCache | None = None,
        store: TuningStore | None = None,
        tuned: Callable[[Sequence[Nest], str, Device], None] | None = None,
        others: Callable[[Device], Mapping[str, Callable[[dict[str, Any]], Move]]] = lambda device: {},
    ) -> None:
        self.compiled = 0
        self.restored = 0
        self.trace = trace
        self.store = TuningStore(None) if store is None else store
        self._tuned = tuned
        self._others = others
        self.kept = KernelCache(None, 0) if kept is None else kept
        self._made: Lowering | None = None
        self._programs: OrderedDict[Key, _Known] = OrderedDict()  # by kernel, the one asked for last at the end
        self._kernels: dict[Key, Key] = {}  # by nests
        self._plans: weakref.WeakSet[Plan] = weakref.WeakSet()
        self._attempts: dict[Future[Program], Attempt] = {}
        self._instead: dict[Future[Program], Future[Program]] = {}  # of one that failed
        self._schedules: dict[Key, int] = {}  # by nests, the number of the schedule that works, if not the first
        self._asked_for: set[_Known] = set()  # since the last plan: those of the one that is being made
        self._background = Background("zyx-compile")
        self._turn = 0
        self._count_lock = threading.Lock()
        self._beside: list[Background] = []  # for devices that compile in several threads at once

    @property
    def scheduled(self) -> int:
        """Number of kernels that were scheduled and lowered."""
        return 0 if self._made is None else self._made.scheduled

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
                if self.trace.is_followed:
                    schedule = self._schedules.get(nests_key, 0)
                    self.trace.started(found.future, nests, device, schedule, self.store.get(device, nests_key[1]))
                return found.future
        return self._start(self._attempt(nests, name, device, self.winner(nests, name, device)), nests_key)

    def _attempt(self, nests: Sequence[Nest], name: str, device: Device, winner: Winner | None) -> Attempt:
        """Return the first attempt at nests: by the schedule that was found for them, if one was."""
        schedule = self._schedules.get((device.name, digest_of_nests(nests)), 0)
        has_schedule = winner is not None and winner.schedules is not None
        return Attempt(nests, name, device, schedule, winner=winner if has_schedule else None)

    def winner(self, nests: Sequence[Nest], name: str, device: Device) -> Winner | None:
        """Return what was found by measuring for nests that run side by side, or is found now; None if nothing was."""
        digest = digest_of_nests(nests)
        winner = self.store.get(device, digest)
        if winner is None and self._tuned is not None:
            self._tuned(nests, name, device)
            winner = self.store.get(device, digest)
        return winner

    def found(self, nests: Sequence[Nest], device: Device) -> None:
        """Take note that something was found for nests by measuring: they are compiled anew when asked for."""
        key = (device.name, digest_of_nests(nests))
        kernel_key = self._kernels.pop(key, None)
        if kernel_key is not None and kernel_key in self._programs:
            self._programs[kernel_key].nests.remove(key)

    def _start(self, attempt: Attempt, nests_key: Key) -> Future[Program]:
        """Return the future program of nests of which none is known."""
        device = attempt.device
        if isinstance(device, SupportsNests):
            return self._given(attempt, device, nests_key)
        origin = digest_with(nests_key[1], attempt.winner)
        restored = self._restored(nests_key, device, origin) if attempt.error is None else None
        if restored is not None:
            known, schedule = restored
            attempt = replace(attempt, schedule=schedule, is_kept=True)
        else:
            made = self._lowering
            kernel, attempt = made.lowered(attempt)
            kernel_key = (device.name, digest_of_kernel(kernel))
            while kernel_key in attempt.refused and attempt.error is not None:
                kernel, attempt = made.lowered(made.simpler(attempt, attempt.error))
                kernel_key = (device.name, digest_of_kernel(kernel))
            known = self._find(kernel_key) or self._compiling(kernel_key, kernel, device)
            self._note(nests_key, kernel_key, known, attempt.schedule, digest_with(nests_key[1], attempt.winner))
        if attempt.schedule:
            self._schedules[nests_key] = attempt.schedule
        self._attempts[known.future] = attempt
        self.trace.started(known.future, attempt.nests, device, attempt.schedule, attempt.winner)
        return known.future

    def _given(self, attempt: Attempt, device: Device, nests_key: Key) -> Future[Program]:
        """Return the future program of nests that a device takes as they are; there is no simpler schedule."""
        known = self._started(
            nests_key, device, functools.partial(self._compile_nests, attempt.nests, attempt.name, device)
        )
        self._link(nests_key, nests_key, known)
        self.trace.started(known.future, attempt.nests, device, attempt.schedule, None)
        return known.future

    def _compile_nests(self, nests: Sequence[Nest], name: str, device: Device) -> Program:
        assert isinstance(device, SupportsNests)  # as `_start` has found
        started = time.perf_counter()
        program = device.compile_nests(nests, name)
        with self._count_lock:
            self.compiled += 1
        self.trace.compiled(device, program, time.perf_counter() - started)
        return program

    def start_kernel(self, kernel: Kernel, device: Device) -> Future[Program]:
        """Return the future program of a hand-written kernel."""
        key = (device.name, digest_of_kernel(kernel))
        found = self._find(self._kernels[key]) if key in self._kernels else None
        if found is None:
            restored = self._restored(key, device)
            found = None if restored is None else restored[0]
        if found is None:
            simplified = self._lowering.simplified(kernel, device)
            kernel_key = (device.name, digest_of_kernel(simplified))
            found = self._find(kernel_key) or self._compiling(kernel_key, simplified, device)
            self._note(key, kernel_key, found, 0)
        return found.future

    def _restored(self, key: Key, device: Device, digest: bytes = b"") -> tuple[_Known, int] | None:
        """Return the program of what an earlier process rendered for nests, or a hand-written kernel; its schedule.

        `digest` is what it is kept by, if not by the key.
        """
        if self.trace.makes_kernels:
            return None
        origin = self.kept.origin(device, digest or key[1])
        if origin is None:
            return None
        kernel_key = (device.name, origin.kernel)
        known = self._of_kernel(kernel_key, device)
        if known is None:
            return None
        self._link(key, kernel_key, known)
        return known, origin.schedule

    def _of_kernel(self, key: Key, device: Device) -> _Known | None:
        """Return the program of the kernel with that key, out of this process or of what an earlier one rendered."""
        known = self._find(key)
        if known is None and (rendered := self.kept.rendered(device, key[1])) is not None:
            known = self._started(key, device, functools.partial(self._build, rendered, device))
            known.kernel = key[1]
        return known

    def programs_of(self, kernels: Sequence[tuple[Device, bytes]]) -> list[Program] | None:
        """Return the programs of kernels by their digests, on devices; None if one is neither here nor kept on disk.

        Raises:
            BackendError: A device refused one.
        """
        found: list[_Known] = []
        for device, digest in kernels:
            known = self._of_kernel((device.name, digest), device)
            if known is None:
                return None
            found.append(known)
        return [self.result(known.future) for known in found]

    def kernels_of(self, plan: Plan) -> dict[Program, bytes]:
        """Return the digests of the kernels of a plan's programs, as far as these may be kept on disk."""
        launched = {step.program for step in plan.steps if isinstance(step, LaunchStep)}
        return {
            program: known.kernel
            for known in self._programs.values()
            if known.kernel and known.future.done() and not _has_failed(known.future)
            if (program := known.future.result()) in launched
        }

    def keep_plan(self, devices: Sequence[Device], digest: str, plan: KeptPlan) -> None:
        """Keep a plan on disk, behind the kernels that it launches."""
        self._background.submit(self.kept.keep_plan, devices, digest, plan)

    def _note(self, key: Key, kernel_key: Key, known: _Known, schedule: int, digest: bytes = b"") -> None:
        """Note which kernel nests became, or a hand-written one, for this process and later ones; see `_restored`."""
        self._link(key, kernel_key, known)
        self._background.submit(self.kept.note, known.device, digest or key[1], Origin(kernel_key[1], schedule))

    def _link(self, key: Key, kernel_key: Key, known: _Known) -> None:
        if key not in known.nests:
            known.nests.append(key)
        self._kernels[key] = kernel_key

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

    def _find(self, key: Key) -> _Known | None:
        """Return the program of that key, which nobody has to compile again, if there is one."""
        known = self._programs.get(key)
        if known is None or _has_failed(known.future):
            return None
        self._programs.move_to_end(key)
        self._asked_for.add(known)
        return known

    def _compiling(self, key: Key, kernel: Kernel, device: Device) -> _Known:
        known = self._started(key, device, functools.partial(self._compile, kernel, device, key[1]))
        known.kernel = key[1] if isinstance(device, SupportsRendering) else None
        return known

    def _started(self, key: Key, device: Device, make: Callable[[], Program]) -> _Known:
        known = self._programs[key] = _Known(self._background_of(device).submit(copy_context().run, make), device)
        self._asked_for.add(known)
        return known

    def _background_of(self, device: Device) -> Background:
        """Return the thread that is to compile the next program of `device`: those there may be take turns."""
        if device.compiles_at_once <= 1:
            return self._background
        while len(self._beside) < device.compiles_at_once:
            self._beside.append(Background(f"zyx-compile-{len(self._beside)}"))
        self._turn += 1
        return self._beside[self._turn % device.compiles_at_once]

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

    def take_over(self, programs: Mapping[Program, tuple[Program, Sequence[int]]]) -> None:
        """Have plans launch other programs; see `Plan.take_over`."""
        for plan in list(self._plans):
            plan.take_over(programs)

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

    def _forget(self, key: Key) -> None:
        for nests in self._programs.pop(key).nests:
            del self._kernels[nests]

    def kernel_of(self, nests: Sequence[Nest], name: str, device: Device) -> Kernel:
        """Return the kernel of nests that run side by side, as the device is given it."""
        winner = self.store.get(device, digest_of_nests(nests))
        return self._lowering.lowered(self._attempt(nests, name, device, winner))[0]

    def simplified(self, kernel: Kernel, device: Device) -> Kernel:
        """Return a hand-written kernel after the passes that the device needs."""
        return self._lowering.simplified(kernel, device)

    @property
    def _lowering(self) -> Lowering:
        """Makes kernels, where there is one to make."""
        if self._made is None:
            self._made = lowering.Lowering(self.trace, self._others, self._refused)
        return self._made

    def _refused(self, attempt: Attempt) -> None:
        """Drop what was found for nests by measuring, since it does not do."""
        self.store.drop(attempt.device, digest_of_nests(attempt.nests))

    def _compile(self, kernel: Kernel, device: Device, digest: bytes) -> Program:
        started = time.perf_counter()
        if isinstance(device, SupportsRendering):
            rendered = device.render(kernel)
            program: Program = device.build(rendered)
            self.kept.keep(device, digest, rendered)
        else:
            program = device.compile(kernel)
        with self._count_lock:
            self.compiled += 1
        self.trace.compiled(device, program, time.perf_counter() - started)
        return program

    def _build(self, rendered: object, device: Device) -> Program:
        assert isinstance(device, SupportsRendering)  # or nothing were kept for it
        started = time.perf_counter()
        try:
            program: Program = device.build(rendered)
        except BackendError:
            raise
        except Exception as error:
            raise CompileError(f"{device.name} cannot build what is kept of a kernel: {error}") from error
        with self._count_lock:
            self.compiled += 1
            self.restored += 1
        self.trace.restored(device, program, time.perf_counter() - started)
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
                attempt = replace(attempt, refused=attempt.refused + refused, error=error)
                if attempt.is_kept:  # perhaps it is what was kept that does not do
                    attempt = replace(attempt, is_kept=False, refused=())
                else:
                    attempt = self._lowering.simpler(attempt, error)
                nests_key = (attempt.device.name, digest_of_nests(attempt.nests))
                self._instead[future] = self._start(attempt, nests_key)
            except KeyboardInterrupt:
                if not future.done():  # a compiler that hangs must not keep the process from ending, either
                    for background in (self._background, *self._beside):
                        background.give_up()
                self._forget_failed(future)
                raise
            except BaseException:
                self._forget_failed(future)
                raise

    def _forget_failed(self, future: Future[Program]) -> tuple[Key, ...]:
        """Forget a program that did not come about; return its key, if it was known."""
        keys = tuple(key for key, known in self._programs.items() if known.future is future)
        for key in keys:
            self._forget(key)
        return keys

    def close(self) -> None:
        """Release all programs."""
        for background in (self._background, *self._beside):
            background.close()
        for known in self._programs.values():
            if known.future.done():
                _release(known)
        self._programs.clear()
        self._kernels.clear()
        self._schedules.clear()
        self._finish()
        self.store.close()

    def after_fork(self) -> None:
        """Start over in a child process, which does not have the threads."""
        self._background = Background("zyx-compile")
        self._beside.clear()
        self._count_lock = threading.Lock()
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
