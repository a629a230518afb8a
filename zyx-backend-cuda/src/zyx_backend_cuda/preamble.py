"""What stands before a kernel in CUDA C: names of types, vectors, and instructions that the language has no word for.

It includes nothing, so that no header needs to be there and NVRTC has little to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.render.halves import half_functions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zyx.dtype import DType

_TYPES: Final = """\
typedef unsigned char zu8; typedef signed char zi8; typedef unsigned short zu16; typedef short zi16;
typedef unsigned int zu32; typedef int zi32; typedef unsigned long long zu64; typedef long long zi64;
template <class T, int N> struct alignas(sizeof(T) * N) zvec { T s[N]; };
#define ZYX __device__ __forceinline__
ZYX float zyx_exp2_f32(float x) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
ZYX zu32 zyx_pair(zu16 low, zu16 high) {
    zu32 r; asm("mov.b32 %0, {%1, %2};" : "=r"(r) : "h"(low), "h"(high)); return r;
}
template <class T, int N> ZYX void zyx_put(zvec<T, N> *p, zvec<T, N> x) { *p = x; }
template <int N> ZYX void zyx_put(zvec<zu16, N> *p, zvec<zu16, N> x) {
    union words { zvec<zu32, N / 2> pairs; zvec<zu16, N> items; } y;
    #pragma unroll
    for (int i = 0; i < N / 2; ++i) y.pairs.s[i] = zyx_pair(x.s[2 * i], x.s[2 * i + 1]);
    *(words *)p = y;
}
"""

#: Conversions of 16-bit floats in one instruction each. Their values are held as 16-bit integers.
_F16: Final = """
ZYX float zyx_h2f(zu16 x) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x)); return r; }
ZYX zu16 zyx_f2h(float x) { zu16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
ZYX zu16 zyx_d2h(double x) { zu16 r; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r) : "d"(x)); return r; }
ZYX zu16 zyx_add_f16(zu16 x, zu16 y) { zu16 r; asm("add.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r; }
ZYX zu16 zyx_sub_f16(zu16 x, zu16 y) { zu16 r; asm("sub.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r; }
ZYX zu16 zyx_mul_f16(zu16 x, zu16 y) { zu16 r; asm("mul.rn.f16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r; }
ZYX zu16 zyx_fma_f16(zu16 x, zu16 y, zu16 z) {
    zu16 r; asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(x), "h"(y), "h"(z)); return r;
}
"""
#: From compute capability 8.0 on. Sums and products of bfloat16 are multiply-adds, which round once all the same.
_AMPERE: Final = """
ZYX zu16 zyx_f2b(float x) { zu16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
ZYX zu16 zyx_fma_bf16(zu16 x, zu16 y, zu16 z) {
    zu16 r; asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : "h"(x), "h"(y), "h"(z)); return r;
}
ZYX zu16 zyx_add_bf16(zu16 x, zu16 y) { return zyx_fma_bf16(x, 0x3f80, y); }
ZYX zu16 zyx_sub_bf16(zu16 x, zu16 y) { return zyx_fma_bf16(y, 0xbf80, x); }
ZYX zu16 zyx_mul_bf16(zu16 x, zu16 y) { return zyx_fma_bf16(x, y, 0x8000); }
ZYX float zyx_max_f32(float x, float y) {
    float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
ZYX float zyx_min_f32(float x, float y) {
    float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
"""

#: Products of a warp. The registers hold two elements each, the one of the lower index in the lower half.
_WMMA: Final = """
#define ZYX_MMA(T) \\
ZYX void zyx_mma_16x8x8_##T(float &d0, float &d1, float &d2, float &d3, zu16 a0, zu16 a1, zu16 a2, zu16 a3, \\
        zu16 b0, zu16 b1, float c0, float c1, float c2, float c3) { \\
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." #T "." #T ".f32 " \\
        "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};" \\
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(zyx_pair(a0, a1)), "r"(zyx_pair(a2, a3)), \\
          "r"(zyx_pair(b0, b1)), "f"(c0), "f"(c1), "f"(c2), "f"(c3)); \\
} \\
ZYX void zyx_mma_16x8x16_##T(float &d0, float &d1, float &d2, float &d3, zu16 a0, zu16 a1, zu16 a2, zu16 a3, zu16 a4, \\
        zu16 a5, zu16 a6, zu16 a7, zu16 b0, zu16 b1, zu16 b2, zu16 b3, float c0, float c1, float c2, float c3) { \\
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T ".f32 " \\
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \\
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(zyx_pair(a0, a1)), "r"(zyx_pair(a2, a3)), \\
          "r"(zyx_pair(a4, a5)), "r"(zyx_pair(a6, a7)), "r"(zyx_pair(b0, b1)), "r"(zyx_pair(b2, b3)), \\
          "f"(c0), "f"(c1), "f"(c2), "f"(c3)); \\
}
ZYX_MMA(f16)
ZYX_MMA(bf16)
ZYX zu32 zyx_tf32(float x) { zu32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
ZYX void zyx_mma_16x8x8_f32(float &d0, float &d1, float &d2, float &d3, float a0, float a1, float a2, float a3,
        float b0, float b1, float c0, float c1, float c2, float c3) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(zyx_tf32(a0)), "r"(zyx_tf32(a1)), "r"(zyx_tf32(a2)),
          "r"(zyx_tf32(a3)), "r"(zyx_tf32(b0)), "r"(zyx_tf32(b1)), "f"(c0), "f"(c1), "f"(c2), "f"(c3));
}
"""


def preamble(types: Mapping[DType, str], capability: int) -> str:
    """Return the text for devices of a compute capability, such as 90 for 9.0."""
    halves = half_functions(types, "ZYX", "__uint_as_float", "__float_as_uint")
    return _TYPES + halves + _F16 + (_AMPERE + _WMMA if capability >= 80 else "")


def half_forms(capability: int) -> dict[tuple[DType, DType], str]:
    """Return the conversions that are one instruction, or nearly so."""
    f16, bf16, f32, f64 = dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64
    forms = {
        (f16, f32): "zyx_h2f({x})",
        (f32, f16): "zyx_f2h({x})",
        (f64, f16): "zyx_d2h({x})",
        (bf16, f32): "__uint_as_float((zu32){x} << 16)",
    }
    if capability >= 80:
        forms[f32, bf16] = "zyx_f2b({x})"
        forms[f64, bf16] = "zyx_f2b(zyx_to_odd({x}))"
        forms[dtypes.int64, bf16] = "zyx_f2b(zyx_to_odd(zyx_from_i64({x})))"
        forms[dtypes.uint64, bf16] = "zyx_f2b(zyx_to_odd(zyx_from_u64({x})))"
    return forms
