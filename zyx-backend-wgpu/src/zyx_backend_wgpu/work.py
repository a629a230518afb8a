"""What was given to a device and may still be running: tickets in the order of the queue.

A WebGPU device has one queue, which runs everything in order, so no work has to wait for an event of its own device. An
event is a ticket: a number in that order. Uploads take effect with the next submission; waiting for one makes one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import DeviceWork, Fault
from zyx.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from zyx.errors import BackendError
    from zyx_backend_wgpu.bindings import Dispatch

    class Queue(Protocol):
        """The part of `zyx_backend_wgpu.driver.Session` that is needed here."""

        def submit(self, dispatches: Iterable[Dispatch]) -> int:
            """Start kernels; return the number of the submission."""

        def wait(self, index: int) -> None:
            """Return when a submission and all before it are complete."""

        def is_idle(self) -> bool:
            """Whether everything is complete."""


#: After so many submissions nobody waited for, the next one waits for half of them: the driver keeps what they use.
_MOST_IN_FLIGHT: Final = 512


class Work(DeviceWork):
    """The work of one device.

    Args:
        name: Of the device, for error texts.
        queue: Where it runs.

    Attributes:
        complete: The last ticket that is known to be complete.
    """

    def __init__(self, name: str, queue: Queue) -> None:
        super().__init__(name)
        self._queue: Final = queue
        self._ticket = 0
        self._submitted = 0  # the last ticket that was submitted
        self.complete = 0
        self._running: deque[tuple[int, int, str]] = deque()  # ticket, number of the submission, what it is

    @property
    def count(self) -> int:
        """Number of submissions that may still be running."""
        if self._running and self.lost is None and self._queue.is_idle():
            self._ended(self._submitted)
        return len(self._running)

    def uploaded(self) -> int:
        """Note that something was written that takes effect with the next submission; return its ticket."""
        self._ticket += 1
        return self._ticket

    def submit(self, dispatches: Iterable[Dispatch], what: str, kind: type[BackendError] = LaunchError) -> int:
        """Start kernels, and return the ticket.

        Args:
            dispatches: The kernels.
            what: For an error text, such as ``kernel sum_8 on wgpu:0``.
            kind: The error, if the driver refuses for no better known reason.

        Raises:
            BackendError: The driver refused, or the device is lost. Nothing of it runs.
        """
        self.check(what)
        try:
            index = self._queue.submit(dispatches)
        except Fault as fault:
            raise self.failed(what, fault, kind) from fault
        self._ticket += 1
        self._submitted = self._ticket
        self._running.append((self._ticket, index, what))
        if len(self._running) > _MOST_IN_FLIGHT:
            self.wait(self._running[_MOST_IN_FLIGHT // 2][0])
        return self._ticket

    def wait(self, ticket: int) -> None:
        """Return when everything up to a ticket is complete.

        Raises:
            DeviceLostError: The device is lost; the text has what was running.
        """
        if ticket <= self.complete:
            return
        self.check("waiting")
        if ticket > self._submitted:
            self.submit((), "an upload")
        index = next(number for last, number, _ in self._running if last >= ticket)
        try:
            self._queue.wait(index)
        except Fault as fault:
            raise self.failed("waiting", fault, LaunchError) from fault
        self._ended(ticket)

    def finish(self) -> None:
        """Return when nothing is running. Raises as `wait` does."""
        self.wait(self._ticket)

    def drained(self) -> None:
        """Note that everything is complete: something that came after it was waited for."""
        self._submitted = self._ticket
        self._ended(self._ticket)

    def running(self) -> list[str]:
        return [name for _, _, name in self._running]

    def _ended(self, ticket: int) -> None:
        self.complete = max(self.complete, ticket)
        while self._running and self._running[0][0] <= self.complete:
            self._running.popleft()
