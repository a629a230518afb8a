"""What exchanges take between many processes, by the time of a message and the rate of a link.

A message of b bytes takes ``latency + b / rate`` (the alpha-beta model: Hockney, "The communication challenge for MPP",
1994). With n processes, and b bytes of the whole array:

    all_reduce          recursive doubling      log2(n) (latency + b / rate)
                        halving and doubling    2 log2(n) latency + 2 (n - 1) / n b / rate
                        ring                    2 (n - 1) latency + 2 (n - 1) / n b / rate
    all_gather          doubling, or a ring     log2(n) latency, or n - 1 times, + (n - 1) / n b / rate
    reduce_scatter      halving, or a ring      likewise
    broadcast, reduce   tree                    log2(n) (latency + b / rate), or in two halves as all_reduce
    all_to_all          by pairs                (n - 1) latency + (n - 1) / n b / rate
    send                                        latency + b / rate

Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005, has all but the
ring of all_reduce, which is of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009. Of those that a library has, the fastest counts. A group that reaches over several hosts goes at
the pace of the link between hosts in each of its steps.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx.distributed.group import Group, init
from zyx.errors import InvalidArgumentError
from zyx.ops import ReduceOp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Link", "Network", "measure_links"]

#: How often each message is timed.
_TIMES: Final = 15
#: The array whose time tells the rate: large beside what a message takes by itself, and small beside memory.
_LONG_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Link:
    """What connects two processes.

    Attributes:
        latency_s: What a message takes, whatever its length, in seconds.
        bytes_per_s: What one process sends to another meanwhile receiving as much; with sums of it, if it was measured.
        meeting_s: What one process takes to tell another which operation is next, which each does with each before it.

    Raises:
        InvalidArgumentError: A time below 0, or a rate that is not above 0.

    >>> zyx.distributed.Link(latency_s=2e-6, bytes_per_s=1e10).meeting_s
    0.0
    """

    latency_s: float
    bytes_per_s: float
    meeting_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.latency_s >= 0 and self.meeting_s >= 0 and self.bytes_per_s > 0):
            raise InvalidArgumentError(f"{self}: times are at least 0, and the rate is above 0")


@dataclass(frozen=True, slots=True)
class Network:
    """What connects the processes of a simulation.

    Attributes:
        inside: Two processes of a host.
        between: Two of different hosts; the share of each, if those of a host send at once.
        per_host: Processes of a host: ranks 0 to ``per_host - 1`` are of the first one.
        is_ring: Whether long arrays go in rings, as with NCCL, and not by halving and doubling, as with MPICH.
        copy_bytes_per_s: Of copies between a device and the host, which carries the data; infinity if it does not.

    Raises:
        InvalidArgumentError: There is no process on a host, or no rate of copies above 0.

    >>> near, far = zyx.distributed.Link(2e-6, 1e10), zyx.distributed.Link(1e-5, 1e9)
    >>> zyx.distributed.Network(near, far, per_host=8).link([0, 9]) is far
    True
    """

    inside: Link
    between: Link
    per_host: int
    is_ring: bool = False
    copy_bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        if self.per_host < 1 or not self.copy_bytes_per_s > 0:
            raise InvalidArgumentError(f"{self}: a host has at least one process, and the rate of copies is above 0")

    def link(self, ranks: Sequence[int]) -> Link:
        """Return the slowest link between processes of these ranks."""
        hosts = {rank // self.per_host for rank in ranks}
        return self.inside if len(hosts) == 1 else self.between

    def seconds(self, kind: str, nbytes: int, ranks: Sequence[int]) -> float:
        """Return what an operation takes.

        Args:
            kind: ``agree``, or one of the operations that the module names.
            nbytes: Of the whole array: what all_gather gives, and what reduce_scatter and all_to_all are given.
            ranks: Of all processes that take part.

        Raises:
            InvalidArgumentError: There is no such operation.
        """
        link, count = self.link(ranks), len(ranks)
        rounds = math.ceil(math.log2(count))
        whole_s = nbytes / link.bytes_per_s
        part_s = (count - 1) / count * whole_s
        steps = count - 1 if self.is_ring else rounds
        match kind:
            case "agree":
                return (count - 1) * link.meeting_s
            case "all_reduce" | "reduce" | "broadcast":
                return min(rounds * (link.latency_s + whole_s), 2 * (steps * link.latency_s + part_s))
            case "all_gather" | "reduce_scatter":
                return steps * link.latency_s + part_s
            case "all_to_all":
                return (count - 1) * link.latency_s + part_s
            case "send" | "receive":
                return link.latency_s + whole_s
            case _:
                raise InvalidArgumentError(f"there is no time of {kind!r}")


def measure_links(group: Group | None = None) -> Link:
    """Return what connects the processes of a group, by what a few short and long sums take; all of them call it.

    Times are medians of rank 0, which the others are given, of sums in float32: of one number, and of 4 MiB.

    Args:
        group: At least two processes; None is all.

    Raises:
        InvalidArgumentError: There is one process.
        CollectiveError: A process does not come, or is gone.

    >>> found = zyx.distributed.run(zyx.distributed.measure_links, [zyx.default_device()] * 2)
    >>> found[0] == found[1]
    True
    """
    chosen = init() if group is None else group
    engine = chosen.engine
    if engine is None:
        raise InvalidArgumentError("measure_links: there is one process, which nothing connects to another")
    one, many = np.zeros(1, np.float32), np.zeros(_LONG_BYTES // 4, np.float32)
    meeting_s = _median_s(lambda: engine.agree("measure_links")) / (chosen.size - 1)
    short_s = _median_s(lambda: engine.all_reduce(ReduceOp.SUM, one))
    long_s = _median_s(lambda: engine.all_reduce(ReduceOp.SUM, many))
    rounds = math.ceil(math.log2(chosen.size))
    latency_s = short_s / rounds
    share = min(float(rounds), 2 * (chosen.size - 1) / chosen.size)
    found = np.array([meeting_s, latency_s, share * _LONG_BYTES / max(long_s - short_s, 1e-9)])
    meeting_s, latency_s, rate = engine.broadcast(0, found).tolist()
    return Link(latency_s, rate, meeting_s)


def _median_s(call: Callable[[], object]) -> float:
    call()
    times = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
