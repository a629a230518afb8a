"""Work that was queued on a device: its events, and what went wrong with it.

A command that fails after it was queued says so to its own event alone, in a number, and every command behind it fails
too. So each command is noted here until it is complete, with what it is and what it waits for. Whoever waits for it, or
for something behind it, gets an error that names it. A failure that nobody waits for, since its event was released,
surfaces at the next wait for whatever it be; `Work.finish` tells of every failure that was not told yet.

One thread may wait while others queue work: what is noted has a lock, which is free while the driver waits. By the time
a wait is over, another thread may have seen the same end, and noted it.
"""

from __future__ import annotations

from collections import deque
from threading import RLock
from typing import TYPE_CHECKING, Final

from zyx.drivers.work_event import dependent
from zyx.errors import LaunchError
from zyx_backend_opencl.driver import ClError
from zyx_backend_opencl.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zyx.errors import BackendError
    from zyx_backend_opencl.driver import NativeEvent, Session


class Command:
    """Something that was queued.

    Attributes:
        native: The driver's event of its end.
        what: What it is, for error texts.
        error: What it failed with.
    """

    __slots__ = ("behind", "cause", "error", "is_complete", "is_released", "is_told", "kept", "kind", "native", "what")

    def __init__(
        self, native: NativeEvent, what: str, kind: type[BackendError], behind: Sequence[Command], kept: object
    ) -> None:
        self.native = native
        self.what = what
        self.kind = kind
        self.behind = behind
        self.kept = kept  # alive until it is complete
        self.error: BackendError | None = None
        self.cause: Command | None = None  # what it was behind, if that made it fail
        self.is_complete = False
        self.is_released = False  # its event was released: nobody can wait for it any more
        self.is_told = False  # its error was raised

    def complete(self, code: int) -> None:
        """Note that it has ended, with `code`."""
        self.is_complete = True
        if code < 0:
            self.cause = next((command for command in self.behind if command.error is not None), None)
            if self.cause is None or self.cause.error is None:
                self.error = CODES.failure(self.what, code, self.kind)
            else:
                self.error = dependent(self.what, self.cause.error)
        self.behind = ()
        self.kept = None

    def tell(self) -> None:
        """Note that its error is raised, and with it that of what made it fail."""
        current: Command | None = self
        while current is not None and not current.is_told:
            current.is_told = True
            current = current.cause


class Work:
    """The commands of one device that may still be running, oldest first. Any thread may call any method."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._commands: deque[Command] = deque()
        self._failed: list[Command] = []  # those that nobody was told of
        self._lock: Final = RLock()  # what goes with a command may, as it is let go, come back here

    @property
    def count(self) -> int:
        """Number of commands that are not complete."""
        with self._lock:
            self._look(0)
            return len(self._commands)

    def add(
        self,
        native: NativeEvent,
        what: str,
        behind: Sequence[Command] = (),
        kind: type[BackendError] = LaunchError,
        kept: object = None,
    ) -> Command:
        """Note a command until it is complete.

        Args:
            native: Its event.
            what: For an error text, such as ``kernel sum_8 on opencl:0``.
            behind: The commands that it waits for.
            kind: The error, if it fails for no better known reason.
            kept: What must stay alive until then.
        """
        with self._lock:
            self._forget_completed()
            command = Command(native, what, kind, behind, kept)
            self._commands.append(command)
            return command

    def natives(self, commands: Iterable[Command], what: str) -> list[NativeEvent]:
        """Return the driver's events for `what` to wait for.

        Raises:
            BackendError: One of the commands has failed, so `what` cannot be done.
        """
        with self._lock:
            self._forget_completed()
            for command in commands:
                if command.error is not None:
                    command.tell()
                    raise dependent(what, command.error) from command.error
            return [command.native for command in commands if not command.is_complete]

    def wait(self, commands: Sequence[Command]) -> None:
        """Return when `commands` are complete.

        Raises:
            BackendError: One of them failed, or work that was released before. The text says which, and where.
        """
        with self._lock:
            running = [command for command in commands if not command.is_complete]
        code = 0
        if running:
            try:
                self._session.wait([command.native for command in running])
            except ClError as error:
                code = error.code
        with self._lock:
            if code:
                self._look(code)
                if all(
                    command.error is None for command in running
                ):  # drivers are known that say complete all the same
                    for command in running:
                        self._fail(command, code)
            else:
                for command in running:
                    self._end(command, 0)
            self._forget_completed()
            self._tell(commands)
            self._tell([command for command in self._failed if command.is_released and not command.is_told])

    def release(self, commands: Iterable[Command]) -> None:
        """Note that nobody will wait for `commands`."""
        with self._lock:
            for command in commands:
                command.is_released = True

    def finish(self) -> None:
        """Return when nothing is running.

        Raises:
            BackendError: A command failed since the last call, and nobody was told yet.
        """
        code = 0
        try:
            self._session.finish()
        except ClError as error:
            code = error.code
        with self._lock:
            self._look(code)
            self._tell([command for command in self._failed if not command.is_told])
        if code:
            raise CODES.failure("waiting for the device", code, LaunchError)

    def _tell(self, commands: Sequence[Command]) -> None:
        """Raise the error of the first of `commands` that failed; the others count as told as well."""
        failed = [command for command in commands if command.error is not None]
        if failed:
            for command in failed:
                command.tell()
            self._failed = [command for command in self._failed if not command.is_told]
            assert failed[0].error is not None
            raise failed[0].error

    def _end(self, command: Command, code: int) -> None:
        if not command.is_complete:
            command.complete(code)
            if command.error is not None:
                self._failed.append(command)

    def _fail(self, command: Command, code: int) -> None:
        command.is_complete = False
        self._end(command, code)

    def _forget_completed(self) -> None:
        """Forget commands at the front that are complete."""
        commands, status = self._commands, self._session.status
        while commands:
            first = commands[0]
            if not first.is_complete:
                try:
                    code = status(first.native)
                except ClError as error:  # it counts as failed with that, as in `_look`
                    code = error.code
                if code > 0:
                    return
                self._end(first, code)
            commands.popleft()

    def _look(self, code: int) -> None:
        """Forget whatever is complete. If the driver does not even tell that, everything has failed with `code`."""
        commands, self._commands = self._commands, deque()
        for command in commands:
            if command.is_complete:
                continue
            try:
                status = self._session.status(command.native)
            except ClError as error:
                status = code or error.code
            if status > 0:
                self._commands.append(command)
            else:
                self._end(command, status)
