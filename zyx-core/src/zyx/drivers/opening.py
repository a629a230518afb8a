"""What of a driver is opened: its package, if that is there, and the devices that are asked for and start."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from zyx.errors import DriverNotFoundError, InitializationError, NoDeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from zyx.backend.pool import MemoryPool

ListedT = TypeVar("ListedT")
PoolT = TypeVar("PoolT", bound="MemoryPool")


@contextmanager
def needing(what: str, advice: str, *also: type[Exception]) -> Iterator[None]:
    """Have what is imported within the context be a driver, or need one.

    Args:
        what: What is needed, such as ``the package pyopencl``.
        advice: How it is installed.
        also: What importing it raises besides `ImportError`, if it does not work.

    Raises:
        DriverNotFoundError: It cannot be imported.
        ImportError: A module of zyx, or of a backend, cannot be.
    """
    kinds: tuple[type[Exception], ...] = (ImportError, *also)
    try:
        yield
    except kinds as error:
        if isinstance(error, ImportError) and (error.name or "").startswith("zyx"):
            raise
        raise DriverNotFoundError(f"{what} cannot be imported ({error}): {advice}") from error


def is_named(name: str, parts: Sequence[str]) -> bool:
    """Whether a device is asked for: its name has one of `parts`, in capitals or not; or there are none."""
    return not parts or any(part.lower() in name.lower() for part in parts)


def asked_for(
    listed: Sequence[ListedT],
    is_asked: Callable[[ListedT], bool],
    asked: str,
    describe: Callable[[ListedT], str] = str,
    what: str = "device",
) -> list[ListedT]:
    """Return those of the devices that are asked for.

    Args:
        listed: The devices, as the driver lists them.
        is_asked: Whether one is asked for.
        asked: What was asked for, such as ``devices ['radeon']``.
        describe: Says for people which one it is.
        what: What they are called.

    Raises:
        NoDeviceError: None is; the text has those there are.
    """
    wanted = [device for device in listed if is_asked(device)]
    if not wanted:
        have = "; ".join(map(describe, listed))
        raise NoDeviceError(f"no {what} is asked for ({asked}); there are: {have}")
    return wanted


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
