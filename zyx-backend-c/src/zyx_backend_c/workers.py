"""The worker pool: runs native functions over groups, on several threads when that pays.

The loop that workers live in, and the one that runs a launch, are native code (`workers.ll`, a page to read), so a
launch is one foreign call. The threads are Python threads that enter that code once and stay in it, without the
interpreter's lock, until the pool is closed; a thread from Python needs no code for each system, and ends with the
interpreter.

When work is shared (by `Step.cost_ns`, estimated when a kernel is compiled, and the limits in `Sharing`):

* small steps, never: handing out chunks costs about a microsecond and cold caches;
* larger ones, only if workers happen to be awake, which they are for some 50 us after their last job: waking one takes
  40 to 140 us, in which the caller gets as much done alone;
* those that are worth waking somebody for, always; here the costs of all steps of a captured sequence count together.

Idle workers sleep in the kernel (futex), which is Linux only; elsewhere everything runs on the calling thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Final

from zyx.errors import AllocationError
from zyx_backend_c import driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx_backend_c.target import Target

#: Numbers of the system calls futex and sched_yield.
_SYSTEM_CALLS: Final = {"x86_64": ("202", "24"), "aarch64": ("98", "124")}
_PAUSE: Final = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}

# Places of the fields of %Pool in workers.ll, in words of 8 bytes.
_SLEEPERS, _WORKERS, _JOB, _SCRATCH, _STRIDE, _SHARE, _WAKE, COUNTERS, _WORDS = 16, 17, 24, 28, 29, 30, 31, 32, 40


@dataclass(frozen=True, slots=True)
class Sharing:
    """When work is shared, and how finely.

    Attributes:
        share_ns: Nanoseconds of work on one thread from which a step is shared with workers that are awake.
        wake_ns: Nanoseconds of work from which sleeping workers are woken.
        chunk_ns: Nanoseconds of work that a chunk has at least.
        chunks: Chunks that a step is cut into, a thread. More even out threads of unlike speed, at a microsecond each.
        spins: Turns that an idle worker waits before it sleeps; 2000 take 20 to 80 us, by processor.
    """

    share_ns: int = 8_000
    wake_ns: int = 60_000
    chunk_ns: int = 2_000
    chunks: int = 4
    spins: int = 2000


@dataclass(frozen=True, slots=True)
class Counters:
    """What a pool did since it was made.

    Attributes:
        calls: Native calls.
        steps: Steps run in them.
        shared: Steps shared with workers.
        wakes: Times that sleeping workers were woken.
        helped: Chunks that workers ran.
    """

    calls: int
    steps: int
    shared: int
    wakes: int
    helped: int


def runtime_text(target: Target) -> str:
    """Return `workers.ll` with the placeholders filled in for a processor and system."""
    machine = "x86_64" if target.is_x86 else "aarch64" if target.is_arm else ""
    text = resources.files("zyx_backend_c").joinpath("workers.ll").read_text(encoding="ascii")
    if can_share(target):
        futex, sched_yield = _SYSTEM_CALLS[machine]
        declare = "declare i64 @syscall(i64, ...)"
    else:  # never called: there are no workers
        futex = sched_yield = "0"
        declare = "define internal i64 @syscall(i64 %number, ...) {\n  ret i64 0\n}"
    return (
        text.replace("DECLARE_SYSCALL", declare)
        .replace("i64 FUTEX", f"i64 {futex}")
        .replace("i64 YIELD", f"i64 {sched_yield}")
        .replace("  PAUSE", f"  {_PAUSE.get(machine, '; no pause')}")
    )


def can_share(target: Target) -> bool:
    """Whether workers exist on this system."""
    return target.is_linux and (target.is_x86 or target.is_arm)


class WorkerPool:
    """Threads, and the scratch memory of each.

    Args:
        code: `runtime_text`, compiled and linked: the functions ``zyx_run``, ``zyx_work`` and ``zyx_stop``.
        threads: How many work, the calling one included; workers start with the first launch that wants them.
        sharing: When work is shared.

    Attributes:
        run: ``run(pool, program)``: runs the program at the address `program`, see `CpuProgram`. One call at a time.
        address: The argument `pool`.
        is_started: Whether workers were started, or there are none to start.
        least_shared_ns: Least cost of a launch that may be shared.
        scratch_bytes: Scratch memory that every thread has.
        entries: What makes the entry of the program at an address, see `zyx_backend_c.entry`; None if there are none.
        lock: Held while arguments are written and steps run, and while scratch memory changes. Whoever has it may ask
            for it again: handlers of signals run in the middle of a launch, and may launch.
        is_launching: Whether a launch is under way; of the thread that has the lock, then.
        users: How many devices use the pool.
    """

    def __init__(
        self,
        code: driver.Code,
        threads: int,
        sharing: Sharing,
        entries: driver.Builtins | None = None,
    ) -> None:
        self._code = code
        self.entries = entries
        self._sharing = sharing
        self.threads = threads
        self.run: Callable[[int, int], None] = driver.procedure(code.addresses["zyx_run"], 2)
        self._state = driver.NativeWords(_WORDS)
        self.address = self._state.address
        self.is_started = threads == 1
        self.least_shared_ns = sharing.share_ns
        self.lock = threading.RLock()
        self.is_launching = False
        self.users = 0
        self.scratch_bytes = 0
        self._scratch: driver.Pages | None = None
        self._workers: list[threading.Thread] = []
        words = self._state.words
        words[_SHARE], words[_WAKE] = sharing.share_ns, sharing.wake_ns
        # Threads that are still in native code when the interpreter ends must not run code that is unloaded under them.
        self._finalizer = weakref.finalize(self, _stop, code, self._state, self._workers)
        _forget_after_fork(self)

    @property
    def counters(self) -> Counters:
        """What was done so far."""
        return Counters(*self._state.words[COUNTERS : COUNTERS + 5])

    def start(self) -> None:
        """Start the workers, or as many as the system has threads for. Call with the lock held, and only once."""
        self.is_started = (
            True  # whatever happens: a second worker of one number would share the first one's scratch memory
        )
        work = driver.procedure(self._code.addresses["zyx_work"], 2)
        words = self._state.words
        words[_WORKERS] = self._sharing.spins << 32
        for index in range(1, self.threads):
            worker = driver.native_thread(f"zyx-c-{index}", work, self.address, index)
            self._workers.append(worker)  # before it starts, so that it is stopped whatever interrupts this
            try:
                worker.start()
            except (RuntimeError, MemoryError):  # Python's errors for a thread that the system refuses
                self._workers.pop()
                break
            words[_WORKERS] += 1

    def reserve_scratch(self, nbytes: int) -> None:
        """See to it that every thread has `nbytes` bytes of scratch memory. Call with the lock held; contents are lost.

        Raises:
            AllocationError: The system has no room.
        """
        if nbytes <= self.scratch_bytes:
            return
        # 8 KiB beyond a power of two keep the threads' blocks out of each other's cache sets.
        stride = (1 << (nbytes - 1).bit_length()) + 8192
        try:
            pages = driver.Pages(stride * self.threads)
        except (OSError, MemoryError) as error:
            raise AllocationError(
                f"no memory for {self.threads} times {stride} bytes of scratch memory: {error}"
            ) from error
        self._state.words[_SCRATCH], self._state.words[_STRIDE] = pages.address, stride
        self._scratch, self.scratch_bytes = pages, stride

    def chunk(self, groups: int, cost_ns: float) -> int:
        """Return how many groups to hand out at a time for a step of so many, so expensive on one thread."""
        sharing = self._sharing
        chunks = min(groups, self.threads * sharing.chunks, max(1, int(cost_ns / sharing.chunk_ns)))
        return groups if self.threads == 1 else -(-groups // chunks)

    def close(self) -> None:
        """Stop the workers and wait until they have left. Nothing may run any more."""
        self._finalizer()
        self.is_started = True

    def after_fork(self) -> None:
        """Start over in a child process, which has none of the threads."""
        self.lock = threading.RLock()
        self._workers.clear()
        words = self._state.words
        words[0] = words[_SLEEPERS] = words[_WORKERS] = 0
        self.is_started = self.threads == 1


def _stop(code: driver.Code, state: driver.NativeWords, workers: list[threading.Thread]) -> None:
    if workers:
        driver.procedure(code.addresses["zyx_stop"], 1)(state.address)
        for worker in workers:
            if worker.is_alive():
                worker.join()
        workers.clear()


def _forget_after_fork(pool: WorkerPool) -> None:
    """Call `after_fork` in child processes, as long as `pool` lives."""
    if not hasattr(os, "register_at_fork"):  # Windows
        return
    reference = weakref.ref(pool)

    def forget() -> None:
        alive = reference()
        if alive is not None:
            alive.after_fork()

    os.register_at_fork(after_in_child=forget)
