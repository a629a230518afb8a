"""CUDA C, as a dialect of the C family.

float16 and bfloat16 are held as 16-bit integers, on which instructions work that the preamble names.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.ops import COMPARISONS, BinaryOp, ReduceOp, UnaryOp
from zyx.render import c_family
from zyx.render.dialect import Dialect, VectorAccess
from zyx.render.halves import half_casts
from zyx_backend_cuda.preamble import half_forms, preamble

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.kernel.data import Kernel

#: Name of the function that a kernel becomes.
SYMBOL: Final = "zyx_kernel"

#: Lane counts above 1.
LANES: Final = (2, 4, 8, 16)

#: The least compute capability with arithmetic on bfloat16 and with the products of `Wmma`.
AMPERE: Final = 80

#: What the threads of a warp swap.
SWAPS: Final = frozenset(dtype for dtype in dtypes.ALL if dtype.bits in (32, 64))

_TYPES: Final[dict[DType, str]] = {
    dtypes.bool_: "bool", dtypes.uint8: "zu8", dtypes.int8: "zi8", dtypes.uint16: "zu16", dtypes.int16: "zi16",
    dtypes.uint32: "zu32", dtypes.int32: "zi32", dtypes.uint64: "zu64", dtypes.int64: "zi64",
    dtypes.float16: "zu16", dtypes.bfloat16: "zu16", dtypes.float32: "float", dtypes.float64: "double",
}  # fmt: skip
_FUNCTIONS: Final = {UnaryOp.ABS: "fabs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc"}
_REALS: Final = {dtypes.float32: "f", dtypes.float64: ""}  # with the suffix of their functions
_ATOMICS: Final = {
    ReduceOp.SUM: "atomicAdd", ReduceOp.MAX: "atomicMax", ReduceOp.MIN: "atomicMin", ReduceOp.OR: "atomicOr",
    ReduceOp.AND: "atomicAnd", ReduceOp.XOR: "atomicXor",
}  # fmt: skip
_ARITHMETIC: Final = {BinaryOp.ADD: "add", BinaryOp.SUB: "sub", BinaryOp.MUL: "mul"}


def render(kernel: Kernel, dialect: Dialect) -> str:
    """Return the source of `kernel`, a function called `SYMBOL`.

    Raises:
        UnsupportedError: An operation or dtype that the device has no form for.
    """
    return c_family.render(kernel, dialect, SYMBOL)


def cuda_dialect(capability: int) -> Dialect:
    """Return the dialect for devices of a compute capability, such as 90 for 9.0."""
    halves = [dtypes.float16, *([dtypes.bfloat16] if capability >= AMPERE else [])]
    return Dialect(
        name="CUDA C",
        types=_TYPES,
        memory_types={dtypes.bool_: "zu8"},
        suffixes={dtypes.float32: "f", dtypes.uint32: "u", dtypes.int64: "LL", dtypes.uint64: "ULL"},
        infinity={
            dtypes.float32: "__uint_as_float(0x7f800000u)",
            dtypes.float64: "__longlong_as_double(0x7ff0000000000000LL)",
        },
        nan={
            dtypes.float32: "__uint_as_float(0x7fc00000u)",
            dtypes.float64: "__longlong_as_double(0x7ff8000000000000LL)",
        },
        preamble=preamble(_TYPES, capability),
        kernel='extern "C" __global__ void __launch_bounds__({threads}) {name}({params}) {{',
        # Not `__restrict__`: an output may take the place of an input.
        pointer="{const}{element} *{name}",
        local_array="__shared__ __align__(16) {element} {name}[{length}];",
        group_index=("blockIdx.x", "blockIdx.y", "blockIdx.z"),
        local_index=("threadIdx.x", "threadIdx.y", "threadIdx.z"),
        barrier="__syncthreads();",
        unary=_unary(halves),
        binary=_binary(halves, capability),
        casts={**half_casts(_TYPES), **half_forms(capability)},
        bitcasts=_bitcasts(),
        fma={
            dtypes.float32: "fmaf({x}, {y}, {z})",
            dtypes.float64: "fma({x}, {y}, {z})",
            **{half: f"zyx_fma_{half.short}({{x}}, {{y}}, {{z}})" for half in halves},
        },
        atomics=_atomics(),
        exchange={
            32: "atomicCAS({pointer}, {old}, {new})",
            64: "atomicCAS({pointer}, {old}, {new})",
        },
        # All 32 threads, those that a last, shorter warp does not have included.
        swaps={dtype: "__shfl_xor_sync(0xffffffffu, {x}, {distance})" for dtype in SWAPS},
        vector=VectorAccess(
            type="zvec<{element}, {lanes}>",
            load="*(const {type} *)({pointer})",
            store="zyx_put(({type} *)({pointer}), {value});",
            make="{type}{{{{{items}}}}}",
            components=tuple(f".s[{lane}]" for lane in range(16)),
        ),
        wmma={
            (dims, factor): f"zyx_mma_{'x'.join(map(str, dims))}_{factor.short}({{d}}, {{a}}, {{b}}, {{c}});"
            for dims, factor in products_of_warps(capability)
        },
    )


def products_of_warps(capability: int) -> list[tuple[tuple[int, int, int], DType]]:
    """Return the dimensions and the dtype of the factors of each product of a warp."""
    if capability < AMPERE:
        return []
    halves = itertools.product(((16, 8, 8), (16, 8, 16)), (dtypes.float16, dtypes.bfloat16))
    return [*halves, ((16, 8, 8), dtypes.float32)]


def _unary(halves: list[DType]) -> dict[tuple[UnaryOp, DType], str]:
    forms = {(op, real): f"{name}{end}({{x}})" for op, name in _FUNCTIONS.items() for real, end in _REALS.items()}
    forms[UnaryOp.EXP2, dtypes.float32] = "zyx_exp2_f32({x})"
    for half in halves:
        forms[UnaryOp.NEG, half] = "(zu16)({x} ^ 0x8000)"
        forms[UnaryOp.ABS, half] = "(zu16)({x} & 0x7fff)"
    return forms


def _binary(halves: list[DType], capability: int) -> dict[tuple[BinaryOp, DType], str]:
    forms = {(BinaryOp.MOD, real): f"fmod{end}({{x}}, {{y}})" for real, end in _REALS.items()}
    if capability >= AMPERE:
        forms[BinaryOp.MAX, dtypes.float32] = "zyx_max_f32({x}, {y})"
        forms[BinaryOp.MIN, dtypes.float32] = "zyx_min_f32({x}, {y})"
    wide = half_forms(capability)
    for half in halves:
        forms |= {(op, half): f"zyx_{name}_{half.short}({{x}}, {{y}})" for op, name in _ARITHMETIC.items()}
        x, y = (wide[half, dtypes.float32].format(x=f"{{{operand}}}") for operand in "xy")
        forms |= {(op, half): f"{x} {_SYMBOLS[op]} {y}" for op in COMPARISONS}
        for op, sign in ((BinaryOp.MAX, ">"), (BinaryOp.MIN, "<")):
            forms[op, half] = f"({x} {sign} {y} || {x} != {x}) ? {{x}} : {{y}}"
    return forms


_SYMBOLS: Final = {BinaryOp.LT: "<", BinaryOp.LE: "<=", BinaryOp.EQ: "==", BinaryOp.NE: "!="}


def _bitcasts() -> dict[tuple[DType, DType], str]:
    f32, f64 = dtypes.float32, dtypes.float64
    return {
        (f32, dtypes.int32): "__float_as_int({x})", (dtypes.int32, f32): "__int_as_float({x})",
        (f32, dtypes.uint32): "__float_as_uint({x})", (dtypes.uint32, f32): "__uint_as_float({x})",
        (f64, dtypes.int64): "__double_as_longlong({x})", (dtypes.int64, f64): "__longlong_as_double({x})",
        (f64, dtypes.uint64): "(zu64)__double_as_longlong({x})",
        (dtypes.uint64, f64): "__longlong_as_double((zi64){x})",
    }  # fmt: skip


def _atomics() -> dict[tuple[ReduceOp, DType], str]:
    """Return the operations that are instructions. The sum of float32 takes numbers below the normal ones for zero."""
    forms = {}
    for op, name in _ATOMICS.items():
        for dtype in (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64):
            # Sums and bits are the same with and without a sign, and 64 bits have forms for unsigned numbers alone.
            unsigned = dtype is dtypes.int64 and op not in (ReduceOp.MAX, ReduceOp.MIN)
            pointer, value = ("(zu64 *)({pointer})", "(zu64)({value})") if unsigned else ("{pointer}", "{value}")
            forms[op, dtype] = f"{name}({pointer}, {value});"
    forms |= {(ReduceOp.SUM, real): "atomicAdd({pointer}, {value});" for real in _REALS}
    return forms
