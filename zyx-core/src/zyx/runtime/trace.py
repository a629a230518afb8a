"""Show what the runtime does, as far as ``ZYX_DEBUG`` asks for it; costs next to nothing where it does not."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.backend import Device, Event, Program
    from zyx.ir.kernel import Kernel
    from zyx.ir.nest import Nest
    from zyx.runtime.plan import LaunchStep, Plan
    from zyx.schedule.moves import Move

DEVICES: Final = 1
PLAN: Final = 2
SCHEDULE: Final = 4
IR: Final = 8
SOURCE: Final = 16
LAUNCHES: Final = 32
COMPILE: Final = 128


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


class Trace:
    """Writes what happens.

    Attributes:
        bits: The subjects to show, by the numbers of `zyx.settings.debug.Debug`.
        launches: Whether every launch is waited for and shown; then nothing is captured.
        checks: Whether kernels are verified after every pass.
    """

    def __init__(self, bits: int = 0, write: Callable[[str], None] = _to_stderr) -> None:
        self.bits: Final = int(bits)
        self.launches: Final = bool(self.bits & LAUNCHES)
        self.checks: Final = bool(self.bits & IR)
        self._write: Final = write

    def chosen(self, device: Device, reason: str) -> None:
        """Show which device was chosen, and why."""
        if self.bits & DEVICES:
            self._write(f"device {device.name}: {reason}")

    def scheduled(self, name: str, before: Nest, after: Nest, moves: Sequence[Move]) -> None:
        """Show a nest, the moves, and the scheduled nest."""
        if self.bits & SCHEDULE:
            listed = "\n".join(f"    {move}" for move in moves)
            self._write(f"schedule {name}\n{before}\n{listed}\n{after}")

    def lowered(self, kernel: Kernel) -> None:
        """Show a kernel as the device is given it."""
        if self.bits & IR:
            self._write(str(kernel))

    def compiled(self, device: Device, program: Program, seconds: float) -> None:
        """Show a compilation, and the source."""
        if self.bits & COMPILE:
            self._write(f"compiled {program.name} for {device.name} in {seconds * 1e3:.1f} ms")
        if self.bits & SOURCE:
            self._write(program.source)

    def planned(self, plan: Plan, seconds: float) -> None:
        """Show a new plan."""
        if self.bits & PLAN:
            size = sum(slice_.nbytes for slice_ in plan.temporaries)
            self._write(
                f"plan of {plan.launches} launches and {len(plan.steps) - plan.launches} copies, "
                f"{size} bytes of temporaries, made in {seconds * 1e3:.1f} ms"
            )
            for step in plan.steps:
                self._write(f"    {step}")

    def before_launch(self, step: LaunchStep) -> float:
        """Return the time before a launch that is to be shown."""
        return time.perf_counter() if self.bits & LAUNCHES else 0.0

    def after_launch(self, step: LaunchStep, event: Event, started: float) -> Event:
        """Wait for a launch, show its time and rates, and return an event in place of its own."""
        if not self.bits & LAUNCHES:
            return event
        pool = step.device.memory_pool
        pool.sync_events([event])
        seconds = max(time.perf_counter() - started, 1e-9)
        self._write(
            f"{step.device.name} {step.program.name}: {seconds * 1e6:.1f} us, "
            f"{step.bytes_moved / seconds / 1e9:.1f} GB/s"
        )
        return pool.completed()
