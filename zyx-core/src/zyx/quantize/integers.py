"""Products of packed weights with activations of 8 bits: integers are multiplied, and floats only scale their sums.

    x[k] ~ s * i[k]                                    s: one for a block of the weights, i: -127 to 127
    sum(k) x[k] * (d * q[k] + m)  ~  d * s * sum(k) i[k] * q[k]  +  m * s * sum(k) i[k]

Numbers of a block that are a group apart are multiplied and summed as int32, side by side, and so are neighbours after
that (`zyx.nest.lane_sums`): a block becomes a vector of sums, which is made floats, scaled, and added to those of the
blocks before it. No block is added up across its lanes. The activations are kept as int16, which is what processors
multiply and add in pairs.

Where the blocks of several rows are together, the rows are the lanes, and groups of four bytes in each are multiplied
and summed at once. Codes are then as they are stored, without a sign; their middle is an offset: -middle * d.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.functions.choosing import where
from zyx.functions.elementwise import round as rounded
from zyx.quantize.decode import decode, places

if TYPE_CHECKING:
    from zyx.quantize.layouts import Layout
    from zyx.tensor.tensor import Tensor

#: The greatest magnitude of an activation: as much on both sides of 0.
_GREATEST: Final = 127


def of_integers(x: Tensor, layout: Layout, data: Tensor) -> Tensor:
    """Return the product of ``(rows, n_in)`` of float32, rounded to 8 bits, with weights of one scale for a block."""
    rows, count = x.shape
    is_interleaved = layout.rows > 1
    ones = (1,) * (data.ndim - 1 + is_interleaved)
    middle = layout.middle if is_interleaved else 0
    if middle:
        layout = replace(layout, middle=0)
    blocks = x.reshape((rows, count // layout.count, layout.count))
    step = abs(blocks).max(-1, keepdims=True) / _GREATEST
    own = rounded(blocks / where(step == 0, 1.0, step)).astype(dtypes.int8 if is_interleaved else dtypes.int16)
    own = own.reshape((rows, *ones, -1, layout.sections, layout.parts, *layout.groups)).contiguous()
    step = step.reshape((rows, *ones, -1, 1))
    terms = []
    for place in places(layout):
        found = decode(layout, data, place)
        codes, factors = (
            each.astype(dtypes.int32) for each in (found.integers, own[..., place.section, place.part, :, :])
        )
        terms += [factors[..., i, :] * codes[..., 0, 0, i, :] for i in range(layout.groups[0])]
    numbers = sum(terms[1:], terms[0]).astype(dtypes.float32) * found.scale[..., 0, 0, 0, :]
    offset = found.offset if not middle else found.scale * -middle
    if offset is not None:
        whole = own.sum((-4, -3, -2), dtype=dtypes.int16).contiguous().astype(dtypes.int32)
        numbers = numbers + whole.astype(dtypes.float32) * offset[..., 0, 0, 0, :]
    # The step last: sums of several products are taken apart, and each would read the weights.
    return (numbers * step).sum((-2, -1)).reshape((rows, -1))
