"""Sizes of tensors that vary from call to call: what stands in for them while a function is traced for many lengths.

    @zyx.jit
    def centred(x): return x - x.sum(0) / x.shape[0]        of x[n, 3]: kernels are given n

A size is a polynomial in the length n, or in two lengths. It computes with ints and other sizes by ``+ - *``, and by
``// %`` where that leaves a rest that is known; with floats it computes as numbers do (`zyx.jit.numbers`). How it
compares to others is answered as of the length that the function is traced at, and narrows the lengths that the trace
is for:

    n == 1              no, at n = 20: the trace is not for n = 1
    n <= 512            yes: it is for no n above 512
    range(n), n // 2    the number itself is wanted: the trace is for no other n, and made anew with that

Whatever looks at a size in a way that is not known here gets the number itself, so none of it is overlooked.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import TYPE_CHECKING, Any, Final

from zyx.jit.numbers import StandIn
from zyx.runtime.handle import Handle
from zyx.runtime.tracing import function_called, place_outside
from zyx.shape import VaryingSize, sizes_called
from zyx.specialise.length import Length
from zyx.specialise.lengths import LEAST_BOUND

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zyx.dtype import DType
    from zyx.graph import Graph, Node
    from zyx.jit.numbers import Numbers
    from zyx.shape import Shape
    from zyx.specialise.length import Product

#: The place of the lengths among the numbers of a call: behind all others, as one.
_PLACE: Final = -1


class Extent:
    """The lengths that a trace is for.

    Attributes:
        lengths: Those that it is made at.
        numbers: What else varies.
        is_traced: Whether the trace is being made. Sizes that outlive it, in objects that the function changes, compute
            as the ints that they were.
        place: The line of the program where a size was looked at, if one was, and the function of ours that did.
        most: The greatest lengths there are, if it was declared what varies; None of those that have none.
        least: The smallest greatest length of each that plans are for.
        finer: How many times more each would have to count for what was divided to have a rest that is known.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        numbers: Numbers,
        most: Sequence[int | None] = (),
        least: Sequence[int] = (),
    ) -> None:
        self.most: Final = most
        self.least: Final = least or [LEAST_BOUND] * len(lengths)
        self.finer = [1] * len(lengths)
        self.lengths = tuple(lengths)
        self.numbers: Final = numbers
        self.is_traced = True
        self.place = ""
        self._low, self._high = [0] * len(lengths), [sys.maxsize] * len(lengths)
        self._excluded: set[tuple[int, int]] = set()
        self._others: dict[tuple[Length, str], bool] = {}
        self._given: dict[Length, StandIn] = {}

    def __contains__(self, lengths: tuple[int, ...]) -> bool:
        for number, length in enumerate(lengths):
            if not self._low[number] <= length <= self._high[number] or (number, length) in self._excluded:
                return False
        return not self._others or self._has_others(lengths)

    def _has_others(self, lengths: tuple[int, ...]) -> bool:
        return all(_holds(relation, size.at(*lengths)) is outcome for (size, relation), outcome in self._others.items())

    def made(self, size: Length) -> Any:  # noqa: ANN401  # an int, to all who use it
        """Return what stands in for a size; an int if it does not vary."""
        return TracedSize(self, size) if size.varies and self.is_traced else size.at(*self.lengths)

    def look(self) -> None:
        """Note that the trace is for these lengths alone."""
        if self.is_traced and not self.place:
            called = function_called()
            self.place = place_outside() + (f", in {called}," if called else "")
        self.numbers.looked_at |= {_PLACE}

    def divided(self, size: Length, by: object) -> None:
        """Note that a size was divided by a number, and what is left is not known."""
        divisor = size_of(by)
        if divisor is None or divisor.varies or divisor.at() <= 1:
            return
        for product, factor in size.terms.items():
            if product:
                number = product[0]
                self.finer[number] = math.lcm(self.finer[number], divisor.at() // math.gcd(divisor.at(), factor))

    def number(self, size: Length) -> StandIn:
        """Return what stands in for a size where it is no size, but a number."""
        found = self._given.get(size)
        if found is None:

            def formula(values: Sequence[Any]) -> int:
                return size.at(*values[_PLACE])

            value = size.at(*self.lengths)
            found = self._given[size] = StandIn(self.numbers, value, frozenset((_PLACE,)), formula)
        return found

    def compare(self, size: Length, relation: str) -> bool:
        """Return whether a size is 0, or below 0, and keep to the lengths at which that is so as it is now."""
        outcome = _holds(relation, size.at(*self.lengths))
        if not self.is_traced:
            return outcome
        offset = size.terms.get((), 0)
        products = [product for product in size.terms if product]
        if len(products) > 1 or len(products[0]) > 1:
            self._others[size, relation] = outcome
            return outcome
        (number,) = products[0]
        factor = size.terms[products[0]]
        if relation == "== 0":
            if outcome:
                self.look()
            elif not offset % factor:
                self._excluded.add((number, -offset // factor))
        elif (factor > 0) is outcome:
            most = -(offset // factor) - 1 if outcome else offset // -factor
            self._high[number] = min(self._high[number], most)
        else:
            least = offset // -factor + 1 if outcome else -(offset // factor)
            self._low[number] = max(self._low[number], least)
        return outcome


def _holds(relation: str, value: int) -> bool:
    return value == 0 if relation == "== 0" else value < 0


class TracedSize(VaryingSize):
    """Stands in for a size; see the module. To ``isinstance`` it is an int.

    Attributes:
        size: The size.
    """

    __slots__ = ("_extent", "_shape", "size")

    def __init__(self, extent: Extent, size: Length) -> None:
        self._extent = extent
        self.size = size
        self._shape: Shape | None = None

    def of_shape(self, shape: Shape) -> TracedSize:
        found = TracedSize(self._extent, self.size)
        found._shape = shape
        return found

    def __call__(self, dim: int | None = None) -> Shape | int:
        """Return the sizes that it is the product of, if it is one of a tensor."""
        if self._shape is None:
            raise TypeError("'int' object is not callable")  # as all other sizes are
        return sizes_called(self._shape, dim)

    def look(self) -> int:
        """Return the number of this call; the trace is for no other length from now on."""
        self._extent.look()
        return self.size.at(*self._extent.lengths)

    def now(self) -> int:
        return self if self._extent.is_traced else self.look()  # type: ignore[return-value]  # an int to all who use it

    def as_number(self) -> StandIn:
        return self._extent.number(self.size)

    def as_constant(self, graph: Graph, dtype: DType, device: str, shape: Shape) -> Node:
        """Return a node that is this number; see `Graph.const`."""
        if not self._extent.is_traced:
            return graph.const(self.look(), dtype, device, shape)
        return self.as_number().as_constant(graph, dtype, device, shape)

    #: As other proxies have it: what asks ``isinstance`` goes the way that it goes untraced.
    __class__ = property(lambda self: int)

    def __add__(self, other: Any) -> Any:  # noqa: ANN401  # what numbers take
        theirs = size_of(other)
        if theirs is None:
            return self._as_number(operator.add, other, is_left=True)
        return self._extent.made(self.size + theirs)

    def __sub__(self, other: Any) -> Any:  # noqa: ANN401
        theirs = size_of(other)
        if theirs is None:
            return self._as_number(operator.sub, other, is_left=True)
        return self._extent.made(self.size + -theirs)

    def __rsub__(self, other: Any) -> Any:  # noqa: ANN401
        theirs = size_of(other)
        if theirs is None:
            return self._as_number(operator.sub, other, is_left=False)
        return self._extent.made(theirs + -self.size)

    def __mul__(self, other: Any) -> Any:  # noqa: ANN401
        theirs = size_of(other)
        if theirs is None:
            return self._as_number(operator.mul, other, is_left=True)
        return self._extent.made(self.size * theirs)

    def __radd__(self, other: Any) -> Any:  # noqa: ANN401
        return self + other if size_of(other) is not None else self._as_number(operator.add, other, is_left=False)

    def __rmul__(self, other: Any) -> Any:  # noqa: ANN401
        return self * other if size_of(other) is not None else self._as_number(operator.mul, other, is_left=False)

    def __truediv__(self, other: Any) -> Any:  # noqa: ANN401
        return self._as_number(operator.truediv, other, is_left=True)

    def __rtruediv__(self, other: Any) -> Any:  # noqa: ANN401
        return self._as_number(operator.truediv, other, is_left=False)

    def __divmod__(self, other: Any) -> Any:  # noqa: ANN401
        theirs = size_of(other)
        found = None if theirs is None else _quotient(self.size, theirs)
        if found is None or not other:  # the second says that it is not 0
            self._extent.divided(self.size, other)
            return divmod(self.look(), other.look() if isinstance(other, VaryingSize) else other)
        return self._extent.made(found[0]), found[1]

    def __floordiv__(self, other: Any) -> Any:  # noqa: ANN401
        return NotImplemented if isinstance(other, Handle) else divmod(self, other)[0]

    def __mod__(self, other: Any) -> Any:  # noqa: ANN401
        return NotImplemented if isinstance(other, Handle) else divmod(self, other)[1]

    def __neg__(self) -> Any:  # noqa: ANN401
        return self._extent.made(-self.size)

    def __pos__(self) -> TracedSize:
        return self

    def __abs__(self) -> Any:  # noqa: ANN401
        return -self if self < 0 else self

    def __pow__(self, other: Any, *modulus: Any) -> Any:  # noqa: ANN401
        if type(other) is int and 0 < other <= 4 and not modulus:
            return self if other == 1 else self * self ** (other - 1)
        return NotImplemented if isinstance(other, Handle) else pow(self.look(), other, *modulus)

    def __bool__(self) -> bool:
        return not self._extent.compare(self.size, "== 0")

    def __eq__(self, other: object) -> bool:
        theirs = size_of(other)
        if theirs is None:
            return NotImplemented if isinstance(other, Handle) else bool(self.look() == _looked(other))
        difference = self._extent.made(self.size + -theirs)
        return not difference

    def __ne__(self, other: object) -> bool:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    def __lt__(self, other: object) -> bool:
        return self._is_below(other, operator.lt, 0)

    def __le__(self, other: object) -> bool:
        return self._is_below(other, operator.le, 1)

    def __gt__(self, other: object) -> bool:
        return self._is_below(other, operator.gt, 1)

    def __ge__(self, other: object) -> bool:
        return self._is_below(other, operator.ge, 0)

    def _is_below(self, other: object, op: Callable[[Any, Any], bool], more: int) -> bool:
        """Return what ``op``, a comparison, gives; `more` is 1 where it is that of ``<=``, or its negation."""
        theirs = size_of(int(other) if type(other) is float and other.is_integer() else other)
        if theirs is None:
            return NotImplemented if isinstance(other, Handle) else op(self.look(), _looked(other))
        difference = self._extent.made(self.size + -theirs)
        if not isinstance(difference, VaryingSize):
            return op(difference, 0)
        is_below = self._extent.compare(difference.size + Length(0, -more), "< 0")  # type: ignore[attr-defined]
        return is_below if op is operator.lt or op is operator.le else not is_below

    @property
    def key(self) -> Hashable:
        return id(self._extent), self.size

    def __hash__(self) -> int:
        """Whoever looks something up does so by the number; nodes are known by `key`."""
        return hash(self.look())

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever ints have
        getattr(int, name)  # or there is no such attribute
        return getattr(self.look(), name)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # NumPy's protocol
        import numpy as np

        return np.array(self.look(), *args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401  # copied and pickled as the number that it is
        return int, (self.look(),)

    def _as_number(self, op: Callable[[Any, Any], Any], other: object, *, is_left: bool) -> object:
        if isinstance(other, Handle):
            return NotImplemented  # the tensor does it
        return self.as_number().combined(op, other, is_left=is_left)


def _quotient(size: Length, by: Length) -> tuple[Length, int] | None:
    """Return the quotient and the rest of two sizes, if these are known whatever the lengths."""
    if len(by.terms) != 1:
        return _exact_quotient(size, by) if by.terms else None
    ((divisor, factor),) = by.terms.items()
    found: dict[Product, int] = {}
    for product, term in size.terms.items():
        left = _without(product, divisor)
        if left is None or (product and term % factor) or (divisor and term % factor):
            return None
        found[left] = term // factor
    return Length.of(found), 0 if divisor else size.terms.get((), 0) % factor


def _exact_quotient(size: Length, by: Length) -> tuple[Length, int] | None:
    """Return the quotient, and 0, of sizes of more than one term that have no rest; None of others."""
    greatest = max(by.terms, key=_degree)
    quotient = Length(0, 0)
    while size.terms:
        product = max(size.terms, key=_degree)
        left = _without(product, greatest)
        if left is None or size.terms[product] % by.terms[greatest]:
            return None
        part = Length.of({left: size.terms[product] // by.terms[greatest]})
        quotient, size = quotient + part, size + -(part * by)
    return quotient, 0


def _degree(product: Product) -> tuple[int, tuple[int, ...]]:
    """Return what orders products so that the greatest of two factors are the greatest of what they make."""
    return len(product), tuple([-number for number in product])


def _without(product: Product, divisor: Product) -> Product | None:
    """Return what is left of a product without the lengths of another one; None if they are not all in it."""
    left = [*product]
    for number in divisor:
        if number not in left:
            return None
        left.remove(number)
    return tuple(left)


def size_of(value: object) -> Length | None:
    """Return a size or an int as a polynomial, None for all else."""
    kind = type(value)
    if issubclass(kind, int):
        return Length(0, int(value))  # type: ignore[call-overload]  # it is one
    return value.size if kind is TracedSize else None  # type: ignore[attr-defined]


def _looked(value: Any) -> Any:  # noqa: ANN401  # whatever it is compared with
    return value.look() if type(value) is StandIn else value


def _looking(name: str) -> Callable[..., object]:
    def method(self: TracedSize, *args: object) -> object:
        others = [arg.look() if isinstance(arg, VaryingSize) else arg for arg in args]
        found: object = getattr(int, name)(self.look(), *others)
        return found

    return method


for _name in (
    "rfloordiv", "rmod", "rdivmod", "rpow", "int", "float", "index", "repr", "str", "format", "round", "trunc",
    "floor", "ceil", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift", "invert",
):  # fmt: skip
    setattr(TracedSize, f"__{_name}__", _looking(f"__{_name}__"))
