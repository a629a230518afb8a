"""The business card of the CUDA backend. Importing it loads no driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.errors import DriverNotFoundError
from zyx.hookspecs import BackendInfo, hookimpl
from zyx_backend_cuda.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend import Device


@hookimpl
def zyx_backend_info() -> BackendInfo:
    """Say who this is."""
    return BackendInfo("cuda", __version__, (1, 0), "NVIDIA GPUs")


@hookimpl
def zyx_devices() -> Sequence[Device]:
    """Return the devices: none, since this version cannot drive any.

    Raises:
        DriverNotFoundError: Always.
    """
    raise DriverNotFoundError(
        f"zyx-backend-cuda {__version__} has no CUDA driver yet, so it can run nothing; "
        "pip install zyx-backend-c gives a backend that can"
    )
