"""What brings the drivers of our own backends, by system: what people are told to install.

What is missing, a backend says itself, and knows only when it is opened; this table says what brings it elsewhere than
on the system that its text has in mind. Python packages are no part of it: those a backend names with its ``pip
install``.
"""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The systems of the table.
SYSTEMS: Final = ("Debian", "Fedora", "macOS", "Windows")

_SIMULATOR: Final = "nothing: pip install 'zyx-backend-tenstorrent[sim]' brings the simulator"
_CARD: Final = (
    "for the simulator nothing: pip install 'zyx-backend-tenstorrent[sim]' brings it; for a card its kernel driver and "
    "SFPI, which Tenstorrent publishes"
)

#: By backend, and by system: what to install. Package names are those of Debian 12 and 13, and of Fedora with RPM
#: Fusion, where NVIDIA's driver is; behind each row stands what has them.
DRIVERS: Final[dict[str, dict[str, str]]] = {
    "c": {
        # https://packages.debian.org/gcc
        "Debian": "nothing; for the toolchain cc: apt install gcc",
        # https://packages.fedoraproject.org/pkgs/gcc/gcc
        "Fedora": "nothing; for the toolchain cc: dnf install gcc",
        # https://developer.apple.com/documentation/xcode/installing-the-command-line-tools
        "macOS": "nothing; for the toolchain cc: xcode-select --install",
        # https://github.com/microsoft/winget-pkgs/tree/master/manifests/l/LLVM/LLVM
        "Windows": "nothing; for the toolchain cc: winget install LLVM.LLVM",
    },
    "cuda": {
        # https://packages.debian.org/nvidia-driver and /libcuda1
        "Debian": "apt install nvidia-driver libcuda1 (from non-free)",
        # https://rpmfusion.org/Howto/NVIDIA: the second is what has libcuda
        "Fedora": "dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda (from RPM Fusion)",
        # https://docs.nvidia.com/cuda/archive/11.0/cuda-toolkit-release-notes: the last that knew macOS was 10.2
        "macOS": "there is no driver of NVIDIA's: pip install zyx-backend-wgpu, which uses Metal",
        "Windows": "NVIDIA's driver from https://www.nvidia.com/drivers",
    },
    "hip": {
        # https://packages.debian.org/hipcc: its dependency libamdhip64-dev brings libamdhip64 and libhiprtc, whose own
        # packages have the number of the version in their names
        "Debian": "apt install hipcc",
        # https://src.fedoraproject.org/rpms/rocclr: rocm-hip has libamdhip64 and libhiprtc
        "Fedora": "dnf install rocm-hip",
        # https://rocm.docs.amd.com/projects/install-on-linux: ROCm is for Linux, and in parts for Windows
        "macOS": "there is no ROCm: pip install zyx-backend-wgpu, which uses Metal",
        # https://rocm.docs.amd.com/projects/install-on-windows: driver, runtime and libraries are in one installer
        "Windows": "the HIP SDK, which has AMD's driver: https://rocm.docs.amd.com/projects/install-on-windows",
    },
    "opencl": {
        # https://packages.debian.org/bookworm/opencl-icd and /trixie/opencl-icd: Intel's is in the first alone,
        # ROCm's in the second alone. https://docs.mesa3d.org/rusticl: Mesa's has no device without the variable
        "Debian": "apt install pocl-opencl-icd for any CPU; for a GPU nvidia-opencl-icd (from non-free), in Debian 12 "
        "intel-opencl-icd, from Debian 13 on rocm-opencl-icd (AMD) or mesa-opencl-icd with RUSTICL_ENABLE=iris (Intel)",
        # https://src.fedoraproject.org/rpms/pocl, /intel-compute-runtime, /rocclr; https://rpmfusion.org/Howto/NVIDIA.
        # Not mesa-libOpenCL, beside which ROCm's fails: https://github.com/zelikos/davincibox/issues/173
        "Fedora": "dnf install pocl for any CPU; for a GPU intel-compute-runtime, rocm-opencl (AMD) or "
        "xorg-x11-drv-nvidia-cuda (from RPM Fusion)",
        # https://developer.apple.com/library/archive/documentation/Performance/Conceptual/OpenCL_MacProgGuide:
        # deprecated since macOS 10.14, and still there
        "macOS": "nothing: the system has OpenCL",
        # https://www.intel.com/content/www/us/en/developer/articles/technical/
        # intel-cpu-runtime-for-opencl-applications-with-sycl-support.html: an installer
        "Windows": "the driver of the GPU's vendor; for any CPU Intel's CPU Runtime for OpenCL Applications",
    },
    # the simulator, tt-lang-sim: no driver of cards is called
    # https://docs.tenstorrent.com/getting-started/README.html has drivers of Linux alone
    "tenstorrent": {"Debian": _CARD, "Fedora": _CARD, "macOS": _SIMULATOR, "Windows": _SIMULATOR},
    "vulkan": {
        # https://packages.debian.org/mesa-vulkan-drivers, /libvulkan1 and /nvidia-driver
        "Debian": "apt install mesa-vulkan-drivers libvulkan1 (AMD, Intel, any CPU), nvidia-driver (NVIDIA, from "
        "non-free)",
        # https://packages.fedoraproject.org/pkgs/mesa/mesa-vulkan-drivers; https://rpmfusion.org/Howto/NVIDIA
        "Fedora": "dnf install mesa-vulkan-drivers vulkan-loader (AMD, Intel, any CPU), akmod-nvidia (NVIDIA, from RPM "
        "Fusion)",
        # https://vulkan.lunarg.com/doc/sdk/latest/mac/getting_started.html: MoltenVK, which is Vulkan 1.2 on Metal
        "macOS": "the Vulkan SDK with MoltenVK: https://vulkan.lunarg.com/sdk/home; or pip install zyx-backend-wgpu, "
        "which uses Metal",
        "Windows": "the driver of the GPU's vendor",
    },
    "wgpu": {
        # https://packages.debian.org/mesa-vulkan-drivers, /libvulkan1 and /nvidia-driver
        "Debian": "apt install mesa-vulkan-drivers libvulkan1 (AMD, Intel, any CPU), nvidia-driver (NVIDIA, from "
        "non-free)",
        # https://packages.fedoraproject.org/pkgs/mesa/mesa-vulkan-drivers; https://rpmfusion.org/Howto/NVIDIA
        "Fedora": "dnf install mesa-vulkan-drivers vulkan-loader (AMD, Intel, any CPU), akmod-nvidia (NVIDIA, from RPM "
        "Fusion)",
        # https://github.com/gfx-rs/wgpu#supported-platforms
        "macOS": "nothing: the system has Metal",
        "Windows": "the driver of the GPU's vendor, for Vulkan or Direct3D 12",
    },
}


def system(name: str = sys.platform, release: Mapping[str, str] | None = None) -> str | None:
    """Return which of `SYSTEMS` this is, or is made from; None for others.

    Args:
        name: As in `sys.platform`.
        release: What ``/etc/os-release`` says, by key; by default it is read.
    """
    if name == "darwin":
        return "macOS"
    if name == "win32":
        return "Windows"
    if release is None:
        try:
            release = platform.freedesktop_os_release()
        except OSError:  # there is no such file
            return None
    families = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    if {"debian", "ubuntu"} & set(families):
        return "Debian"
    return "Fedora" if {"fedora", "rhel", "centos"} & set(families) else None


def advice_for_driver(backend: str, on: str | None) -> list[tuple[str, str]]:
    """Return pairs of a system and what to install there: that of `on`, or of all systems if it is None.

    Nothing for a backend of others, which has its own explanation.
    """
    found = DRIVERS.get(backend, {})
    return [(name, found[name]) for name in SYSTEMS if name in found and on in (None, name)]
