"""Matrix products by hipBLASLt, as candidates beside generated kernels. Found at run time; absent, there are none.

The library counts columns first, so a row-major ``a @ b`` is its ``b @ a`` with rows and columns exchanged. It is ROCm
6's or later, whose attributes have other numbers than those before.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from ctypes import byref, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Final

from zyx import dtype as dtypes
from zyx.backend.arguments import Parameter
from zyx.backend.library import Gemm, LibraryKernel
from zyx.errors import DriverNotFoundError, UnsupportedError
from zyx_backend_hip import libraries
from zyx_backend_hip.driver import Fault, check
from zyx_backend_hip.program import HipProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.library import Problem
    from zyx_backend_hip.driver import Handle
    from zyx_backend_hip.memory import HipPool

#: hipDataType.
_TYPES: Final = {dtypes.float32: 0, dtypes.float16: 2, dtypes.bfloat16: 14}
_COMPUTE_32F: Final = 2
_AS_IS: Final = 111
_TRANSPOSED: Final = 112

_TRANSPOSE_A: Final = 0
_TRANSPOSE_B: Final = 1
_BATCH_COUNT: Final = 0
_BATCH_STRIDE: Final = 1
_MAX_WORKSPACE: Final = 1

#: HIP's version from which on the numbers above are right.
_OLDEST: Final = 60_000_000
_WORKSPACE_BYTES: Final = 32 << 20
#: More than any version's record of an algorithm; the algorithm itself comes first in all of them.
_RECORD_BYTES: Final = 512


def library_kernels(pool: HipPool, device: str, path: str) -> Sequence[LibraryKernel]:
    """Return the products that hipBLASLt offers on a device; none if it is not there or does not start."""
    if pool.session.runtime.hip_version < _OLDEST:
        return ()
    try:
        blas = Blas(pool, device, path)
    except (DriverNotFoundError, Fault):
        return ()
    return [LibraryKernel(f"hipBLASLt {blas.version}", Gemm, blas.prepare, unmeasured=True)]


class Blas:
    """The library on one device.

    Raises:
        DriverNotFoundError: It is not there.
        Fault: It does not start.
    """

    def __init__(self, pool: HipPool, device: str, path: str) -> None:
        self.native = libraries.load("hipblaslt", path, libraries.BLAS)
        self.pool = pool
        self.device = device
        version, handle = c_int(0), c_void_p()
        with pool.session.selected():
            check(self.native.hipblasLtCreate(byref(handle)), "hipblasLtCreate")
            self.native.hipblasLtGetVersion(handle, byref(version))
        self.handle = handle
        pool.at_close(lambda: self.native.hipblasLtDestroy(handle))
        self.version = version.value
        self._workspace: Handle | None = None

    def workspace(self) -> Handle:
        """Return memory for whatever product is running: one at a time is, since there is one stream for launches."""
        if self._workspace is None:
            self._workspace = self.pool.reserve(_WORKSPACE_BYTES)
        return self._workspace

    def prepare(self, problem: Problem) -> GemmProgram:
        """Return the program of a product.

        Raises:
            UnsupportedError: It is none that the library computes.
        """
        if not isinstance(problem, Gemm):
            raise UnsupportedError(f"hipBLASLt has no {problem}")
        if problem.dtype not in _TYPES or problem.out_dtype not in (problem.dtype, dtypes.float32):
            raise UnsupportedError(f"hipBLASLt has no product of {problem.dtype} into {problem.out_dtype}")
        try:
            with self.pool.session.lock, self.pool.session.selected():
                return GemmProgram(self, problem)
        except Fault as error:
            raise UnsupportedError(f"hipBLASLt refuses {problem}: {error}") from error


class GemmProgram(HipProgram):
    """One product, with its descriptors and the algorithm that the library advises."""

    __slots__ = ("_algorithm", "_blas", "_layouts", "_made", "_product", "_scale", "_workspace")

    def __init__(self, blas: Blas, gemm: Gemm) -> None:
        batch, m, n, k = gemm.batch, gemm.m, gemm.n, gemm.k
        if gemm.shared_b and not gemm.transpose_a:  # one tall product
            batch, m = 1, batch * m
        sizes = (batch * m * k, k * n * (1 if gemm.shared_b else batch), batch * m * n)
        name = f"hipblaslt_{batch}x{m}x{n}x{k}"
        items = (gemm.dtype.itemsize, gemm.dtype.itemsize, gemm.out_dtype.itemsize)
        parameters = [Parameter(size * item) for size, item in zip(sizes, items, strict=True)]
        super().__init__(name, "", f"kernel {name} on {blas.device}", blas.pool, parameters)
        self._blas = blas
        self._made: list[tuple[str, c_void_p]] = []
        self._product = self._make("MatmulDesc", _COMPUTE_32F, _TYPES[dtypes.float32])
        transposed = (gemm.transpose_b, gemm.transpose_a)
        for attribute, is_transposed in zip((_TRANSPOSE_A, _TRANSPOSE_B), transposed, strict=True):
            self._set("MatmulDesc", self._product, attribute, c_int32(_TRANSPOSED if is_transposed else _AS_IS))
        a = (k, m) if not gemm.transpose_a else (m, k)  # rows and columns, as the library counts them
        b = (n, k) if not gemm.transpose_b else (k, n)
        self._layouts = [
            self._layout(gemm.dtype, b, batch, 0 if gemm.shared_b else k * n),
            self._layout(gemm.dtype, a, batch, m * k),
            self._layout(gemm.out_dtype, (n, m), batch, m * n),
        ]
        self._algorithm = self._advised()
        self._workspace = blas.workspace()
        self._scale = (c_float(1.0), c_float(0.0))

    def _make(self, kind: str, *arguments: object) -> c_void_p:
        handle = c_void_p()
        check(getattr(self._blas.native, f"hipblasLt{kind}Create")(byref(handle), *arguments), f"hipblasLt{kind}Create")
        self._made.append((kind, handle))
        return handle

    def _set(self, kind: str, handle: c_void_p, attribute: int, value: Any) -> None:  # noqa: ANN401  # a number of ctypes
        function = f"hipblasLt{kind}SetAttribute"
        check(getattr(self._blas.native, function)(handle, attribute, byref(value), ctypes.sizeof(value)), function)

    def _layout(self, dtype: dtypes.DType, shape: tuple[int, int], batch: int, stride: int) -> c_void_p:
        rows, columns = shape
        layout = self._make("MatrixLayout", _TYPES[dtype], rows, columns, rows)
        if batch > 1:
            self._set("MatrixLayout", layout, _BATCH_COUNT, c_int32(batch))
            self._set("MatrixLayout", layout, _BATCH_STRIDE, c_int64(stride))
        return layout

    def _advised(self) -> Any:  # noqa: ANN401  # a record of ctypes
        preference = self._make("MatmulPreference")
        self._set("MatmulPreference", preference, _MAX_WORKSPACE, c_uint64(_WORKSPACE_BYTES))
        found, record = c_int(0), ctypes.create_string_buffer(_RECORD_BYTES)
        left, right, out = self._layouts
        code = self._blas.native.hipblasLtMatmulAlgoGetHeuristic(
            self._blas.handle, self._product, left, right, out, out, preference, 1, record, byref(found)
        )
        check(code, "hipblasLtMatmulAlgoGetHeuristic")
        if not found.value:
            raise UnsupportedError(f"hipBLASLt has no algorithm for {self.name}")
        return record

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        a, b, c = values
        left, right, out = self._layouts
        one, zero = self._scale
        code = self._blas.native.hipblasLtMatmul(
            self._blas.handle, self._product, byref(one), b, left, a, right, byref(zero), c, out, c, out,
            self._algorithm, self._workspace, _WORKSPACE_BYTES, stream,
        )  # fmt: skip
        check(code, "hipblasLtMatmul")

    def __del__(self) -> None:
        with suppress(AttributeError):  # when the library was not there
            for kind, handle in self._made:
                getattr(self._blas.native, f"hipblasLt{kind}Destroy")(handle)
