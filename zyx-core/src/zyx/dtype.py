"""Element types, and which type two of them make together.

Thirteen types that kernels know, `ALL`, and two of complex numbers, `COMPLEX`, which are pairs of these (`zyx.pairs`).
Names are the Array API's, plus `float16` and `bfloat16`, which compute in float32 and round after every operation.
Promotion follows the Array API's table; what that leaves open is settled here:

* integer with float or complex: the latter;
* float with complex: the complex type whose parts hold the float;
* float16 with bfloat16: float32, the least type that holds both;
* uint64 with a signed integer: an error, since no integer type holds both.

Python scalars are weak: they take the type of the array they meet, see `promote_scalar`.
"""

from __future__ import annotations

import enum
import math
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import numpy as np

from zyx.errors import DTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

Scalar: TypeAlias = bool | int | float
Number: TypeAlias = bool | int | float | complex

_FLOAT32: Final = struct.Struct("<f")
_UINT32: Final = struct.Struct("<I")


class Kind(enum.StrEnum):
    """The families of element types, in the order of promotion; each is equal to NumPy's letter for it."""

    BOOL = "b"
    UINT = "u"
    INT = "i"
    FLOAT = "f"
    COMPLEX = "c"


_ORDER: Final = {kind: place for place, kind in enumerate(Kind)}


