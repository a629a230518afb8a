"""Numbers that follow lengths, such as the count that a mean divides by: written as their formulas are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from zyx import dtype as dtypes

if TYPE_CHECKING:
    from zyx.io.onnx.export.writer import GraphValue, GraphWriter
    from zyx.jit.numbers import Use

Operand: TypeAlias = "Written | float"


class Written:
    """A number that is written down, int64 or float64: what is computed of it is written, too."""

    def __init__(self, w: GraphWriter, value: GraphValue) -> None:
        self._w = w
        self.value = value

    def _combined(self, kind: str, other: Operand, *, is_left: bool, as_float: bool = False) -> Written:
        if isinstance(other, Written):
            theirs = other.value
        else:
            theirs = self._w.scalar(other, dtypes.float64 if isinstance(other, float) else dtypes.int64)
        dtype = dtypes.float64 if as_float or dtypes.float64 in (theirs.dtype, self.value.dtype) else dtypes.int64
        mine, theirs = self._w.cast(self.value, dtype), self._w.cast(theirs, dtype)
        return Written(self._w, self._w.like(kind, *((mine, theirs) if is_left else (theirs, mine))))

    def __add__(self, other: Operand) -> Written:
        return self._combined("Add", other, is_left=True)

    __radd__ = __add__

    def __mul__(self, other: Operand) -> Written:
        return self._combined("Mul", other, is_left=True)

    __rmul__ = __mul__

    def __sub__(self, other: Operand) -> Written:
        return self._combined("Sub", other, is_left=True)

    def __rsub__(self, other: Operand) -> Written:
        return self._combined("Sub", other, is_left=False)

    def __truediv__(self, other: Operand) -> Written:
        return self._combined("Div", other, is_left=True, as_float=True)

    def __rtruediv__(self, other: Operand) -> Written:
        return self._combined("Div", other, is_left=False, as_float=True)

    def __neg__(self) -> Written:
        return Written(self._w, self._w.like("Neg", self.value))

    def _is_within(self, bound: object) -> bool:
        """Return True: a size is compared with the bounds of a dtype only, within which lengths keep it."""
        return True

    __le__ = __ge__ = _is_within


def write_use(w: GraphWriter, use: Use) -> GraphValue:
    """Write the number that a leaf stands for.

    Raises:
        TypeError: Its formula computes what is not known here.
    """
    lengths: Any = [Written(w, w.length(number)) for number in range(len(w.shared.lengths))]
    found: Any = use.formula([lengths])
    if not isinstance(found, Written):
        return w.scalar(found, use.leaf.dtype)
    return w.cast(found.value, use.leaf.dtype)
