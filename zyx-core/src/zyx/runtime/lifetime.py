"""The end of the process, and its children: every runtime is closed before the interpreter ends, and told of forks.

A child of a fork has the memory of its parent, but none of its threads, and no right to what drivers made for it. While
a process forks, no runtime is at work.

Children are numbered, so that what must differ between them can be derived from where they come from: `lineage`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zyx.backend import MemoryPool


class Living(Protocol):
    """What has an end, and may be forked."""

    def end(self) -> None:
        """Give everything back, since the process ends. Only the calling thread may do anything after it."""

    def before_fork(self) -> None:
        """Stop working."""

    def after_fork(self, *, is_child: bool) -> None:
        """Go on in the parent, or in the child."""


class SupportsSpare(Protocol):
    """What keeps memory that it can do without."""

    def drop_spare(self) -> None:
        """Let go of the memory."""


class SupportsFork(Protocol):
    """What goes on in another way in the child of a fork."""

    def after_fork(self) -> None:
        """Do what is to be done there, at once."""


class LastLock:
    """The lock of a runtime at the end of the process: for the thread that ends it; others end, quietly.

    They could not do anything any more, and their errors would be printed after everything else.
    """

    def __init__(self) -> None:
        self._owner = threading.get_ident()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Return if this is the thread that ends the process."""
        if threading.get_ident() != self._owner:
            raise SystemExit  # which ends a thread without a word
        return True

    def release(self) -> None:
        """Do nothing: there is nobody to let in."""

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        pass


class LastPools(set["MemoryPool"]):
    """The pools of a runtime that must not be touched, at the end of the process: by other threads, none.

    Those that waited for the lock of a runtime while it was closed go on with what they have of it.
    """

    def __init__(self, lock: LastLock, pools: Iterable[MemoryPool]) -> None:
        super().__init__(pools)
        self._lock = lock

    def __bool__(self) -> bool:
        return True  # it is always worth asking

    def __contains__(self, pool: object) -> bool:
        self._lock.acquire()
        return super().__contains__(pool)


#: Copied before each use: other threads begin something meanwhile, which a `weakref.WeakSet` does not bear.
_alive: Final[set[weakref.ref[Living]]] = set()
_held: Final[list[Living]] = []


class _Forks:
    """Numbers the children of this process.

    Attributes:
        lineage: The number of the child at each fork that led to this process.
        children: How many children it has.
    """

    def __init__(self) -> None:
        self.lineage: tuple[int, ...] = ()
        self.children = 0
        self._lock = threading.Lock()

    def before(self) -> None:
        """Count one more; no other thread may fork until it has its number."""
        self._lock.acquire()
        self.children += 1

    def after_in_parent(self) -> None:
        """Let others fork."""
        self._lock.release()

    def after_in_child(self) -> None:
        """Become that child."""
        self.lineage, self.children = (*self.lineage, self.children), 0
        self._lock.release()


_forks: Final = _Forks()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child
    )


def lineage() -> tuple[int, ...]:
    """Return which descendant this process is: (2, 1) is the first child of the second child; () was not forked."""
    return _forks.lineage


def begin(living: Living) -> None:
    """Take care of `living` from now on."""
    _alive.add(weakref.ref(living, _alive.discard))


def _living() -> list[Living]:
    return [living for reference in _alive.copy() if (living := reference()) is not None]


def opened() -> None:
    """Note that a driver may have been opened: what it has registered for the end of the process is to come later."""
    atexit.unregister(_close_all)
    atexit.register(_close_all)
    _follow_forks()


@functools.cache
def _follow_forks() -> None:
    # Locks are taken for a fork in the reverse of the order in which that was asked for. Whoever is at work may take
    # that of this module, so it must have ended before that is taken: it has to ask first.
    import logging  # noqa: F401

    if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=functools.partial(_after_fork, is_child=False),
            after_in_child=functools.partial(_after_fork, is_child=True),
        )


def _close_all() -> None:
    with contextlib.ExitStack() as stack:  # what one of them raises must not leave the others open
        for living in _living():
            stack.callback(living.end)


def _before_fork() -> None:
    _held[:] = _living()
    for living in _held:
        living.before_fork()


def _after_fork(*, is_child: bool) -> None:
    for living in reversed(_held):
        living.after_fork(is_child=is_child)
    _held.clear()
