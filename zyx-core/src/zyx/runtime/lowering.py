"""From nests to kernels: schedule, lower, simplify.

A process that finds all its kernels on disk does without this module, and without all that it imports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.lowering.lower import lower_together
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule import fallback

if TYPE_CHECKING:
    from zyx.backend import Device
    from zyx.ir.kernel import Kernel
    from zyx.runtime.attempt import Attempt
    from zyx.runtime.trace import Trace


class Lowering:
    """Makes kernels. Nests whose schedule fails get the next simpler one of `zyx.schedule.fallback`.

    Attributes:
        scheduled: Number of kernels that were scheduled and lowered.
    """

    def __init__(self, trace: Trace) -> None:
        self.scheduled = 0
        self._trace = trace

    def lowered(self, attempt: Attempt) -> tuple[Kernel, Attempt]:
        """Return the kernel of the first schedule, from that of `attempt` on, that can be lowered; and the attempt."""
        nests, name, device = attempt.nests, attempt.name, attempt.device
        while True:
            self.scheduled += 1
            try:
                scheduled = []
                for nest in nests:
                    chosen, moves = fallback.SCHEDULES[attempt.schedule].choose(nest, device.info, len(nests) == 1)
                    self._trace.scheduled(name, nest, chosen, moves)
                    scheduled.append(chosen)
                return self.simplified(lower_together(scheduled, name), device), attempt
            # Border to what is there for speed only: whatever it raises is no reason not to compute. The last schedule
            # has nothing of it, and what it raises is raised.
            except Exception as error:  # noqa: BLE001
                attempt = self.simpler(attempt, error)

    def simpler(self, attempt: Attempt, error: Exception) -> Attempt:
        """Return what to try after an attempt that ended in `error`, which is raised if there is nothing more."""
        if attempt.schedule + 1 >= len(fallback.SCHEDULES):
            raise error
        tried, following = fallback.SCHEDULES[attempt.schedule : attempt.schedule + 2]
        self._trace.fell_back(attempt.name, tried.name, following.name, error)
        return replace(attempt, schedule=attempt.schedule + 1)

    def simplified(self, kernel: Kernel, device: Device) -> Kernel:
        """Return `kernel` after the passes that the device needs."""
        kernel = run_passes(kernel, standard_passes(device.info), check=self._trace.checks)
        self._trace.lowered(kernel)
        return kernel
