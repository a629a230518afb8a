"""Time Vulkan beside other backends that drive the same device: launches, captured plans, copies, compiling, kernels.

    python benchmarks/vulkan_beside.py
    python benchmarks/vulkan_beside.py --devices vulkan:0,opencl:0,cuda:0 --large --clock device --only matmul,softmax

All devices are open in one process and take turns, round after round. A line has the medians of each device, and the
ratio of the first one's to the others': below 1, the first is faster. What is launched is timed by the host, until all
of it is done; kernels also by the device's own clock, with ``--clock device``. First calls are those of new processes,
without anything on disk and with what the one before it left there. Results of kernels are compared with NumPy first.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import zyx
from zyx import dtype as dtypes
from zyx.backend import Launch, Slot
from zyx.errors import LaunchError, UnsupportedError
from zyx.kernel import data as k
from zyx.kernel.build import Builder
from zyx.nn import functional as F
from zyx.ops import BinaryOp
from zyx.runtime.runtime import Runtime, use

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zyx.backend import Device, PoolBuffer
    from zyx.kernel.data import Kernel

#: Launches of a block that are queued, of one that waits for each, and of a plan.
QUEUED: Final = 500
ALONE: Final = 50
PLANNED: Final = 100
#: Elements of what small kernels work on.
ELEMENTS: Final = 64
#: Operations of a kernel that is compiled.
OPERATIONS: Final = 200
#: Relative to the largest element: what the orders of sums differ in.
TOLERANCE: Final = 1e-3

#: What a process that has not computed anything is timed with.
FIRST_CALL: Final = """
import sys, time
import numpy as np
import zyx
x = zyx.Tensor(np.ones((64, 96), np.float32), device=sys.argv[1])
x.realize()
start = time.perf_counter()
zyx.softmax(zyx.sort(x @ x.T, axis=1) * 2.0, axis=1).sum().item()
print(time.perf_counter() - start)
"""


def adding(constant: int, *, takes_number: bool = False) -> Kernel:
    """Return a kernel that adds a constant, or a number that it is launched with, to some integers."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.int32, ELEMENTS)
    number = b.variable(dtypes.int32, "number") if takes_number else b.const(constant, dtypes.int32)
    at = b.index(k.Axis.GROUP, 0, ELEMENTS, dtypes.int32)
    b.store(x, at, b.binary(BinaryOp.ADD, b.load(x, at), number))
    return b.finish(f"add_{constant}")


