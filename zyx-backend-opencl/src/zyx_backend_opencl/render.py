"""OpenCL C, as a dialect of the C family: which types, extensions and functions a device's kernels are written with.

Version 1.2 of the language is enough for everything, so that is what is written, whatever the device has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.kernel.data import Swap
from zyx.ops import BinaryOp, ReduceOp, UnaryOp
from zyx.render import c_family
from zyx.render.dialect import Dialect, VectorAccess
from zyx.render.halves import half_casts, half_functions

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel

#: Name of the function that a kernel becomes.
SYMBOL: Final = "zyx_kernel"

#: Lane counts above 1 that vectors of the language have, but for 3.
LANES: Final = (2, 4, 8, 16)

#: Types of integers.
INTEGERS: Final = {
    dtypes.uint8: "uchar", dtypes.int8: "char", dtypes.uint16: "ushort", dtypes.int16: "short",
    dtypes.uint32: "uint", dtypes.int32: "int", dtypes.uint64: "ulong", dtypes.int64: "long",
}  # fmt: skip
#: Functions of one real.
FUNCTIONS: Final = {UnaryOp.ABS: "fabs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc"}

#: Functions of integers: ``atomic_`` goes before them for 32 bits, ``atom_`` for 64.
ATOMICS: Final = {
    ReduceOp.SUM: "add", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.OR: "or", ReduceOp.AND: "and",
    ReduceOp.XOR: "xor",
}  # fmt: skip


#: Threads of a subgroup, by whose means they swap. With OpenCL's functions they are as many as a kernel says: 16 is
#: what Intel's GPUs can do, and its processors.
SUBGROUPS: Final = {"nvidia": 32, "khr": 16}
_SIZED: Final = f"__attribute__((intel_reqd_sub_group_size({SUBGROUPS['khr']})))"

#: What stands before a kernel. NVIDIA's driver has no function for the instruction by which the threads of a warp swap.
_SWAPS: Final = {
    "khr": "\n#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n",
    "nvidia": """
