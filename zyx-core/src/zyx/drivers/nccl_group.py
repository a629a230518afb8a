"""A group of devices on top of `zyx.drivers.nccl`, but for what a driver has of its own: streams, events, waiting.

connect     each device by a thread of its own, which waits for the others; it is left behind at the time limit
failures    looked for by whoever waits for work of the devices: the pool calls `look` again and again meanwhile
the end     graphs that have exchanges go first: the library waits for them
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from zyx.backend.collectives import Collectives, ExchangeError, ExchangeTimeoutError
from zyx.drivers.arguments import Parameter
from zyx.drivers.nccl import Communicator, NcclError, check_exchange
from zyx.errors import BackendError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from zyx.backend.collectives import Exchange
    from zyx.backend.device import Device, Program
    from zyx.backend.pool import PoolBuffer
    from zyx.drivers.caching_pool import CachingPool
    from zyx.drivers.nccl import Nccl


class NcclGroup(Collectives):
    """The members of a group that belong to this process.

    Args:
        library: NCCL, or one like it.
        devices: Of this process.
        ranks: The number of each of them.
        size: How many members the group has.
        identifier: Of the group.
        timeout_s: How long waits may go on without any progress; 0 means for ever.
    """

    def __init__(
        self,
        library: Nccl,
        devices: Sequence[Device],
        ranks: Sequence[int],
        size: int,
        identifier: bytes,
        timeout_s: float,
    ) -> None:
        super().__init__(f"{library}", devices, ranks, size)
        self.library: Final = library
        self.timeout_s: Final = timeout_s
        self._identifier = identifier
        self._lock: Final = threading.RLock()
        self._communicators: list[Communicator] = []
        self._programs: dict[Exchange, Program] = {}
        self._is_open = True

    # ---- what a backend adds

    @abstractmethod
    def selected(self, number: int) -> AbstractContextManager[object]:
        """Return what makes device `number` of this process current, in this thread."""

    @abstractmethod
    def settle(self, number: int) -> None:
        """Wait for all work of device `number`. Raises `BackendError`."""

    @abstractmethod
    def let_go(self, number: int) -> None:
        """Drop what was captured on device `number`, and call `look` no more while it is waited for."""

    @abstractmethod
    def program(self, exchange: Exchange, parameters: Sequence[Parameter]) -> Program:
        """Return the program of an exchange, with its launch arguments as `Collectives.prepare` has them."""

    # ---- of `Collectives`

    def connect(self) -> None:
        found: dict[int, Communicator | BaseException] = {}

        def start(number: int) -> None:
            try:
                with self.selected(number):
                    found[number] = Communicator(self.library, self.size, self._identifier, self.ranks[number])
            except Exception as error:  # noqa: BLE001  # raised below, in the thread that wants it
                found[number] = error

        threads = [
            threading.Thread(target=start, args=(number,), name=f"zyx-connect-{rank}", daemon=True)
            for number, rank in enumerate(self.ranks)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(self.timeout_s or None)
        errors = [error for error in found.values() if not isinstance(error, Communicator)]
        self._communicators = [found[number] for number in sorted(found)] if not errors else []  # type: ignore[misc]
        names = ", ".join(device.name for device in self.devices)
        if errors:
            self.failure = f"{self.name} cannot connect {names}: {errors[0]}"
            raise ExchangeError(self.failure) from errors[0]
        if len(found) < len(threads):
            self._communicators = []
            self.failure = (
                f"{self.name} has waited {self.timeout_s:g} s to connect {names} with all {self.size} members; the "
                "limit is ZYX_COLLECTIVE_TIMEOUT_S"
            )
            raise ExchangeTimeoutError(self.failure)

    def prepare(self, exchange: Exchange, number: int = 0) -> Program:
        if len(self.devices) > 1:
            raise UnsupportedError(
                f"{exchange} is queued on {len(self.devices)} devices of one process at once: run it"
            )
        if exchange not in self._programs:
            check_exchange(exchange, self.name)
            target, source = exchange.target_bytes(self.size), exchange.source_bytes(self.size)
            state = Parameter(1)
            parameters = [
                *([Parameter(target)] if target else []),
                state,
                *([Parameter(source)] if source else []),
                state,
            ]
            self._programs[exchange] = self.program(exchange, parameters)
        return self._programs[exchange]

    def queue(self, exchange: Exchange, number: int, source: int, target: int, stream: int) -> None:
        """Queue an exchange on a stream of device `number`, which is current.

        Raises:
            NcclError: It was refused.
            ExchangeError: The group cannot be used any more.
        """
        self.check()
        if not self._communicators:
            raise ExchangeError(f"{exchange}: {self.name} is not connected, or was closed")
        self._communicators[number].queue(exchange, source, target, stream)

    def queue_launch(self, exchange: Exchange, natives: Sequence[Any], stream: int) -> None:
        """Queue an exchange of the only device, by the launch arguments that `prepare` gave it. Raises as `queue`."""
        target = natives[0] if exchange.target_bytes(self.size) else 0
        source = natives[-2] if exchange.source_bytes(self.size) else 0
        self.queue(exchange, 0, source, target, stream)

    def addresses(
        self,
        exchange: Exchange,
        pools: Sequence[CachingPool[int, Any]],
        sources: Sequence[PoolBuffer],
        targets: Sequence[PoolBuffer],
    ) -> tuple[list[int], list[int]]:
        """Return where the devices read and write in an exchange, 0 for those that do not.

        Raises:
            UnsupportedError: The library has no such exchange.
            InvalidBufferError: A buffer is of another pool, was freed, or is too small.
        """
        check_exchange(exchange, self.name)
        sizes = exchange.source_bytes(self.size), exchange.target_bytes(self.size)
        own_sources, own_targets = (
            [pool.own(buffer, nbytes).memory for pool, buffer in zip(pools, buffers, strict=True)]
            if nbytes
            else [0] * len(pools)
            for buffers, nbytes in zip((sources, targets), sizes, strict=True)
        )
        return own_sources, own_targets

    def refused(self, exchange: Exchange, error: NcclError) -> ExchangeError:
        """Return the error of an exchange that was refused, after which the group cannot be used."""
        self.failure = self.failure or f"{self.name} refused {exchange}: {error}"
        return ExchangeError(self.failure)

    def check(self) -> None:
        """Raise `ExchangeError` if the group cannot be used any more."""
        if self.failure:
            raise ExchangeError(self.failure)

    def look(self, waited_s: float) -> None:
        """Look whether exchanges fail, while somebody waits for work of one of the devices.

        Args:
            waited_s: For how long nothing was done.

        Raises:
            ExchangeError: Something is wrong, or was before. All exchanges end.
            ExchangeTimeoutError: It has waited longer than the limit. Likewise.
        """
        with self._lock:
            self.check()
            for communicator in self._communicators:
                try:
                    text = communicator.failure()
                except NcclError as error:
                    text = str(error)
                if text:
                    self.abort(f"{self.name}, rank {communicator.rank} of {self.size}: {text}")
                    raise ExchangeError(self.failure)
            if self.timeout_s and waited_s > self.timeout_s:
                ranks = ", ".join(map(str, self.ranks))
                self.abort(
                    f"{self.name}, rank {ranks} of {self.size}: nothing was done for {waited_s:.1f} s by devices that "
                    f"exchange with others; the limit is {self.timeout_s:g} s (ZYX_COLLECTIVE_TIMEOUT_S). Has one of "
                    "the others ended?"
                )
                raise ExchangeTimeoutError(self.failure)

    def abort(self, why: str = "it was aborted") -> None:
        with self._lock:
            self.failure = self.failure or why
            communicators, self._communicators = self._communicators, []
            for communicator in communicators:
                with self.selected(self.ranks.index(communicator.rank)), suppress(NcclError):  # it says why, already
                    communicator.abort()

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        for number in range(len(self.devices)):
            with suppress(BackendError):  # whoever holds the results is told
                self.settle(number)
        for number in range(len(self.devices)):
            self.let_go(number)
        with self._lock:
            communicators, self._communicators = self._communicators, []
            self.failure = self.failure or f"{self.name} was closed"
            try:
                for communicator in communicators:
                    with self.selected(self.ranks.index(communicator.rank)):
                        communicator.destroy()
            except NcclError as error:
                raise ExchangeError(f"closing {self.name}: {error}") from error
