"""NVRTC, NVIDIA's compiler as a library: CUDA C to machine code, without headers and without a driver.

Called through ctypes: eight functions, which are the same in all versions, and need no other package than the one that
brings the library.
"""

from __future__ import annotations

import ctypes
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from zyx.errors import DriverNotFoundError
from zyx_backend_cuda.libraries import load_library, usable_majors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx_backend_cuda.driver import Driver

_COMPILATION: Final = 6
#: What is never changed: results must not depend on the compiler's taste. Multiply-adds are fused where kernels say so.
OPTIONS: Final = ("--fmad=false", "--std=c++17")


class CompilationError(Exception):
    """NVRTC refused a source; the text is its log. For this package alone."""


class Nvrtc:
    """The compiler.

    Args:
        library: The library, loaded.

    Attributes:
        version: (major, minor).
        architectures: The compute capabilities that it knows, such as 90 for 9.0, in order.

    Raises:
        CompilationError: The library does not answer, or lacks a function.
    """

    def __init__(self, library: Any) -> None:  # noqa: ANN401  # a library of ctypes, or what stands in for one
        self._library: Final = library
        self._lock: Final = Lock()
        major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self._check("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version: Final = (major.value, minor.value)
        self._check("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self._check("nvrtcGetSupportedArchs", known)
        self.architectures: Final = tuple(sorted(known))

    def target(self, capability: int) -> str:
        """Return the architecture to compile for, for a device of a compute capability: ``sm_90`` gives machine code.

        A device that is newer than the compiler gets ``compute_..``, which gives PTX for the driver to translate.

        Raises:
            DriverNotFoundError: The device is too old for this version; the text says which package serves it.
        """
        if capability in self.architectures:
            return f"sm_{capability}"
        older = [known for known in self.architectures if known < capability]
        if not older:
            raise DriverNotFoundError(
                f"NVRTC {self.version[0]}.{self.version[1]} knows no devices of compute capability "
                f"{capability / 10:.1f}, its oldest is {self.architectures[0] / 10:.1f}: "
                "pip install nvidia-cuda-nvrtc-cu12 brings one that does"
            )
        return f"compute_{older[-1]}"

    def compile(self, source: str, options: Sequence[str]) -> bytes:
        """Return the machine code of `source`, or its PTX if the options have a virtual architecture.

        Raises:
            CompilationError: The source is refused.
        """
        program = ctypes.c_void_p()
        self._check("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"zyx.cu", 0, None, None)
        try:
            texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
            code = self._library.nvrtcCompileProgram(program, len(options), texts)
            if code:
                log = self._output(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
                what = "" if code == _COMPILATION else f"NVRTC error {code}\n"
                raise CompilationError(f"{what}{log.strip()}")
            is_virtual = any("compute_" in option for option in options)
            return self._output(program, "PTX" if is_virtual else "CUBIN")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _output(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._check(f"nvrtcGet{what}", program, text)
        return text.raw

    def _check(self, function: str, *args: object) -> None:
        try:
            code = getattr(self._library, function)(*args)
        except AttributeError as error:  # how ctypes says that there is no such function
            raise CompilationError(f"it has no function {function}") from error
        if code:
            raise CompilationError(f"{function}: NVRTC error {code}")


def open_nvrtc(driver: Driver) -> Nvrtc:
    """Return the compiler of the driver's own major version, or else of another that it can load programs of.

    Raises:
        DriverNotFoundError: There is none, or it does not work; the text says which package brings it.
    """
    majors = usable_majors(driver.version)
    library = load_library("nvrtc", majors)
    package = "nvidia-cuda-nvrtc-cu12" if majors[0] == 12 else "'nvidia-cuda-nvrtc>=13,<14'"
    advice = f"pip install {package}, or set CUDA_HOME to a CUDA toolkit of version {majors[0]}"
    if library is None:
        raise DriverNotFoundError(f"the compiler NVRTC is not found (libnvrtc.so.{majors[0]}): {advice}")
    try:
        return Nvrtc(library)
    except CompilationError as error:
        raise DriverNotFoundError(f"the compiler NVRTC, {library._name}, does not work: {error}; {advice}") from error