class DType:
    """An element type. There is one object a type, so `is` compares.

    It is equal to its name and to NumPy's type of the same layout, too, and ``np.dtype`` takes it. In dicts and sets it
    stands for its name; NumPy's types have other hashes, as they have among themselves.

    Attributes:
        name: The Array API's name, also the attribute of `zyx`.
        short: The name in printed kernels, such as ``f32``.
        kind: Family, which is equal to NumPy's letter for it; bfloat16 is a float, ``f``.
        bits: Size of an element in memory; 8 for bool.

    Raises:
        AttributeError: One of these is set or deleted.

    >>> zyx.float32.name, zyx.float32.bits
    ('float32', 32)
    """

    name: str
    short: str
    kind: Kind
    bits: int

    def __init__(self, name: str, short: str, kind: Kind, bits: int) -> None:
        vars(self).update(name=name, short=short, kind=kind, bits=bits)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name!r} of {self!r} cannot be set: there is one object for all")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} of {self!r} cannot be deleted: there is one object for all")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return self.name == other
        if isinstance(other, np.dtype) or (isinstance(other, type) and issubclass(other, np.generic)):
            return _of_numpy(np.dtype(other)) is self
        return False if isinstance(other, DType) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"zyx.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return as_dtype, (self.name,)  # unpickles to the one object

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.bits // 8

    @cached_property
    def is_float(self) -> bool:
        """Whether this is one of the four floating-point types."""
        return self.kind is Kind.FLOAT

    @cached_property
    def is_complex(self) -> bool:
        """Whether this is complex64 or complex128."""
        return self.kind is Kind.COMPLEX

    @cached_property
    def is_inexact(self) -> bool:
        """Whether this is a floating-point or complex type: what gradients exist for."""
        return self.kind in (Kind.FLOAT, Kind.COMPLEX)

    @cached_property
    def part(self) -> DType:
        """The type of the real and the imaginary part; a type that is not complex itself."""
        if self.kind is not Kind.COMPLEX:
            return self
        return float32 if self.bits == 64 else float64

    @cached_property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type (not bool)."""
        return self.kind in (Kind.INT, Kind.UINT)

    @cached_property
    def is_unsigned(self) -> bool:
        """Whether this is an unsigned integer type."""
        return self.kind is Kind.UINT

    @cached_property
    def is_bool(self) -> bool:
        """Whether this is bool."""
        return self.kind is Kind.BOOL

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of the same layout; bfloat16 is that of ml_dtypes."""
        if self.name == "bfloat16":
            import ml_dtypes  # costs 15 ms, and most programs have no bfloat16

            bfloat16: np.dtype[np.generic] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        return np.dtype(self.name)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The same as `numpy`: NumPy looks here when it is given one of our types."""
        return self.numpy

    @property
    def __numpy_dtype__(self) -> np.dtype[np.generic]:
        return self.numpy

    @cached_property
    def min(self) -> Scalar:
        """The least value: minus infinity for floats."""
        match self.kind:
            case Kind.BOOL:
                return False
            case Kind.UINT:
                return 0
            case Kind.INT:
                return -(1 << (self.bits - 1))
            case Kind.FLOAT:
                return -float("inf")
            case Kind.COMPLEX:
                raise DTypeError(f"{self} has no least value: complex numbers have no order")

    @cached_property
    def max(self) -> Scalar:
        """The greatest value: infinity for floats."""
        match self.kind:
            case Kind.BOOL:
                return True
            case Kind.UINT:
                return (1 << self.bits) - 1
            case Kind.INT:
                return (1 << (self.bits - 1)) - 1
            case Kind.FLOAT:
                return float("inf")
            case Kind.COMPLEX:
                raise DTypeError(f"{self} has no greatest value: complex numbers have no order")

    def to_scalar(self, value: Number) -> Scalar:
        """Return `value` as this type holds it: integers wrap, floats round once, any nonzero value is True.

        Complex types hold pairs of their `part`, which is what numbers are made for.

        Raises:
            DTypeError: A complex number, which is two.
        """
        if self is float32 and type(value) is float:  # far the most frequent
            return _to_float32(value)
        if isinstance(value, complex):
            raise DTypeError(f"{value} is complex and does not fit {self}; cast the array with .astype(...)")
        if self.kind is Kind.FLOAT and self.bits < 64:
            is_rounded = isinstance(value, int) and not -_ALL_EXACT <= value <= _ALL_EXACT
            value = _to_float64_to_odd(int(value)) if is_rounded else float(value)
        if self is float32:
            return _to_float32(value)
        match self.kind:
            case Kind.BOOL:
                return bool(value)
            case Kind.UINT | Kind.INT:
                return self.wrap(int(value))
            case Kind.FLOAT:
                if self.bits == 64:
                    return float(value)
                if self is bfloat16:  # NumPy goes by float32
                    value = _to_float32_to_odd(value)
                with np.errstate(over="ignore"):
                    return float(np.asarray(value).astype(self.numpy))
            case Kind.COMPLEX:
                return self.part.to_scalar(value)

    def wrap(self, value: int) -> int:
        """Return the integer congruent to `value` modulo 2**bits that this integer type holds."""
        value &= (1 << self.bits) - 1
        if self.kind is Kind.INT and value >> (self.bits - 1):
            value -= 1 << self.bits
        return value


#: Up to here float64 has every integer.
_ALL_EXACT: Final = 1 << 53


# Rounding twice is rounding once if the first time is to odd: toward zero, with the last digit 1 unless it is exact.
# Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.


def _to_float64_to_odd(value: int) -> float:
    digits = abs(value)
    beyond = digits.bit_length() - 53
    if beyond <= 0:
        return float(value)
    kept = digits >> beyond
    odd = kept | (kept << beyond != digits)
    size = math.ldexp(odd, beyond) if beyond < 1024 - 53 else math.inf
    return -size if value < 0 else size


def _to_float32_to_odd(value: float) -> float:
    near = _to_float32(value)
    if near == value or math.isnan(value):
        return near
    (bits,) = _UINT32.unpack(_FLOAT32.pack(near))
    rounded: float = _FLOAT32.unpack(_UINT32.pack((bits - (abs(near) > abs(value))) | 1))[0]
    return rounded


def _to_float32(value: float) -> float:
    """Return the nearest float32, in a fifth of the time that NumPy takes."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


bool_: Final = DType("bool", "bool", Kind.BOOL, 8)
uint8: Final = DType("uint8", "u8", Kind.UINT, 8)
uint16: Final = DType("uint16", "u16", Kind.UINT, 16)
uint32: Final = DType("uint32", "u32", Kind.UINT, 32)
uint64: Final = DType("uint64", "u64", Kind.UINT, 64)
int8: Final = DType("int8", "i8", Kind.INT, 8)
int16: Final = DType("int16", "i16", Kind.INT, 16)
int32: Final = DType("int32", "i32", Kind.INT, 32)
int64: Final = DType("int64", "i64", Kind.INT, 64)
float16: Final = DType("float16", "f16", Kind.FLOAT, 16)
bfloat16: Final = DType("bfloat16", "bf16", Kind.FLOAT, 16)
float32: Final = DType("float32", "f32", Kind.FLOAT, 32)
float64: Final = DType("float64", "f64", Kind.FLOAT, 64)
complex64: Final = DType("complex64", "c64", Kind.COMPLEX, 64)
complex128: Final = DType("complex128", "c128", Kind.COMPLEX, 128)

