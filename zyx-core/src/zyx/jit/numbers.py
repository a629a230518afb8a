"""Python numbers among the arguments of a traced function: kernels are given them, as long as only tensors meet them.

    @zyx.jit
    def step(x, rate): return x - rate * x.sin()        one trace for all rates from the second one on

While the function is traced, something stands in for such a number. It computes with tensors, whose graph then has a
number to be given in place of a constant, and with other numbers by ``+ - * /``. Whatever else is asked of it (which
is larger? is it 0? what is it as text, as an index, as the number that it is?) it answers as the number of this call,
and notes that it was *looked at*: the trace depends on its value then, and is made anew with the number itself.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zyx.graph.given import Number
from zyx.runtime.handle import Handle
from zyx.shape import VaryingSize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.shape import Shape


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
    """

    def __init__(self, looked_at: frozenset[int]) -> None:
        self.looked_at = looked_at
        self.uses: list[Use] = []
        self._expected: Final = looked_at
        self._place = 0

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
        if place in self.looked_at:
            return value
        return StandIn(self, value, frozenset((place,)), operator.itemgetter(place))


class StandIn:
    """Stands in for a number; see the module. To ``isinstance`` it is one."""

    __slots__ = ("_formula", "_leaves", "_numbers", "_places", "_value")

    def __init__(
        self,
        numbers: Numbers,
        value: float,
        places: frozenset[int],
        formula: Callable[[Sequence[float]], float],
    ) -> None:
        self._numbers = numbers
        self._value = value
        self._places = places
        self._formula = formula
        self._leaves: dict[tuple[DType, str], Number] = {}

    def as_constant(self, graph: Graph, dtype: DType, device: str, shape: Shape) -> Node:
        """Return a node that is this number, converted to `dtype`, over `shape`; see `Graph.const`."""
        leaf = self._leaves.get((dtype, device))
        if leaf is None:
            leaf = self._leaves[dtype, device] = Number((), dtype, device, ())
            self._numbers.uses.append(Use(leaf, self._formula))
        return graph.expand(graph.reshape(leaf, (1,) * len(shape)), shape)

    def look(self) -> float:
        """Return the number of this call, on which the trace depends from now on."""
        self._numbers.looked_at |= self._places
        return self._value

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
        elif kind is float or kind is int:
            value, places = other, self._places

            def theirs(values: Sequence[float]) -> float:
                return other  # type: ignore[return-value]  # a number

        else:
            return op(self.look(), other) if is_left else op(other, self.look())
        left, right = (mine, theirs) if is_left else (theirs, mine)
        result = op(self._value, value) if is_left else op(value, self._value)
        return StandIn(self._numbers, result, places, lambda values: op(left(values), right(values)))

    __class__ = property(lambda self: type(self._value))  # as other proxies have it

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever numbers have
        return getattr(self.look(), name)

    def __neg__(self) -> StandIn:
        formula = self._formula
        return StandIn(self._numbers, -self._value, self._places, lambda values: -formula(values))

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


for _name in ("add", "sub", "mul", "truediv"):
    _op = getattr(operator, _name)
    setattr(StandIn, f"__{_name}__", _combining(_op, is_left=True))
    setattr(StandIn, f"__r{_name}__", _combining(_op, is_left=False))
_LOOKING: Final = (
    "lt", "le", "gt", "ge", "eq", "ne", "hash", "bool", "int", "float", "complex", "repr", "str", "format", "round",
    "trunc", "floor", "ceil", "abs", "pos", "floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod", "pow", "rpow",
    "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift", "invert",
)  # fmt: skip
for _name in _LOOKING:
    setattr(StandIn, f"__{_name}__", _looking(f"__{_name}__"))


def _index(self: StandIn) -> int:
    """Floats are no indices, and say so as floats do."""
    return operator.index(self.look())  # type: ignore[arg-type]  # an int, or the error for floats


StandIn.__index__ = _index  # type: ignore[attr-defined]
