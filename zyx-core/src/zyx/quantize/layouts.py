"""How packed numbers lie in a row: blocks, one behind the other, each some bytes of scales and a few bits a number.

            numbers  bytes  what lies there                                      number i
    Q4_0    32       18     d:f16, q:4 x 32                                      d * (q - 8)
    Q4_1    32       20     d:f16, m:f16, q:4 x 32                               d * q + m
    Q5_0    32       22     d:f16, high:1 x 32, q:4 x 32                         d * (q - 16)
    Q5_1    32       24     d:f16, m:f16, high:1 x 32, q:4 x 32                  d * q + m
    Q8_0    32       34     d:f16, q:i8 x 32                                     d * q
    Q4_K    256      144    d:f16, m:f16, (s:6, t:6) x 8, q:4 x 256              d * s[i / 32] * q - m * t[i / 32]
    Q5_K    256      176    d:f16, m:f16, (s:6, t:6) x 8, high:1 x 256, q        the same
    Q6_K    256      210    q:4 x 256, high:2 x 256, s:i8 x 16, d:f16            d * s[i / 16] * (q - 32)
    int8/n  n        n + 4  d:f32, q:i8 x n                                      d * q
    int4/n  n        n/2+4  d:f16, m:f16, q:4 x n                                d * q + m

The first eight are those of ggml, and of GGUF files; "int8" and "int4" without a number have one block for a row. A
`Layout` says where everything is, and is all that differs between formats: see `zyx.quantize.decode`, `encode`. A "+"
behind a name, as in "Q8_0+", is the same in blocks of a multiple of 4 bytes: some processors load from other places at
less than half the speed.

An "x8" behind a name, as in "Q4_1x8", is the same with the blocks of 8 rows together, for codes of 4 or 8 bits: each
byte of scales lies beside those of the other rows, and of the codes each 4 bytes do. The rows are lanes of vectors.

**Chunks.** A block is ``sections * parts`` chunks of `width` numbers, and chunk ``c = section * parts + part`` has the
numbers from ``c * width`` on. The low bits of the chunks of a section share bytes: byte j of a section has number j of
`part` 0, above it number j of a later part. High bits lie so, too, in rows of their own, or side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zyx.errors import FormatError

#: Bytes of codes that lie side by side where rows are together: as many as are multiplied and added for one lane.
WORD: Final = 4


@dataclass(frozen=True, slots=True)
class Bits:
    """Where a few bits of each number lie in a block.

    Attributes:
        at: The first byte.
        bits: Of each number.
        side_by_side: Whether a byte has bits of numbers that follow each other; else, of different chunks.
    """

    at: int
    bits: int
    side_by_side: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything lies in a block; see the module.

    Attributes:
        name: Such as Q4_K.
        nbytes: Of a block.
        sections: Parts of a block whose low bits share no bytes.
        parts: Chunks in a section.
        width: Numbers in a chunk.
        low: The lowest bits; eight have a sign.
        scale: Byte of d.
        high: The bits above them, if there are.
        middle: What is subtracted from the bits.
        offset: Byte of m, if there is.
        wide_scale: Whether d is a float32; otherwise it is a float16, as m is.
        pairs: Byte of the factors s and t of 6 bits, one of each for a chunk, if there are.
        factors: Byte of factors s, int8, for each 16 numbers, if there are.
        code: The number of the format in GGUF files, if there is.
        rows: How many rows have their blocks together.

    >>> zyx.quantize.layout_for("Q8_0", 64).width
    32
    """

    name: str
    nbytes: int
    sections: int
    parts: int
    width: int
    low: Bits
    scale: int = 0
    high: Bits | None = None
    middle: int = 0
    offset: int | None = None
    wide_scale: bool = False
    pairs: int | None = None
    factors: int | None = None
    code: int | None = None
    rows: int = 1

    @property
    def count(self) -> int:
        """Numbers in a block."""
        return self.sections * self.parts * self.width

    @property
    def has_one_scale(self) -> bool:
        """Whether a block has one scale and at most one offset, for all of its numbers."""
        return self.pairs is None and self.factors is None

    @property
    def may_interleave(self) -> bool:
        """Whether there is the same format with the blocks of several rows together: one byte has all of a code."""
        return self.has_one_scale and self.rows == 1 and not self.high and not self.width % WORD

    @property
    def groups(self) -> tuple[int, int]:
        """A chunk as groups, and the numbers of one: with a factor of their own, or as many as registers have."""
        if self.rows > 1:
            return (self.width // WORD, WORD)
        return (self.width // 16, 16) if self.width in (32, 64) else (1, self.width)


def _of_32(name: str, code: int, low: Bits, **rest: int | Bits) -> Layout:
    parts = 8 // low.bits
    return Layout(name, low.at + 32 // parts, 1, parts, 32 // parts, low, code=code, **rest)  # type: ignore[arg-type]  # of fields


GGUF: Final[dict[str, Layout]] = {
    each.name: each
    for each in (
        _of_32("Q4_0", 2, Bits(2, 4), middle=8),
        _of_32("Q4_1", 3, Bits(4, 4), offset=2),
        _of_32("Q5_0", 6, Bits(6, 4), high=Bits(2, 1, side_by_side=True), middle=16),
        _of_32("Q5_1", 7, Bits(8, 4), high=Bits(4, 1, side_by_side=True), offset=2),
        _of_32("Q8_0", 8, Bits(2, 8)),
        Layout("Q4_K", 144, 4, 2, 32, Bits(16, 4), offset=2, pairs=4, code=12),
        Layout("Q5_K", 176, 4, 2, 32, Bits(48, 4), high=Bits(16, 1), offset=2, pairs=4, code=13),
        Layout("Q6_K", 210, 2, 4, 32, Bits(0, 4), scale=208, high=Bits(128, 2), middle=32, factors=192, code=14),
    )
}

#: Bytes that blocks with a "+" are a multiple of.
ALIGNMENT: Final = 4
#: Rows whose blocks are together in formats with an "x8", and what is behind the name.
ROWS: Final = 8
INTERLEAVED: Final = f"x{ROWS}"

_WIDTHS: Final = {"int8": 8, "int4": 4}
NAMES: Final = (*GGUF, *_WIDTHS, *(f"{family}/n" for family in _WIDTHS))


def layout_for(name: str, count: int) -> Layout:
    """Return the layout of rows of `count` numbers.

    Raises:
        FormatError: No such format, or rows that are no whole number of blocks.

    >>> zyx.quantize.layout_for("Q8_0", 64).nbytes
    34
    """
    found = _layout(name) or _by_group(name, count)
    if count % found.count:
        raise FormatError(f"rows of {count} numbers are no whole number of blocks of {found.count}, which {name} has")
    return found


def layout_of(name: str, nbytes: int) -> Layout:
    """Return the layout of rows of `nbytes` bytes.

    Raises:
        FormatError: No such format, or rows that are no whole number of blocks.
    """
    found = _layout(name) or _by_group(name, max(nbytes - 4, 0) * 8 // _WIDTHS[name])
    block = found.nbytes * found.rows
    if nbytes % block:
        raise FormatError(f"rows of {nbytes} bytes are no whole number of blocks of {block} bytes, which {name} has")
    return found


def _layout(name: str) -> Layout | None:
    """Return the layout of a name that says how long a block is; None if a row is one.

    Raises:
        FormatError: No such format.
    """
    if isinstance(name, str):
        if found := GGUF.get(name):
            return found
        if name.endswith(INTERLEAVED) and (base := _layout(name.removesuffix(INTERLEAVED))) and base.may_interleave:
            return replace(base, name=name, code=None, rows=ROWS)
        if name.endswith("+") and (base := GGUF.get(name[:-1])):
            return replace(base, name=name, nbytes=-(-base.nbytes // ALIGNMENT) * ALIGNMENT, code=None)
        family, slash, size = name.partition("/")
        if family in _WIDTHS and (not slash or (size.isdecimal() and size.isascii())):
            return _by_group(family, int(size)) if slash else None
    raise FormatError(f"no format is called {name!r}; there are {', '.join(NAMES)}, where n is the size of groups")


def _by_group(family: str, count: int) -> Layout:
    if count < 1 or (count % 2 and family == "int4"):
        raise FormatError(f"{family}: groups have at least one number, and of int4 an even number of them, not {count}")
    if family == "int8":
        return Layout(f"int8/{count}", count + 4, 1, 1, count, Bits(4, 8), wide_scale=True)
    return Layout(f"int4/{count}", count // 2 + 4, 1, 2, count // 2, Bits(4, 4), offset=2)
