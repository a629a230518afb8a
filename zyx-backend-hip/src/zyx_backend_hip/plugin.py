"""The business card of the HIP backend. Importing it loads no driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import DriverNotFoundError
from zyx.hookspecs import BackendInfo, hookimpl
from zyx_backend_hip.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Say who this is."""
    return BackendInfo("hip", __version__, (1, 0), "AMD GPUs")


@hookimpl
def zyx_devices() -> Sequence[Device]:
    """Return the devices: none, since this version cannot drive any.

    Raises:
        DriverNotFoundError: Always.
    """
    raise DriverNotFoundError(
        f"zyx-backend-hip {__version__} has no HIP driver yet, so it can run nothing; "
        "pip install zyx-backend-c gives a backend that can"
    )
