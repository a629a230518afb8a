"""What modules for a device may use, and what the emitter has forms for there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops
from zyx.backend import Capability
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from zyx.dtype import DType

#: Lane counts above 1, as far as they fit into one access.
_LANES: Final = (2, 4)
#: Most bytes that a thread loads or stores at once.
VECTOR_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Product:
    """A product of cooperative matrices that the threads of a subgroup compute together.

    Attributes:
        dims: Dimensions (m, n, k).
        factor: dtype of the factors.
        total: dtype of the sum.
        places: Of a, b, and of c and the result: which component of the matrix each element is that `zyx.kernel.wmma`
            gives a thread. Empty as long as nobody has tried.
        empty: Columns of b, c and the result that there are beside those of `dims`: zeros, of which nobody reads what
            becomes. Where a driver has wider matrices alone, its compiler leaves out what is not read.
    """

    dims: tuple[int, int, int]
    factor: DType
    total: DType
    places: tuple[tuple[int, ...], ...] = ()
    empty: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of a, of b, and of c and the result, with those that are empty."""
        m, n, depth = self.dims
        return (m, depth), (depth, n + self.empty), (m, n + self.empty)

    def __str__(self) -> str:
        m, n, k = self.dims
        return f"a product {m} x {n + self.empty} x {k} of {self.factor} in {self.total}"


@dataclass(frozen=True, slots=True)
class Target:
    """What modules for a device may use: the emitter reads nothing else about it.

    Attributes:
        version: Version of SPIR-V, such as (1, 5).
        arithmetic: dtypes that there are arithmetic types for, with all of their operations.
        storage_bits: sizes in bits of elements that buffers may hold: 32, and 8, 16, 64 where the device has them.
        shared_bits: The same, for memory that a group shares.
        preserves: widths of floats for which signed zeros, infinities and NaN can be kept (SignedZeroInfNanPreserve).
        denormals: widths of floats for which denormals can be kept (DenormPreserve).
        rounds: widths of floats for which rounding to nearest even can and has to be asked for (RoundingModeRTE).
        atomic_bits: sizes of integers that can be combined indivisibly in buffers (32, 64).
        subgroup_size: Threads that swap values; 0 if none do.
        swaps: dtypes whose values they swap.
        max_buffers: Storage buffers that a module may bind by descriptors; above that, addresses.
        has_addresses: Whether buffers can be reached by addresses (PhysicalStorageBuffer64).
        push_bytes: Bytes of push constants.
        has_memory_model: Whether the Vulkan memory model may be declared.
        products: products of cooperative matrices whose threads hold what they hold of those of `Wmma`.
        fuses: dtypes of floats whose multiply-add (Fma of GLSL.std.450) rounds once.
        most_iterations: How many iterations of loops a thread may run; 0 if that is as many as it likes.
    """

    version: tuple[int, int]
    arithmetic: frozenset[DType]
    storage_bits: frozenset[int]
    shared_bits: frozenset[int]
    preserves: frozenset[int] = frozenset()
    denormals: frozenset[int] = frozenset()
    rounds: frozenset[int] = frozenset()
    atomic_bits: frozenset[int] = frozenset({32})
    subgroup_size: int = 0
    swaps: frozenset[DType] = frozenset()
    max_buffers: int = 4
    has_addresses: bool = False
    push_bytes: int = 128
    has_memory_model: bool = False
    products: tuple[Product, ...] = ()
    fuses: frozenset[DType] = frozenset()
    most_iterations: int = 0

    def is_native(self, dtype: DType) -> bool:
        """Whether values of a dtype are held as they are, in memory of elements of their size.

        bool is uint8 in memory; a half without arithmetic is moved as uint16. What is not native and has fewer than 32
        bits is computed in 32 bits, and lies in words of 32 bits.
        """
        if dtype.bits not in self.storage_bits:
            return False
        if dtype.is_bool:
            return dtypes.uint8 in self.arithmetic
        if dtype in self.arithmetic:
            return True
        return dtype.is_float and dtype.bits == 16 and dtypes.uint16 in self.arithmetic

    def product(self, dims: tuple[int, int, int], factor: DType) -> Product | None:
        """Return the product of these dimensions, with factors of a dtype and a sum of float32, if there is one."""
        found = (one for one in self.products if (one.dims, one.factor, one.total) == (dims, factor, dtypes.float32))
        return next(found, None)

    def small(self) -> list[DType]:
        """Return the dtypes of fewer than 32 bits that are not native."""
        return [dtype for dtype in dtypes.ALL if dtype.bits < 32 and not self.is_native(dtype)]


def capabilities(target: Target) -> dict[DType, Capability]:
    """Return what the emitter has forms for: not transcendental functions, powers, and remainders of floats.

    GLSL's own exponentials and the like are less accurate than zyx's, and differ from driver to driver; so do its
    remainders. A half without arithmetic is loaded, stored and converted.
    """
    result = {}
    for dtype in dtypes.ALL:
        if dtype.bits >= 32 and dtype not in target.arithmetic:
            continue
        lanes = tuple(lanes for lanes in _LANES if lanes * dtype.itemsize <= VECTOR_BYTES)
        if dtype.is_float and dtype not in target.arithmetic:
            result[dtype] = Capability(lanes=lanes)
            continue
        unary, binary = ops.unary_ops(dtype) - ops.TRANSCENDENTAL, ops.binary_ops(dtype) - {BinaryOp.POW}
        if dtype.is_float:
            binary -= {BinaryOp.MOD}
        result[dtype] = Capability(unary, binary, _atomics(dtype, target.atomic_bits), lanes)
    return result


def _atomics(dtype: DType, bits: AbstractSet[int]) -> frozenset[ops.ReduceOp]:
    return ops.reduce_ops(dtype) if dtype.bits in bits and not dtype.is_bool else frozenset()
