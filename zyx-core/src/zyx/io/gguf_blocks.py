"""Numbers in blocks, as GGUF files have them: some bytes of scales, then a few bits for each number.

            numbers  bytes  what lies there                                      number i
    Q4_0    32       18     d:f16, q:4 x 32                                      d * (q - 8)
    Q4_1    32       20     d:f16, m:f16, q:4 x 32                               d * q + m
    Q5_0    32       22     d:f16, high:1 x 32, q:4 x 32                         d * (q - 16)
    Q5_1    32       24     d:f16, m:f16, high:1 x 32, q:4 x 32                  d * q + m
    Q8_0    32       34     d:f16, q:i8 x 32                                     d * q
    Q4_K    256      144    d:f16, m:f16, (s:6, t:6) x 8, q:4 x 256              d * s[i / 32] * q - m * t[i / 32]
    Q5_K    256      176    d:f16, m:f16, (s:6, t:6) x 8, high:1 x 256, q        the same
    Q6_K    256      210    q:4 x 256, high:2 x 256, s:i8 x 16, d:f16            d * s[i / 16] * (q - 32)

The bits of q above the lowest four lie apart. The layouts are those of ggml, whose files these are. All is computed by
integers and float32 on the tensor's device, which need not have float16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import FormatError
from zyx.functions.choosing import where
from zyx.functions.info import bitcast
from zyx.functions.joining import concat
from zyx.tensor.creation import arange, zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class BlockType:
    """How numbers lie in a block.

    Attributes:
        code: Its number in files.
        count: Numbers in a block.
        nbytes: Bytes of a block.
        unpack: ``(N, nbytes)`` of uint8 to ``(N, count)`` of float32.
    """

    code: int
    count: int
    nbytes: int
    unpack: Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Numbers in blocks along the last axis, as they lie in a file.

    Attributes:
        data: uint8; its last axis has the bytes of a row.
        kind: A name in `zyx.io.BLOCK_TYPES`, such as Q4_K.
        shape: Of the numbers.
    """

    data: Tensor
    kind: str
    shape: Shape

    def __post_init__(self) -> None:
        """Raise a `FormatError` if it is no such kind, or data of another shape or dtype."""
        row = row_bytes(self.kind, self.shape)
        if self.data.dtype is not dtypes.uint8 or self.data.shape != (*self.shape[:-1], row):
            raise FormatError(
                f"{self.kind} of shape {self.shape} is uint8 of shape {(*self.shape[:-1], row)}, not {self.data.dtype} "
                f"of shape {self.data.shape}"
            )

    def dequantize(self) -> Tensor:
        """Return the numbers, float32, on the device of the data. They are computed when something needs them."""
        found = BLOCK_TYPES[self.kind]
        if not math.prod(self.shape):
            return zeros(self.shape, dtype=dtypes.float32, device=self.data.device)
        return found.unpack(self.data.reshape((-1, found.nbytes))).reshape(self.shape)


def row_bytes(kind: str, shape: Shape) -> int:
    """Return the bytes of a row.

    Raises:
        FormatError: No such kind, or rows that are no whole number of blocks.
    """
    found = BLOCK_TYPES.get(kind)
    if found is None:
        raise FormatError(f"no blocks are called {kind!r}; there are {', '.join(BLOCK_TYPES)}")
    if not shape or shape[-1] % found.count:
        raise FormatError(f"rows of shape {shape} are no whole number of blocks of {found.count}, which {kind} has")
    return shape[-1] // found.count * found.nbytes


def _half(blocks: Tensor, at: int) -> Tensor:
    """Return ``(N, 1)`` of float32: the float16 at a byte of each block."""
    pair = blocks[:, at : at + 2].astype(dtypes.int32)
    bits = pair[:, :1] | (pair[:, 1:] << 8)
    exponent, fraction = (bits >> 10) & 31, bits & 1023
    moved = where(exponent == 31, 255, exponent + 112) << 23  # 127 - 15 more; the last one is infinity and NaN
    size = where(
        exponent == 0, fraction.astype(dtypes.float32) * 2.0**-24, bitcast(moved | (fraction << 13), "float32")
    )
    return where(bits >= 1 << 15, -size, size)


