"""AMD's libraries: where they are, and what their functions are called with."""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, Final

from zyx.errors import DriverNotFoundError

_INT: Final = ctypes.POINTER(c_int)
_SIZE: Final = ctypes.POINTER(c_size_t)
_HANDLE: Final = ctypes.POINTER(c_void_p)

#: Arguments of each function; all return a code, 0 for success.
RUNTIME: Final[dict[str, tuple[Any, ...]]] = {
    "hipInit": (c_uint,),
    "hipRuntimeGetVersion": (_INT,),
    "hipDriverGetVersion": (_INT,),
    "hipGetDeviceCount": (_INT,),
    "hipDeviceGetName": (c_char_p, c_int, c_int),
    "hipDeviceGetAttribute": (_INT, c_int, c_int),
    "hipGetDevice": (_INT,),
    "hipSetDevice": (c_int,),
    "hipMemGetInfo": (_SIZE, _SIZE),
    "hipMalloc": (_HANDLE, c_size_t),
    "hipFree": (c_void_p,),
    "hipMemcpyHtoDAsync": (c_void_p, c_void_p, c_size_t, c_void_p),
    "hipMemcpyDtoHAsync": (c_void_p, c_void_p, c_size_t, c_void_p),
    "hipMemcpyPeerAsync": (c_void_p, c_int, c_void_p, c_int, c_size_t, c_void_p),
    "hipDeviceCanAccessPeer": (_INT, c_int, c_int),
    "hipDeviceEnablePeerAccess": (c_int, c_uint),
    "hipStreamCreateWithFlags": (_HANDLE, c_uint),
    "hipStreamDestroy": (c_void_p,),
    "hipStreamSynchronize": (c_void_p,),
    "hipStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "hipStreamBeginCapture": (c_void_p, c_int),
    "hipStreamEndCapture": (c_void_p, _HANDLE),
    "hipEventCreateWithFlags": (_HANDLE, c_uint),
    "hipEventDestroy": (c_void_p,),
    "hipEventRecord": (c_void_p, c_void_p),
    "hipEventQuery": (c_void_p,),
    "hipEventSynchronize": (c_void_p,),
    "hipEventElapsedTime": (ctypes.POINTER(c_float), c_void_p, c_void_p),
    "hipModuleLoadData": (_HANDLE, c_void_p),
    "hipModuleUnload": (c_void_p,),
    "hipModuleGetFunction": (_HANDLE, c_void_p, c_char_p),
    "hipModuleLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "hipFuncGetAttribute": (_INT, c_int, c_void_p),
    "hipGraphInstantiate": (_HANDLE, c_void_p, c_void_p, c_void_p, c_size_t),
    "hipGraphDestroy": (c_void_p,),
    "hipGraphLaunch": (c_void_p, c_void_p),
    "hipGraphExecDestroy": (c_void_p,),
}

#: The record of a device has another layout since version 6, and another function returns it.
PROPERTIES: Final = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")

COMPILER: Final[dict[str, tuple[Any, ...]]] = {
    "hiprtcVersion": (_INT, _INT),
    "hiprtcCreateProgram": (_HANDLE, c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "hiprtcDestroyProgram": (_HANDLE,),
    "hiprtcCompileProgram": (c_void_p, c_int, ctypes.POINTER(c_char_p)),
    "hiprtcGetProgramLogSize": (c_void_p, _SIZE),
    "hiprtcGetProgramLog": (c_void_p, c_void_p),
    "hiprtcGetCodeSize": (c_void_p, _SIZE),
    "hiprtcGetCode": (c_void_p, c_void_p),
}

#: Of libhipblaslt, besides those of `zyx.drivers.lt_library`.
BLAS_VERSION: Final[dict[str, tuple[Any, ...]]] = {"hipblasLtGetVersion": (c_void_p, _INT)}

#: What a library brings, for the error.
_PACKAGES: Final = {
    "amdhip64": "AMD's ROCm brings it (Debian: apt install libamdhip64-5; others: the package rocm-hip-runtime)",
    "hiprtc": "AMD's ROCm brings it (the package hip-runtime-amd; Debian: libhiprtc-builtins5)",
    "hipblaslt": "AMD's ROCm brings it (the package hipblaslt)",
    "rccl": "AMD's ROCm brings it (the package rccl; Debian: librccl1)",
}
#: The settings that say where a library is.
_PATHS: Final = {"amdhip64": "ZYX_HIP_RUNTIME", "hiprtc": "ZYX_HIP_COMPILER", "hipblaslt": "ZYX_HIP_BLAS"}


def load(name: str, path: str, functions: dict[str, tuple[Any, ...]]) -> Any:  # noqa: ANN401  # a library of ctypes
    """Return a library with the types of its functions set.

    Args:
        name: Without what systems put around it, such as ``amdhip64``.
        path: Where it is; empty means to look for it.
        functions: Those that are needed.

    Raises:
        DriverNotFoundError: It is not there, or has no such functions.
    """
    tried = []
    for candidate in [path] if path else _candidates(name):
        try:
            library = ctypes.CDLL(candidate)
        except OSError as error:
            tried.append(f"{candidate}: {error}" if path else candidate)
            continue
        missing = [function for function in functions if not hasattr(library, function)]
        if missing:
            tried.append(f"{candidate} has no function {missing[0]}")
            continue
        for function, arguments in functions.items():
            native = getattr(library, function)
            native.argtypes, native.restype = arguments, c_int
        return library
    elsewhere = f"set {_PATHS[name]} to its path" if name in _PATHS else "set ROCM_PATH to the folder above its own"
    raise DriverNotFoundError(
        f"the library {name} is not there (tried: {'; '.join(tried)}). {_PACKAGES[name]}; where it lies elsewhere, "
        f"{elsewhere}"
    )


def _candidates(name: str) -> list[str]:
    """Return where a library may be: as the system finds it, then where AMD installs it."""
    if sys.platform == "win32":
        names = [f"{name}.dll", *(f"{name}_{version}.dll" for version in (7, 6))]
        return [*names, *(f"{name}{version:02}00.dll" for version in (7, 6))]
    names = [f"lib{name}.so", *(f"lib{name}.so.{version}" for version in (7, 6, 5, 1, 0))]
    folders = [os.environ.get("ROCM_PATH") or os.environ.get("HIP_PATH") or "/opt/rocm"]
    found = [str(path) for folder in folders for path in [Path(folder) / "lib" / f"lib{name}.so"] if path.exists()]
    return [*found, *names]
