"""What carries arrays of the host from process to process.

The operations are those of `zyx.backend.collectives.Collectives`. They differ in what takes part: there it is devices,
each with a buffer and an event; here it is a process, with an array, and a call returns when its result is there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from zyx.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zyx.ops import ReduceOp

Array: TypeAlias = "npt.NDArray[Any]"


class Engine(ABC):
    """One process among several. Arrays are contiguous, and are not changed.

    Every method but `send` and `receive` is called by all processes, in one order, with arrays of one shape and dtype.
    What is reduced is of a dtype that `zyx.distributed.reductions` gives; what is moved is of any.

    Attributes:
        name: What carries the data, for people.
        rank: The number of this process, from 0.
        size: How many there are, at least 2.
        connects_devices: Whether processes may tell each other of devices, to exchange without the host.

    Raises:
        CollectiveError: By each method: processes do not call the same, or the connection is gone.
        CollectiveTimeoutError: By each method: another process did not come to the call in time.
    """

    name: str
    rank: int
    size: int
    connects_devices: bool = True

    @abstractmethod
    def agree(self, call: str) -> None:
        """Return when all processes have come to the call that is described so.

        Raises:
            CollectiveError: One of them is at another call.
        """

    @abstractmethod
    def all_reduce(self, op: ReduceOp, array: Array) -> Array:
        """Return the combination over all processes; each gets the same bits."""

    @abstractmethod
    def reduce(self, op: ReduceOp, array: Array, root: int) -> Array:
        """Return the combination over all processes at `root`, and zeros at the others."""

    @abstractmethod
    def reduce_scatter(self, op: ReduceOp, array: Array) -> Array:
        """Return number `rank` of the combinations of ``(size, *shape)``."""

    @abstractmethod
    def all_gather(self, array: Array) -> Array:
        """Return the arrays of all processes, ``(size, *shape)``."""

    @abstractmethod
    def broadcast(self, root: int, array: Array) -> Array:
        """Return the array of `root`."""

    @abstractmethod
    def all_to_all(self, array: Array) -> Array:
        """Return, of ``(size, *shape)``, what each process has for this one, in the order of their ranks."""

    @abstractmethod
    def send(self, array: Array, to: int) -> None:
        """Give an array to another process; return once it is on its way, or taken."""

    @abstractmethod
    def receive(self, like: Array, source: int) -> Array:
        """Return an array of this shape and dtype from another process."""

    def split(self, ranks: Sequence[int]) -> Engine:
        """Return the engine of some of these processes, at least two, in the order in which they are named.

        It is called by each of them with the same ranks, and by no other. Groups without a common process may be made
        at the same time. A second call for the same ranks gives the same engine.

        Raises:
            UnsupportedError: What carries the data knows only all processes; so it is unless a subclass says more.
        """
        raise UnsupportedError(f"{self.name}: groups of a part of the processes are not supported")

    @abstractmethod
    def end(self, status: int) -> None:
        """End all processes at once."""
