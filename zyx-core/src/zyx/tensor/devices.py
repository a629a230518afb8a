"""Devices as users meet them: their names, which one is the default, and waiting for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.runtime.runtime import current
from zyx.tensor.operands import require

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zyx.plugins.state import BackendReport
    from zyx.runtime.placement import DeviceLike
    from zyx.tensor.tensor import Tensor


def device(*which: DeviceLike | None) -> AbstractContextManager[str]:
    """Make tensors on a device, where none is named, for the length of a ``with`` block in this thread.

        with zyx.device("cuda"): ...            the first device of that backend
        with zyx.device("cpu"): ...             the fastest one that works on host memory
        with zyx.device(1): ...                 the second of `zyx.devices()`
        with zyx.device("cuda:0", "cuda:1"):    wherever it is likely to be done first, each time something is computed

    The last is a group, which is a device of its own to tensors: its name is ``cuda:0|cuda:1``, and what is made there
    may lie on either. Blocks nest; None is what is the default already. Threads that are started in the block have the
    default of the configuration.

    Raises:
        NoDeviceError: On entering: there is no such device; the text lists those there are.
    """
    runtime = current()
    given = [runtime.default_device if each is None else each for each in which]
    return runtime.default(given or None)


def devices() -> list[str]:
    """Return the names of all devices that can be used, fastest first, the interpreter last."""
    return [each.name for each in current().devices]


def default_device() -> str:
    """Return the name of the device on which tensors are made where none is named."""
    return current().default_device


def explain_device() -> str:
    """Return the name of the default device, and why it is that one, such as ``c:0, since it is the only device``."""
    runtime = current()
    return f"{runtime.default_device}, since {runtime.reason_for_default}"


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
