"""Which arrays of a kernel are to be made of vectors, where a pointer to a number is none to its neighbours.

In WGSL:

    var<storage, read> p0: array<vec4<f32>>;       let w5 = p0[u32(v4) / 4u];       let v5_0 = w5.x;

A thread loads or stores a vector of such an array at once. One number of a vector can be read too; but to write one may
be to write all of it, also what other threads write. So an array is made of vectors where all that is written to it are
whole ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zyx.kernel import data as k
from zyx.kernel.data import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.kernel.data import Kernel, ValueId

#: Numbers in a vector, of so many bits each.
LANES: Final = 4
_BITS: Final = 32


def vector_arrays(kernel: Kernel, multiples: Sequence[int]) -> frozenset[ValueId]:
    """Return the arrays in global and local memory of which vectors are accessed, and written whole if at all.

    Args:
        kernel: The kernel.
        multiples: For each operation, a number that divides its result.
    """
    found: set[ValueId] = set()
    excluded: set[ValueId] = set()
    for op in kernel.ops:
        match op:
            case k.Load(source=array, index=index, type=type_, mask=mask):
                if mask is None and is_whole(type_.lanes, multiples[index]):
                    found.add(array)
            case k.Store(target=array, index=index, value=value, mask=mask):
                stored = kernel.ops[value]
                assert isinstance(stored, k.Value)
                if mask is None and is_whole(stored.type.lanes, multiples[index]):
                    found.add(array)
                else:
                    excluded.add(array)
            case k.Atomic(target=array):
                excluded.add(array)
            case _:
                pass
    return frozenset(array for array in found - excluded if _has_vectors(kernel, array))


def is_whole(lanes: int, multiple: int) -> bool:
    """Whether so many numbers, from a multiple of `multiple` on, are whole vectors."""
    return lanes % LANES == 0 and multiple % LANES == 0


def _has_vectors(kernel: Kernel, array: ValueId) -> bool:
    define = kernel.ops[array]
    assert isinstance(define, k.Define)
    is_vectors = define.dtype.bits == _BITS and define.length % LANES == 0
    return define.memory is not Memory.REGISTER and define.lanes == 1 and is_vectors
