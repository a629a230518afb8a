"""Which processes there are, and which one this is."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from zyx.errors import CollectiveError, InvalidArgumentError, PackageMissingError
from zyx.integers import as_index
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from zyx.distributed import mpi
    from zyx.distributed.engine import Engine
    from zyx.distributed.links import Links
    from zyx.runtime.runtime import Runtime
else:
    mpi = lazy_import("zyx.distributed.mpi", globals())

#: The variables by which launchers tell a process how many there are: MPICH and others like it, Open MPI, and the steps
#: of Slurm (a batch script is one process, whatever its job has).
_SIZES: Final = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Processes that compute together. `init` gives it.

    Attributes:
        rank: The number of this process, from 0.
        size: How many there are.
        engine: What carries arrays between them; None in a group of one.
        turn: Of the thread of this process that is in an operation of the group.
        links: Of each runtime, what connects its devices with those of the others; see `zyx.distributed.links`.
        parts: The groups that were made of some of these processes, by their ranks.

    >>> group = zyx.distributed.init()
    >>> group.rank, group.size
    (0, 1)
    """

    rank: int = 0
    size: int = 1
    engine: Engine | None = field(default=None, repr=False)
    turn: threading.RLock = field(default_factory=threading.RLock, repr=False)
    links: WeakKeyDictionary[Runtime, Links] = field(default_factory=WeakKeyDictionary, repr=False)
    parts: dict[tuple[int, ...], Group] = field(default_factory=dict, repr=False)

    def __deepcopy__(self, memo: object) -> Group:
        return self  # what a copied module exchanges, it exchanges with the same processes

    def split(self, ranks: Sequence[int]) -> Group:
        """Return the group of some of these processes, which all of them call with the same ranks, and no other does.

        A second call for the same ranks returns the same group, whose turn and links belong to it.

        Args:
            ranks: Their numbers in this group, this process among them; in the new one they are numbered from 0, in
                the order of the sequence.

        Raises:
            InvalidArgumentError: Numbers that there are not, one twice, or without this process.
            CollectiveError: One of them does not come, or calls something else.
            UnsupportedError: What carries the data knows only all processes.

        >>> zyx.distributed.init().split([0])
        Group(rank=0, size=1)
        """
        chosen = [as_index(rank, "rank") for rank in ranks]
        if len(set(chosen)) < len(chosen) or self.rank not in chosen or not set(chosen) <= set(range(self.size)):
            raise InvalidArgumentError(
                f"split: {chosen} are not different ranks from 0 to {self.size - 1}, with this process, {self.rank}"
            )
        if chosen == [*range(self.size)]:
            return self
        found = self.parts.get(tuple(chosen))
        if found is None:
            engine = None if self.engine is None or len(chosen) == 1 else self.engine.split(chosen)
            found = self.parts[tuple(chosen)] = Group(chosen.index(self.rank), len(chosen), engine)
        return found


#: The group of a thread that is a rank by itself; see `zyx.distributed.running`.
_of_thread: Final[ContextVar[Group | None]] = ContextVar("group", default=None)
_lock: Final = threading.Lock()
_group: Group | None = None


def init() -> Group:
    """Return the group of all processes that the launcher started; connect them at the first call.

    In a thread that `run` has started it is the group of these threads.

    Launchers are ``zyx launch``, ``mpiexec`` and ``srun``. Without one the group has one process, and no package is
    needed. Operations of this module call it themselves; to call it first shows at the beginning what is missing. All
    processes must come to the first call.

    Raises:
        PackageMissingError: There are several processes, and mpi4py is not installed.
        CollectiveError: It finds no MPI library, or another one than that of the launcher; or this process is a worker
            of `multiprocessing`.

    >>> zyx.distributed.init()
    Group(rank=0, size=1)
    """
    if (own := _of_thread.get()) is not None:
        return own
    global _group  # noqa: PLW0603  # processes have one launcher, whatever runtimes they make
    with _lock:
        if _group is None:
            _group = _connected(launched(os.environ))
    return _group


@contextmanager
def in_group(group: Group) -> Iterator[None]:
    """Let `init` give this group in this thread, for the length of a ``with`` block."""
    token = _of_thread.set(group)
    try:
        yield
    finally:
        _of_thread.reset(token)


def launched(environ: Mapping[str, str]) -> int:
    """Return how many processes the launcher of this one says that it has started; 1 without a launcher.

    >>> from zyx.distributed.group import launched
    >>> launched({"PMI_SIZE": "4", "PMI_RANK": "0"})
    4
    """
    sizes = [int(environ[name]) for name in _SIZES if environ.get(name, "").isdecimal()]
    return max(sizes, default=1)


def _connected(count: int) -> Group:
    if count == 1:
        return Group()
    if multiprocessing.parent_process() is not None:
        raise CollectiveError(
            "this process was started by one of the group, by multiprocessing, and is not in it; call init() where it "
            'does not come: below if __name__ == "__main__"'
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise PackageMissingError(
            f"a launcher has started {count} processes, which are connected by MPI, and the package mpi4py is not "
            'installed: pip install "zyx-core[mpi]"'
        )
    engine = mpi.MPIEngine()
    if engine.size != count:
        raise CollectiveError(
            f"the launcher has started {count} processes, and MPI has connected {engine.size}: it is of another kind "
            "than the library of mpi4py; start the program by the one beside it, as zyx launch does"
        )
    return Group(engine.rank, engine.size, engine)
