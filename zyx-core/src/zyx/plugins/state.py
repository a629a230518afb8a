"""What may become of a backend, and the report about one."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final


class BackendState(enum.Enum):
    """How far a backend got."""

    NOT_INSTALLED = "not installed"  # known to exist, but no package of this environment declares it
    SWITCHED_OFF = "switched off"  # by the configuration, or by default
    IMPORT_FAILED = "import failed"  # its module cannot be imported
    WRONG_API_VERSION = "wrong API version"  # written for another core
    INVALID = "invalid"  # it breaks the rules of `zyx.hookspecs`
    INSTALLED = "installed"  # loaded, and not opened yet
    NO_DRIVER = "no driver"  # a vendor's library or its Python package is missing
    DRIVER_REFUSED = "driver refused"  # the driver is there and does not start
    NO_DEVICE = "no device"  # the driver works and has no device
    FAILED = "failed"  # a hook raised what no hook should raise
    READY = "ready"
    LOST = "lost"  # it was ready, and its device stopped answering


class BackendStep(enum.Enum):
    """What was being done with a backend when its state was reached."""

    DISCOVER = "looking for packages"
    IMPORT = "importing its module"
    INFO = "zyx_backend_info"
    CHECK = "checking its hooks"
    CONFIG = "zyx_config_section"
    POOLS = "zyx_memory_pools"
    DEVICES = "zyx_devices"
    USE = "running"


@dataclass(frozen=True, slots=True)
class BackendReport:
    """What is known about one backend.

    Attributes:
        name: Its name, as in device names.
        state: How far it got.
        step: What was being done then.
        reason: Why it got no further; empty if nothing is wrong.
        advice: What to do about it; may be empty.
        package: Distribution that declares it, or would if it were installed; empty if unknown.
        version: Of the distribution.
        summary: One line about it.
        devices: Names of its devices.
        notes: What it says of itself that did not stop it, such as which device was left out; nothing is to be done.
        faults: What it should not have done, and what did not stop it, such as to raise in a later hook.
        error: The exception behind `reason`, if there was one.
    """

    name: str
    state: BackendState
    step: BackendStep = BackendStep.DISCOVER
    reason: str = ""
    advice: str = ""
    package: str = ""
    version: str = ""
    summary: str = ""
    devices: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    error: BaseException | None = field(default=None, compare=False)


#: Our own backends, which can be offered before they are installed: name, then what it is for. The package is
#: `package_of`.
KNOWN: Final = {
    "c": "CPUs, by LLVM; needs no compiler",
    "cuda": "NVIDIA GPUs",
    "hip": "AMD GPUs",
    "opencl": "GPUs and CPUs with an OpenCL driver",
    "tenstorrent": "Tenstorrent's cards by TT-Lang, and its simulator",
    "vulkan": "GPUs and CPUs with a Vulkan driver",
    "wgpu": "GPUs with a Vulkan, Metal or Direct3D 12 driver",
}


def package_of(backend: str) -> str:
    """Return the distribution that brings one of `KNOWN`."""
    return f"zyx-backend-{backend}"
