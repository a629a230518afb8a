"""`QuantizedTensor`: numbers that stay packed on the device, and what is computed with them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from zyx import dtype as dtypes
from zyx.autograd.custom import custom_gradient
from zyx.dtype import as_dtype
from zyx.errors import DTypeError, FormatError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.joining import concat
from zyx.functions.linalg import matmul as product
from zyx.functions.operands import is_tensor, lowered, require
from zyx.functions.selection import take as rows_of
from zyx.quantize.decode import decode, interleave, places
from zyx.quantize.integers import of_integers
from zyx.quantize.layouts import ALIGNMENT, GGUF, INTERLEAVED, ROWS, layout_of
from zyx.tensor.creation import arange, zeros

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.quantize.layouts import Layout
    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor


#: Rows for each of which numbers are made anew; for more, it takes longer than to store them and read them back.
_FEW_ROWS: Final = 8


class _Pair(NamedTuple):
    data: Tensor
    format: str


class QuantizedTensor(_Pair):
    """Numbers in blocks along the last axis, packed: a pair of bytes and the name of how they lie.

    It is a named tuple, so what looks into trees finds the bytes: arguments of `zyx.jit`, attributes of modules, which
    save and move them. The numbers are constants: gradients pass to what they are multiplied with.

    Attributes:
        data: uint8, ``(..., bytes of a row)``; ``(rows / 8, bytes of 8 rows)`` if those are together.
        format: A name of `zyx.quantize.NAMES`, such as Q4_K, int8 or int4/64; `zyx.quantize.layouts` defines them.

    Raises:
        FormatError: `data` are no bytes, or not as many as the format has.

    >>> packed = zyx.quantize.quantize(zyx.ones(4, 32), "Q8_0")
    >>> packed.shape, packed.data.shape
    ((4, 32), (4, 34))
    """

    __slots__ = ()

    def __new__(cls, data: Tensor, format: str) -> QuantizedTensor:  # the attribute
        """Take both.

        Raises:
            FormatError: No such format, another dtype, rows that are no whole number of blocks, or one axis of a format
                that has several rows together.
        """
        if not is_tensor(data) or data.dtype is not dtypes.uint8 or not data.ndim:
            what = f"{data.dtype} of shape {data.shape}" if is_tensor(data) else type(data).__name__
            raise FormatError(f"{format}: packed numbers are a tensor of uint8 with an axis for the bytes, not {what}")
        if layout_of(format, data.shape[-1]).rows > 1 and data.ndim < 2:
            raise FormatError(f"{format}: the bytes of several rows are together, (groups, bytes), not {data.shape}")
        return super().__new__(cls, data, format)

    @property
    def layout(self) -> Layout:
        """Where everything lies in a block."""
        return layout_of(self.format, self.data.shape[-1])

    @property
    def shape(self) -> Shape:
        """Of the numbers."""
        layout = self.layout
        numbers = self.data.shape[-1] // (layout.nbytes * layout.rows) * layout.count
        if layout.rows == 1:
            return (*self.data.shape[:-1], numbers)
        return (*self.data.shape[:-2], self.data.shape[-2] * layout.rows, numbers)

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that they take, with their scales."""
        return math.prod(self.data.shape)

    @property
    def device(self) -> str:
        """Where they are."""
        return self.data.device

    def to(self, device: str) -> QuantizedTensor:
        """Return the same numbers on another device."""
        return QuantizedTensor(self.data.to(device), self.format)

    def aligned(self) -> QuantizedTensor:
        """Return the same numbers in blocks of a multiple of 4 bytes, copied now; itself if they are.

        The format then has a "+" behind it. It is for blocks of 18, 22, 34 and 210 bytes, as of Q4_0, Q5_0, Q8_0 and
        Q6_K, on processors that load more slowly from places that are no multiple.
        """
        layout = self.layout
        more = -layout.nbytes % ALIGNMENT
        if not more or self.format not in GGUF:
            return self
        blocks = self.data.reshape((*self.data.shape[:-1], -1, layout.nbytes) if self.size else (0, layout.nbytes))
        nothing = zeros((*blocks.shape[:-1], more), dtype=dtypes.uint8, device=self.device)
        count = self.data.shape[-1] // layout.nbytes * (layout.nbytes + more)
        data = concat([blocks, nothing], axis=-1).reshape((*self.data.shape[:-1], count)).contiguous()
        data.runtime.realize([data])
        return QuantizedTensor(data, f"{self.format}+")

    def interleaved(self) -> QuantizedTensor:
        """Return the same numbers with the blocks of 8 rows together, copied now; itself if there is no such format.

        The format then has "x8" behind it. It is for products with ``activations="int8"`` on devices that multiply
        groups of bytes (`zyx.backend.DeviceInfo.has_byte_products`): they take about half as long, and two thirds
        with codes of 8 bits. There is one of Q4_0, of Q4_1, of Q8_0, of int4/n where 8 divides n and of int8/n where 4
        does, for two axes, the first a multiple of 8.
        """
        layout = self.layout
        if not layout.may_interleave or self.ndim != 2 or self.data.shape[0] % ROWS or not self.size:
            return self
        data = interleave(layout, self.data, ROWS).contiguous()
        data.runtime.realize([data])
        return QuantizedTensor(data, layout.name + INTERLEAVED)

    def dequantize(self, dtype: DTypeLike = dtypes.float32) -> Tensor:
        """Return the numbers, computed in float32 when something needs them, and not kept.

        Raises:
            DTypeError: Not a dtype of floats.
        """
        if not as_dtype(dtype).is_float:
            raise DTypeError(f"dequantize: packed numbers are floats, not {as_dtype(dtype)}")
        if not self.size:
            return zeros(self.shape, dtype=dtype, device=self.device)
        return decode(self.layout, self.data).numbers.reshape(self.shape).astype(dtype)

    def _refused(self, other: object) -> NoReturn:
        """Refuse what a tuple would do, which nobody means."""
        del other
        raise DTypeError(
            f"{self.format} numbers of shape {self.shape} are no tensor: see zyx.quantize.matmul, take and dequantize()"
        )

    __add__ = __radd__ = __mul__ = __rmul__ = __matmul__ = __rmatmul__ = _refused

    def __repr__(self) -> str:
        return f"QuantizedTensor({self.format}, shape={self.shape}, nbytes={self.nbytes}, device={self.device!r})"


