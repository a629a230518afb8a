"""A module of SPIR-V in terms of dtypes: their types and constants, and a zero that no driver sees through.

Integers have no sign as types: instructions say whether they take one, so conversions between integers of one size are
nothing. bfloat16, and float16 where a device does not compute with it, are held as the 16-bit integers of their bits.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx.render.half_bits import half_bits
from zyx_backend_vulkan.spirv import Module

if TYPE_CHECKING:
    from zyx.dtype import DType, Scalar
    from zyx_backend_vulkan.target import Target

#: The unsigned integers by their bits.
UNSIGNED: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
#: Lanes of the longest vectors; values of more lanes are several vectors.
MOST_LANES: Final = 4

_WORD_BITS: Final = 32
_WORD_MASK: Final = (1 << _WORD_BITS) - 1
_INTEGER_CAPABILITIES: Final = {8: "Int8", 16: "Int16", 64: "Int64"}
_FLOAT_CAPABILITIES: Final = {16: "Float16", 64: "Float64"}
_PACKED: Final = {16: "<e", 32: "<f", 64: "<d"}


class Code(Module):
    """A module, in whose terms values are ids of vectors of up to four lanes, or of scalars.

    Attributes:
        target: What the module may use.
        block: The variable with the numbers of a launch.
        zero: A uint32 of 0, which the driver reads from memory; 0 if nobody asked for it yet.
        place_of_zero: Number of the member of the block with the zero.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target.version)
        self.target = target
        self.block = self.new()
        self.block_storage = "PushConstant"
        self.zero = 0
        self.place_of_zero = 0
        self._types: dict[tuple[DType, int], int] = {}
        self._splats: dict[tuple[int, int], int] = {}

    # ---- types

    def held(self, dtype: DType) -> DType:
        """Return the dtype as which values of a dtype are held: itself, or uint16 for a half that is only bits."""
        is_bits = dtype.is_float and dtype.bits == 16 and (dtype is dtypes.bfloat16 or not self.computes(dtype))
        return dtypes.uint16 if is_bits else dtype

    def computes(self, dtype: DType) -> bool:
        """Whether there is an arithmetic type for a dtype."""
        return dtype in self.target.arithmetic

    def of(self, dtype: DType, lanes: int = 1) -> int:
        """Return the type of values of a dtype.

        Raises:
            UnsupportedError: The device has none.
        """
        found = self._types.get((dtype, lanes))
        if found is None:
            scalar = self._scalar(self.held(dtype))
            found = self._types[dtype, lanes] = scalar if lanes == 1 else self.type("TypeVector", scalar, lanes)
        return found

    def _scalar(self, dtype: DType) -> int:
        if dtype.is_bool:
            return self.type("TypeBool")
        if dtype.bits != _WORD_BITS and dtype not in self.target.arithmetic:
            raise UnsupportedError(f"the device has no {dtype}")
        if dtype.is_integer:
            if dtype.bits in _INTEGER_CAPABILITIES:
                self.require(_INTEGER_CAPABILITIES[dtype.bits])
            return self.type("TypeInt", dtype.bits, 0)
        if dtype.bits in _FLOAT_CAPABILITIES:
            self.require(_FLOAT_CAPABILITIES[dtype.bits])
        target = self.target
        for mode, widths in (
            ("SignedZeroInfNanPreserve", target.preserves),
            ("DenormPreserve", target.denormals),
            ("RoundingModeRTE", target.rounds),
        ):
            if dtype.bits in widths:
                self.require(mode)
                self.mode(mode, dtype.bits)
        return self.type("TypeFloat", dtype.bits)

    # ---- constants

    def const(self, value: Scalar, dtype: DType, lanes: int = 1) -> int:
        """Return a constant, which `dtype` holds, in all lanes."""
        type_ = self.of(dtype)
        if dtype.is_bool:
            found = self.truth(type_, value=bool(value))
        elif dtype.is_float and self.held(dtype) is dtypes.uint16:
            found = self.constant(type_, half_bits(float(value), dtype))
        elif dtype.is_float:
            found = self._bits(type_, dtype.bits, int.from_bytes(_packed(float(value), dtype.bits), "little"))
        else:
            found = self._bits(type_, dtype.bits, int(value) & (1 << dtype.bits) - 1)
        return self.constant_of("ConstantComposite", self.of(dtype, lanes), *(found,) * lanes) if lanes > 1 else found

    def word(self, value: int) -> int:
        """Return a uint32 constant."""
        return self.constant(self.of(dtypes.uint32), value)

    def _bits(self, type_: int, size: int, bits: int) -> int:
        return self.constant(type_, *(bits >> shift & _WORD_MASK for shift in range(0, max(size, 1), _WORD_BITS)))

    # ---- values

    def exact(self, name: str, type_: int, *operands: int) -> int:
        """Add an operation on floats that nobody may merge with another, and return its result."""
        found = self.value(name, type_, *operands)
        self.decorate(found, "NoContraction")
        return found

    def splat(self, x: int, dtype: DType, lanes: int) -> int:
        """Return a scalar in all lanes."""
        return x if lanes == 1 else self.value("CompositeConstruct", self.of(dtype, lanes), *(x,) * lanes)

    def cast_bits(self, x: int, dtype: DType, lanes: int) -> int:
        """Return the bits of a value as a value held as `dtype`, as another type of the same size."""
        return self.value("Bitcast", self.of(dtype, lanes), x)

    def select(self, condition: int, x: int, y: int, dtype: DType, lanes: int) -> int:
        """Return `x` where the condition, of as many lanes, holds, else `y`."""
        return self.value("Select", self.of(dtype, lanes), condition, x, y)

    def compare(self, name: str, x: int, y: int, lanes: int) -> int:
        """Return what a comparison gives."""
        return self.value(name, self.of(dtypes.bool_, lanes), x, y)

    def hidden(self, x: int, dtype: DType, lanes: int) -> int:
        """Return a float in a form of which a driver's compiler knows nothing: its bits with a zero from memory."""
        bits = UNSIGNED[dtype.bits]
        type_ = self.of(bits, lanes)
        return self.cast_bits(
            self.value("BitwiseOr", type_, self.cast_bits(x, bits, lanes), self._zeros(bits, lanes)), dtype, lanes
        )

    def _zeros(self, dtype: DType, lanes: int) -> int:
        """Return the hidden zero as an unsigned integer in all lanes."""
        if not self.zero:
            word = self.of(dtypes.uint32)
            place = self.first_value(
                "AccessChain", self.member_pointer(word), self.block, self.word(self.place_of_zero)
            )
            self.zero = self.first_value("Load", word, place)
        key = (dtype.bits, lanes)
        found = self._splats.get(key)
        if found is None:
            if lanes > 1:
                scalar = self._zeros(dtype, 1)
                found = self.first_value("CompositeConstruct", self.of(dtype, lanes), *(scalar,) * lanes)
            elif dtype.bits == _WORD_BITS:
                found = self.zero
            else:
                found = self.first_value("UConvert", self.of(dtype), self.zero)
            self._splats[key] = found
        return found

    def member_pointer(self, type_: int) -> int:
        """Return the type of pointers to members of the block of numbers."""
        return self.pointer(self.block_storage, type_)


def parts_of(lanes: int) -> tuple[int, ...]:
    """Return the lanes of the vectors that a value consists of: as many of four as there are, and the rest."""
    whole, rest = divmod(lanes, MOST_LANES)
    return (MOST_LANES,) * whole + ((rest,) if rest else ())


def _packed(value: float, bits: int) -> bytes:
    if math.isnan(value):  # always the same one
        value = math.nan
    return struct.pack(_PACKED[bits], value)
