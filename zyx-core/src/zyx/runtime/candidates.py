"""Choose between a generated kernel and a vendor's library, where a library serves the problem.

off        generated kernels
prefer     the library's, where it has one
measure    whichever is faster on scratch buffers, if ``autotune.enabled``; without it nothing is timed, and what the
           backend says is taken (`LibraryKernel.unmeasured`), but for products that suit a generated kernel better
           (`zyx.fusion.library.suits_threads`)

A generated product takes along what follows it element by element, a library's does not. Large products are separated
from that where a library is taken for them; see `zyx.fusion.library.product_in`.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from zyx.backend.library import Gemm
from zyx.errors import BackendError, UnsupportedError
from zyx.fusion.library import match_gemm, suits_threads
from zyx.runtime.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, Program
    from zyx.backend.library import LibraryKernel, Problem
    from zyx.ir.expr import Param
    from zyx.ir.nest import Nest
    from zyx.runtime.buffer import Memory
    from zyx.settings.record import Autotune


class Candidates:
    """Library kernels as candidates.

    Args:
        settings: What is timed, and how often.
        offered: What the backend of a device offers.
        memory: For scratch buffers.
        trace: What is told of times.
    """

    def __init__(
        self,
        settings: Autotune,
        offered: Callable[[Device], Sequence[LibraryKernel]],
        memory: Memory,
        trace: Trace | None = None,
    ) -> None:
        self._settings = settings
        self._offered = offered
        self._memory = memory
        self._trace = trace or Trace()

    def serves_products(self, device: Device) -> bool:
        """Whether a library may be taken for products of matrices on `device`."""
        policy, is_measured = self._settings.library_kernels, self._settings.enabled
        return policy != "off" and any(
            kernel.serves is Gemm and (policy == "prefer" or is_measured or kernel.unmeasured)
            for kernel in self._offered(device)
        )

    def library_program(
        self,
        nest: Nest,
        device: Device,
        generated: Callable[[], Program],
        prepared: Callable[[LibraryKernel, Problem, Device], Program],
    ) -> tuple[Program, tuple[Param, ...]] | None:
        """Return a library's program for `nest`, with its params in launch order, if it should be taken.

        `generated` gives the program to compare with, whose params are those of the nest; `prepared` that of a library,
        as `LibraryKernel.prepare` does.
        """
        policy = self._settings.library_kernels
        if policy == "off":
            return None
        is_measured = policy == "measure" and self._settings.enabled
        found = match_gemm(nest)
        if found is None:
            return None
        problem, params = found
        for kernel in self._offered(device):
            is_unmeasured = kernel.unmeasured and not suits_threads(problem)
            if kernel.serves is not Gemm or not (policy == "prefer" or is_measured or is_unmeasured):
                continue
            try:
                program = prepared(kernel, problem, device)
            except UnsupportedError:
                continue
            if is_measured and not self._is_faster(program, params, generated(), nest.params, device):
                continue
            return program, params
        return None

    def _is_faster(
        self, program: Program, params: Sequence[Param], other: Program, others: Sequence[Param], device: Device
    ) -> bool:
        """Whether a library's program takes less time than the generated one."""
        seconds, seconds_generated = self._time(program, params, device), self._time(other, others, device)
        self._trace.measured(device, program.name, seconds, other.name, seconds_generated)
        return seconds < seconds_generated

    def _time(self, program: Program, params: Sequence[Param], device: Device) -> float:
        """Return the median time of a launch on scratch buffers, in seconds; infinity if it fails."""
        pool = device.memory_pool
        try:
            buffers = [self._memory.allocate(pool, param.length * param.dtype.itemsize) for param in params]
            for buffer in buffers:
                buffer.wait()  # for the work of whoever had the memory before
            times = []
            for _ in range(self._settings.n_launches + 1):  # the first one warms up
                started = time.perf_counter()
                pool.sync_events([device.launch(program, [buffer.raw for buffer in buffers if buffer.raw is not None])])
                times.append(time.perf_counter() - started)
        except BackendError:
            return float("inf")
        return statistics.median(times[1:])
