"""Exchanges between devices by NCCL, through ctypes. Found at run time; absent, processes exchange by the host.

nccl4py would need a package more, and brings the same library: where it is installed, its library is found here.
Exchanges go on the stream of launches, so they are in order with kernels and are part of captured graphs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import Cause, Fault
from zyx.drivers.nccl import Nccl, NcclError, check_identifier, identifier_of
from zyx.drivers.nccl_group import NcclGroup
from zyx.drivers.work_event import QueuedEvent
from zyx.errors import LaunchError, UnsupportedError
from zyx_backend_cuda.device import CudaDevice
from zyx_backend_cuda.errors import failure
from zyx_backend_cuda.lanes import Ticket
from zyx_backend_cuda.libraries import load_library
from zyx_backend_cuda.program import CudaProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device, Event, PoolBuffer
    from zyx.backend.collectives import Exchange
    from zyx.drivers.arguments import Parameter
    from zyx_backend_cuda.driver import Session, Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

#: The name of the library ends with this, for CUDA 12 and 13 alike.
_MAJOR: Final = 2


class CudaGroup(NcclGroup):
    """Members of a group."""

    def __init__(
        self,
        library: Nccl,
        devices: Sequence[CudaDevice],
        ranks: Sequence[int],
        size: int,
        identifier: bytes,
        timeout_s: float,
    ) -> None:
        super().__init__(library, devices, ranks, size, identifier, timeout_s)
        self.pools: Final = tuple(device.pool for device in devices)
        self._seen: dict[CudaPool, int] = {}
        for device in devices:
            device.pool.watchers.append(self)
            device.groups.append(self)

    def selected(self, number: int) -> Session:
        return self.pools[number].session

    def settle(self, number: int) -> None:
        self.pools[number].synchronize()

    def let_go(self, number: int) -> None:
        pool = self.pools[number]
        if self in pool.watchers:
            pool.watchers.remove(self)
        for holder in list(pool.holders):
            holder.let_go()

    def watch(self, since: float) -> float:
        """Look whether exchanges fail; see `zyx.drivers.watching.Watcher`."""
        for pool in self.pools:
            with pool.session:
                pool.compute.poll()
            if pool.compute.done > self._seen.get(pool, 0):
                self._seen[pool] = pool.compute.done
                since = time.monotonic()
        self.look(time.monotonic() - since)
        return since

    def program(self, exchange: Exchange, parameters: Sequence[Parameter]) -> ExchangeProgram:
        return ExchangeProgram(self, exchange, parameters)

    def run(
        self,
        exchange: Exchange,
        sources: Sequence[PoolBuffer],
        targets: Sequence[PoolBuffer],
        events: Sequence[Sequence[Event]] = (),
    ) -> list[Event]:
        tickets = [pool.take(each) for pool, each in zip(self.pools, events, strict=True)] if events else []
        own = self.addresses(exchange, self.pools, sources, targets)
        what = f"{exchange} by {self.name}"
        try:
            for pool, behind in zip(self.pools, tickets, strict=False):
                with pool.session:
                    pool.compute.wait_for(behind)
            with self.library.together():
                for number, (pool, source, target) in enumerate(zip(self.pools, *own, strict=True)):
                    with pool.session as session:
                        self.queue(exchange, number, source, target, session.stream_handle(pool.compute.stream))
            made: list[Event] = []
            for pool in self.pools:
                with pool.session:
                    place = pool.compute.queued(what)
                made.append(QueuedEvent(pool, Ticket(pool.compute, place), pool.compute))
        except NcclError as error:
            raise self.refused(exchange, error) from error
        except Fault as error:
            raise failure(what, error, LaunchError) from error
        return made


class ExchangeProgram(CudaProgram):
    """One exchange of the only device of this process; see `zyx.backend.collectives.Collectives.prepare`."""

    __slots__ = ("_exchange", "_group")

    def __init__(self, group: CudaGroup, exchange: Exchange, parameters: Sequence[Parameter]) -> None:
        device, pool = group.devices[0], group.pools[0]
        super().__init__(str(exchange), "", f"{exchange} by {group.name} on {device.name}", pool, parameters)
        self._group = group
        self._exchange = exchange

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        group, exchange = self._group, self._exchange
        try:
            group.queue_launch(exchange, natives, self.pool.session.stream_handle(stream))
        except NcclError as error:
            if stream is self.pool.capture_stream:  # it is queued by itself then, and fails there if it must
                raise Fault(Cause.REFUSED, str(error)) from error
            raise group.refused(exchange, error) from error


def open_nccl(devices: Sequence[Device]) -> tuple[Nccl, list[CudaDevice]]:
    """Return the library, and the devices, checked.

    Raises:
        UnsupportedError: It is not found; the text says which package brings it. Or it is too old.
    """
    ours = [device for device in devices if isinstance(device, CudaDevice)]
    native = load_library("nccl", (_MAJOR,))
    if native is None:
        raise UnsupportedError(
            f"NCCL is not found (libnccl.so.{_MAJOR}): pip install 'zyx-backend-cuda[nccl]', or [nccl-cu12] for "
            "a driver of CUDA 12"
        )
    try:
        return Nccl(native, "NCCL"), ours
    except NcclError as error:
        raise UnsupportedError(f"NCCL does not start: {error}") from error


def identifier(devices: Sequence[Device], *, is_first: bool) -> bytes:
    """Return what says that the devices can be members of a group; see `zyx.hookspecs.zyx_collectives_identifier`."""
    library, _ = open_nccl(devices)
    return identifier_of(library, is_first=is_first)


def group_of(
    devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
) -> CudaGroup:
    """Return the members of a group; see `zyx.hookspecs.zyx_collectives`."""
    library, ours = open_nccl(devices)
    check_identifier(identifier, "NCCL")
    return CudaGroup(library, ours, ranks, size, identifier, timeout_s)
