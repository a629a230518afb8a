"""What is asked of all sums of products: how their results are stored, and in which dtypes they are added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zyx.dtype import bfloat16, float16, float32
from zyx.nest import expr as e

if TYPE_CHECKING:
    from zyx.dtype import DType
    from zyx.nest.data import Store
    from zyx.schedule.contraction import Contraction


def is_stored(found: Contraction, store: Store) -> bool:
    """Whether the results are stored as they are, everywhere."""
    result = store.expr.x if isinstance(store.expr, e.Convert) else store.expr
    is_whole = isinstance(result, e.Ref) and result.value is found.statement.value and store.mask is None
    return is_whole and store.combine is None


def has_library_types(found: Contraction, store: Store) -> bool:
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
