"""What a device is and can do: the record that schedules and passes work from.

Limits are what the driver reports, never assumptions. Times and rates are estimates for choosing, not promises.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx import ops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.backend.rates import Rates
    from zyx.dtype import DType
    from zyx.ops import BinaryOp, ReduceOp, UnaryOp


@dataclass(frozen=True, slots=True)
class Capability:
    """What a device does with one dtype.

    A dtype that is not in `DeviceInfo.capabilities` cannot even be stored. An operation that is absent here is
    decomposed into others by core where a decomposition exists, and refused where none does.

    Attributes:
        unary: Operations with a native form.
        binary: Operations with a native form.
        atomic: Reductions with an indivisible form on global memory.
        lanes: Lane counts above 1 that loads, stores and arithmetic may have.

    >>> zyx.backend.Capability(lanes=(4,)).computes
    False
    """

    unary: frozenset[UnaryOp] = frozenset()
    binary: frozenset[BinaryOp] = frozenset()
    atomic: frozenset[ReduceOp] = frozenset()
    lanes: tuple[int, ...] = ()

    @property
    def computes(self) -> bool:
        """Whether the device computes with the dtype, not only stores it."""
        return bool(self.unary or self.binary)


def full_capability(
    dtype: DType, lanes: tuple[int, ...] = (), atomic: frozenset[ReduceOp] = frozenset(), *, transcendental: bool = True
) -> Capability:
    """Return every operation of `dtype`, with or without the transcendental functions and powers.

    Raises:
        DTypeError: There is no such dtype.

    >>> zyx.backend.full_capability(zyx.float32, lanes=(4,)).lanes
    (4,)
    """
    dtype = dtypes.as_dtype(dtype)
    unary, binary = ops.unary_ops(dtype), ops.binary_ops(dtype)
    if not transcendental:
        unary, binary = unary - ops.TRANSCENDENTAL, binary - {ops.BinaryOp.POW}
    return Capability(unary, binary, atomic, lanes)


STORAGE_ONLY: Final = Capability()


@dataclass(frozen=True, slots=True)
class TileUnit:
    """What a device computes on that takes whole tiles of matrices, where others take scalars and vectors.

    Such a device is given nests (`zyx.backend.SupportsNests`). What `DeviceInfo.capabilities` does not have is not
    written in other operations by core: the host does it, with copies before and behind.

    Attributes:
        rows: Rows of a tile, in elements.
        columns: Columns of a tile, in elements.
        most_buffers: Buffers of blocks of tiles that a program may have in the local memory of a processor.

    >>> zyx.backend.info.TileUnit(32, 32, 32).rows
    32
    """

    rows: int
    columns: int
    most_buffers: int


@dataclass(frozen=True, slots=True, repr=False)
class DeviceInfo:
    """A device, for choosing and for generating code. Constant for the life of the device; a key of caches.

    Attributes:
        model: Name that the vendor gives it, with what distinguishes its generated code (processor, architecture).
        driver: Driver, compiler and backend versions: a change must miss every cache.
        capabilities: What it does with each dtype.
        flops_per_s: Estimate, float32.
        bytes_per_s: Estimate of main memory bandwidth.
        units: Processors that run groups at the same time.
        max_groups: Most groups along each grid axis; as many entries as there are axes.
        max_group_threads: Most threads in a group.
        max_group_shape: Most threads along each local axis.
        warp_size: Threads that run in step; 1 if there is no such thing. Good sizes are multiples of it.
        subgroup_size: So many threads with neighbouring numbers along local axis 0, the first number a multiple of it,
            certainly run in step and `Swap` values, as they do in aligned groups of fewer; a power of two, or 0 if
            threads cannot swap, or nobody knows which do.
        swaps: The dtypes that `Swap` takes there, of 32 and 64 bits.
        vector_bytes: Width of its vectors; 0 if it works on scalars.
        registers: Vector registers (scalar ones if `vector_bytes` is 0) that one thread may use.
        local_bytes: Local memory a group.
        private_bytes: Arrays of a thread, of those that are no registers since an index is not constant.
        cache_bytes: Sizes of the caches of one unit, nearest first; the last may be shared.
        max_params: Most buffers a kernel may bind.
        max_buffer_bytes: Largest buffer.
        has_shuffle: Whether `Shuffle` is cheap.
        has_fma: Whether `Mad` rounds once.
        has_streaming: Whether streaming stores exist.
        has_byte_products: Whether products of bytes without a sign and bytes with one, added in pairs as int16, are one
            instruction: a `Shuffle` of the even lanes of a product plus one of its odd lanes.
        meets_in_branches: Whether barriers in branches that whole groups take cost no more than others. Where not,
            nests that run side by side, each in a branch, are scheduled without barriers.
        wmma: Dimensions and dtype of each `Wmma` there is.
        tiles: What it computes on, if that is tiles of matrices alone.
        rates: What was measured of it, if anything was (`zyx calibrate`); no backend fills it in.

    >>> zyx.backend.DeviceInfo("a toy", "0.1.0", {}).can_store(zyx.float32)
    False
    """

    model: str
    driver: str
    capabilities: Mapping[DType, Capability]
    flops_per_s: float = 1e10
    bytes_per_s: float = 1e10
    units: int = 1
    max_groups: tuple[int, ...] = ((1 << 31) - 1, 65535, 65535)
    max_group_threads: int = 1
    max_group_shape: tuple[int, ...] = (1, 1, 1)
    warp_size: int = 1
    subgroup_size: int = 0
    swaps: frozenset[DType] = frozenset()
    vector_bytes: int = 0
    registers: int = 16
    local_bytes: int = 32768
    private_bytes: int = 1 << 62
    cache_bytes: tuple[int, ...] = ()
    max_params: int = 1 << 16
    max_buffer_bytes: int = 1 << 62
    has_shuffle: bool = False
    has_fma: bool = True
    has_streaming: bool = False
    has_byte_products: bool = False
    meets_in_branches: bool = True
    wmma: tuple[tuple[tuple[int, int, int], DType], ...] = field(default=())
    tiles: TileUnit | None = None
    rates: Rates | None = None

    def __hash__(self) -> int:
        return hash((self.model, self.driver, self.units, self.max_group_threads, self.vector_bytes))

    def __repr__(self) -> str:
        return f"DeviceInfo({self.model!r}, {self.driver!r})"  # the whole record takes pages

    def with_rates(self, rates: Rates) -> DeviceInfo:
        """Return the record with measured rates in place of those that the backend assumed."""
        return replace(self, rates=rates, flops_per_s=rates.flops_per_s, bytes_per_s=rates.bytes_per_s)

    def can_store(self, dtype: DType) -> bool:
        """Whether buffers of `dtype` may be used in kernels."""
        return dtype in self.capabilities

    def can_compute(self, dtype: DType) -> bool:
        """Whether arithmetic on `dtype` is native; if not, core computes float16 and bfloat16 in float32."""
        capability = self.capabilities.get(dtype)
        return capability is not None and capability.computes

    def lanes(self, dtype: DType) -> int:
        """Return the preferred number of lanes of `dtype`; 1 if vectors do not pay."""
        capability = self.capabilities.get(dtype)
        wanted = (
            self.vector_bytes
            * 8
            // (32 if dtypes.accumulator(dtype) is dtypes.float32 and dtype.bits == 16 else dtype.bits)
        )
        return max((n for n in capability.lanes if n <= wanted), default=1) if capability is not None else 1