static inline uint zyx_swap(uint x, uint distance) {
    uint other;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(x), "r"(distance));
    return other;
}
static inline ulong zyx_swap_64(ulong x, uint distance) {
    return upsample(zyx_swap((uint)(x >> 32), distance), zyx_swap((uint)x, distance));
}
""",
}


@dataclass(frozen=True, slots=True)
class Features:
    """What a device adds to the least that OpenCL C has, or lacks of what almost all have.

    Attributes:
        has_f16: Whether it computes with ``half``; if not, float16 is moved as bits.
        has_f64: Whether it has ``double``.
        has_i64: Whether it has ``long``: only embedded devices do without.
        has_i64_atomics: Whether these are indivisible operations on 64 bits.
        has_fma: Whether multiply-adds are rounded once without being slow.
        subgroups: By whose means threads swap values, one of `SUBGROUPS`; empty if they do not.
    """

    has_f16: bool = False
    has_f64: bool = True
    has_i64: bool = True
    has_i64_atomics: bool = True
    has_fma: bool = True
    subgroups: str = ""

    @property
    def subgroup_size(self) -> int:
        """Threads that swap values; 0 if none do."""
        return SUBGROUPS.get(self.subgroups, 0)


def render(kernel: Kernel, dialect: Dialect) -> str:
    """Return the source of `kernel`, a function called `SYMBOL`.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for.
    """
    if _SWAPS["khr"] in dialect.preamble and any(isinstance(op, Swap) for op in kernel.ops):
        dialect = replace(dialect, kernel=f"{_SIZED} {dialect.kernel}")
    return c_family.render(kernel, dialect, SYMBOL)


def opencl_dialect(features: Features) -> Dialect:
    """Return the dialect for a device."""
    types: dict[DType, str] = {
        dtypes.bool_: "bool", **INTEGERS, dtypes.float16: "half" if features.has_f16 else "ushort",
        dtypes.bfloat16: "ushort", dtypes.float32: "float", dtypes.float64: "double",
    }  # fmt: skip
    missing = (() if features.has_f64 else (dtypes.float64,)) + (
        () if features.has_i64 else (dtypes.int64, dtypes.uint64)
    )
    types = {dtype: name for dtype, name in types.items() if dtype not in missing}
    reals = [dtype for dtype in types if dtype.is_float and types[dtype] != "ushort"]
    return Dialect(
        name="OpenCL C",
        types=types,
        memory_types={dtypes.bool_: "uchar"},
        suffixes={dtypes.float32: "f", dtypes.uint32: "u", dtypes.int64: "L", dtypes.uint64: "UL"},
        infinity={dtypes.float32: "INFINITY", dtypes.float64: "(double)INFINITY"},
        nan={dtypes.float32: "NAN", dtypes.float64: "(double)NAN"},
        preamble=_preamble(types, features),
        kernel="__kernel __attribute__((reqd_work_group_size({shape})))\nvoid {name}({params}) {{",
        # Not `restrict`: an output may take the place of an input.
        pointer="__global {const}{element} *{name}",
        local_array="__local {element} {name}[{length}] __attribute__((aligned(16)));",
        group_index=("get_group_id(0)", "get_group_id(1)", "get_group_id(2)"),
        local_index=("get_local_id(0)", "get_local_id(1)", "get_local_id(2)"),
        barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        local_barrier="barrier(CLK_LOCAL_MEM_FENCE);",
        # In a branch with barriers, PoCL 3.1 takes the first thread's values for those of all others, else.
        meets_behind_branches=True,
        unary={(op, dtype): f"{name}({{x}})" for op, name in FUNCTIONS.items() for dtype in reals},
        binary={(BinaryOp.MOD, dtype): "fmod({x}, {y})" for dtype in reals},
        casts=_casts(types, features),
        bitcasts=_bitcasts(types),
        fma={dtype: "fma({x}, {y}, {z})" for dtype in reals if features.has_fma},
        atomics=_atomics(types, features),
        exchange=_exchange(features),
        swaps=_swaps(types, features),
        vector=VectorAccess(
            type="{element}{lanes}",
            load="*(const __{space} {type} *)({pointer})",
            store="*(__{space} {type} *)({pointer}) = {value};",
            make="({type})({items})",
            components=tuple(f".s{digit}" for digit in "0123456789abcdef"),
        ),
    )


def _preamble(types: dict[DType, str], features: Features) -> str:
    """Return what stands before a kernel. Products and sums are fused only where a kernel says so."""
    extensions = {
        "cl_khr_fp64": features.has_f64,
        "cl_khr_fp16": features.has_f16,
        "cl_khr_int64_base_atomics": features.has_i64_atomics,
        "cl_khr_int64_extended_atomics": features.has_i64_atomics,
    }
    lines = [f"#pragma OPENCL EXTENSION {name} : enable" for name, is_there in extensions.items() if is_there]
    text = "\n".join([*lines, "#pragma OPENCL FP_CONTRACT OFF"])
    text += half_functions(types, "static inline", "as_float", "as_uint")
    return text + _SWAPS.get(features.subgroups, "")


def _casts(types: dict[DType, str], features: Features) -> dict[tuple[DType, DType], str]:
    casts = half_casts(types)
    if features.has_f16:
        casts = {pair: text for pair, text in casts.items() if dtypes.float16 not in pair}
        casts[dtypes.float32, dtypes.float16] = "(half)({x})"
    return casts


def _bitcasts(types: dict[DType, str]) -> dict[tuple[DType, DType], str]:
    """Return the conversions between floats and what is held as integers of the same size; integers are cast."""
    integers = [dtype for dtype in types if dtype.is_integer or types[dtype] == "ushort"]
    return {
        pair: f"as_{types[pair[1]]}({{x}})"
        for real in types
        if real.is_float and real not in integers
        for integer in integers
        if integer.bits == real.bits
        for pair in ((real, integer), (integer, real))
    }


def _atomics(types: dict[DType, str], features: Features) -> dict[tuple[ReduceOp, DType], str]:
    prefixes = {32: "atomic", **({64: "atom"} if features.has_i64 and features.has_i64_atomics else {})}
    return {
        (op, dtype): f"{prefixes[dtype.bits]}_{name}({{pointer}}, {{value}});"
        for dtype in types
        if dtype.is_integer and dtype.bits in prefixes
        for op, name in ATOMICS.items()
    }


def _swaps(types: dict[DType, str], features: Features) -> dict[DType, str]:
    """Return how values of 32 and 64 bits are swapped: as their bits, where there is no function for each type."""
    if not features.subgroups:
        return {}
    words = {32: ("uint", "zyx_swap"), 64: ("ulong", "zyx_swap_64")}
    if features.subgroups == "khr":
        return {dtype: "sub_group_shuffle_xor({x}, {distance}u)" for dtype in types if dtype.bits in words}
    return {
        dtype: f"as_{name}({function}(as_{bits}({{x}}), {{distance}}))"
        for dtype, name in types.items()
        if dtype.bits in words
        for bits, function in [words[dtype.bits]]
    }


def _exchange(features: Features) -> dict[int, str]:
    sizes = {32: "atomic_cmpxchg", **({64: "atom_cmpxchg"} if features.has_i64 and features.has_i64_atomics else {})}
    return {bits: f"{name}({{pointer}}, {{old}}, {{new}})" for bits, name in sizes.items()}
