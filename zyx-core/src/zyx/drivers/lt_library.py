"""Matrix products by cuBLASLt or hipBLASLt: one interface in C, but for the names and numbers in `LtNames`.

    handle          `LtLibrary`     one for each device
    descriptors     `LtProduct`     of a product and of its three matrices
    algorithms      `LtLibrary`     asked for once for each product and alignment of its operands, and kept

The libraries count columns first, so a row-major ``c = a @ b`` is their ``c = b @ a`` with rows and columns exchanged.

A backend loads its library, makes the device current around everything here, and gives the memory that algorithms work
in: one piece for each stream, since products on one stream follow one another. Nothing is allocated on the device
while a product is queued, so it may be part of a recorded graph.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from zyx import dtype as dtypes
from zyx.backend.library import Gemm
from zyx.drivers.arguments import Parameter
from zyx.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.backend.library import Problem
    from zyx.dtype import DType

#: Memory for algorithms; what NVIDIA recommends for its newest devices.
WORKSPACE_BYTES: Final = 32 << 20

#: The attribute of a preference that bounds it, in all of the libraries.
_MAX_WORKSPACE: Final = 1
#: More than the record of an algorithm in any version; the algorithm itself comes first in all of them.
_RECORD_BYTES: Final = 512
#: The libraries make no use of more.
_MAX_ALIGNMENT: Final = 256
#: Extents, and numbers of matrices, are less.
_MAX_EXTENT: Final = 1 << 31
#: How many algorithms are kept.
_KEPT: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class LtNames:
    """What one of the libraries calls things.

    Attributes:
        name: Of the library, for people.
        prefix: Of its functions.
        types: Its number of each type of elements that a and b can have.
        sums: Its number of the kind of sums, by dtype of a and b: float64 for that, float32 for all others.
        operations: Its numbers of a matrix as it is, and of its transpose.
        transposes: The attributes of a product that say which of the two its first and second operand is.
        batches: The attributes of a matrix with how many there are, and how many elements lie between their starts.
        statuses: Names of what its functions return, besides 0.
        alignments: The attributes of a preference with the alignment, in bytes, of the first and second operand, of
            what is added, and of the result; empty where the library has none.
        preferences: Other attributes of a preference, with their values.
        state_at: Where in the record of an algorithm its own status is; None if it need not be looked at.
    """

    name: str
    prefix: str
    types: Mapping[DType, int]
    sums: Mapping[DType, int]
    operations: tuple[int, int]
    transposes: tuple[int, int]
    batches: tuple[int, int]
    statuses: Mapping[int, str]
    alignments: tuple[int, ...] = ()
    preferences: Mapping[int, int] = field(default_factory=dict)
    state_at: int | None = None

    def functions(self) -> dict[str, tuple[Any, ...]]:
        """Return the names of the functions that are called, with the types of their arguments; all return an int."""
        handle, attribute = ctypes.POINTER(c_void_p), (c_void_p, c_int, c_void_p, c_size_t)
        types: dict[str, tuple[Any, ...]] = {
            "Create": (handle,),
            "Destroy": (c_void_p,),
            "MatmulDescCreate": (handle, c_int, c_int),
            "MatrixLayoutCreate": (handle, c_int, c_uint64, c_uint64, c_int64),
            "MatmulPreferenceCreate": (handle,),
            "MatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, c_void_p, ctypes.POINTER(c_int)),
            "Matmul": (*(c_void_p,) * 14, c_size_t, c_void_p),
        }
        for kind in ("MatmulDesc", "MatrixLayout", "MatmulPreference"):
            types |= {f"{kind}SetAttribute": attribute, f"{kind}Destroy": (c_void_p,)}
        return {f"{self.prefix}{function}": arguments for function, arguments in types.items()}


class LtError(Exception):
    """A function of a library failed. For backends, which make errors of `zyx.errors` of it.

    Attributes:
        status: What it returned; 0 if it did not fail, and found nothing.
    """

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class LtLibrary:
    """A library, started on the current device.

    Args:
        native: It, loaded by ctypes, with the types of `LtNames.functions` set.
        names: What it calls things.

    Raises:
        LtError: It does not start.
    """

    def __init__(self, native: Any, names: LtNames) -> None:  # noqa: ANN401  # a library of ctypes
        self.names: Final = names
        self.native: Final = native
        self._products: Final[WeakSet[LtProduct]] = WeakSet()
        self._algorithms: Final[dict[object, ctypes.Array[ctypes.c_char]]] = {}
        self._is_open = True
        self.handle: Final = self._made("Create")

    def product(self, problem: Problem, workspace: int) -> LtProduct:
        """Return a product, ready to be queued.

        Args:
            problem: What to compute.
            workspace: Address of `WORKSPACE_BYTES` of the device, aligned to 256 bytes, for as long as it is queued.

        Raises:
            UnsupportedError: It is none that the library computes.
        """
        name = self.names.name
        if not isinstance(problem, Gemm):
            raise UnsupportedError(f"{name} has no {problem}")
        dtype, out = problem.dtype, problem.out_dtype
        if dtype not in self.names.types or out not in ((dtype, dtypes.float32) if dtype.bits == 16 else (dtype,)):
            raise UnsupportedError(f"{name} has no product of {dtype} into {out}")
        if max(problem.batch * problem.m, problem.n, problem.k) >= _MAX_EXTENT:
            raise UnsupportedError(f"{name} has no product with extents of {_MAX_EXTENT} and more: {problem}")
        try:
            product = LtProduct(self, problem, workspace)
        except LtError as error:
            raise UnsupportedError(f"{name} refuses {problem}: {error}") from error
        self._products.add(product)
        return product

    def algorithm(self, product: LtProduct, alignments: tuple[int, int, int]) -> ctypes.Array[ctypes.c_char]:
        """Return the algorithm that the library advises for a product whose a, b and c are aligned to so many bytes.

        Raises:
            LtError: There is none.
        """
        key = (product.gemm, alignments)
        found = self._algorithms.get(key)
        if found is None:
            if len(self._algorithms) >= _KEPT:
                self._algorithms.clear()
            found = self._algorithms[key] = self._advised(product, alignments)
        return found

    def _advised(self, product: LtProduct, alignments: tuple[int, int, int]) -> ctypes.Array[ctypes.c_char]:
        a, b, c = alignments
        left, right, out = product.layouts
        function, found, record = "MatmulAlgoGetHeuristic", c_int(0), ctypes.create_string_buffer(_RECORD_BYTES)
        preference = self.make("MatmulPreference")
        try:
            self.set("MatmulPreference", preference, _MAX_WORKSPACE, c_uint64(WORKSPACE_BYTES))
            aligned = zip(self.names.alignments, (b, a, c, c), strict=False)  # none, where there are no attributes
            for attribute, value in (*self.names.preferences.items(), *aligned):
                self.set("MatmulPreference", preference, attribute, c_uint32(value))
            places = (self.handle, product.descriptor, left, right, out, out, preference)
            self.call(function, *places, 1, record, byref(found))
        finally:
            self.destroy("MatmulPreference", preference)
        if self.names.state_at is not None and found.value:
            self.check(function, c_int.from_buffer(record, self.names.state_at).value)
        if not found.value:
            raise LtError(f"{self.names.prefix}{function}: no algorithm", 0)
        return record

    def close(self) -> None:
        """Destroy everything that was made; no product may be running, nor be queued again."""
        if self._is_open:
            self._is_open = False
            for product in list(self._products):
                product.close()
            getattr(self.native, f"{self.names.prefix}Destroy")(self.handle)

    # ---- calls

    def call(self, function: str, *arguments: object) -> None:
        """Call a function, named without the prefix. Raises `LtError` if it fails."""
        self.check(function, getattr(self.native, f"{self.names.prefix}{function}")(*arguments))

    def check(self, function: str, status: int) -> None:
        """Raise `LtError` if `status` is no success."""
        if status:
            name = self.names.statuses.get(status, f"{self.names.name} status")
            raise LtError(f"{self.names.prefix}{function}: {name} ({status})", status)

    def make(self, kind: str, *arguments: object) -> c_void_p:
        """Return a new descriptor, for `destroy`. Raises `LtError`."""
        return self._made(f"{kind}Create", *arguments)

    def set(self, kind: str, handle: c_void_p, attribute: int, value: Any) -> None:  # noqa: ANN401  # of ctypes
        """Set an attribute of a descriptor. Raises `LtError`."""
        self.call(f"{kind}SetAttribute", handle, attribute, byref(value), ctypes.sizeof(value))

    def destroy(self, kind: str, handle: c_void_p) -> None:
        """Destroy a descriptor."""
        getattr(self.native, f"{self.names.prefix}{kind}Destroy")(handle)

    def _made(self, function: str, *arguments: object) -> c_void_p:
        handle = c_void_p()
        self.call(function, byref(handle), *arguments)
        return handle


class LtProduct:
    """One product, or a batch of them, with its descriptors; `LtLibrary.product` makes it.

    Attributes:
        gemm: What is computed: a batch with one b, if possible, as a single product.
        name: For error texts.
        parameters: The launch arguments: a, b, c.
        descriptor: The library's of the product.
        layouts: The library's of its first and second operand, and of the result.
    """

    def __init__(self, library: LtLibrary, gemm: Gemm, workspace: int) -> None:
        self._library: Final = library
        self._made: list[tuple[str, c_void_p]] = []
        if gemm.shared_b and not gemm.transpose_a:  # one tall product
            gemm = replace(gemm, batch=1, m=gemm.batch * gemm.m, shared_b=False)
        batch, m, n, k = gemm.batch, gemm.m, gemm.n, gemm.k
        self.gemm: Final = gemm
        self.name: Final = f"{library.names.prefix.lower()}_{batch}x{m}x{n}x{k}"
        sizes = (batch * m * k, k * n * (1 if gemm.shared_b else batch), batch * m * n)
        items = (gemm.dtype.itemsize, gemm.dtype.itemsize, gemm.out_dtype.itemsize)
        self.parameters: Final = tuple(Parameter(size * item) for size, item in zip(sizes, items, strict=True))
        is_double = gemm.dtype is dtypes.float64
        scalar = c_double if is_double else c_float
        self._scales: Final = (scalar(1.0), scalar(0.0))
        try:
            scale = library.names.types[dtypes.float64 if is_double else dtypes.float32]
            self.descriptor = self._make("MatmulDesc", library.names.sums[gemm.dtype], scale)
            for attribute, is_turned in zip(
                library.names.transposes, (gemm.transpose_b, gemm.transpose_a), strict=True
            ):
                library.set("MatmulDesc", self.descriptor, attribute, c_int32(library.names.operations[is_turned]))
            self.layouts = (
                self._layout(gemm.dtype, (k, n) if gemm.transpose_b else (n, k), 0 if gemm.shared_b else k * n),
                self._layout(gemm.dtype, (m, k) if gemm.transpose_a else (k, m), m * k),
                self._layout(gemm.out_dtype, (n, m), m * n),
            )
            self._algorithm = library.algorithm(self, (_MAX_ALIGNMENT,) * 3)
        except BaseException:
            self.close()
            raise
        left, right, out = self.layouts
        one, zero = self._scales
        self._matmul: Final = getattr(library.native, f"{library.names.prefix}Matmul")
        # What stays the same from launch to launch, in the order of the function's arguments.
        self._before: Final = (library.handle, self.descriptor, byref(one))
        self._between: Final = (left, right, byref(zero), out)
        self._after: Final = (c_void_p(workspace), c_size_t(WORKSPACE_BYTES))

    def queue(self, a: int, b: int, c: int, stream: int) -> None:
        """Queue it on a stream, with the addresses of its operands and of the result. Raises `LtError`."""
        algorithm = self._algorithm
        if (a | b | c) % _MAX_ALIGNMENT and self._library.names.alignments:  # memory of other libraries
            algorithm = self._library.algorithm(self, (_alignment(a), _alignment(b), _alignment(c)))
        left, right, zero, out = self._between
        status = self._matmul(*self._before, b, left, a, right, zero, c, out, c, out, algorithm, *self._after, stream)
        if status:
            self._library.check("Matmul", status)

    def close(self) -> None:
        """Destroy the descriptors; it must not be queued again."""
        made, self._made = self._made, []
        for kind, handle in reversed(made):
            self._library.destroy(kind, handle)

    def __del__(self) -> None:
        self.close()

    def _make(self, kind: str, *arguments: object) -> c_void_p:
        handle = self._library.make(kind, *arguments)
        self._made.append((kind, handle))
        return handle

    def _layout(self, dtype: DType, shape: tuple[int, int], stride: int) -> c_void_p:
        """Return the descriptor of matrices with so many rows and columns, as the library counts them."""
        rows, columns = shape
        layout = self._make("MatrixLayout", self._library.names.types[dtype], rows, columns, rows)
        if self.gemm.batch > 1:
            count, step = self._library.names.batches
            self._library.set("MatrixLayout", layout, count, c_int32(self.gemm.batch))
            self._library.set("MatrixLayout", layout, step, c_int64(stride))
        return layout


def _alignment(address: int) -> int:
    """Return the largest power of two that divides an address, and that the libraries make use of."""
    return min(_MAX_ALIGNMENT, address & -address) or _MAX_ALIGNMENT
