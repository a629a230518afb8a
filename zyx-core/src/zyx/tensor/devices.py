"""Devices as users meet them: their names, which one is the default, and waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.runtime.runtime import current
from zyx.tensor.operands import require

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zyx.plugins.state import BackendReport
    from zyx.tensor.tensor import Tensor


def device(name: str | None) -> AbstractContextManager[str]:
    """Make tensors on device `name`, where none is named, for the length of a ``with`` block in this thread.

    "cpu" means the fastest device that works on host memory, "cuda" the first of that backend, None what is the default
    already. Threads that are started in the block have the default of the configuration.

    Raises:
        NoDeviceError: On entering: there is no such device; the text lists those there are.
    """
    return current().default(name)


def devices() -> list[str]:
    """Return the names of all devices that can be used, fastest first, the interpreter last."""
    return [each.name for each in current().devices]


def default_device() -> str:
    """Return the name of the device on which tensors are made where none is named."""
    return current().default_device


def backends() -> list[BackendReport]:
    """Return what is known of each backend: whether it is ready, and if not, why and what to do. Opens all of them."""
    runtime = current()
    runtime.backends.open_all()
    return list(runtime.backends.reports)


def synchronize() -> None:
    """Wait for all queued work on all devices. Errors of that work surface here."""
    current().synchronize()


def realize(*tensors: Tensor) -> None:
    """Compute the values of `tensors` together, what they share once; return before the work is done."""
    if tensors:
        require(tensors[0], "realize").runtime.realize([require(x, "realize") for x in tensors])
