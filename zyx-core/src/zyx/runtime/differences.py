"""How results differ from what they are to be, beyond what their types and orders of sums explain."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from zyx.graph import Graph
from zyx.graph import node as n
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, UnaryOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.dtype import DType
    from zyx.shape import Shape

    Array = np.ndarray[Any, Any]

#: How far floats may be off, as a part of their size, by the bits of the type: sums are taken in other orders.
TOLERANCES: Final = {64: 1e-9, 32: 1e-4, 16: 4e-2, 8: 0.25}
#: How many times the error of NumPy in the type itself one may make.
_TIMES: Final = 8
#: What computes floats, and may be off.
_COMPUTED: Final = (n.Unary, n.Binary, n.Reduce, n.Scan, n.Fourier, n.Cast)


class Expected(NamedTuple):
    """What a result is to be.

    Attributes:
        shape: Of the whole.
        dtype: Of its elements.
        kept: The sizes of the part of it in front that is of use.
        plain: The values, flat, computed in the type itself.
        exact: The same, computed in float64; None if that is not known.
        others: Further values that it may have, or lie between: those of floats that are off by as much as they may be
            before they are compared, rounded or made integers.
    """

    shape: Shape
    dtype: DType
    kept: Shape
    plain: Array
    exact: Array | None
    others: tuple[Array, ...] = ()


class Difference(NamedTuple):
    """How a result differs.

    Attributes:
        result: Which of several results, from 0 on.
        wrong: Elements that differ beyond the tolerance.
        size: Elements that were compared.
        position: Where the difference is largest.
        found: The element there.
        wanted: What it is to be.
        largest: The largest difference; NaN if one of the two is.
        tolerance: Of floats, as a part of their size; 0 of what has to be the same.
    """

    result: int
    wrong: int
    size: int
    position: tuple[int, ...]
    found: float
    wanted: float
    largest: float
    tolerance: float

    def __str__(self) -> str:
        beyond = f" by more than {self.tolerance:.2g} of their size" if self.tolerance else ""
        return (
            f"result {self.result} differs in {self.wrong} of {self.size} elements{beyond}, most at "
            f"{list(self.position)}: {self.found:.9g} for {self.wanted:.9g}, off by {self.largest:.3g}"
        )


def first_difference(
    wanted: Sequence[Expected], found: Sequence[Array], tolerance: float | None = None
) -> Difference | None:
    """Return how the first result that differs does; None if all are as wanted.

    An element is as wanted if it is that of `Expected.plain` or `Expected.exact`. Else a float may be off by the
    tolerance as a part of its size, or of the mean size if that is more, and by eight times what NumPy is off in
    its own type.

    Args:
        wanted: What the results are to be.
        found: The results, flat.
        tolerance: Of floats; None for that of their type, see `TOLERANCES`.
    """
    for number, (right, mine) in enumerate(zip(wanted, found, strict=True)):
        difference = _difference(number, right, mine, tolerance)
        if difference is not None:
            return difference
    return None


def _difference(number: int, wanted: Expected, found: Array, tolerance: float | None) -> Difference | None:
    is_float = wanted.dtype.is_float
    mine, plain = (_kept(array, wanted) for array in (found, wanted.plain))
    exact = plain if wanted.exact is None else _kept(wanted.exact, wanted)
    allowed = 0.0
    with np.errstate(all="ignore"):
        if is_float:
            allowed = TOLERANCES[8 * wanted.dtype.itemsize] if tolerance is None else tolerance
            mine, plain, exact = (array.astype(np.float64) for array in (mine, plain, exact))
        wrong = (mine != plain) & (mine != exact)
        if is_float and wrong.any():
            finite = np.abs(exact[np.isfinite(exact)])
            mean = finite.mean() if finite.size else 0.0
            off, own = np.abs(mine - exact), np.abs(plain - exact)
            bound = allowed * np.maximum(np.abs(exact), mean) + _TIMES * np.where(np.isfinite(own), own, 0.0)
            wrong &= ~((off <= bound) & np.isfinite(exact))
            wrong &= ~(np.isnan(mine) & (np.isnan(plain) | np.isnan(exact)))
        if wrong.any() and wanted.others:
            among = [plain, exact, *(_kept(other, wanted) for other in wanted.others)]
            low, high = (functools.reduce(pick, among) for pick in (np.minimum, np.maximum))
            wrong &= ~((low <= mine) & (mine <= high))
        if not wrong.any():
            return None
        off = np.abs(mine.astype(np.float64) - exact.astype(np.float64))
    ranked = np.where(wrong, np.where(np.isnan(off), np.inf, off), -1.0)
    position = np.unravel_index(int(np.argmax(ranked)), mine.shape)
    return Difference(
        number, int(wrong.sum()), wrong.size, tuple(map(int, position)),
        float(mine[position]), float(exact[position]), float(off[position]), allowed,
    )  # fmt: skip


def _kept(array: Array, wanted: Expected) -> Array:
    """Return the part of a result that is of use."""
    return array.reshape(wanted.shape)[tuple(slice(size) for size in wanted.kept)]


def shifted(outputs: Sequence[n.Node], tolerance: float | None = None) -> list[list[n.Node]]:
    """Perturb floats in the graph of `outputs` before discontinuous operations, up and down by their tolerance.

    In one they are larger by what they may be off, in another smaller. Nothing if none of them is computed: what is
    only read is exact.
    """
    order = topological(outputs)
    computed: set[n.Node] = set()
    for node in order:
        if node.dtype.is_float and (isinstance(node, _COMPUTED) or any(source in computed for source in node.sources)):
            computed.add(node)
    turning = {node for node in order if _turns(node) and any(source in computed for source in node.sources)}
    if not turning:
        return []
    found = []
    for sign in (1, -1):
        graph = Graph()
        new: dict[n.Node, n.Node] = {}
        for node in order:
            sources = [new[source] for source in node.sources]
            if node in turning:
                number = next(number for number, source in enumerate(node.sources) if source in computed)
                x = sources[number]
                part = TOLERANCES[8 * x.dtype.itemsize] if tolerance is None else tolerance
                factor = graph.const(1 + sign * part, x.dtype, x.device, x.shape)
                sources[number] = graph.binary(BinaryOp.MUL, x, factor)
            new[node] = rebuild(graph, node, sources) if sources else node
        found.append([new[node] for node in outputs])
    return found


def _turns(node: n.Node) -> bool:
    """Whether a small difference of what a node is given may be a large one of what it gives."""
    match node:
        case n.Binary(op=op):
            return op in (BinaryOp.LT, BinaryOp.LE, BinaryOp.MOD)
        case n.Unary(op=op):
            return op in (UnaryOp.FLOOR, UnaryOp.TRUNC)
        case n.Cast() | n.Bitcast():
            return node.sources[0].dtype.is_float and not node.dtype.is_float
        case _:
            return False