def matmul(x: Tensor, weight: QuantizedTensor, *, activations: str | None = None) -> Tensor:
    """Return ``x @ weight.T``, the numbers of `weight` being made where they are multiplied.

    For up to 8 rows of `x`, it is one kernel, which reads the packed bytes and nothing else of `weight`. For more, the
    numbers are made once, in the dtype of `x`, and multiplied as others are; they are in memory while that goes on.

    Products of float32 and shorter ones are summed in float32. Beside the product with the same numbers in more digits,
    an element differs by at most 2e-6 of the sum of the magnitudes of what it sums; beside that with numbers that were
    never packed, by what `zyx.quantize.quantize` says of each.

    With `activations`, up to 8 rows are rounded to 8 bits before, in the blocks that `weight` has: a number of them
    then differs by at most a / 254, where a is the greatest magnitude in its block, and an element of the result by the
    sum over blocks of a / 254 times the sum of the magnitudes of its weights, besides what is said above. Of normally
    distributed numbers that is 0.005 of the norm of the result. Products are of integers, and summed in few floats.
    What is not finite in a row of `x` or in a scale makes elements infinite or NaN, and not always that which it makes
    them without `activations`: integers may be added before the scale that makes 0 NaN is multiplied.

    Args:
        x: ``(..., n_in)``, floats.
        weight: ``(n_out, n_in)``.
        activations: "int8", or None for `x` as it is. More than 8 rows, float64, and weights whose blocks have scales
            of parts, such as Q4_K, are multiplied as if it were None.

    Returns:
        ``(..., n_out)``, of the dtype of `x`, or of that which `zyx.autocast` has for products. Gradients with respect
        to `x` are those without rounding.

    Raises:
        DTypeError: `x` has no floats, or `weight` is not packed, or `activations` is something else.
        ShapeError: Sizes that do not fit.

    >>> zyx.quantize.matmul(zyx.ones(2, 32), zyx.quantize.quantize(zyx.ones(4, 32), "Q8_0")).shape
    (2, 4)
    """
    given, sizes = require(x, "matmul").node.shape, _packed(weight, "matmul").shape
    if activations not in (None, "int8"):
        raise DTypeError(f"matmul: activations are rounded to 'int8', or not at all with None, not to {activations!r}")
    if not x.dtype.is_float:
        raise DTypeError(f"matmul: packed weights are multiplied with floats, not {x.dtype}; convert it with astype")
    if len(sizes) != 2 or not given or given[-1] != sizes[1]:
        raise ShapeError(f"matmul: input {given} does not fit packed weights {sizes}: (..., n_in) and (n_out, n_in)")
    if math.prod(given[:-1]) > _FEW_ROWS or x.dtype.bits > 32 or not weight.size:
        return product(x, weight.dequantize(x.dtype).T)
    of_few_rows = of_integers if activations and weight.layout.has_one_scale else _of_few_rows
    # What was written out for each place is not gone through by gradients, which are a product with the same numbers.
    layout, data = weight.layout, weight.data
    made = custom_gradient(lambda rows: (of_few_rows(rows, layout, data), lambda g: product(g, weight.dequantize())))
    summed: Tensor = made(x.astype(dtypes.float32).reshape((-1, sizes[1])))
    return summed.reshape((*given[:-1], sizes[0])).astype(lowered(x.dtype))


