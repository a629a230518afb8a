"""From nests to kernels: schedule, lower, simplify.

A process that finds all its kernels on disk does without this module, and without all that it imports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zyx.autotune.written import read_moves
from zyx.lowering.lower import lower_together
from zyx.passes.pipeline import run_passes, standard_passes
from zyx.schedule import fallback
from zyx.schedule.moves import apply_moves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from zyx.autotune.store import Winner
    from zyx.backend import Device
    from zyx.kernel.data import Kernel
    from zyx.nest.data import Nest
    from zyx.runtime.attempt import Attempt
    from zyx.runtime.trace import Trace
    from zyx.schedule.moves import Move


class Lowering:
    """Makes kernels. Nests whose schedule fails get the next simpler one of `zyx.schedule.fallback`.

    Args:
        trace: Is told of what happens.
        others: What reads the moves of other packages that a device has; see `zyx.autotune.written.read_moves`.
        refused: Called with an attempt whose schedule, found by measuring, does not do.

    Attributes:
        scheduled: Number of kernels that were scheduled and lowered.
    """

    def __init__(
        self,
        trace: Trace,
        others: Callable[[Device], Mapping[str, Callable[[dict[str, Any]], Move]]],
        refused: Callable[[Attempt], None],
    ) -> None:
        self.scheduled = 0
        self._trace = trace
        self._others = others
        self._refused = refused

    def lowered(self, attempt: Attempt) -> tuple[Kernel, Attempt]:
        """Return the kernel of the first schedule, from that of `attempt` on, that can be lowered; and the attempt."""
        nests, name, device = attempt.nests, attempt.name, attempt.device
        while True:
            self.scheduled += 1
            try:
                scheduled = []
                for number, nest in enumerate(nests):
                    if attempt.winner is not None:
                        chosen, moves = self._found(nest, attempt.winner, number, device)
                    else:
                        chosen, moves = fallback.SCHEDULES[attempt.schedule].choose(nest, device.info, len(nests) == 1)
                    self._trace.scheduled(name, nest, chosen, moves)
                    scheduled.append(chosen)
                return self.simplified(
                    lower_together(scheduled, name, with_ends=device.takes_loop_ends), device
                ), attempt
            # Border to what is there for speed only: whatever it raises is no reason not to compute. The last schedule
            # has nothing of it, and what it raises is raised.
            except Exception as error:  # noqa: BLE001
                attempt = self.simpler(attempt, error)

    def _found(self, nest: Nest, winner: Winner, number: int, device: Device) -> tuple[Nest, list[Move]]:
        """Return a nest by the schedule that was found for it, and the moves."""
        assert winner.schedules is not None  # or it were no winner
        moves = read_moves(winner.schedules[number], self._others(device))
        return apply_moves(nest, moves), moves

    def simpler(self, attempt: Attempt, error: Exception) -> Attempt:
        """Return the next simpler attempt after one that failed with `error`; raise it if there is none."""
        if attempt.winner is not None:
            self._trace.fell_back(attempt.name, "the schedule that was measured", fallback.SCHEDULES[0].name, error)
            self._refused(attempt)
            return replace(attempt, winner=None)
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
