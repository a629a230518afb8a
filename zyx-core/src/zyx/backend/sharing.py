"""Memory that other libraries of the process can use as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zyx.backend.event import Event
    from zyx.backend.pool import PoolBuffer


@runtime_checkable
class SupportsSharing(Protocol):
    """A pool whose buffers other libraries can use where they are, and that can use theirs.

    Attributes:
        dlpack_device: Kind and number of its device, as DLPack counts them: (2, 0) is the first CUDA device.
    """

    dlpack_device: tuple[int, int]

    def address(self, buffer: PoolBuffer) -> int:
        """Return where `buffer` begins. It stays there, and alive, as long as nobody gives it back.

        Raises:
            InvalidBufferError: Not of this pool, or given back.
        """

    def stream_number(self) -> int:
        """Return the stream that libraries let wait for their work before `wrap`, as DLPack names it."""

    def wrap(self, address: int, nbytes: int, owner: object) -> tuple[PoolBuffer, Event]:
        """Return a buffer on memory of another library, and the event after which it may be used.

        Nothing is copied. `owner` is kept until the buffer is given back, and `is_foreign` of the buffer is true.
        """


@runtime_checkable
class SupportsHostArrays(Protocol):
    """A pool of host memory that takes the memory of an array of another library for a buffer."""

    def wrap_host(self, address: int, nbytes: int, owner: object) -> tuple[PoolBuffer, Event]:
        """Return a buffer on host memory of another library, and a complete event.

        Nothing is copied, and nobody writes to it. Elements begin at multiples of their size, and no more is known of
        the address. `owner` is kept until the buffer is given back, and `is_foreign` of the buffer is true.
        """


@runtime_checkable
class SupportsSelection(Protocol):
    """A pool whose device libraries can be on or not: they share what is on the current one alone."""

    def selected(self) -> AbstractContextManager[object]:
        """Make the device the current one of this thread, for the length of a ``with`` block."""
