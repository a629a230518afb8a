"""Products of cooperative matrices as SPIR-V.

    %9 = wmma (16, 8, 16) %6, %7, %8      =>     %41 = OpCompositeInsert %20 %31 %40 0      and so on: a, b and c
                                                 %60 = OpCooperativeMatrixMulAddKHR %22 %47 %53 %59
                                                 %61 = OpCompositeExtract %7 %60 0          and so on

A thread's part of a matrix are its components; which elements these are, SPIR-V leaves to the driver, and
`zyx_backend_vulkan.probe_matrices` has found out. Matrices that were made of values in a block serve again there.

A module with cooperative matrices has Vulkan's memory model (SPV_KHR_cooperative_matrix).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx import dtype as dtypes
from zyx.errors import UnsupportedError
from zyx_backend_vulkan.render_code import parts_of
from zyx_backend_vulkan.spirv_table import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.kernel import data as k
    from zyx.kernel.data import ValueId
    from zyx_backend_vulkan.render_code import Code
    from zyx_backend_vulkan.render_writer import Writer
    from zyx_backend_vulkan.target import Product

#: SPIR-V's scope of a subgroup.
_SUBGROUP: Final = 3
#: What the matrices of a product are used as: a, b, and c or the result.
USES: Final = ("MatrixAKHR", "MatrixBKHR", "MatrixAccumulatorKHR")


def component_type(m: Code, dtype: DType) -> int:
    """Return the type of the components of matrices of a dtype."""
    if dtype is not dtypes.bfloat16:
        return m.of(dtype)
    m.require("BFloat16CooperativeMatrixKHR")
    return m.type("TypeFloat", dtype.bits, NAMES["FPEncoding"]["BFloat16KHR"])


def matrix_type(m: Code, product: Product, use: str) -> int:
    """Return the type of a matrix of a product: a, b, or c and the result."""
    shape = product.shapes[USES.index(use)]
    component = component_type(m, product.total if use == USES[-1] else product.factor)
    m.require("CooperativeMatrixKHR")
    number = NAMES["CooperativeMatrixUse"][use]
    return m.type("TypeCooperativeMatrixKHR", component, m.word(_SUBGROUP), *map(m.word, shape), m.word(number))


def multiply(w: Writer, i: int, op: k.Wmma) -> None:
    """Multiply a tile of one matrix by one of another, and add it to what a warp has of a third.

    Raises:
        UnsupportedError: The device has no such product, or its threads hold other elements.
    """
    m, dtype = w.m, w.type_of(op.a).dtype
    product = w.target.product(op.dims, dtype)
    if product is None or not product.places:
        rows, columns, depth = op.dims
        raise UnsupportedError(
            f"there is no product {rows} x {columns} x {depth} of {dtype} in which threads hold what Wmma gives them"
        )
    operands = [
        _made(w, product, value, use, places)
        for value, use, places in zip((op.a, op.b, op.c), USES, product.places, strict=True)
    ]
    use, places = USES[-1], product.places[-1]
    found = m.value("CooperativeMatrixMulAddKHR", matrix_type(m, product, use), *operands)
    w.matrices[w.block, i, use] = found
    scalar = m.of(op.type.dtype)
    w.values[i] = w.joined([m.value("CompositeExtract", scalar, found, place) for place in places], op.type)


def _made(w: Writer, product: Product, value: ValueId, use: str, places: Sequence[int]) -> int:
    """Return the matrix of what each thread holds of it."""
    key = w.block, value, use
    found = w.matrices.get(key)
    if found is None:
        m, type_ = w.m, matrix_type(w.m, product, use)
        component = component_type(m, w.type_of(value).dtype)
        found = m.constant_of("ConstantComposite", type_, m.constant(component, 0))
        for lane, place in zip(_lanes(w, value, component), places, strict=True):
            found = m.value("CompositeInsert", type_, lane, found, place)
        w.matrices[key] = found
    return found


def _lanes(w: Writer, value: ValueId, component: int) -> list[int]:
    """Return the lanes of a value as components; bfloat16 is held as bits elsewhere."""
    m, type_ = w.m, w.type_of(value)
    if component == m.of(type_.dtype):
        return [w.scalar(value, lane) for lane in range(type_.lanes)]
    found = []
    for part, count in zip(w.values[value], parts_of(type_.lanes), strict=True):
        vector = m.value("Bitcast", component if count == 1 else m.type("TypeVector", component, count), part)
        found += (
            [vector] if count == 1 else [m.value("CompositeExtract", component, vector, lane) for lane in range(count)]
        )
    return found
