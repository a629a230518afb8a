"""Arithmetic of two operands; and the operators that stand for functions of them.

Operands broadcast and are promoted, see `zyx.functions.operands`. Each function takes tensors, NumPy arrays and
numbers, at least one tensor among them. Integer division and remainder follow Python's signs; by zero both give 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import ref

from zyx import dtype as dtypes
from zyx.errors import DTypeError
from zyx.functions.formulas import copy_sign, is_finite
from zyx.functions.ingest import with_arrays
from zyx.functions.operands import (
    OPERANDS,
    REALS,
    align,
    is_operand,
    is_tensor,
    require,
    require_real,
    term_of,
    wrap,
)
from zyx.functions.term import broadcast_shapes, expand_to
from zyx.graph.node import Binary
from zyx.ops import BinaryOp
from zyx.runtime.handle import MAX_DEPTH, Handle

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.functions import Tensor
    from zyx.functions.operands import Operand
    from zyx.functions.term import Term

__all__ = ["add", "divide", "floor_divide", "fmod", "maximum", "minimum", "multiply", "pow", "remainder", "subtract"]

_new: Final = object.__new__
_BOOL: Final = dtypes.bool_
#: Up to this exponent a whole power of a complex number is a product, as it is in NumPy.
_MOST_FACTORS: Final = 100
_OF_BOOLS: Final = {BinaryOp.ADD: BinaryOp.OR, BinaryOp.MUL: BinaryOp.AND}
"""What these do to two bools, as in NumPy."""


def operate(op: BinaryOp, x: Operand, y: Operand) -> Tensor:
    """Return `op` of two operands, aligned."""
    # First the common cases, a fraction of the general one: two tensors of one dtype, and a float with a number.
    if isinstance(x, Handle):
        runtime = x.runtime
        first = runtime.current_node(x)
        if isinstance(y, Handle):
            second = y.runtime.current_node(y)
            if first.dtype is second.dtype and not first.dtype.is_bool:
                graph = runtime.graph
                if len(first.shape) != len(second.shape) or first.shape != second.shape:
                    shape = broadcast_shapes(first.shape, second.shape)
                    first, second = expand_to(graph, first, shape), expand_to(graph, second, shape)
                return x.like(graph.binary(op, first, second))
        elif first.dtype.is_float and isinstance(y, REALS):
            number = runtime.graph.const(y, first.dtype, first.device, first.shape)
            return x.like(runtime.graph.binary(op, first, number))
    elif isinstance(y, Handle) and isinstance(x, REALS):
        runtime = y.runtime
        second = runtime.current_node(y)
        if second.dtype.is_float:
            number = runtime.graph.const(x, second.dtype, second.device, second.shape)
            return y.like(runtime.graph.binary(op, number, second))
    like, (left, right) = align((x, y), op._value_)  # `value` is two calls
    if left.dtype.is_bool:
        op = _OF_BOOLS.get(op, op)
    return wrap(left.binary(op, right).node, like)


# ---- arithmetic


def add(x: Operand, y: Operand) -> Tensor:
    """Return ``x + y`` in the shape that both broadcast to; of bools, whether either holds.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.add(zyx.Tensor([[1], [2]]), zyx.Tensor([10, 20])).tolist()
    [[11, 21], [12, 22]]
    """
    return operate(BinaryOp.ADD, x, y)


def subtract(x: Operand, y: Operand) -> Tensor:
    """Return ``x - y`` in the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or both are of bools.

    >>> zyx.subtract(zyx.Tensor([5, 7]), 2).tolist()
    [3, 5]
    """
    return operate(BinaryOp.SUB, x, y)


def multiply(x: Operand, y: Operand) -> Tensor:
    """Return ``x * y`` in the shape that both broadcast to; of bools, whether both hold.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or there is no dtype that both fit into.

    >>> zyx.multiply(zyx.Tensor([1.0, 2.0]), 3).tolist()
    [3.0, 6.0]
    """
    return operate(BinaryOp.MUL, x, y)


def divide(x: Operand, y: Operand, rounding_mode: str | None = None) -> Tensor:
    """Return ``x / y`` in the shape that both broadcast to.

    Args:
        x: Dividend.
        y: Divisor.
        rounding_mode: None divides as real numbers do, integers as float32. "floor" and "trunc" round the quotient and
            keep the dtype.

    Raises:
        DTypeError: An unknown rounding mode.

    >>> zyx.divide(zyx.Tensor([1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    match rounding_mode:
        case None:
            if (is_tensor(x) and x.node.dtype.is_inexact) or (is_tensor(y) and y.node.dtype.is_inexact):
                return operate(BinaryOp.DIV, x, y)  # whatever the other is, they meet in a float
            like, (left, right) = align((x, y), "divide", floating=True)
            return wrap((left / right).node, like)
        case "floor":
            return floor_divide(x, y)
        case "trunc":
            like, (left, right) = align((x, y), "divide")
            require_real(left.dtype, "divide with a rounding mode")
            quotient = left / right
            return wrap((quotient.trunc() if quotient.dtype.is_float else quotient).node, like)
        case _:
            raise DTypeError(f'rounding_mode is None, "floor" or "trunc", not {rounding_mode!r}')


def _python_remainder(x: Term, y: Term) -> Term:
    """Return the remainder with the sign of `y`, made of one with the sign of `x`."""
    left = x.modulo(y)
    if x.dtype.is_unsigned:
        return left
    return ((left != 0) & ((left < 0) != (y < 0))).where(left + y, left)


def remainder(x: Operand, y: Operand) -> Tensor:
    """Return ``x % y`` with the sign of `y`, as Python has it. By zero: NaN for floats, 0 for integers.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, both are of bools, or one is complex.

    >>> zyx.remainder(zyx.Tensor([7, -7]), 3).tolist()
    [1, 2]
    """
    like, (left, right) = align((x, y), "remainder")
    require_real(left.dtype, "remainder")
    rest = _python_remainder(left, right)
    if rest.dtype.is_integer:
        return wrap(rest.node, like)
    return wrap((rest == 0).where(copy_sign(rest, right), rest).node, like)


def fmod(x: Operand, y: Operand) -> Tensor:
    """Return the remainder with the sign of `x`, as C has it.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, both are of bools, or one is complex.

    >>> zyx.fmod(zyx.Tensor([7, -7]), 3).tolist()
    [1, -1]
    """
    like, (left, right) = align((x, y), "fmod")
    require_real(left.dtype, "fmod")
    return wrap(left.modulo(right).node, like)


def floor_divide(x: Operand, y: Operand) -> Tensor:
    """Return ``x // y``, rounded down. By zero: infinity or NaN for floats, 0 for integers.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, both are of bools, or one is complex.

    >>> zyx.floor_divide(zyx.Tensor([7, -7]), 2).tolist()
    [3, -4]
    """
    like, (left, right) = align((x, y), "floor_divide")
    require_real(left.dtype, "floor_divide")
    if left.dtype.is_unsigned:
        return wrap((left / right).node, like)
    if left.dtype.is_integer:
        rest = left.modulo(right)
        down = (rest != 0) & ((rest < 0) != (right < 0))
        return wrap(((left / right) - down.cast(left.dtype)).node, like)
    # Subtracting the remainder first makes the division all but exact; the plain quotient may round up to an integer.
    rest = left.modulo(right)
    quotient = (left - rest) / right
    quotient = ((rest != 0) & ((rest < 0) != (right < 0))).where(quotient - 1.0, quotient)
    lower = quotient.floor()
    nearest = (quotient - lower > 0.5).where(lower + 1.0, lower)
    direct = left / right
    nearest = (quotient == 0).where(copy_sign(quotient, direct), nearest)
    return wrap(is_finite(direct).where(nearest, direct).node, like)


def pow(x: Operand, y: Operand) -> Tensor:  # the Array API's name
    """Return ``x ** y``. An integer to a negative power gives the truncated quotient: 0, or 1 and -1 for such a base.

    Whole exponents up to 3 are products, 0.5 is a square root and -1 a reciprocal, when given as Python numbers.

    The result has the shape that both broadcast to.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or both are of bools.

    >>> zyx.pow(zyx.Tensor([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
    if isinstance(x, Handle) and isinstance(y, REALS) and not isinstance(y, bool):
        base = term_of(x, "pow")
        if base.dtype.is_integer and isinstance(y, float):
            base = base.cast(dtypes.float32)
        power: Term | None = None
        if y == 1:
            power = base
        elif y == 2:
            power = base * base
        elif y == 3:
            power = base * base * base
        elif y == 0.5 and base.dtype.is_inexact:
            power = base.sqrt()
        elif y == -1 and base.dtype.is_inexact:
            power = base.reciprocal()
        elif base.dtype.is_complex and y == int(y) and 0 <= abs(y) <= _MOST_FACTORS:
            power = _whole_power(base, int(y))
        if power is not None and not base.dtype.is_bool:
            return wrap(power.node, require(x, "pow"))
    return operate(BinaryOp.POW, x, y)


def _whole_power(base: Term, exponent: int) -> Term:
    """Return a whole power by squaring, which is closer than by logarithms."""
    if exponent < 0:
        return _whole_power(base, -exponent).reciprocal()
    result: Term | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        base = base * base if exponent else base
    return base.like(1.0) if result is None else result


def maximum(x: Operand, y: Operand) -> Tensor:
    """Return the greater of each two elements; NaN if either is NaN.

    Equal tensors have half of the gradient each; where one of the two is a number, the tensor has none, as of `relu`.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.maximum(zyx.Tensor([1, 5]), zyx.Tensor([4, 2])).tolist()
    [4, 5]
    """
    return operate(BinaryOp.MAX, x, y)


def minimum(x: Operand, y: Operand) -> Tensor:
    """Return the lesser of each two elements; NaN if either is NaN. Gradients are those of `maximum`.

    Raises:
        ShapeError: The shapes do not broadcast.
        DTypeError: Neither is a tensor, or one is complex.

    >>> zyx.minimum(zyx.Tensor([1, 5]), zyx.Tensor([4, 2])).tolist()
    [1, 2]
    """
    return operate(BinaryOp.MIN, x, y)


# ---- operators


def operator(op: BinaryOp) -> Callable[[Tensor, Operand], Tensor]:
    """Return the method that stands for the operator of `op`, which gives the dtype that it is given, but of bools."""

    def apply(x: Tensor, y: Operand) -> Tensor:
        # The common case, without a call: what `operate` does with two tensors of one kind, by `Runtime.current_node`,
        # `LiveGraph.binary` and `Handle.like`. Their calls would take as long as all the rest.
        if type(y) is type(x) or isinstance(y, Handle):
            runtime = x.runtime
            first, second = x._node, y._node
            shape, dtype, device = first.shape, first.dtype, first.device
            if (
                len(shape) == len(second.shape)
                and shape == second.shape
                and dtype is second.dtype
                and dtype is not _BOOL
                and device == second.device
                and not (
                    (first.storage is not None and first.sources) or (second.storage is not None and second.sources)
                )
                and (first.reader is None or first.reader() is None)
                and x.tracing is None
                and y.tracing is None
                and not (runtime.traces or runtime.observers.references)
            ):
                depth = first.depth if first.depth > second.depth else second.depth
                if depth < MAX_DEPTH:
                    node: Binary = _new(Binary)
                    node.shape = shape
                    node.dtype = dtype
                    node.device = device
                    node.sources = (first, second)
                    node.op = op
                    node.depth = depth + 1
                    node.storage = node.reader = None
                    first.reader = ref(node)
                    result: Tensor = _new(x.result_class)  # type: ignore[assignment]  # as of all tensors
                    result._node = node
                    result.runtime = runtime
                    result.tracing = None
                    return result
        elif not isinstance(y, OPERANDS):
            return NotImplemented  # Python asks the other operand
        return operate(op, x, y)

    return apply


def forward(function: Callable[[Operand, Operand], Tensor]) -> Callable[[Tensor, Operand], Tensor]:
    """Return the method of an operator that `function` computes; it leaves other classes to their own operator."""

    def apply(x: Tensor, y: Operand) -> Tensor:
        return function(x, y) if isinstance(y, OPERANDS) else NotImplemented

    return apply


def quotients_and_remainders(x: Tensor, y: Operand) -> tuple[Tensor, Tensor]:
    """Return what Python's ``divmod`` does; it leaves other classes to their own operator."""
    return (floor_divide(x, y), remainder(x, y)) if isinstance(y, OPERANDS) else NotImplemented


def comparison(function: Callable[[Operand, Operand], Tensor]) -> Callable[[Tensor, object], Tensor]:
    """Return the method of ``==`` or ``!=``, which compares with lists, too: they would be unequal without a word."""

    def apply(x: Tensor, y: object) -> Tensor:
        other = with_arrays((x, y), "a comparison")[1] if isinstance(y, list | tuple) else y
        return function(x, other) if is_operand(other) else NotImplemented

    return apply


def reflected(function: Callable[[Operand, Operand], Tensor]) -> Callable[[Tensor, Operand], Tensor]:
    """Return the method of an operator whose left operand is no tensor."""

    def apply(x: Tensor, y: Operand) -> Tensor:
        return function(y, x) if isinstance(y, OPERANDS) else NotImplemented

    return apply
