"""Matrix products by hipBLASLt, as candidates beside generated kernels. Found at run time; absent, there are none.

It is ROCm 6's or later, whose attributes have other numbers than those before.
"""

from __future__ import annotations

from ctypes import byref, c_int
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.backend.library import Gemm, LibraryKernel
from zyx.drivers.faults import Fault, failure
from zyx.drivers.lt_library import WORKSPACE_BYTES, LtError, LtLibrary, LtNames
from zyx.errors import InitializationError, UnsupportedError
from zyx_backend_hip import libraries
from zyx_backend_hip.errors import CODES, UNKNOWN
from zyx_backend_hip.program import HipProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.backend.library import Problem
    from zyx.drivers.lt_library import LtProduct
    from zyx_backend_hip.driver import Handle
    from zyx_backend_hip.memory import HipPool

_SUM_F32: Final = 2

_STATUSES: Final = {
    1: "NOT_INITIALIZED", 2: "ALLOC_FAILED", 3: "INVALID_VALUE", 4: "MAPPING_ERROR", 5: "EXECUTION_FAILED",
    6: "INTERNAL_ERROR", 7: "NOT_SUPPORTED", 8: "ARCH_MISMATCH", 9: "HANDLE_IS_NULLPTR", 10: "INVALID_ENUM",
    11: "UNKNOWN",
}  # fmt: skip
#: HIP's codes of the same meaning.
_CODES: Final = {2: 2, 3: 1, 7: 801}

#: It takes no alignment; all memory here has the largest that it makes use of.
_NAMES: Final = LtNames(
    name="hipBLASLt",
    prefix="hipblasLt",
    types={dtypes.float32: 0, dtypes.float16: 2, dtypes.bfloat16: 14},
    sums={dtypes.float32: _SUM_F32, dtypes.float16: _SUM_F32, dtypes.bfloat16: _SUM_F32},
    operations=(111, 112),
    transposes=(0, 1),
    batches=(0, 1),
    statuses={status: f"HIPBLAS_STATUS_{name}" for status, name in _STATUSES.items()},
)

#: HIP's version from which on the numbers above are right.
OLDEST: Final = 60_000_000


class Blas:
    """The library on one device.

    Args:
        pool: The device's pool, which closes it.
        device: The device's name.
        path: Where it is; empty means to look for it.

    Raises:
        DriverNotFoundError: It is not there.
        InitializationError: It does not start.
    """

    def __init__(self, pool: HipPool, device: str, path: str) -> None:
        functions = {**_NAMES.functions(), **libraries.BLAS_VERSION}
        native = libraries.load("hipblaslt", path, functions)
        self.pool = pool
        self.device = device
        self._workspace: Handle | None = None
        version = c_int(0)
        try:
            with pool.session.selected():
                self._library = LtLibrary(native, _NAMES)
                native.hipblasLtGetVersion(self._library.handle, byref(version))
        except LtError as error:
            raise failure(f"hipBLASLt does not start on {device}", self.fault(error), InitializationError) from error
        self.version = version.value
        pool.at_close(self._close)

    def prepare(self, problem: Problem) -> GemmProgram:
        """Return the program of a product.

        Raises:
            UnsupportedError: It is none that the library computes, or there is no memory for it to work in.
        """
        try:
            with self.pool.session.lock, self.pool.session.selected():
                return GemmProgram(self, self._library.product(problem, self._memory()))
        except Fault as error:
            raise UnsupportedError(f"hipBLASLt on {self.device} has no memory to work in: {error}") from error

    def fault(self, error: LtError) -> Fault:
        """Return what the driver says of a call that failed; where it says nothing, what the library does."""
        if error.status and error.status not in _CODES:
            session = self.pool.session
            try:
                with session.lock, session.selected():
                    session.give_back(session.mark(session.launches))
            except Fault as cause:
                return cause
        code = _CODES.get(error.status, UNKNOWN)
        return Fault(CODES.cause(code), str(error), code)

    def _memory(self) -> Handle:
        """Return memory for whatever product is running: one at a time is, since there is one stream for launches."""
        if self._workspace is None:
            self._workspace = self.pool.reserve(WORKSPACE_BYTES)
        return self._workspace

    def _close(self) -> None:
        with self.pool.session.selected():
            self._library.close()


class GemmProgram(HipProgram):
    """One product, or a batch of them."""

    __slots__ = ("_blas", "_product")

    def __init__(self, blas: Blas, product: LtProduct) -> None:
        what = f"kernel {product.name} on {blas.device}"
        super().__init__(product.name, "", what, blas.pool, product.parameters)
        self._blas = blas
        self._product = product

    def queue(self, values: Sequence[int], stream: Handle) -> None:
        a, b, c = values
        try:
            self._product.queue(a, b, c, stream)
        except LtError as error:
            raise self._blas.fault(error) from error


def candidates(blas: Blas) -> Sequence[LibraryKernel]:
    """Return the products that the library offers."""
    return (LibraryKernel(f"hipBLASLt {blas.version}", Gemm, blas.prepare, unmeasured=True),)
