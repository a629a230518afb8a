"""Make functions that return gradients out of functions that return a value."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from zyx.autograd.structure import map_handles
from zyx.autograd.tape import Tape
from zyx.errors import GradientError
from zyx.integers import as_integers, is_several
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

# Any: what users' functions take and return is theirs, and the gradients are structured like their arguments.


def grad(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that takes what `f` takes and returns the gradient of `f` with respect to one argument.

        grad(lambda x: (x * x).sum())(x)    # 2 * x
        grad(grad(f))(x)                    # the second derivative, of a scalar
        grad(lambda z: (abs(z) ** 2).sum())(z)    # 2 * z: of complex numbers dL/dx + i dL/dy, as `Tape.gradient` says

    Args:
        f: Returns a tensor of one element, or with `has_aux` a pair of such a tensor and anything.
        argnums: The positional argument, counted from 0 (or from the end if negative): a tensor, or lists, tuples and
            dicts of tensors. The gradient is structured like it. A tuple of numbers gives a tuple of gradients.
        has_aux: Then the result is ``(gradient, aux)``.

    An argument means this argument alone: the same tensor that reaches `f` in another way, as another argument or from
    outside, counts as constant. To differentiate with respect to tensors that `f` finds by itself, use `Tape`.

    Raises:
        GradientError: When called: no such argument; `f` does not return a tensor; or as `Tape.gradient`.

    >>> zyx.grad(lambda x: (x * x).sum())(zyx.Tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    with_value = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient_of_f(*args: object, **kwargs: object) -> object:
        value, gradient = with_value(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return gradient_of_f


def value_and_grad(
    f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """Return a function that returns ``(value, gradient)``, the value of `f` and what `grad` gives.

    Args:
        f: Returns a tensor of one element, or with `has_aux` a pair of such a tensor and anything.
        argnums: As for `grad`.
        has_aux: Then the result is ``((value, aux), gradient)``.

    Raises:
        GradientError: When called, as for `grad`.

    >>> value, slope = zyx.value_and_grad(lambda x: x**2)(zyx.Tensor(3.0))
    >>> value.item(), slope.item()
    (9.0, 6.0)
    """
    numbers = as_integers(argnums, "argnums")

    @functools.wraps(f)
    def value_and_gradient_of_f(*args: object, **kwargs: object) -> tuple[object, object]:
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"{f!r} was called with {len(args)} positional arguments, so argnums cannot be {number}"
                )
        given = list(args)
        with Tape() as tape:
            for number in numbers:
                given[number] = map_handles(_apart, args[number], f"argument {number}")
            result = f(*given, **kwargs)
            value = _first_of_pair(f, result) if has_aux else result
            if not isinstance(value, Handle):
                raise GradientError(
                    f"{f!r} returned {type(value).__name__}, not a tensor; return (value, aux) with has_aux=True"
                )
        gradients = tape.gradient(value, tuple(given[number] for number in numbers))
        return result, gradients if is_several(argnums) else gradients[0]

    return value_and_gradient_of_f


def _apart(name: str, handle: Handle) -> Handle:
    """Return the same values as a tensor that nothing else has."""
    return type(handle).of(handle.runtime.graph.alias(handle.node), handle.runtime)


def _first_of_pair(f: Callable[..., Any], result: object) -> object:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(f"{f!r} returned {type(result).__name__}; with has_aux=True it returns a pair (value, aux)")
    return result[0]