ALL: Final = (
    bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, bfloat16, float32, float64,
)  # fmt: skip
COMPLEX: Final = (complex64, complex128)
FLOATS: Final = tuple(t for t in ALL if t.is_float)
INTEGERS: Final = tuple(t for t in ALL if t.is_integer)
BY_NAME: Final = {t.name: t for t in (*ALL, *COMPLEX)}
BY_SHORT: Final = {t.short: t for t in ALL}
_BY_NUMPY: Final = {np.dtype(t.name): t for t in (*ALL, *COMPLEX) if t is not bfloat16}
_SIGNED: Final = {8: int8, 16: int16, 32: int32, 64: int64}

DTypeLike: TypeAlias = (
    "DType | str | type[bool] | type[int] | type[float] | type[complex] | np.dtype[np.generic] | type[np.generic]"
)


def as_dtype(given: DTypeLike) -> DType:
    """Return the type that `given` names: one of ours, a name, a NumPy type, or one of Python's.

    Python's types mean the defaults: bool, int64, float32, complex64.

    Raises:
        DTypeError: Nothing of that name.
    """
    if isinstance(given, DType):
        return given
    if isinstance(given, str):
        found = BY_NAME.get(given)
    elif given is bool:
        return bool_
    elif given is int:
        return int64
    elif given is float:
        return float32
    elif given is complex:
        return complex64
    else:
        try:
            found = _of_numpy(np.dtype(given))
        except TypeError:  # NumPy's, of what names no type
            found = None
    if found is None:
        raise DTypeError(f"no dtype {given!r}; there are {', '.join(BY_NAME)}")
    return found


def _of_numpy(given: np.dtype[np.generic]) -> DType | None:
    return _BY_NUMPY.get(given) or (bfloat16 if given.name == "bfloat16" else None)


def promote(x: DType, y: DType) -> DType:
    """Return the least type that holds the values of both, by the table of this module.

    Raises:
        DTypeError: uint64 with a signed integer.
    """
    if x is y:
        return x
    low, high = (x, y) if _ORDER[x.kind] <= _ORDER[y.kind] else (y, x)
    if low.kind is not high.kind:
        if low.kind is Kind.UINT and high.kind is Kind.INT:
            if low.bits < high.bits:
                return high
            if low.bits == 64:
                raise DTypeError(f"no integer type holds both {low} and {high}; cast one of them with .astype(...)")
            return _SIGNED[low.bits * 2]
        return complex128 if low is float64 else high
    if low.bits != high.bits:
        return low if low.bits > high.bits else high
    return float32  # float16 with bfloat16: the one pair of equal kind and size


def promote_all(dtypes: Iterable[DType]) -> DType:
    """Return `promote` over at least one type."""
    remaining = iter(dtypes)
    result = next(remaining)
    for dtype in remaining:
        result = promote(result, dtype)
    return result


def complex_of(dtype: DType) -> DType:
    """Return the complex type whose parts hold `dtype`: complex128 of float64, else complex64; complex ones as is."""
    return promote(dtype, complex64)


def promote_scalar(dtype: DType, value: Number) -> DType:
    """Return the type of an operation of an array of `dtype` with the Python scalar `value`.

    The array's type, unless the scalar is of a later family: then the default of that family, int64 or float32, or the
    complex type whose parts hold the array's.

    Raises:
        DTypeError: An integer that `dtype` cannot hold, or int64 beside an array of bools.
    """
    if isinstance(value, complex):
        return complex_of(dtype)
    if isinstance(value, bool) or dtype.is_inexact:
        return dtype
    if isinstance(value, float):
        return float32
    if dtype.is_bool:
        dtype = int64
    if not hasattr(type(value), "as_constant"):  # what stands in for one checks the number of every call
        check_fits(value, dtype)
    return dtype


def check_fits(value: Scalar, dtype: DType) -> None:
    """Raise `DTypeError` unless an integer type can hold `value`."""
    if not dtype.min <= value <= dtype.max:
        raise DTypeError(f"{value} does not fit {dtype} ({dtype.min} to {dtype.max}); cast the array with .astype(...)")


def accumulator(dtype: DType) -> DType:
    """Return the type in which sums and products of `dtype` are accumulated.

    float16 and bfloat16 accumulate in float32; every other type in itself.
    """
    return float32 if dtype.is_float and dtype.bits == 16 else dtype
