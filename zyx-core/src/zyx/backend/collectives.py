"""Operations across devices that a vendor's library does without going through the host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.device import Device
    from zyx.backend.event import Event
    from zyx.backend.pool import PoolBuffer
    from zyx.dtype import DType
    from zyx.ops import ReduceOp


class Collectives(ABC):
    """A group of devices whose buffers can be combined.

    Every method takes one buffer a device, in the order of `devices`, and returns one event a device, at once. It
    starts on each device when the events given are complete; they are used up, also when the call raises.
    Lengths are numbers of elements.
    """

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        self.name = name
        self.devices = tuple(devices)

    @abstractmethod
    def all_reduce(
        self, op: ReduceOp, dtype: DType, length: int, buffers: Sequence[PoolBuffer], events: Sequence[Event] = ()
    ) -> list[Event]:
        """Replace the first `length` elements of every buffer by their combination over all buffers.

        Every device gets the same bits.
        """

    @abstractmethod
    def reduce_scatter(
        self,
        op: ReduceOp,
        dtype: DType,
        length: int,
        sources: Sequence[PoolBuffer],
        targets: Sequence[PoolBuffer],
        events: Sequence[Event] = (),
    ) -> list[Event]:
        """Combine the sources, each of ``length * len(devices)`` elements, and give device number i part number i."""

    @abstractmethod
    def all_gather(
        self,
        dtype: DType,
        length: int,
        sources: Sequence[PoolBuffer],
        targets: Sequence[PoolBuffer],
        events: Sequence[Event] = (),
    ) -> list[Event]:
        """Fill every target with the sources, each of `length` elements, one after the other."""

    @abstractmethod
    def broadcast(
        self, root: int, dtype: DType, length: int, buffers: Sequence[PoolBuffer], events: Sequence[Event] = ()
    ) -> list[Event]:
        """Copy the first `length` elements of buffer number `root` to all others."""

    @abstractmethod
    def close(self) -> None:
        """Wait for all work and free everything. A second call does nothing."""
