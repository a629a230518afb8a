"""Where NVIDIA's libraries are: in packages that pip installed, in a CUDA toolkit, or where the system looks."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Major versions of the libraries that are tried, newest first.
_MAJORS: Final = (13, 12)


def usable_majors(driver: tuple[int, int]) -> list[int]:
    """Return the major versions of libraries that a driver of a version of CUDA serves, newest first."""
    newest = driver[0] or _MAJORS[0]
    return [major for major in _MAJORS if major <= newest] or [_MAJORS[-1]]


def load_library(stem: str, majors: Sequence[int] = _MAJORS) -> ctypes.CDLL | None:
    """Return a library such as ``nvrtc`` of one of the major versions, the first that loads; None if there is none."""
    for major in majors:
        for path in _candidates(stem, major):
            try:
                for part in sorted(Path(path).parent.glob(f"lib{stem}-builtins.so.{major}*")) if "/" in path else ():
                    ctypes.CDLL(str(part))  # which the library opens by its name alone
                return ctypes.CDLL(path)
            except OSError:
                continue
    return None


def _candidates(stem: str, major: int) -> Iterator[str]:
    name = f"lib{stem}.so.{major}"
    for folder in _folders():
        for pattern in (name, f"{stem}64_{major}*_0.dll", f"{stem}64_{major}.dll"):
            yield from map(str, sorted(folder.glob(pattern)))
    yield name


def _folders() -> Iterator[Path]:
    """Yield the folders of wheels (``nvidia/cu13/lib``, ``nvidia/cuda_nvrtc/lib``), then those of toolkits."""
    package = importlib.util.find_spec("nvidia")
    for root in (package.submodule_search_locations or ()) if package is not None else ():
        for part in ("*/lib", "*/bin", "*/lib/x86_64", "*/bin/x86_64"):
            yield from sorted(Path(root).glob(part))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "lib64"
    yield Path("/usr/local/cuda/lib64")
