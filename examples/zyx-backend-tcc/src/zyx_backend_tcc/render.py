"""C, as a dialect of the C family: the emitter is core's, and what is here is data."""

from typing import Final

from zyx import dtype as dtypes
from zyx.kernel.data import Kernel, Variable
from zyx.ops import BinaryOp, UnaryOp
from zyx.render import c_family
from zyx.render.dialect import Dialect
from zyx.render.halves import half_casts, half_functions

SYMBOL: Final = "zyx_kernel"
_TYPES: Final = {
    dtypes.bool_: "unsigned char", dtypes.uint8: "unsigned char", dtypes.int8: "signed char",
    dtypes.uint16: "unsigned short", dtypes.int16: "short", dtypes.float16: "unsigned short",
    dtypes.bfloat16: "unsigned short", dtypes.uint32: "unsigned", dtypes.int32: "int", dtypes.float32: "float",
    dtypes.uint64: "unsigned long long", dtypes.int64: "long long", dtypes.float64: "double",
}  # fmt: skip
_NAMES: Final = {UnaryOp.ABS: "fabs", UnaryOp.SQRT: "sqrt", UnaryOp.FLOOR: "floor", UnaryOp.TRUNC: "trunc"}
_WORDS: Final = ((dtypes.float32, dtypes.int32, dtypes.uint32), (dtypes.float64, dtypes.int64, dtypes.uint64))
_HELPERS: Final = "double fabs(double), sqrt(double), floor(double), trunc(double), fmod(double, double);\n" + "".join(
    f"static {_TYPES[to]} as_{to.short}({_TYPES[x]} x) {{ return *({_TYPES[to]} *)&x; }}\n"
    for real, _, word in _WORDS
    for x, to in ((real, word), (word, real))
)

DIALECT: Final = Dialect(
    name="C for tcc",
    types=_TYPES,
    suffixes={dtypes.float32: "f", dtypes.uint32: "u", dtypes.int64: "ll", dtypes.uint64: "ull"},
    infinity={dtypes.float32: "as_f32(0x7f800000u)", dtypes.float64: "as_f64(0x7ff0000000000000ull)"},
    nan={dtypes.float32: "as_f32(0x7fc00000u)", dtypes.float64: "as_f64(0x7ff8000000000000ull)"},
    preamble=_HELPERS + half_functions(_TYPES, "static", "as_f32", "as_u32"),
    kernel="static void {name}(long long g0, long long g1, long long g2, {params}) {{",
    pointer="{const}{element} *{name}",
    group_index=("g0", "g1", "g2"),
    unary={(op, real): f"({_TYPES[real]}){name}({{x}})" for op, name in _NAMES.items() for real, _, _ in _WORDS},
    binary={(BinaryOp.MOD, real): f"({_TYPES[real]})fmod({{x}}, {{y}})" for real, _, _ in _WORDS},
    casts=half_casts(_TYPES),
    bitcasts={
        (x, to): f"({_TYPES[to]})as_{(to if to.is_float else unsigned).short}({{x}})"
        for real, signed, unsigned in _WORDS
        for integer in (signed, unsigned)
        for x, to in ((real, integer), (integer, real))
    },
    exchange=dict.fromkeys(  # there is one thread
        (8, 16, 32, 64), "(*({pointer}) == {old} ? (*({pointer}) = {new}, {old}) : *({pointer}))"
    ),
    signed_wraps=True,
)


def render(kernel: Kernel) -> str:
    """Return the source of `kernel`: a function `SYMBOL` of an array of arguments, each in 64 bits.

    Raises:
        UnsupportedError: An operation that the dialect has no form for.
    """
    arguments = [
        f"*({_TYPES[param.type.dtype]} *)&a[{i}]" if isinstance(param, Variable) else f"(void *)a[{i}]"
        for i, param in enumerate(kernel.params)
    ]
    sizes = (*kernel.grid[0], 1, 1, 1)[:3]
    loops = "".join(f"    for (long long g{i} = 0; g{i} < {size}; ++g{i})\n" for i, size in enumerate(sizes))
    call = f"        zyx_group(g0, g1, g2, {', '.join(arguments)});\n"
    return (
        f"{c_family.render(kernel, DIALECT, 'zyx_group')}\nvoid {SYMBOL}(unsigned long long *a) {{\n{loops}{call}}}\n"
    )
