"""Operations of several devices that a vendor's library does without going through the host.

The devices are those of one process, or of several, each of which has one or some: of the `size` members of a group,
this process has those of `ranks`. Members find each other by an identifier that one of them makes
(`zyx.hookspecs.zyx_collectives_identifier`), and which comes to the others by other means.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zyx.errors import BackendError, CollectiveError, CollectiveTimeoutError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.device import Device, Program
    from zyx.backend.event import Event
    from zyx.backend.pool import PoolBuffer
    from zyx.dtype import DType
    from zyx.ops import ReduceOp

#: One for each member of a group that this process has.
Buffers: TypeAlias = "Sequence[PoolBuffer]"
#: For each of these members, what it waits for.
Waits: TypeAlias = "Sequence[Sequence[Event]]"


class ExchangeError(CollectiveError, BackendError):
    """An exchange on devices failed, and with it the group; waits for work on the devices raise it."""


class ExchangeTimeoutError(CollectiveTimeoutError, ExchangeError):
    """Work on a device was not done in time, with exchanges in it whose other members may be gone."""


class ExchangeKind(enum.Enum):
    """What members do together. The value is its name, for people."""

    ALL_REDUCE = "all_reduce"
    REDUCE = "reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all_to_all"
    SEND = "send"
    RECEIVE = "receive"


_REDUCING = (ExchangeKind.ALL_REDUCE, ExchangeKind.REDUCE, ExchangeKind.REDUCE_SCATTER)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One operation, as each member is asked for it. All but the two of `SEND` and `RECEIVE` are asked for the same.

    Attributes:
        kind: Which.
        dtype: Of the elements. What is not reduced may be given as bytes.
        length: Elements that each member has, or gets, of its own: of the source of `ALL_GATHER` and the target of
            `REDUCE_SCATTER`; those that go from one member to another of `ALL_TO_ALL`; else of all buffers.
        op: `SUM`, `PROD`, `MAX` or `MIN`, of what is reduced; else None.
        peer: The root of `REDUCE` and `BROADCAST`; the other member of `SEND` and `RECEIVE`.

    Raises:
        InvalidArgumentError: What is reduced has no `op`, or what is not has one; or `length` is less than 1.
    """

    kind: ExchangeKind
    dtype: DType
    length: int
    op: ReduceOp | None = None
    peer: int = 0

    def __post_init__(self) -> None:
        if (self.op is not None) is not (self.kind in _REDUCING) or self.length < 1:
            raise InvalidArgumentError(f"there is no exchange {self}")

    def __str__(self) -> str:
        reducing = "" if self.op is None else f" {self.op.value}"
        return f"{self.kind.value}{reducing} of {self.dtype}[{self.length}]"

    def source_bytes(self, size: int) -> int:
        """Return the bytes of each source in a group of `size` members; 0 if there is none."""
        if self.kind is ExchangeKind.RECEIVE:
            return 0
        is_whole = self.kind in (ExchangeKind.REDUCE_SCATTER, ExchangeKind.ALL_TO_ALL)
        return self.length * self.dtype.itemsize * (size if is_whole else 1)

    def target_bytes(self, size: int) -> int:
        """Return the bytes of each target in a group of `size` members; 0 if there is none."""
        if self.kind is ExchangeKind.SEND:
            return 0
        is_whole = self.kind in (ExchangeKind.ALL_GATHER, ExchangeKind.ALL_TO_ALL)
        return self.length * self.dtype.itemsize * (size if is_whole else 1)