def empty() -> Kernel:
    """Return a kernel of one thread, which stores one number."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.int32, ELEMENTS)
    b.store(x, b.const(0, dtypes.int32), b.const(0, dtypes.int32))
    return b.finish("empty")


def long_kernel(constant: int) -> Kernel:
    """Return a kernel of many operations, another one for each constant."""
    b = Builder()
    x = b.define(k.Memory.GLOBAL, dtypes.float32, ELEMENTS)
    at = b.index(k.Axis.GROUP, 0, ELEMENTS, dtypes.int32)
    value = b.load(x, at)
    for number in range(OPERATIONS // 2):
        value = b.binary(BinaryOp.MUL, value, value)
        value = b.binary(BinaryOp.ADD, value, b.const(constant + number / OPERATIONS, dtypes.float32))
    b.store(x, at, value)
    return b.finish("long_kernel")


# ---- launches, copies, compiling


class Launched:
    """What is timed of a device below tensors. Each method returns the seconds of one of what it is named after."""

    def __init__(self, device: Device, copied_bytes: int) -> None:
        self._device: Any = device  # by its optional parts, too
        self._pool = device.memory_pool
        self._buffer = self._allocated(4 * ELEMENTS)
        self._empty, self._small = device.compile(empty()), device.compile(adding(1))
        self._with_number = device.compile(adding(2, takes_number=True))
        self._host = np.ones(copied_bytes, np.uint8)
        self._pieces: list[tuple[PoolBuffer, memoryview]] = []
        self._compiled = 0
        self._plan = self._captured([Launch(self._small, (Slot(0),))] * PLANNED, 1)
        try:
            self._numbered = self._captured([Launch(self._with_number, (Slot(0), Slot(1)))] * PLANNED, 2)
        except (LaunchError, UnsupportedError):  # as a device may
            self._numbered = None
        self._turn = 0

    def _allocated(self, nbytes: int) -> PoolBuffer:
        buffer, ready = self._pool.allocate(nbytes)
        data = np.zeros(nbytes, np.uint8)
        self._pool.sync_events([self._pool.host_to_pool(data.data, buffer, [ready])])
        return buffer

    def _captured(self, launches: Sequence[Launch], slots: int) -> Any:  # a program
        return self._device.capture(launches, slots)

    def _timed(self, call: Callable[[], object], count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        self._pool.synchronize()
        return (time.perf_counter() - start) / count

    def _queued(self, program: Any) -> float:  # of any backend
        found = self._device.queue_of(program) if hasattr(self._device, "queue_of") else None
        if found is None:
            return self._timed(lambda: self._device.launch(program, [self._buffer]), QUEUED)
        queue, buffer = found[0], self._buffer
        return self._timed(lambda: queue(buffer), QUEUED)

    def _launched_alone(self, program: Any) -> float:  # as above
        return self._timed(lambda: self._pool.sync_events([self._device.launch(program, [self._buffer])]), ALONE)

    def empty_queued(self) -> float:
        return self._queued(self._empty)

    def small_queued(self) -> float:
        return self._queued(self._small)

    def small_by_event(self) -> float:
        """Queued, each behind the event of the one before."""
        events: list[Any] = []

        def launch() -> None:
            events[:] = [self._device.launch(self._small, [self._buffer], events)]

        return self._timed(launch, QUEUED)

    def empty_alone(self) -> float:
        return self._launched_alone(self._empty)

    def small_alone(self) -> float:
        return self._launched_alone(self._small)

    def plan(self) -> float:
        return self._timed(lambda: self._pool.sync_events([self._device.launch(self._plan, [self._buffer])]), 5)

    def plan_of_other_numbers(self) -> float:
        if self._numbered is None:
            return math.nan

        def launch() -> None:
            self._turn += 1
            self._pool.sync_events([self._device.launch(self._numbered, [self._buffer, self._turn])])

        return self._timed(launch, 5)

    def captured(self) -> float:
        def capture() -> None:
            program = self._captured([Launch(self._small, (Slot(0),))] * PLANNED, 1)
            for _ in range(2):  # a plan may be recorded when it comes again
                self._pool.sync_events([self._device.launch(program, [self._buffer])])
            self._device.release(program)

        return self._timed(capture, 3)

    def _copied(self) -> list[tuple[PoolBuffer, memoryview]]:
        """Return buffers, as large as the device has them, and the parts of an array that go there."""
        if not self._pieces:
            size = min(self._host.nbytes, self._device.info.max_buffer_bytes)
            parts = [self._host[start : start + size] for start in range(0, self._host.nbytes, size)]
            self._pieces = [(self._allocated(part.nbytes), part.data) for part in parts]
        return self._pieces

    def upload(self) -> float:
        pieces = self._copied()
        start = time.perf_counter()
        self._pool.sync_events([self._pool.host_to_pool(data, buffer, []) for buffer, data in pieces])
        return time.perf_counter() - start

    def download(self) -> float:
        pieces = self._copied()
        start = time.perf_counter()
        for buffer, data in pieces:
            self._pool.pool_to_host(buffer, data)
        return time.perf_counter() - start

    def compiled(self) -> float:
        self._compiled += 1
        # No two processes compile the same: drivers have caches of their own.
        kernel = long_kernel(os.getpid() * 1000 + self._compiled)
        start = time.perf_counter()
        program = self._device.compile(kernel)
        seconds = time.perf_counter() - start
        self._device.release(program)
        return seconds


LAUNCHED: Final = {
    "empty kernel, queued": Launched.empty_queued,
    "small kernel, queued": Launched.small_queued,
    "small kernel, behind an event": Launched.small_by_event,
    "empty kernel, one at a time": Launched.empty_alone,
    "small kernel, one at a time": Launched.small_alone,
    "plan of 100 launches": Launched.plan,
    "plan of 100, other numbers": Launched.plan_of_other_numbers,
    "plan of 100, captured": Launched.captured,
    "upload": Launched.upload,
    "download": Launched.download,
    "compiling 200 operations": Launched.compiled,
}

# ---- kernels


def kernels(*, is_large: bool) -> Mapping[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]:
    """Return what is computed, the same with NumPy, and the arrays that both are given."""
    random = np.random.default_rng(0)
    side, wide = (4096, 4096) if is_large else (512, 1024)
    batch = 16 if is_large else 1

    def drawn(*shape: int) -> Any:  # an array
        return random.standard_normal(shape).astype(np.float32)

    def softmax(x: Any) -> Any:  # as above
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def normed(x: Any) -> Any:  # as above
        return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)

    def convolved(x: Any, w: Any) -> Any:  # as above
        found = np.zeros((x.shape[0], w.shape[0], x.shape[2] - 2, x.shape[3] - 2), np.float32)
        for i in range(3):
            for j in range(3):
                part = x[:, :, i : i + found.shape[2], j : j + found.shape[3]]
                found += np.einsum("nchw,oc->nohw", part, w[:, :, i, j], optimize=True)
        return found

    def attention(q: Any, key: Any, value: Any) -> Any:  # as above
        s = q @ key.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ value

    rows = drawn(wide, wide)
    heads = drawn(1, 8, 8 * batch if not is_large else 1024, 64)
    return {
        "elementwise": (lambda x: (x * 2.0 + 1.0) * x - 0.5, lambda x: (x * 2 + 1) * x - 0.5, (rows,)),
        "reduction": (lambda x: x.sum(axis=1), lambda x: x.sum(1), (rows,)),
        "column sums": (lambda x: x.sum(axis=0), lambda x: x.sum(0), (rows,)),
        "softmax": (lambda x: zyx.softmax(x, axis=1), softmax, (rows,)),
        "layer norm": (lambda x: F.layer_norm(x, (wide,)), normed, (rows,)),
        "matmul": (lambda x, y: x @ y, lambda x, y: x @ y, (drawn(side, side), drawn(side, side))),
        "conv2d": (
            F.conv2d, convolved, (drawn(batch, 32, 58, 58), drawn(64, 32, 3, 3) / np.float32(17)),
        ),
        "transposition": (lambda x: x.T.contiguous(), lambda x: x.T, (rows,)),
        "sort": (lambda x: zyx.sort(x, axis=1), lambda x: np.sort(x, 1), (rows[: wide // 4],)),
        "attention": (F.scaled_dot_product_attention, attention, (heads, heads + 1, heads - 1)),
        "running sums": (lambda x: x.cumsum(1), lambda x: np.cumsum(x, 1), (rows[:, : wide // 2],)),
    }  # fmt: skip


class Kernels:
    """What is timed of tensors on one device."""

    def __init__(self, device: str, clock: str) -> None:
        self._device, self._clock = device, clock

    def call(self, name: str, computed: Callable[..., Any], checked: Any, given: Sequence[Any]) -> Callable[[], float]:
        """Return what times a call, after its result was compared."""
        tensors = [zyx.Tensor(array, device=self._device).realize() for array in given]
        traced = zyx.jit(computed)
        for _ in range(3):
            found = traced(*tensors).realize()
        worst = float(np.abs(found.numpy() - checked).max()) / max(1.0, float(np.abs(checked).max()))
        if not worst <= TOLERANCE:
            raise SystemExit(f"{name} on {self._device} is off by {worst:.2g} of the largest element")

        def by_device() -> float:
            with zyx.profile() as taken:
                traced(*tensors).realize()
            return sum(entry.seconds for entry in taken.kernels())

        def by_host() -> float:
            start = time.perf_counter()
            traced(*tensors).realize()
            self._wait()
            return time.perf_counter() - start

        return by_device if self._clock == "device" else by_host

    def _wait(self) -> None:
        from zyx.runtime.runtime import current

        current().device(self._device).memory_pool.synchronize()


# ---- first calls


def first_calls(device: str, folder: str) -> float:
    """Return the seconds of the first call in a new process, which keeps what it compiles in a folder."""
    environment = os.environ | {"ZYX_CACHE_DIR": folder, "XDG_CACHE_HOME": folder, "MESA_SHADER_CACHE_DIR": folder}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL, device], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout)


# ---- the table


def show(name: str, taken: Mapping[str, list[float]]) -> None:
    """Print a line: medians, and ratios of the first one's to the others'."""
    medians = {device: statistics.median(seconds) for device, seconds in taken.items()}
    first, *others = medians
    cells = [f"{_unit(medians[device])}" for device in medians]
    ratios = [f"{medians[first] / medians[device]:.2f}" for device in others]
    print(f"| {name} | " + " | ".join(cells + ratios) + " |", flush=True)


def _unit(seconds: float) -> str:
    if math.isnan(seconds):
        return "refused"
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def measured(calls: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return what each device takes, round after round, the other way round in turns; the first does not count."""
    taken: dict[str, list[float]] = {device: [] for device in calls}
    for number in range(rounds + 1):
        for device, call in list(calls.items())[:: 1 if number % 2 else -1]:
            seconds = call()
            if number:
                taken[device].append(seconds)
    return taken


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="vulkan:0,wgpu:0,opencl:0", help="the first is compared with the others")
    parser.add_argument("--only", default="", help="parts of the names of rows, with commas between them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--large", action="store_true", help="arrays for GPUs of their own")
    parser.add_argument("--megabytes", type=int, default=256, help="how much is copied")
    parser.add_argument("--clock", choices=["host", "device"], default="host", help="what times kernels")
    options = parser.parse_args()
    devices = options.devices.split(",")
    parts = [part for part in options.only.split(",") if part]

    def is_wanted(name: str) -> bool:
        return not parts or any(part in name for part in parts)

    names = [*devices, *(f"{devices[0]} / {other}" for other in devices[1:])]
    print("| what | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    runtime = Runtime()
    with use(runtime):
        launched = {name: Launched(runtime.device(name), options.megabytes << 20) for name in devices}
        for name, method in LAUNCHED.items():
            if is_wanted(name):
                show(name, measured({device: partial(method, one) for device, one in launched.items()}, options.rounds))
        for name, (computed, check, given) in kernels(is_large=options.large).items():
            if is_wanted(name):
                checked = check(*given)
                timed = {
                    device: Kernels(device, options.clock).call(name, computed, checked, given) for device in devices
                }
                show(name, measured(timed, options.rounds))
    runtime.close()
    for name, is_warm in (("first call, nothing on disk", False), ("first call, with what is on disk", True)):
        if is_wanted(name):
            taken: dict[str, list[float]] = {device: [] for device in devices}
            for device in devices:
                for _ in range(3):
                    with tempfile.TemporaryDirectory() as folder:
                        if is_warm:
                            first_calls(device, folder)
                        taken[device].append(first_calls(device, folder))
            show(name, taken)


if __name__ == "__main__":
    main()
