"""Let calls of a device and its pool fail, to see what is left behind.

    with Faults(device) as faults:
        with faults.failing("allocate", 3, times=2):      the third allocation from here on, and the one after it
            ...
        faults.calls["launch"]                            how many launches there were

`Faults` puts itself between a device that is open and whoever calls it. A call that is let fail does what the
interface says of one that fails: it uses its events up, and changes nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from zyx.backend import SupportsNests
from zyx.drivers.rendered import SupportsRendering
from zyx.errors import AllocationError, CompileError, LaunchError, TransferError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zyx.backend import Device, MemoryPool
    from zyx.errors import BackendError

#: The calls that can fail, with the error that each raises.
ERRORS: Final[dict[str, type[BackendError]]] = {
    "allocate": AllocationError,
    "compile": CompileError,
    "launch": LaunchError,
    "host_to_pool": TransferError,
    "pool_to_host": TransferError,
}
#: The calls that a device may have, and may refuse: the work is done without them then.
REFUSALS: Final[dict[str, type[BackendError]]] = {"capture": UnsupportedError}
_OF_DEVICE: Final = ("compile", "launch", "capture")


class Faults:
    """Counts the calls of a device and its pool, and lets some of them fail, within a ``with`` block.

    Attributes:
        calls: Number of calls since the block was entered, by name; those that such a call makes are not counted.
    """

    def __init__(self, device: Device) -> None:
        self.calls: Counter[str] = Counter()
        self._device = device
        self._method = ""
        self._numbers = range(0)
        self._error: type[BackendError] = LaunchError
        self._within = threading.local()
        self._names = [name for name in (*ERRORS, *REFUSALS) if hasattr(self._place(name), name)]

    def __enter__(self) -> Self:
        for name in self._names:
            place: Any = self._place(name)
            method = self._method_of(name)
            setattr(place, method, self._intercept(name, getattr(place, method)))
        return self

    def __exit__(self, *exception: object) -> None:
        for name in self._names:
            delattr(self._place(name), self._method_of(name))

    @contextmanager
    def failing(
        self, method: str, number: int, times: int = 1, error: type[BackendError] | None = None
    ) -> Iterator[None]:
        """Let calls `number` to ``number + times - 1`` of `method` fail, counted from 1 at the start of the block.

        They fail with `error`, or with what is usual for the method.
        """
        start = self.calls[method] + number
        usual = (ERRORS | REFUSALS)[method]
        self._method, self._numbers, self._error = method, range(start, start + times), error or usual
        try:
            yield
        finally:
            self._method = ""

    def _place(self, name: str) -> Device | MemoryPool:
        return self._device if name in _OF_DEVICE else self._device.memory_pool

    def _method_of(self, name: str) -> str:
        """Return the method that makes such a call: kernels that are rendered first are built, and nests are taken."""
        if name == "compile" and isinstance(self._device, SupportsNests):
            return "compile_nests"
        return "build" if name == "compile" and isinstance(self._device, SupportsRendering) else name

    def _intercept(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401  # passes on whatever the method takes and gives
            if getattr(self._within, "call", False):
                return method(*args, **options)
            self.calls[name] += 1
            if name == self._method and self.calls[name] in self._numbers:
                self._fail(name, args)
            self._within.call = True
            try:
                return method(*args, **options)
            finally:
                self._within.call = False

        return call

    def _fail(self, name: str, args: tuple[Any, ...]) -> None:
        pool = self._device.memory_pool
        events = args[2] if name in ("launch", "host_to_pool", "pool_to_host") and len(args) > 2 else ()
        pool.release_events(list(events))
        number = self.calls[name]
        if name == "allocate":
            text = (
                f"pool {pool.name} has no room for {args[0]} bytes: {pool.free_bytes} bytes are free (fault {number})"
            )
        else:
            text = f"{name} number {number} on {self._device.name} was made to fail"
        raise self._error(text)