def _nibbles(packed: Tensor, axis: int) -> Tensor:
    """Return the lower four bits of all, then the upper ones."""
    return concat([packed & 15, packed >> 4], axis=axis)


def _bits(packed: Tensor, axis: int, step: int) -> Tensor:
    """Return `step` bits of each byte after the other, lowest first, along an axis that has size 1."""
    shape = [1] * packed.ndim
    shape[axis] = 8 // step
    shifts = arange(0, 8, step, dtype=dtypes.uint8, device=packed.device).reshape(tuple(shape))
    return (packed >> shifts) & ((1 << step) - 1)


def _of_five_bits(blocks: Tensor, at: int) -> Tensor:
    """Return 32 numbers from 0 to 31; the highest bits of all come first."""
    high = _bits(blocks[:, at : at + 4].reshape((-1, 4, 1)), 2, 1).reshape((-1, 32))
    return _nibbles(blocks[:, at + 4 :], 1) | (high << 4)


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:], 1).astype(dtypes.float32) - 8.0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:], 1).astype(dtypes.float32) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_of_five_bits(blocks, 2).astype(dtypes.float32) - 16.0)


def _q5_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _of_five_bits(blocks, 4).astype(dtypes.float32) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * bitcast(blocks[:, 2:], "int8").astype(dtypes.float32)


def _of_eight_parts(blocks: Tensor, numbers: Tensor) -> Tensor:
    """Return ``d * s * numbers - m * t`` for ``(N, 8, 32)`` numbers; upper bits of the last four s and t lie apart."""
    first, second, third = (blocks[:, at : at + 4] for at in (4, 8, 12))
    scales = concat([first & 63, (third & 15) | ((first >> 6) << 4)], axis=1).astype(dtypes.float32)
    offsets = concat([second & 63, (third >> 4) | ((second >> 6) << 4)], axis=1).astype(dtypes.float32)
    scales, offsets = (_half(blocks, 0) * scales).reshape((-1, 8, 1)), (_half(blocks, 2) * offsets).reshape((-1, 8, 1))
    return (scales * numbers.astype(dtypes.float32) - offsets).reshape((-1, 256))


def _q4_k(blocks: Tensor) -> Tensor:
    return _of_eight_parts(blocks, _nibbles(blocks[:, 16:].reshape((-1, 4, 1, 32)), 2).reshape((-1, 8, 32)))


def _q5_k(blocks: Tensor) -> Tensor:
    low = _nibbles(blocks[:, 48:].reshape((-1, 4, 1, 32)), 2).reshape((-1, 8, 32))
    return _of_eight_parts(blocks, low | (_bits(blocks[:, 16:48].reshape((-1, 1, 32)), 1, 1) << 4))


def _q6_k(blocks: Tensor) -> Tensor:
    low = _nibbles(blocks[:, :128].reshape((-1, 2, 2, 32)), 2)
    high = _bits(blocks[:, 128:192].reshape((-1, 2, 1, 32)), 2, 2)
    numbers = (low | (high << 4)).reshape((-1, 16, 16)).astype(dtypes.float32) - 32.0
    scales = _half(blocks, 208) * bitcast(blocks[:, 192:208], "int8").astype(dtypes.float32)
    return (scales.reshape((-1, 16, 1)) * numbers).reshape((-1, 256))


BLOCK_TYPES: Final[dict[str, BlockType]] = {
    "Q4_0": BlockType(2, 32, 18, _q4_0),
    "Q4_1": BlockType(3, 32, 20, _q4_1),
    "Q5_0": BlockType(6, 32, 22, _q5_0),
    "Q5_1": BlockType(7, 32, 24, _q5_1),
    "Q8_0": BlockType(8, 32, 34, _q8_0),
    "Q4_K": BlockType(12, 256, 144, _q4_k),
    "Q5_K": BlockType(13, 256, 176, _q5_k),
    "Q6_K": BlockType(14, 256, 210, _q6_k),
}
