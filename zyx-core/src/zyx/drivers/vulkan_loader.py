"""What backends that reach GPUs through Vulkan's loader know without calling it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where Linux shows devices.
DEVICE_FILES: Final = Path("/dev")
#: What drivers of GPUs put there: those of its kernel, NVIDIA's, Windows's below WSL, and those of phones.
_NODES: Final = ("dri/renderD*", "nvidia[0-9]*", "nvhost-*", "nvgpu", "dxg", "kgsl-3d*", "mali*", "pvr*")
#: What names drivers to the loader.
_VARIABLES: Final = ("VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_ICD_FILENAMES")


def may_have_gpus() -> bool:
    """Return whether there may be a GPU: not on a Linux that shows none, unless drivers are named to the loader."""
    if sys.platform != "linux" or any(map(os.environ.get, _VARIABLES)):
        return True
    return any(next(DEVICE_FILES.glob(node), None) for node in _NODES)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep a layer of Mesa's, which looks for a screen to choose a device by, from complaining that there is none."""
    name = "NODEVICE_SELECT"
    if "XDG_RUNTIME_DIR" in os.environ or name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        os.environ.pop(name, None)  # another thread may have been here as well
