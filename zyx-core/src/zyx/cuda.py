"""What programs for PyTorch ask of ``torch.cuda``: whether there is such a device, how many, and to wait for them.

The names of devices are those of `zyx.devices`; ``cuda:0`` is the first that the backend ``cuda`` offers.
"""

from __future__ import annotations

from zyx.errors import NoDeviceError
from zyx.runtime.runtime import current
from zyx.tensor.control import empty_cache
from zyx.tensor.devices import synchronize as _synchronize
from zyx.tensor.generator import manual_seed
from zyx.tensor.habits import cuda_name

__all__ = [
    "device_count", "empty_cache", "get_device_name", "is_available", "manual_seed", "manual_seed_all", "synchronize",
]  # fmt: skip

manual_seed_all = manual_seed


def is_available() -> bool:
    """Tell whether the backend ``cuda`` is installed and offers a device. Opens that backend.

    >>> zyx.cuda.is_available() == (zyx.cuda.device_count() > 0)
    True
    """
    try:
        return current().device("cuda").name.startswith("cuda")
    except NoDeviceError:
        return False


def device_count() -> int:
    """Return how many devices the backend ``cuda`` offers.

    >>> zyx.cuda.device_count() == sum(name.startswith("cuda:") for name in zyx.devices())
    True
    """
    if not is_available():
        return 0
    return sum(each.name.startswith("cuda:") for each in current().devices)


def get_device_name(device: int | str | None = None) -> str:
    """Return the model of a device: its number, its name, or None for the first one.

    Raises:
        NoDeviceError: There is no such device.

    >>> zyx.cuda.get_device_name("interpreter")
    'zyx interpreter'
    """
    return current().device(cuda_name(device)).info.model


def synchronize(device: int | str | None = None) -> None:
    """Wait for all queued work, on `device` and all others. Errors of that work surface here.

    Raises:
        NoDeviceError: There is no such device.

    >>> zyx.cuda.synchronize()
    """
    if device is not None:
        current().device(cuda_name(device))
    _synchronize()