class Collectives(ABC):
    """The members of a group that belong to this process.

    All members do the same exchanges in the same order. Every operation takes one buffer a device, in the order of
    `devices`, and returns one event a device, at once. It starts on each device when the events given are complete;
    they are used up, also when the call raises. A source and its target may be one buffer where they are of one size.

    Work of a group whose other members are gone would never be done. Whoever waits for work on one of the devices then
    finds out: waits of its pool raise `ExchangeError` when the library says that something is wrong, and
    `ExchangeTimeoutError` when nothing was done for the time limit. From then on they raise it again, until `close`.

    Attributes:
        name: Of the library with its version, for people.
        devices: Those of this process, all of one backend.
        ranks: The number of each of them in the group, from 0.
        size: How many members the group has.
        failure: Why the group cannot be used any more; "" as long as it can.

    Raises:
        ExchangeError: By operations: the group cannot be used any more.
        UnsupportedError: By operations: the library has none for the dtype.
        BackendError: A device refuses.
    """

    def __init__(self, name: str, devices: Sequence[Device], ranks: Sequence[int], size: int) -> None:
        self.name = name
        self.devices = tuple(devices)
        self.ranks = tuple(ranks)
        self.size = size
        self.failure = ""

    # ---- what backends do

    @abstractmethod
    def connect(self) -> None:
        """Return when all members are connected. Each of them calls it once, before anything else.

        Raises:
            ExchangeError: They cannot reach each other.
            ExchangeTimeoutError: Not all of them have come within the time limit.
        """

    @abstractmethod
    def run(
        self,
        exchange: Exchange,
        sources: Buffers,
        targets: Buffers,
        events: Waits = (),
    ) -> list[Event]:
        """Queue an exchange on each device of this process.

        Args:
            exchange: What is done.
            sources: One a device; empty if there is none.
            targets: Likewise.
            events: For each device, what has to be complete; empty if nothing has to be.
        """

    @abstractmethod
    def prepare(self, exchange: Exchange, number: int = 0) -> Program:
        """Return an exchange as a program of ``devices[number]``, the only device of this process.

        The device launches and captures it as any other; it stays until `close`. Its launch arguments are the target,
        one more buffer, the source, and one more buffer; a target or source that there is not is left out. The two
        more, of a byte each, stand for the order of exchanges, and are neither read nor written.

        Raises:
            UnsupportedError: The library has none for the dtype, or this process has several of the devices, on which
                an exchange can be queued by `run` alone.
        """

    @abstractmethod
    def abort(self) -> None:
        """Let all exchanges end, done or not. The group cannot be used any more."""

    @abstractmethod
    def close(self) -> None:
        """Wait for all work and free everything. A second call does nothing."""

    # ---- the operations, in words of their own

    def all_reduce(
        self, op: ReduceOp, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Fill every target with the combination of the sources of all members; all get the same bits."""
        return self.run(Exchange(ExchangeKind.ALL_REDUCE, dtype, length, op), sources, targets, events)

    def reduce(
        self, op: ReduceOp, root: int, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Fill the target of `root` with the combination of all sources; what the others have then is left open."""
        return self.run(Exchange(ExchangeKind.REDUCE, dtype, length, op, root), sources, targets, events)

    def reduce_scatter(
        self, op: ReduceOp, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Combine the sources, each of ``length * size`` elements, and give the member of rank i part number i."""
        return self.run(Exchange(ExchangeKind.REDUCE_SCATTER, dtype, length, op), sources, targets, events)

    def all_gather(
        self, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Fill every target with the sources of all members, each of `length` elements, in the order of their ranks."""
        return self.run(Exchange(ExchangeKind.ALL_GATHER, dtype, length), sources, targets, events)

    def broadcast(
        self, root: int, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Fill every target with the source of `root`."""
        return self.run(Exchange(ExchangeKind.BROADCAST, dtype, length, peer=root), sources, targets, events)

    def all_to_all(
        self, dtype: DType, length: int, sources: Buffers, targets: Buffers, events: Waits = ()
    ) -> list[Event]:
        """Give member j part number j, of `length` elements, of each source, as part number i from member i."""
        return self.run(Exchange(ExchangeKind.ALL_TO_ALL, dtype, length), sources, targets, events)

    def send(self, to: int, dtype: DType, length: int, sources: Buffers, events: Waits = ()) -> list[Event]:
        """Send each source to member `to`, which receives it."""
        return self.run(Exchange(ExchangeKind.SEND, dtype, length, peer=to), sources, (), events)

    def receive(self, source: int, dtype: DType, length: int, targets: Buffers, events: Waits = ()) -> list[Event]:
        """Fill each target with what member `source` sends."""
        return self.run(Exchange(ExchangeKind.RECEIVE, dtype, length, peer=source), (), targets, events)
