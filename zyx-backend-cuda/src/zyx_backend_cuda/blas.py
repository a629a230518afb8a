"""Matrix products by cuBLASLt, as candidates beside generated kernels. Found at run time; absent, there are none."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend.library import Gemm, LibraryKernel
from zyx.drivers.faults import Fault
from zyx.drivers.lt_library import WORKSPACE_BYTES, LtError, LtLibrary, LtNames
from zyx.errors import DriverNotFoundError, InitializationError, UnsupportedError
from zyx_backend_cuda.errors import CODES, UNKNOWN, failure
from zyx_backend_cuda.libraries import load_library
from zyx_backend_cuda.program import CudaProgram
from zyx_backend_cuda.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.library import Problem
    from zyx.drivers.lt_library import LtProduct
    from zyx_backend_cuda.driver import Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

_SUM_F32: Final = 68
_SUM_TF32: Final = 77
_SUM_F64: Final = 70
#: What kinds of partial sums an algorithm may add up in memory: those of the type of sums, none of a shorter one.
_PARTIAL_SUMS: Final = 3
_EXACT: Final = 2

_STATUSES: Final = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip
#: The driver's codes of the same meaning.
_CODES: Final = {3: 2, 7: 1, 15: 801}

_NAMES: Final = LtNames(
    name="cuBLASLt",
    prefix="cublasLt",
    types={dtypes.float32: 0, dtypes.float64: 1, dtypes.float16: 2, dtypes.bfloat16: 14},
    # The one of float32 does not round operands to TF32.
    sums={dtypes.float32: _SUM_F32, dtypes.float64: _SUM_F64, dtypes.float16: _SUM_F32, dtypes.bfloat16: _SUM_F32},
    operations=(0, 1),
    transposes=(3, 4),
    batches=(5, 6),
    statuses={status: f"CUBLAS_STATUS_{name}" for status, name in _STATUSES.items()},
    alignments=(5, 6, 7, 8),
    preferences={_PARTIAL_SUMS: _EXACT},
    state_at=72,
)


class Blas:
    """The library on one device.

    Args:
        native: It, loaded.
        pool: The device's pool.
        device: The device's name.
        tf32: Whether products of float32 matrices may take 11 significant bits of each factor.

    Raises:
        InitializationError: It does not start there.
        DeviceLostError: Nor does anything else.

    Attributes:
        version: Such as ``13.1``.
    """

    def __init__(
        self,
        native: Any,  # noqa: ANN401  # a library of ctypes
        pool: CudaPool,
        device: str,
        *,
        tf32: bool = False,
    ) -> None:
        names = replace(_NAMES, sums={**_NAMES.sums, dtypes.float32: _SUM_TF32}) if tf32 else _NAMES
        try:
            for name, arguments in _NAMES.functions().items():
                function = getattr(native, name)
                function.argtypes, function.restype = arguments, ctypes.c_int
            native.cublasLtGetVersion.restype = ctypes.c_size_t
        except AttributeError as error:  # how ctypes says that there is no such function
            raise InitializationError(f"cuBLASLt is too old for {device}: it lacks a function, {error}") from error
        number = native.cublasLtGetVersion()
        self.version: Final = f"{number // 10000}.{number // 100 % 100}"
        self.pool: Final = pool
        self.device: Final = device
        self._workspace: Final = Workspace(pool, WORKSPACE_BYTES)
        try:
            with pool.session:
                self._library: Final = LtLibrary(native, names)
        except LtError as error:
            what = f"cuBLASLt {self.version} does not start on {device}"
            raise failure(what, self.fault(error), InitializationError, pool.compute.last) from error

    def prepare(self, problem: Problem) -> GemmProgram:
        """Return the program of a product.

        Raises:
            UnsupportedError: It is none that the library computes, or there is no memory for it to work in.
        """
        try:
            with self.pool.session:
                return GemmProgram(self, self._library.product(problem, self._workspace.address()))
        except Fault as error:
            raise UnsupportedError(f"cuBLASLt on {self.device} has no memory to work in: {error}") from error

    def fault(self, error: LtError) -> Fault:
        """Return what the driver says of a call that failed; where it says nothing, what the library does."""
        if error.status and error.status not in _CODES:
            try:
                with self.pool.session as session:
                    session.is_done(self.pool.compute.mark())
            except Fault as cause:
                return cause
        code = _CODES.get(error.status, UNKNOWN)
        return Fault(CODES.cause(code), str(error), code)

    def close(self) -> None:
        """Free everything; no product may be running."""
        with self.pool.session:
            self._library.close()
            self._workspace.close()


class GemmProgram(CudaProgram):
    """One product, or a batch of them. Its arguments are a, b, c."""

    __slots__ = ("_blas", "_product")

    def __init__(self, blas: Blas, product: LtProduct) -> None:
        super().__init__(product.name, "", f"{product.name} on {blas.device}", blas.pool, product.parameters)
        self._blas = blas
        self._product = product

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        a, b, c = natives
        try:
            self._product.queue(a, b, c, self.pool.session.stream_handle(stream))  # type: ignore[arg-type]  # addresses
        except LtError as error:
            raise self._blas.fault(error) from error


def open_blas(pool: CudaPool, device: str, majors: Sequence[int], *, tf32: bool = False) -> Blas:
    """Return the library on a device.

    Args:
        pool: The device's pool.
        device: The device's name.
        majors: Its major versions that the driver serves, best first.
        tf32: Whether products of float32 matrices may take 11 significant bits of each factor.

    Raises:
        DriverNotFoundError: It is not found; the text says which package brings it.
        InitializationError: It does not start there.
    """
    native = load_library("cublasLt", majors)
    if native is None:
        package = "nvidia-cublas-cu12" if majors[0] == 12 else "'nvidia-cublas>=13,<14'"
        raise DriverNotFoundError(
            f"products of matrices are generated kernels' on {device}, since cuBLASLt is not found "
            f"(libcublasLt.so.{majors[0]}): pip install {package}, or set CUDA_HOME to a CUDA toolkit of version "
            f"{majors[0]}"
        )
    return Blas(native, pool, device, tf32=tf32)


def candidates(blas: Blas) -> Sequence[LibraryKernel]:
    """Return the products that the library offers."""
    return (LibraryKernel(f"cuBLASLt {blas.version}", Gemm, blas.prepare, unmeasured=True),)
