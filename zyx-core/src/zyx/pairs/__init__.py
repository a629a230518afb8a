"""Complex numbers as pairs of real ones: what plans are made of has no complex dtype left.

    %0: c64[3] = leaf                 %0: f32[3, 2] = leaf              the same buffer: real, imaginary, real, ...
    %1: c64[3] = mul %0, %0    =>     %1, %2: f32[3] = its two halves
                                      %3, %4: f32[3] = %1 * %1 - %2 * %2, %1 * %2 + %2 * %1
                                      %5: f32[3, 2] = the two, interleaved

`lower` does it for a whole graph, before anything else is made of it; `lowering` has what becomes of each kind of node,
`formulas` the functions of one and two numbers, `products` what multiplies many, `real` what these are written in.
"""

from zyx.pairs.lowering import Lowered, lower

__all__ = ["Lowered", "lower"]
