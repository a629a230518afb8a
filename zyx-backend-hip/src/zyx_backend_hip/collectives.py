"""Exchanges between devices by RCCL, which has the interface of NCCL. Absent, processes exchange by the host.

Exchanges go on the stream of launches, so they are in order with kernels and are part of recorded graphs.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from zyx.drivers.faults import Cause, Fault, failure
from zyx.drivers.nccl import Nccl, NcclError, check_identifier, identifier_of
from zyx.drivers.nccl_group import NcclGroup
from zyx.drivers.work_event import WorkEvent
from zyx.errors import DriverNotFoundError, LaunchError, UnsupportedError
from zyx_backend_hip import libraries
from zyx_backend_hip.device import HipDevice
from zyx_backend_hip.program import HipProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device, Event, PoolBuffer
    from zyx.backend.collectives import Exchange
    from zyx.drivers.arguments import Parameter
    from zyx_backend_hip.driver import Handle, Selected
    from zyx_backend_hip.memory import HipPool


class HipGroup(NcclGroup):
    """Members of a group."""

    def __init__(
        self,
        library: Nccl,
        devices: Sequence[HipDevice],
        ranks: Sequence[int],
        size: int,
        identifier: bytes,
        timeout_s: float,
    ) -> None:
        super().__init__(library, devices, ranks, size, identifier, timeout_s)
        self.pools: Final = tuple(device.pool for device in devices)
        self._seen: dict[HipPool, int] = {}
        for device in devices:
            device.pool.work.watchers.append(self)
            device.groups.append(self)

    def selected(self, number: int) -> Selected:
        return self.pools[number].session.selected()

    def settle(self, number: int) -> None:
        self.pools[number].synchronize()

    def let_go(self, number: int) -> None:
        pool = self.pools[number]
        if self in pool.work.watchers:
            pool.work.watchers.remove(self)
        for holder in list(pool.holders):
            holder.let_go()

    def watch(self, since: float) -> float:
        """Look whether exchanges fail; see `zyx.drivers.watching.Watcher`."""
        for pool in self.pools:
            count = pool.work.count
            if count < self._seen.get(pool, count):
                since = time.monotonic()
            self._seen[pool] = count
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
        behind = [pool.take(each) for pool, each in zip(self.pools, events, strict=True)] if events else []
        own = self.addresses(exchange, self.pools, sources, targets)
        what = f"{exchange} by {self.name}"
        try:
            with ExitStack() as locks:
                for pool in self.pools:
                    locks.enter_context(pool.session.lock)
                for pool, commands in zip(self.pools, behind, strict=False):
                    with pool.session.selected():
                        pool.work.order(pool.session.launches, commands, what)
                with self.library.together():
                    for number, (pool, source, target) in enumerate(zip(self.pools, *own, strict=True)):
                        with pool.session.selected():
                            self.queue(exchange, number, source, target, pool.session.launches)
                made: list[Event] = []
                for pool in self.pools:
                    with pool.session.selected():
                        made.append(WorkEvent(pool, (pool.work.add(pool.session.launches, what),)))
        except NcclError as error:
            raise self.refused(exchange, error) from error
        except Fault as error:
            raise failure(what, error, LaunchError) from error
        return made


class ExchangeProgram(HipProgram):
    """One exchange of the only device of this process; see `zyx.backend.collectives.Collectives.prepare`."""

    __slots__ = ("_exchange", "_group")

    def __init__(self, group: HipGroup, exchange: Exchange, parameters: Sequence[Parameter]) -> None:
        device, pool = group.devices[0], group.pools[0]
        super().__init__(str(exchange), "", f"{exchange} by {group.name} on {device.name}", pool, parameters)
        self._group = group
        self._exchange = exchange

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        group, exchange = self._group, self._exchange
        try:
            group.queue_launch(exchange, values, stream)
        except NcclError as error:
            if stream == self.pool.session.recording:  # it is queued by itself then, and fails there if it must
                raise Fault(Cause.REFUSED, str(error)) from error
            raise group.refused(exchange, error) from error


def open_rccl(devices: Sequence[Device]) -> tuple[Nccl, list[HipDevice]]:
    """Return the library, and the devices, checked.

    Raises:
        UnsupportedError: It is not found, or is too old.
    """
    ours = [device for device in devices if isinstance(device, HipDevice)]
    try:
        return Nccl(libraries.load("rccl", "", {}), "RCCL"), ours
    except DriverNotFoundError as error:
        raise UnsupportedError(str(error)) from error
    except NcclError as error:
        raise UnsupportedError(f"RCCL does not start: {error}") from error


def identifier(devices: Sequence[Device], *, is_first: bool) -> bytes:
    """Return what says that the devices can be members of a group; see `zyx.hookspecs.zyx_collectives_identifier`."""
    library, _ = open_rccl(devices)
    return identifier_of(library, is_first=is_first)


def group_of(
    devices: Sequence[Device], ranks: Sequence[int], size: int, identifier: bytes, timeout_s: float
) -> HipGroup:
    """Return the members of a group; see `zyx.hookspecs.zyx_collectives`."""
    library, ours = open_rccl(devices)
    check_identifier(identifier, "RCCL")
    return HipGroup(library, ours, ranks, size, identifier, timeout_s)
