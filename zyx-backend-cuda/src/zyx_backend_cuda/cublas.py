"""Matrix products by cuBLAS, as candidates beside generated kernels. Found at run time; without it, there are none."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend import Program
from zyx.backend.arguments import Parameter
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import UnsupportedError
from zyx_backend_cuda.errors import Fault
from zyx_backend_cuda.libraries import load_library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.library import Problem
    from zyx_backend_cuda.device import CudaDevice
    from zyx_backend_cuda.driver import Address, Stream
    from zyx_backend_cuda.memory import CudaPool
    from zyx_backend_cuda.program import Native

#: Numbers of the library: types of elements, and of sums.
_TYPES: Final = {dtypes.float32: 0, dtypes.float64: 1, dtypes.float16: 2, dtypes.bfloat16: 14}
_SUM_F32: Final = 68
_SUM_F64: Final = 70
_AS_IS, _TRANSPOSED = 0, 1
#: Sums of float16 products stay in float32 until the end.
_EXACT_SUMS: Final = 16
_DEFAULT: Final = -1
#: Memory that the library works in; what NVIDIA recommends for its newest devices.
_WORKSPACE_BYTES: Final = 32 << 20


class Cublas:
    """The library, open for one device.

    Raises:
        Fault: It does not start there.
    """

    def __init__(self, library: ctypes.CDLL, pool: CudaPool) -> None:
        self._library: Final = library
        self._pool: Final = pool
        self._handle = ctypes.c_void_p()
        self._workspace: Address | None = None
        self._stream = 0
        with pool.session as session:
            self.call("cublasCreate_v2", ctypes.byref(self._handle))
            version = ctypes.c_int()
            self.call("cublasGetVersion_v2", self._handle, ctypes.byref(version))
            self.call("cublasSetMathMode", self._handle, _EXACT_SUMS)
            self._workspace = session.allocate(_WORKSPACE_BYTES)
        number = version.value
        self.version: Final = f"{number // 10000}.{number // 100 % 100}"

    def call(self, function: str, *args: Any) -> None:  # noqa: ANN401  # types of ctypes
        """Call a function. Raises `Fault` if it fails."""
        status = getattr(self._library, function)(*args)
        if status:
            raise Fault(f"{function}, status {status}", _FAULTS.get(status, 999))

    def use(self, stream: Stream) -> ctypes.c_void_p:
        """Let the next calls work on `stream`; return the handle."""
        number = self._pool.session.stream_handle(stream)
        if number != self._stream:
            self.call("cublasSetStream_v2", self._handle, ctypes.c_void_p(number))
            # Setting the stream puts the library back to memory of its own, which graphs could not use.
            self.call(
                "cublasSetWorkspace_v2",
                self._handle,
                ctypes.c_void_p(self._workspace),
                ctypes.c_size_t(_WORKSPACE_BYTES),
            )
            self._stream = number
        return self._handle

    def close(self) -> None:
        """Free everything; no product may be running."""
        if self._workspace is not None:
            with self._pool.session as session:
                self._library.cublasDestroy_v2(self._handle)
                session.free(self._workspace)
            self._workspace = None


#: What the library's own codes mean: out of memory, an invalid value, a device that failed, not supported.
_FAULTS: Final = {3: 2, 7: 1, 13: 719, 15: 801}


class GemmProgram(Program):
    """One product, or a batch of them.

    Attributes:
        what: The product and its device, for error texts.
        pool: Memory of that device.
        parameters: The launch arguments: a, b, c.
        is_released: Whether it was given back.
    """

    __slots__ = ("_arguments", "_blas", "is_released", "parameters", "pool", "what")

    def __init__(self, problem: Gemm, blas: Cublas, pool: CudaPool, device: str) -> None:
        batch, m, n, k = problem.batch, problem.m, problem.n, problem.k
        if problem.shared_b and not problem.transpose_a:  # one tall product
            batch, m = 1, batch * m
        super().__init__(f"cublas_gemm_{batch}x{m}x{n}x{k}")
        self.what = f"{self.name} on {device}"
        self.pool = pool
        self.is_released = False
        sizes = (batch * m * k, k * n * (1 if problem.shared_b else batch), batch * m * n)
        items = (problem.dtype.itemsize, problem.dtype.itemsize, problem.out_dtype.itemsize)
        self.parameters = tuple(Parameter(size * item) for size, item in zip(sizes, items, strict=True))
        self._blas = blas
        is_double = problem.dtype is dtypes.float64
        scalar = ctypes.c_double if is_double else ctypes.c_float
        step, number = ctypes.c_longlong, ctypes.c_int
        kind, out = _TYPES[problem.dtype], _TYPES[problem.out_dtype]
        # The library's matrices have columns side by side: row-major c = a b is its c' = b' a'.
        self._arguments = (
            number(_TRANSPOSED if problem.transpose_b else _AS_IS),
            number(_TRANSPOSED if problem.transpose_a else _AS_IS),
            number(n), number(m), number(k), ctypes.byref(scalar(1.0)),
            None, number(kind), number(k if problem.transpose_b else n), step(0 if problem.shared_b else k * n),
            None, number(kind), number(m if problem.transpose_a else k), step(m * k),
            ctypes.byref(scalar(0.0)),
            None, number(out), number(n), step(m * n),
            number(batch), number(_SUM_F64 if is_double else _SUM_F32), number(_DEFAULT),
        )  # fmt: skip

    def enqueue(self, natives: Sequence[Native], stream: Stream) -> None:
        """Queue it. Raises `Fault`."""
        arguments = list(self._arguments)
        a, b, c = natives
        for place, address in ((6, b), (10, a), (15, c)):
            arguments[place] = ctypes.c_void_p(address)  # type: ignore[call-overload,arg-type]  # a place of pointers
        self._blas.call("cublasGemmStridedBatchedEx", self._blas.use(stream), *arguments)

    def release(self) -> None:
        """Note that it must not be launched."""
        self.is_released = True


def library_kernels(device: CudaDevice) -> Sequence[LibraryKernel]:
    """Return the products that cuBLAS offers on `device`; nothing if it is not found."""
    if device.blas is None:
        library = load_library("cublas")
        if library is None:
            return ()
        device.blas = Cublas(library, device.pool)
    prepare = partial(_program, device, device.blas)
    return [LibraryKernel(f"cuBLAS {device.blas.version}", Gemm, prepare, unmeasured=True)]


def _program(device: CudaDevice, blas: Cublas, problem: Problem) -> GemmProgram:
    """Return the program of one product.

    Raises:
        UnsupportedError: It is none, has dtypes that the library does not combine, or is too large for it.
    """
    if not isinstance(problem, Gemm):
        raise UnsupportedError(f"cuBLAS has no {problem}")
    dtype, out = problem.dtype, problem.out_dtype
    if dtype not in _TYPES or out not in ((dtype, dtypes.float32) if dtype.bits == 16 else (dtype,)):
        raise UnsupportedError(f"cuBLAS has no product of {dtype} into {out}")
    if max(problem.batch * problem.m, problem.n, problem.k) >= 1 << 31:
        raise UnsupportedError(f"cuBLAS has no product with extents of 2**31 and more: {problem}")
    return GemmProgram(problem, blas, device.pool, device.name)