def _of_few_rows(x: Tensor, layout: Layout, data: Tensor) -> Tensor:
    """Return the product of ``(rows, n_in)`` of float32: one sum over all places of blocks, which share bytes."""
    rows, count = x.shape
    ones = (1,) * (data.ndim - 1 + (layout.rows > 1))
    blocks = x.reshape((rows, *ones, count // layout.count, layout.sections, layout.parts, *layout.groups))
    # A scale that all numbers of a block share is multiplied last.
    is_common = layout.offset is None
    terms = []
    for place in places(layout):
        found = decode(layout, data, place)
        numbers = found.integers.astype(dtypes.float32) if is_common else found.numbers
        own = blocks[..., place.section, place.part, :, :]
        terms += [own[..., i, :] * numbers[..., 0, 0, i, :] for i in range(layout.groups[0])]
    summed = sum(terms[1:], terms[0])
    if is_common:
        summed = summed * found.scale[..., 0, 0, 0, :]
    return summed.sum((-2, -1))


def take(weight: QuantizedTensor, indices: Tensor) -> Tensor:
    """Return the rows that `indices` name, float32; only their bytes are read.

    Args:
        weight: ``(n, ..., width)``.
        indices: Integers of any shape, 0 to n - 1, or from -n on counted from the end.

    Returns:
        ``(*indices.shape, ..., width)``.

    Raises:
        DTypeError: `indices` are no integers, or `weight` is not packed.
        ShapeError: `weight` has no axis besides that of the blocks.

    >>> zyx.quantize.take(zyx.quantize.quantize(zyx.ones(4, 32), "Q8_0"), zyx.Tensor([0, 3])).shape
    (2, 32)
    """
    if _packed(weight, "take").ndim < 2:
        raise ShapeError(f"take: packed numbers of shape {weight.shape} have no rows; there have to be two axes")
    layout = weight.layout
    if layout.rows == 1:
        return QuantizedTensor(rows_of(weight.data, indices, axis=0), weight.format).dequantize()
    groups = rows_of(weight.data, indices // layout.rows, axis=0)
    together = decode(layout, groups).numbers.reshape((*groups.shape[:-1], layout.rows, weight.shape[-1]))
    numbers = arange(layout.rows, dtype=indices.dtype, device=indices.device)
    own = (indices % layout.rows).reshape((*indices.shape, 1, 1)) == numbers.reshape((-1, 1))
    return where(own, together, 0.0).sum(-2)


def _packed(weight: object, what: str) -> QuantizedTensor:
    if not isinstance(weight, QuantizedTensor):
        raise DTypeError(f"{what} takes a zyx.quantize.QuantizedTensor, not {type(weight).__name__}; see zyx.quantize")
    return weight
