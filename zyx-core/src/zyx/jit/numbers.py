"""Python numbers among the arguments of a traced function: kernels are given them, as long as only tensors meet them.

    @zyx.jit
    def step(x, rate): return x - rate * x.sin()        one trace for all rates from the second one on

While the function is traced, something stands in for such a number. It computes with tensors, whose graph then has a
number to be given in place of a constant, and with other numbers by ``+ - * / // %``. As an index of a tensor, and as
both ends of a slice of always the same length, it is a place that kernels are given:

    x[i], x[i : i + 3], x[i] = y        one trace for all i that lie within, and an error for others
    x[i : i + 3]                        of an i for which the slice reaches over an end: a trace for that i alone

Whatever else is asked of it (which is larger? is it 0? what is it as text, as the number that it is?) it answers as the
number of this call, and notes that it was *looked at*: the trace depends on its value then, and is made anew with the
number itself.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx import dtype as dtypes
from zyx.dtype import check_fits
from zyx.errors import IndexRangeError
from zyx.graph.given import Number
from zyx.graph.places import VaryingNumber
from zyx.runtime.handle import Handle
from zyx.runtime.tracing import Unfit
from zyx.shape import VaryingSize
from zyx.specialise.length import Length

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.shape import Shape

    Formula = Callable[[Sequence[float]], float]


class Use(NamedTuple):
    """A number that kernels are given.

    Attributes:
        leaf: What stands for it in the graph.
        formula: What it is of the numbers among the arguments.
    """

    leaf: Number
    formula: Callable[[Sequence[float]], float]


class LookedAt(Exception):  # nothing is wrong
    """A trace depends on numbers that it was not to depend on."""


class Numbers:
    """The numbers among the arguments of one trace.

    Attributes:
        looked_at: The places of those, among the floats and ints of the arguments, that the trace depends on.
        uses: What kernels are given of the others.
        sizes: What stands in for those that are sizes, by their places.
    """

    def __init__(self, looked_at: frozenset[int]) -> None:
        self.looked_at = looked_at
        self.sizes: dict[int, object] = {}
        self.uses: list[Use] = []
        self._expected: Final = looked_at
        self._place = 0
        self._places: dict[object, Number] = {}
        self._unknowns: dict[object, int] = {}

    def check(self) -> None:
        """Raise `LookedAt` if more numbers were looked at than was known."""
        if self.looked_at != self._expected:
            raise LookedAt

    def stand_in(self, value: object) -> object:
        """Return what stands in for the next argument, if that is a number and was not looked at before."""
        if type(value) is not float and type(value) is not int:
            return value
        place = self._place
        self._place += 1
        if place in self.sizes:
            return self.sizes[place]
        if place in self.looked_at:
            return value
        polynomial = Length.of({(place,): 1}) if type(value) is int else None
        return StandIn(self, value, frozenset((place,)), operator.itemgetter(place), polynomial)

    def unknown(self, op: object, left: Length, right: Length) -> Length:
        """Return what is no polynomial, a quotient or a rest, as an unknown of its own; the same for equal ones."""
        number = self._unknowns.setdefault((op, left, right), -1 - len(self._unknowns))
        return Length.of({(number,): 1})

    def place(self, key: object, formula: Formula, most: int, device: str) -> Number:
        """Return what kernels are given for a place from 0 to `most`; the same one for an equal key."""
        known = self._places.get((key, most, device))
        if known is None:
            dtype = dtypes.int32 if most <= dtypes.int32.max else dtypes.int64
            known = self._places[key, most, device] = Number((), dtype, device, most=most)
            self.uses.append(Use(known, formula))
        return known


class StandIn(VaryingNumber):
    """Stands in for a number; see the module. To ``isinstance`` it is one."""

    __slots__ = ("_formula", "_leaves", "_numbers", "_places", "_polynomial", "_value")

    def __init__(
        self,
        numbers: Numbers,
        value: float,
        places: frozenset[int],
        formula: Formula,
        polynomial: Length | None = None,
    ) -> None:
        self._numbers = numbers
        self._value = value
        self._places = places
        self._formula = formula
        self._polynomial = polynomial  # of an int: what it is of those among the arguments, to see what it equals
        self._leaves: dict[tuple[DType, str], Number] = {}

    def as_constant(self, graph: Graph, dtype: DType, device: str, shape: Shape) -> Node:
        """Return a node that is this number, converted to `dtype`, over `shape`; see `Graph.const`."""
        leaf = self._leaves.get((dtype, device))
        if leaf is None:
            formula = self._formula
            if dtype.is_integer and type(self._value) is int:

                def fitting(values: Sequence[float]) -> float:
                    value = formula(values)
                    if not dtype.min <= value <= dtype.max:
                        raise Unfit  # the call's own trace has the error, or compares with what is beyond
                    return value

                check_fits(self._value, dtype)
                self._numbers.uses.append(Use(leaf := Number((), dtype, device), fitting))
            else:
                self._numbers.uses.append(Use(leaf := Number((), dtype, device), formula))
            self._leaves[dtype, device] = leaf
        return graph.expand(graph.reshape(leaf, (1,) * len(shape)), shape)

    def look(self) -> float:
        """Return the number of this call, on which the trace depends from now on."""
        self._numbers.looked_at |= self._places
        return self._value

    def place(self, axis: int, size: int, device: str) -> Node:
        formula = self._formula

        def located(values: Sequence[float]) -> int:
            index = int(formula(values))
            if not -size <= index < size:
                raise IndexRangeError(f"index {index} is out of range for axis {axis} of size {size}")
            return index if index >= 0 else index + size

        if isinstance(size, VaryingSize) or not size:
            return operator.index(self)  # type: ignore[return-value]  # looked at; it is an index then
        if not -size <= self._value < size:
            raise IndexRangeError(f"index {self._value} is out of range for axis {axis} of size {size}")
        return self._numbers.place((self._polynomial or formula, size), located, size - 1, device)

    def box(self, stop: object, size: int, device: str) -> tuple[Node, int] | None:
        last = stop._polynomial if type(stop) is StandIn else Length(0, stop) if type(stop) is int else None
        if self._polynomial is None or last is None or isinstance(size, VaryingSize):
            return None
        length = last + -self._polynomial
        start, count = int(self._value), length.terms.get((), 0)
        behind = size if start < 0 else 0  # they count from the end, both of them
        if length.varies or not 0 < count <= size or not -behind <= start <= size - count - behind:
            return None
        if behind and start + count >= 0:
            return None  # the end would count from the front
        formula, most = self._formula, size - count

        def first(values: Sequence[float]) -> int:
            begin = int(formula(values)) + behind
            if not 0 <= begin <= most - bool(behind):
                raise Unfit
            return begin

        return self._numbers.place((self._polynomial, count, size, behind), first, most, device), count

    def combined(self, op: Callable[[Any, Any], Any], other: object, *, is_left: bool) -> object:
        """Return ``self op other``, or ``other op self``."""
        if isinstance(other, Handle):
            return NotImplemented  # the tensor does it
        if isinstance(other, VaryingSize):
            other = other.as_number()
        kind, mine = type(other), self._formula
        if kind is StandIn:
            value, theirs = other._value, other._formula  # type: ignore[attr-defined]  # a stand-in
            places = self._places | other._places  # type: ignore[attr-defined]
            polynomial = other._polynomial  # type: ignore[attr-defined]
        elif kind is float or (issubclass(kind, int) and kind is not bool):
            value, places = other, self._places
            polynomial = None if kind is float else Length(0, int(other))  # type: ignore[call-overload]  # it is one

            def theirs(values: Sequence[float]) -> float:
                return other  # type: ignore[return-value]  # a number

        else:
            return op(self.look(), other) if is_left else op(other, self.look())
        left, right = (mine, theirs) if is_left else (theirs, mine)
        result = op(self._value, value) if is_left else op(value, self._value)
        if self._polynomial is not None and polynomial is not None:
            sides = (self._polynomial, polynomial) if is_left else (polynomial, self._polynomial)
            combine = _OF_POLYNOMIALS.get(op)
            polynomial = combine(*sides) if combine is not None else self._numbers.unknown(op, *sides)
        if type(result) is not int:
            polynomial = None
        return StandIn(self._numbers, result, places, lambda values: op(left(values), right(values)), polynomial)

    __class__ = property(lambda self: type(self._value))  # as other proxies have it

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever numbers have
        getattr(type(self._value), name)  # or there is no such attribute, whatever the number
        return getattr(self.look(), name)

    def __neg__(self) -> StandIn:
        formula = self._formula
        polynomial = None if self._polynomial is None else -self._polynomial
        return StandIn(self._numbers, -self._value, self._places, lambda values: -formula(values), polynomial)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # NumPy's protocol
        import numpy as np

        return np.array(self.look(), *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401  # copied and pickled as the number that it is
        return type(self.look()), (self._value,)


def _combining(op: Callable[[Any, Any], Any], *, is_left: bool) -> Callable[[StandIn, object], object]:
    return lambda self, other: self.combined(op, other, is_left=is_left)


def _looking(name: str) -> Callable[..., object]:
    def method(self: StandIn, *args: object) -> object:
        if any(isinstance(arg, Handle) for arg in args):
            return NotImplemented
        others = [arg.look() if type(arg) is StandIn else arg for arg in args]
        found = getattr(self.look(), name, None)
        return NotImplemented if found is None else found(*others)

    return method


#: What is a polynomial of polynomials.
_OF_POLYNOMIALS: Final[dict[object, Callable[[Length, Length], Length]]] = {
    operator.add: operator.add,
    operator.sub: lambda left, right: left + -right,
    operator.mul: operator.mul,
}
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    _op = getattr(operator, _name)
    setattr(StandIn, f"__{_name}__", _combining(_op, is_left=True))
    setattr(StandIn, f"__r{_name}__", _combining(_op, is_left=False))
_LOOKING: Final = (
    "lt", "le", "gt", "ge", "eq", "ne", "hash", "bool", "int", "float", "complex", "repr", "str", "format", "round",
    "trunc", "floor", "ceil", "abs", "pos", "divmod", "rdivmod", "pow", "rpow",
    "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift", "invert",
)  # fmt: skip
for _name in _LOOKING:
    setattr(StandIn, f"__{_name}__", _looking(f"__{_name}__"))


def _index(self: StandIn) -> int:
    """Floats are no indices, and say so as floats do."""
    return operator.index(self.look())  # type: ignore[arg-type]  # an int, or the error for floats


StandIn.__index__ = _index  # type: ignore[attr-defined]
