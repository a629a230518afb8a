"""What a vendor's library is taken for: products apart from what follows them, and those that suit threads better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.dtype import float32
from zyx.fusion.materialise import contraction_operands
from zyx.graph import node as n
from zyx.schedule.seeds.skinny_products import FEW_ROWS
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.backend.library import Gemm
    from zyx.fusion.partition import KernelPart
    from zyx.graph.node import Node

#: Of 16-bit factors, libraries copy so much of a sum at a time, of so many rows, in pieces of so many bytes; so many
#: neighbouring columns keep the threads of a group busy.
_DEPTH_AT_A_TIME: Final = 32
_ROWS_AT_A_TIME: Final = 16
_PIECE_BYTES: Final = 16
_COLUMNS_OF_A_GROUP: Final = 128
#: Of batches, groups of libraries compute a tile of at least so many rows and columns each, whatever there is of it.
_TILE_OF_A_BATCH: Final = 64
#: Of batches of few rows, up to so many columns in all are few: of 192 and 6,144 measured on an H100, in between.
_FEW_COLUMNS: Final = 1024
#: What follows a product goes over its elements once more if the product is a library's. That takes less time than the
#: library saves if each element is a sum of so many products, and if there are so many of these in all. In
#: batches of few rows, shorter sums are short: of 64 and 1,024 products measured (`suits_threads`), in between.
_LEAST_DEPTH: Final = 256
_LEAST_WORK: Final = 1 << 27


def product_in(part: KernelPart) -> Node | None:
    """Return the large product of matrices in `part`, which a library may compute apart from its epilogue.

    It is the node after which the sums are of the dtype that they are rounded to, if nothing needs them before.
    """
    computed = [node for node in part.region.views if node not in part.region.inputs]
    product = next((node for node in computed if contraction_operands(node) is not None), None)
    if product is None:
        return None
    work, elements = size_of(product.sources[0].shape), size_of(product.shape)
    if work < _LEAST_WORK or work < _LEAST_DEPTH * elements:
        return None
    last: Node = product
    while not isinstance(last, n.Cast):
        users = [node for node in computed if last in node.sources]
        if len(users) != 1 or not isinstance(users[0], n.Cast | n.Reshape):
            return product
        last = users[0]
    return last if last.dtype.bits < product.dtype.bits else product


def suits_threads(problem: Gemm) -> bool:
    """Whether a product is expected to take less time by a generated kernel than by a library's that nobody measured.

    Such products take as long as their bytes: a library's kernels of 16-bit factors, made for tensor cores, spend most
    of their time on what is missing to whole tiles, and load rows piece by piece which do not begin at whole pieces. On
    an H200 they take 8 times as long as the bytes of 63 products bf16[11, 211] @ bf16[211, 8000]. Batches of small
    products have a group for each: 404,871 of f32[12, 5] @ f32[5, 5] take 0.79 ms, and 0.10 ms by a generated kernel.
    Where rows are few and columns lines of float32, threads that share a line read it once for all rows: f32[3, 8192] @
    f32[8192, 8192].T takes 115 us, and 68 us by a generated kernel; 96 products f32[3, 64] @ f32[512, 64].T 13.6 and
    6.1 us. Few columns leave most of a GPU idle: 3 products f32[3, 512] @ f32[512, 64] take 11.3 and 2.3 us.
    """
    if problem.batch > 1 and max(problem.m, problem.n, problem.k) <= _TILE_OF_A_BATCH:
        return True
    if problem.dtype is float32 and problem.m <= FEW_ROWS and problem.transpose_b and problem.batch == 1:
        return problem.n >= _COLUMNS_OF_A_GROUP
    if problem.dtype is float32 and problem.m <= FEW_ROWS and problem.batch > 1:
        return problem.k <= _LEAST_DEPTH if problem.transpose_b else problem.batch * problem.n <= _FEW_COLUMNS
    if problem.dtype.bits != 16:
        return False
    if problem.k < _DEPTH_AT_A_TIME:
        return True
    rows = (
        problem.m if problem.transpose_a else problem.k,
        problem.k if problem.transpose_b else problem.n,
        problem.n,
    )
    is_whole = all(length * problem.dtype.itemsize % _PIECE_BYTES == 0 for length in rows)
    is_wide = problem.n >= _COLUMNS_OF_A_GROUP and (not problem.transpose_b or problem.m <= FEW_ROWS)
    return problem.m < _ROWS_AT_A_TIME and is_wide and not is_whole
