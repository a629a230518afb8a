"""HIP C++, as a dialect of the C family: what AMD's compiler calls the things that a kernel needs.

Everything is a built-in of the compiler or defined in the preamble, so a kernel compiles the same by hiprtc, which puts
AMD's headers before it, and by a plain clang, which does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ops import ReduceOp, UnaryOp
from zyx.render import c_family
from zyx.render.dialect import Dialect, VectorAccess
from zyx.render.halves import half_casts, half_functions

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel

#: Name of the function that a kernel becomes.
SYMBOL: Final = "zyx_kernel"

#: Lane counts above 1.
LANES: Final = (2, 4, 8, 16)

#: What the threads of a wave swap.
SWAPS: Final = frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64))

_TYPES: Final[dict[DType, str]] = {
    dtypes.bool_: "bool", dtypes.uint8: "unsigned char", dtypes.int8: "signed char", dtypes.uint16: "unsigned short",
    dtypes.int16: "short", dtypes.uint32: "unsigned int", dtypes.int32: "int", dtypes.uint64: "unsigned long long",
    dtypes.int64: "long long", dtypes.float16: "_Float16", dtypes.bfloat16: "unsigned short", dtypes.float32: "float",
    dtypes.float64: "double",
}  # fmt: skip

#: Endings of the compiler's functions.
_ENDINGS: Final = {dtypes.float16: "f16", dtypes.float32: "f", dtypes.float64: ""}
_FUNCTIONS: Final = {UnaryOp.ABS: "fabs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc"}

_ATOMICS: Final = {
    ReduceOp.SUM: "add", ReduceOp.MAX: "max", ReduceOp.MIN: "min", ReduceOp.OR: "or", ReduceOp.AND: "and",
    ReduceOp.XOR: "xor",
}  # fmt: skip
_ORDER: Final = "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT"

_PREAMBLE: Final = """\
#ifndef __global__
#define __global__ __attribute__((global))
#endif
#ifndef __device__
#define __device__ __attribute__((device))
#endif
#ifndef __shared__
#define __shared__ __attribute__((shared))
#endif
template <typename T, int N> struct alignas(sizeof(T) * N) zyx_vector { T lane[N]; };
template <typename T, typename S> static inline __device__ T zyx_as(S x) {
    union { S from; T to; } bits;
    bits.from = x;
    return bits.to;
}
template <typename T> static inline __device__ T zyx_swap(T x, int distance) {
    int other = (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)) ^ distance;
    union { T whole; int words[sizeof(T) / 4]; } bits;
    bits.whole = x;
    for (int &word : bits.words) word = __builtin_amdgcn_ds_bpermute(other << 2, word);
    return bits.whole;
}
template <typename T> static inline __device__ T zyx_exchange(T *place, T old, T now) {
    __hip_atomic_compare_exchange_strong(place, &old, now, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return old;
}
static inline __device__ void zyx_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"""


def render(kernel: Kernel) -> str:
    """Return the source of `kernel`, a function called `SYMBOL`.

    Raises:
        UnsupportedError: An operation that HIP has no form for.
    """
    return c_family.render(kernel, DIALECT, SYMBOL)


def _atomics() -> dict[tuple[ReduceOp, DType], str]:
    """Return the operations that are one instruction, or a loop that the compiler writes."""
    integers = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)
    pairs = [(op, dtype) for dtype in integers for op in _ATOMICS]
    pairs += [(ReduceOp.SUM, dtypes.float32), (ReduceOp.SUM, dtypes.float64)]
    return {(op, dtype): f"__hip_atomic_fetch_{_ATOMICS[op]}({{pointer}}, {{value}}, {_ORDER});" for op, dtype in pairs}


def _casts() -> dict[tuple[DType, DType], str]:
    casts = {pair: text for pair, text in half_casts(_TYPES).items() if dtypes.float16 not in pair}
    return {**casts, (dtypes.float32, dtypes.float16): "(_Float16)({x})"}


def _bitcasts() -> dict[tuple[DType, DType], str]:
    """Return the conversions between types of one size that have other bits when they are cast."""
    return {
        (source, target): f"zyx_as<{_TYPES[target]}>({{x}})"
        for source in _TYPES
        for target in _TYPES
        if source.bits == target.bits and _TYPES[source] != _TYPES[target] and (source.is_float or target.is_float)
    }


DIALECT: Final = Dialect(
    name="HIP C++",
    types=_TYPES,
    memory_types={dtypes.bool_: "unsigned char"},
    suffixes={dtypes.float32: "f", dtypes.uint32: "u", dtypes.int64: "LL", dtypes.uint64: "ULL"},
    infinity={dtypes.float32: "__builtin_inff()", dtypes.float64: "__builtin_inf()"},
    nan={dtypes.float32: '__builtin_nanf("")', dtypes.float64: '__builtin_nan("")'},
    preamble=_PREAMBLE + half_functions(_TYPES, "static inline __device__", "zyx_as<float>", "zyx_as<unsigned int>"),
    # Exactly so many threads: the compiler gives the registers of those that are not there to those that are, and
    # leaves barriers out where a group is one wave, be it of 32 or of 64 threads.
    kernel='extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size({threads}, {threads})))\n'
    "{name}({params}) {{",
    # Not `__restrict__`: an output may take the place of an input.
    pointer="{const}{element} *{name}",
    local_array="__shared__ __attribute__((aligned(16))) {element} {name}[{length}];",
    group_index=tuple(f"__builtin_amdgcn_workgroup_id_{axis}()" for axis in "xyz"),
    local_index=tuple(f"__builtin_amdgcn_workitem_id_{axis}()" for axis in "xyz"),
    barrier="zyx_barrier();",
    unary={
        (op, dtype): f"__builtin_{name}{ending}({{x}})"
        for op, name in _FUNCTIONS.items()
        for dtype, ending in _ENDINGS.items()
    },
    casts=_casts(),
    bitcasts=_bitcasts(),
    fma={dtype: f"__builtin_fma{ending}({{x}}, {{y}}, {{z}})" for dtype, ending in _ENDINGS.items()},
    atomics=_atomics(),
    exchange={bits: "zyx_exchange({pointer}, {old}, {new})" for bits in (32, 64)},
    swaps={dtype: "zyx_swap({x}, {distance})" for dtype in SWAPS},
    # Structures that are aligned to their size: the compiler makes one instruction of loading and storing one.
    vector=VectorAccess(
        type="zyx_vector<{element}, {lanes}>",
        load="*(const {type} *)({pointer})",
        store="*({type} *)({pointer}) = {value};",
        make="{type}{{{{{items}}}}}",
        components=tuple(f".lane[{lane}]" for lane in range(LANES[-1])),
    ),
)
