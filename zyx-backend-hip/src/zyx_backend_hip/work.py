"""Work that was queued on a device: its events, its order, and what went wrong with it.

A device has two streams, for launches and for transfers. What is queued on one runs in that order anyway; an event of
the other has to be waited for. HIP does not tell which kernel failed: a failure is met when something is waited for,
and then the device is lost to the process. So everything that was not complete counts as failed, the oldest by itself
and what is behind it because of that. A failure of which nobody was told yet is told at the next wait, whatever that
is for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import Fault
from zyx.drivers.watching import wait_watched
from zyx.drivers.work_event import dependent
from zyx.errors import DeviceLostError, LaunchError
from zyx_backend_hip.errors import CODES, NOT_READY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.drivers.watching import Watcher
    from zyx.errors import BackendError
    from zyx_backend_hip.driver import Handle, Session

#: How many commands are let run before it is looked whether the first are complete.
_UNNOTICED: Final = 8


class Command:
    """Something that was queued.

    Attributes:
        event: The driver's event of its end; it is used again once this is complete.
        stream: Where it was queued.
        what: What it is, for error texts.
        error: What it failed with.
    """

    __slots__ = ("error", "event", "is_complete", "kept", "stream", "what")

    def __init__(self, stream: Handle, event: Handle, what: str, kept: object) -> None:
        self.stream = stream
        self.event = event
        self.what = what
        self.kept = kept  # alive until it is complete
        self.error: BackendError | None = None
        self.is_complete = False


class Work:
    """The commands of one device that may still be running, oldest first.

    Args:
        session: The device.
        place: Name of its pool.

    Attributes:
        watchers: Who looks after work that may never be done, while it is waited for.
    """

    def __init__(self, session: Session, place: str) -> None:
        self._session: Final = session
        self._place: Final = place
        self._commands: deque[Command] = deque()
        self._untold: BackendError | None = None
        self.watchers: Final[list[Watcher]] = []

    @property
    def count(self) -> int:
        """Number of commands that are not complete."""
        with self._session.lock:
            self._notice()
            return len(self._commands)

    def add(self, stream: Handle, what: str, kept: object = None) -> Command:
        """Note what was queued last on `stream`, until it is complete. The device must be selected.

        Args:
            stream: The stream.
            what: For an error text, such as ``kernel sum_8 on hip:0``.
            kept: What must stay alive until then.

        Raises:
            Fault: The driver has no event for it; it is complete.
        """
        if len(self._commands) >= _UNNOTICED:
            self._notice()
        try:
            event = self._session.mark(stream)
        except Fault:
            self._session.finish()  # nobody could wait for it, nor keep alive what it needs
            raise
        command = Command(stream, event, what, kept)
        self._commands.append(command)
        return command

    def order(self, stream: Handle, commands: Iterable[Command], what: str) -> None:
        """Let `what`, which is to be queued on `stream`, wait for commands, which may be another device's.

        Raises:
            BackendError: One of the commands has failed, so `what` cannot be done.
            Fault: The driver refused.
        """
        for command in commands:
            if command.error is not None:
                self._untold = None
                raise dependent(what, command.error) from command.error
            if not command.is_complete and command.stream != stream:
                self._session.order(stream, command.event)

    def wait(self, commands: Sequence[Command]) -> None:
        """Return when `commands` are complete.

        Raises:
            BackendError: One of them failed, or work of which nobody was told yet. The text says which, and where.
        """
        for watcher in self.watchers:
            watcher.check()
        for command in commands:
            if not command.is_complete:
                code = self._watched(command) if self.watchers else self._session.wait(command.event)
                if code:
                    self.fail(code)
                else:
                    self._end(command)
        with self._session.lock:
            self._notice()
        self._tell(next((command.error for command in commands if command.error is not None), None))

    def finish(self) -> None:
        """Return when nothing is running.

        Raises:
            BackendError: A command failed since the last call, and nobody was told yet.
        """
        if self.watchers:
            self.wait(list(self._commands))
        code = self._session.finish()
        if code:
            self.fail(code)
        with self._session.lock:
            self._notice()
        self._tell(self._untold or (CODES.failure("waiting for the device", code, LaunchError) if code else None))

    def _watched(self, command: Command) -> int:
        """Wait for a command that may never be done, and return its code."""
        code = 0

        def is_over() -> bool:
            nonlocal code
            code = 0 if command.is_complete else self._session.is_complete(command.event)  # or another has noticed it
            return code != NOT_READY

        wait_watched(is_over, self.watchers)
        return code

    def fail(self, code: int) -> None:
        """Note that the device failed with `code`: so has whatever was not complete."""
        with self._session.lock:
            cause: BackendError | None = None
            for command in self._commands:
                if not command.is_complete:
                    if cause is None:
                        cause = command.error = CODES.failure(command.what, code, LaunchError)
                        if isinstance(cause, DeviceLostError):
                            cause.place = self._place
                    else:
                        command.error = dependent(command.what, cause)
                    self._end(command)
            self._commands.clear()
            self._untold = self._untold or cause

    def _tell(self, error: BackendError | None) -> None:
        """Raise the failure that nobody was told of, or `error`."""
        untold, self._untold = self._untold, None
        if error is not None or untold is not None:
            raise error or untold  # type: ignore[misc]  # one of them is there

    def _end(self, command: Command) -> None:
        with self._session.lock:
            if not command.is_complete:
                command.is_complete = True
                command.kept = None
                self._session.give_back(command.event)

    def _notice(self) -> None:
        """Forget commands at the front that are complete."""
        commands = self._commands
        while commands:
            first = commands[0]
            if not first.is_complete:
                code = self._session.is_complete(first.event)
                if code == NOT_READY:
                    return
                if code:
                    self.fail(code)
                    return
                self._end(first)
            commands.popleft()
