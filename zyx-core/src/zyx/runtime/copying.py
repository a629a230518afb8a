"""Copies from buffer to buffer, and what each of the two pools has to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import BackendError, DeviceLostError, locate
from zyx.runtime.buffer import abandon, drain, settle, take_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Event, MemoryPool, PoolBuffer
    from zyx.runtime.buffer import Buffer, Pending


def copy_buffer(source: Buffer, target: Buffer) -> None:
    """Queue a copy of `source` to `target`, which lies in another pool; `source` is kept until it is done.

    Raises:
        BackendError: The pool refused, or earlier work on one of them has failed.
    """
    if source.raw is None or target.raw is None:
        return
    if source.nbytes < source.raw.nbytes:
        _copy_front(source, target)
        return
    behind, taken = _target_events(target)
    try:
        events, more = ([], []) if source.pending in taken else take_events((source,), source.pool)
        taken = [*taken, *more]
        event = _copy(source.raw, target, events, behind)
        settle(event, target.pool, (source, target), taken, (target,))
    except BackendError as error:
        _locate_either(error, source.pool, target.pool)
        abandon(taken)
        raise
    except BaseException:
        drain(source.pool, target.pool)
        raise


def _copy_front(source: Buffer, target: Buffer) -> None:
    """Copy the used part of a buffer that has more memory than it needs, through the host; pools copy all."""
    source.wait()
    target.wait()
    assert source.raw is not None and target.raw is not None
    staging = memoryview(bytearray(source.nbytes))
    try:
        source.pool.pool_to_host(source.raw, staging)
        target.pool.sync_events([target.pool.host_to_pool(staging, target.raw)])
    except BackendError as error:
        _locate_either(error, source.pool, target.pool)
        raise


def read_into(source: PoolBuffer, target: Buffer) -> None:
    """Queue a copy of `source`, which nobody works on, to `target`, which lies in another pool.

    Raises:
        BackendError: The pool refused, or earlier work on `target` has failed.
    """
    behind, taken = _target_events(target)
    try:
        event = _copy(source, target, (), behind)
        settle(event, target.pool, (target,), taken, (target,))
    except BackendError as error:
        _locate_either(error, source.pool, target.pool)
        abandon(taken)
        raise
    except BaseException:
        drain(target.pool)
        raise


def _locate_either(error: BackendError, source: MemoryPool, target: MemoryPool) -> None:
    """Locate the lost device of a failed copy: the side that does not answer any more."""
    if isinstance(error, DeviceLostError) and not error.place:
        try:
            source.synchronize()
        except DeviceLostError:
            locate(error, source.name)
        except BackendError:  # of other work; the device answers
            pass
        locate(error, target.name)


def _target_events(target: Buffer) -> tuple[list[Event], list[Pending]]:
    """Return what `take_events` does for the target of a copy; wait if its pool takes no events of it."""
    if target.pool.takes_target_events:
        return take_events((target,), target.pool)
    target.wait()
    return [], []


def _copy(source: PoolBuffer, target: Buffer, events: Sequence[Event], behind: Sequence[Event]) -> Event:
    assert target.raw is not None
    if behind:
        return target.pool.pool_to_pool(source, target.raw, events, behind)
    return target.pool.pool_to_pool(source, target.raw, events)  # of pools that take no more
