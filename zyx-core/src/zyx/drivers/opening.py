"""Which devices of a driver are opened: those that are asked for and start."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from zyx.errors import InitializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zyx.backend.pool import MemoryPool

ListedT = TypeVar("ListedT")
PoolT = TypeVar("PoolT", bound="MemoryPool")


def is_named(name: str, parts: Sequence[str]) -> bool:
    """Whether a device is asked for: its name has one of `parts`, in capitals or not; or there are none."""
    return not parts or any(part.lower() in name.lower() for part in parts)


def open_each(
    wanted: Iterable[ListedT],
    open_pool: Callable[[int, ListedT], PoolT],
    note: Callable[[str], None],
    refused: Iterable[str] = (),
) -> list[PoolT]:
    """Return the pools of the devices that start, and note why others do not.

    Args:
        wanted: The devices, as the driver lists them.
        open_pool: Opens the pool of one, given its number among those that started. It raises `InitializationError` if
            the device refuses.
        note: Takes a text for `zyx devices`, such as `BackendConfig.note`.
        refused: Why devices were left out before.

    Raises:
        InitializationError: None starts; the text has every reason.
    """
    reasons = list(refused)
    pools: list[PoolT] = []
    for device in wanted:
        try:
            pools.append(open_pool(len(pools), device))
        except InitializationError as error:
            reasons.append(str(error))
    if not pools:
        raise InitializationError("; ".join(reasons))
    for reason in reasons:
        note(f"left out: {reason}")
    return pools
