"""Recognise nests that a vendor's library computes in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.backend.library import Gemm
from zyx.dtype import bfloat16, float16, float32
from zyx.fusion.materialise import contraction_operands
from zyx.graph import node as n
from zyx.ir import expr as e
from zyx.ir.accesses import stride_along
from zyx.ir.nest import Store
from zyx.schedule.contraction import find_contraction
from zyx.schedule.plan import Plan, simplify_ranges
from zyx.schedule.seeds.few_rows import FEW_ROWS
from zyx.shape import size_of

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.fusion.partition import Part
    from zyx.graph.node import Node
    from zyx.ir.expr import Param, Range
    from zyx.ir.nest import Nest
    from zyx.schedule.contraction import Contraction, Sides

#: Of 16-bit factors, libraries copy so much of a sum at a time, of so many rows, in pieces of so many bytes; so many
#: neighbouring columns keep the threads of a group busy.
_DEPTH_AT_A_TIME: Final = 32
_ROWS_AT_A_TIME: Final = 16
_PIECE_BYTES: Final = 16
_COLUMNS_OF_A_GROUP: Final = 128
#: Of batches, groups of libraries compute a tile of at least so many rows and columns each, whatever there is of it.
_TILE_OF_A_BATCH: Final = 64
#: What follows a product goes over its elements once more if the product is a library's. That takes less time than the
#: library saves if each element is a sum of so many products, and if there are so many of these in all.
_LEAST_DEPTH: Final = 256
_LEAST_WORK: Final = 1 << 27


def product_in(part: Part) -> Node | None:
    """Return the product of matrices that `part` computes along with what follows it, if it is a large one.

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
    of their time on what is missing to whole tiles, and load rows piece by piece which do not begin at whole pieces.
    On an H200 they take 4 times as long as the bytes of bf16[4954, 3] @ bf16[3, 8000], and 8 times as long as those of
    63 products bf16[11, 211] @ bf16[211, 8000]. Batches of small products take longer still: a group for each.
    On an H200, 404,871 products f32[12, 5] @ f32[5, 5] take 0.79 ms, and 0.10 ms by a generated kernel; 5,000 of
    f32[64, 64] take 0.102 and 0.085 ms. Where rows are few and columns lines of float32, threads that share a line read
    it once for all rows: f32[3, 8192] @ f32[8192, 8192].T takes 115 us, and 68 us by a generated kernel.
    """
    if problem.batch > 1 and max(problem.m, problem.n, problem.k) <= _TILE_OF_A_BATCH:
        return True
    if problem.dtype is float32 and problem.m <= FEW_ROWS and problem.transpose_b and problem.batch == 1:
        return problem.n >= _COLUMNS_OF_A_GROUP
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


def match_gemm(nest: Nest) -> tuple[Gemm, tuple[Param, Param, Param]] | None:
    """Return the product of matrices that `nest` is, with the params of a, b and c, if it is one and nothing more.

    At most one batch axis, operands and result without gaps.
    """
    plan = Plan(nest)
    simplify_ranges(plan)
    nest = plan.nest
    found = find_contraction(nest)
    if found is None or len(found.others) != 1 or len(found.reads) != 2 or len(found.statement.reduced) != 1:
        return None
    (store,), kept = found.others, found.statement.value.ranges
    if not isinstance(store, Store) or not _is_plain(found, store) or not _has_library_types(found, store):
        return None
    for a, b in (found.reads, reversed(found.reads)):
        sides = found.sides(a, b)
        if len(sides.rows) == len(sides.columns) == 1 and len(kept) == 2 + len(sides.batch) <= 3:
            problem = _problem(store, a, b, sides, found.statement.reduced[0])
            if problem is not None:
                return problem, (a.param, b.param, store.param)
    return None


def _is_plain(found: Contraction, store: Store) -> bool:
    """Whether the results are stored as they are, and buffers are read and written everywhere, from their start."""
    result = store.expr.x if isinstance(store.expr, e.Convert) else store.expr
    whole = isinstance(result, e.Ref) and result.value is found.statement.value and store.mask is None
    indices = [store.index, *(read.index for read in found.reads)]
    is_from_start = all(_is_from_start(index) for index in indices)
    return whole and store.combine is None and is_from_start and all(read.mask is None for read in found.reads)


def _is_from_start(index: e.Expr) -> bool:
    """Whether an index begins at 0 at every launch, if its strides are positive, as `_problem` checks.

    Where a launch says where something begins, the least place is 0, too: what no range moves has no stride, and a
    library is given nothing but buffers.
    """
    terms = index.terms if isinstance(index, e.Affine) else ((index, 1),)
    return index.low == 0 and all(term.free for term, _ in terms)


def _has_library_types(found: Contraction, store: Store) -> bool:
    """Whether the products are of the factors as they are stored, both of one dtype, and are added up as `Gemm` says.

    A factor may be stored in another dtype than the one that it has in the graph: rounding that the kernel does itself
    while it reads is not what a library does.
    """
    stored, other = (_stored_dtype(factor) for factor in found.factors)
    added_up = found.statement.value.dtype
    if stored is None or stored is not other or found.is_converted:  # what is rounded before the sum is no library's
        return False
    wanted = float32 if stored in (float16, bfloat16) else stored
    return added_up is wanted and store.param.dtype in (stored, added_up)


def _stored_dtype(factor: e.Expr) -> DType | None:
    """Return the dtype of the buffer whose elements are `factor`, converted at most once and to hold them exactly."""
    read = factor.x if isinstance(factor, e.Convert) else factor
    return read.param.dtype if isinstance(read, e.Read) else None


def _problem(store: Store, a: e.Read, b: e.Read, sides: Sides, k: Range) -> Gemm | None:
    (i,), (j,) = sides.rows, sides.columns
    m, n, size = i.size, j.size, k.size
    group = sides.batch[0] if sides.batch else None

    def strides(index: e.Expr, *ranges: Range | None) -> list[int | None]:
        return [0 if range_ is None else stride_along(index, range_) for range_ in ranges]

    groups = 1 if group is None else group.size
    if strides(store.index, group, i, j) != [m * n if group else 0, n, 1]:
        return None
    straight = [m * size if group else 0, size, 1]
    turned = [m * size if group else 0, 1, m]
    in_a = strides(a.index, group, i, k)
    in_b = strides(b.index, group, k, j)
    b_step = size * n if group else 0
    if in_a not in (straight, turned) or in_b not in ([b_step, n, 1], [b_step, 1, size]):
        return None
    return Gemm(groups, m, n, size, a.param.dtype, store.param.dtype, in_a != straight, in_b != [b_step, n, 1])
