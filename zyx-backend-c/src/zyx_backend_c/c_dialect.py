"""C99 with the vector extensions of GNU compilers, as a dialect of the C family. Nothing is included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx.ops import BinaryOp, UnaryOp
from zyx.render.dialect import Dialect
from zyx.render.halves import half_casts, half_functions

if TYPE_CHECKING:
    from zyx_backend_c.target import Target

_TYPES = {
    dtypes.bool_: "unsigned char", dtypes.uint8: "unsigned char", dtypes.int8: "signed char",
    dtypes.uint16: "unsigned short", dtypes.int16: "short",
    dtypes.float16: "unsigned short", dtypes.bfloat16: "unsigned short",
    dtypes.uint32: "unsigned int", dtypes.int32: "int", dtypes.float32: "float",
    dtypes.uint64: "unsigned long long", dtypes.int64: "long long", dtypes.float64: "double",
}  # fmt: skip

_BITS = """
static inline float zyx_as_f32(unsigned int x) { float r; __builtin_memcpy(&r, &x, 4); return r; }
static inline unsigned int zyx_as_u32(float x) { unsigned int r; __builtin_memcpy(&r, &x, 4); return r; }
static inline double zyx_as_f64(unsigned long long x) { double r; __builtin_memcpy(&r, &x, 8); return r; }
static inline unsigned long long zyx_as_u64(double x) { unsigned long long r; __builtin_memcpy(&r, &x, 8); return r; }
"""


def c_dialect(target: Target) -> Dialect:
    """Return the dialect for a processor."""
    f32, f64 = dtypes.float32, dtypes.float64
    integers = {32: (dtypes.int32, dtypes.uint32), 64: (dtypes.int64, dtypes.uint64)}
    bitcasts = {}
    for real, name in ((f32, "32"), (f64, "64")):
        for integer in integers[real.bits]:
            bitcasts[integer, real] = f"zyx_as_f{name}({{x}})"
            bitcasts[real, integer] = f"({_TYPES[integer]})zyx_as_u{name}({{x}})"
    functions = {
        UnaryOp.ABS: "fabs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc",
    }  # fmt: skip
    suffixes = ((f32, "f"), (f64, ""))
    return Dialect(
        name="C",
        types=_TYPES,
        infinity={f32: "__builtin_inff()", f64: "__builtin_inf()"},
        nan={f32: '__builtin_nanf("")', f64: '__builtin_nan("")'},
        kernel="",  # `zyx_backend_c.render_c` writes its own
        pointer="{const}{element} *restrict {name}",
        suffixes={f32: "f", dtypes.uint32: "u", dtypes.int64: "ll", dtypes.uint64: "ull"},
        preamble=_BITS + half_functions(_TYPES, "static inline", "zyx_as_f32", "zyx_as_u32"),
        unary={
            (op, dtype): f"__builtin_{name}{suffix}({{x}})"
            for op, name in functions.items()
            for dtype, suffix in suffixes
        },
        binary={(BinaryOp.MOD, dtype): f"__builtin_fmod{suffix}({{x}}, {{y}})" for dtype, suffix in suffixes},
        casts=half_casts(_TYPES),
        bitcasts=bitcasts,
        fma={dtype: f"__builtin_fma{suffix}({{x}}, {{y}}, {{z}})" for dtype, suffix in suffixes if target.has_fma},
        exchange={bits: "__sync_val_compare_and_swap({pointer}, {old}, {new})" for bits in (8, 16, 32, 64)},
        signed_wraps=True,  # by a flag of the compiler
    )
