"""Derivatives of functions of tensors: products with the Jacobian from both sides, the Jacobian, the Hessian.

    y = f(x),   J[i, j] = dy_i / dx_j       vjp: u -> u @ J        jvp: t -> J @ t

All of them are made of `Tape.gradient`. A product from the right is the gradient of a product from the left: ``u @ J``
is linear in u, and its gradient at u with the upstream t is ``J @ t``, whatever u is. (Known as double backward:
J. Townsend, "A new trick for calculating Jacobian vector products", 2017.)

Arguments and results are tensors, or lists, tuples and dicts of tensors. What is returned are tensors like any others:
derivatives of derivatives are taken by nesting.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx.autograd.structure import handles_of, map_handles
from zyx.autograd.tape import Tape
from zyx.autograd.transform import value_and_grad
from zyx.errors import GradientError
from zyx.functions.arithmetic import add
from zyx.functions.joining import stack
from zyx.integers import as_integers, is_several
from zyx.ops import BinaryOp

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.runtime.handle import Handle

__all__ = ["hessian", "jacobian", "jvp", "vjp"]

# Any: what users' functions take and return is theirs, and derivatives are structured like their arguments.


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:  # noqa: ANN401  # see above
    """Return the result of `f`, and a function of the gradient at it that returns the gradients at `primals`.

        y, pull = zyx.vjp(f, x)
        (gradient,) = pull(u)           u @ J: of x's shape

    Args:
        f: Returns tensors, or with `has_aux` a pair of such and anything.
        primals: What `f` is called with; all are of float or complex dtypes.
        has_aux: Then the result has the second of the pair, too.

    Returns:
        ``(result, pull)`` or ``(result, pull, aux)``. The function may be called any number of times, with what is
        structured like the result and has its shapes, dtypes and devices. It returns a tuple, one part for each of
        `primals`. Of complex numbers gradients are as `Tape.gradient` says.

    Raises:
        GradientError: `f` returns what is no tensor, or no pair with `has_aux`. From the function: what it is given
            does not fit the result, or as `Tape.gradient`.

    >>> value, pull = zyx.vjp(lambda x: x**2, zyx.Tensor(3.0))
    >>> value.item()
    9.0
    """
    with Tape() as tape:
        given = tuple(map_handles(_apart, primal, f"argument {i}") for i, primal in enumerate(primals))
        result = f(*given)
        out, aux = _pair(f, result) if has_aux else (result, None)
        ends = map_handles(_apart, out, f"the result of {_name(f)}")

    def pull(upstream: Any) -> Any:  # noqa: ANN401  # see above
        """Return the gradients at the arguments of one at the result."""
        found: tuple[Any, ...] | None = None
        for end, given_here in _together(ends, upstream, "the gradient at the result"):
            part = tape.gradient(end, given, given_here)
            found = part if found is None else _sum(found, part)
        if found is None:
            raise GradientError(f"{_name(f)} returned no tensor, so there is nothing to differentiate")
        return found

    return (out, pull, aux) if has_aux else (out, pull)


def jvp(f: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> tuple[Any, ...]:  # noqa: ANN401
    """Return the result of `f`, and how it changes along a direction: ``J @ tangents``.

    Args:
        f: As for `vjp`.
        primals: A tuple or list of what `f` is called with.
        tangents: The direction: structured like `primals`, of the same shapes, dtypes and devices.
        has_aux: As for `vjp`.

    Returns:
        ``(result, change)`` or ``(result, change, aux)``; the change is structured like the result.

    Raises:
        GradientError: As for `vjp`, or `tangents` do not fit.

    >>> value, slope = zyx.jvp(lambda x: x**2, (zyx.Tensor(3.0),), (zyx.Tensor(1.0),))
    >>> slope.item()
    6.0
    """
    if not isinstance(primals, tuple | list):
        raise GradientError(
            f"jvp takes the arguments as a tuple or list, not a {type(primals).__name__}: jvp(f, (x,), (t,))"
        )
    out, pull, *aux = vjp(f, *primals, has_aux=has_aux)
    directions = _together(tuple(primals), _as_tuple(tangents), "the tangents")
    push = _Push(out, pull)
    changes = None
    for i, (_, direction) in enumerate(directions):
        part = push.along(i, direction)
        changes = part if changes is None else _sum(changes, part)
    if changes is None:
        raise GradientError(f"{_name(f)} was given no tensor, so there is nothing to differentiate")
    return (out, changes, *aux)


def jacobian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that takes what `f` takes and returns all derivatives of its result.

        zyx.jacobian(f)(x)              of shape y.shape + x.shape: [i, .., j, ..] is dy[i, ..] / dx[j, ..]

    There is a pass through `f` for each element of the result or of the arguments, whichever are fewer; what a pass
    gives is computed before the next one, so that one plan serves all.

    Args:
        f: Returns tensors of real floats, or with `has_aux` a pair of such and anything.
        argnums: The positional arguments, as for `grad`; of real floats.
        has_aux: Then the result is ``(jacobian, aux)``.

    Returns:
        A function. Its result is structured like that of `f`, and each tensor there like the argument, or, of a tuple
        of `argnums`, like a tuple of these.

    Raises:
        GradientError: When called: no such argument, complex numbers, or as for `vjp`.

    >>> zyx.jacobian(lambda x: x * x)(zyx.Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    numbers = as_integers(argnums, "argnums")

    @functools.wraps(f)
    def jacobian_of_f(*args: Any, **kwargs: object) -> Any:  # noqa: ANN401  # see above
        for number in numbers:
            if not -len(args) <= number < len(args):
                raise GradientError(
                    f"{_name(f)} was called with {len(args)} positional arguments, so argnums cannot be {number}"
                )

        def of_chosen(*chosen: object) -> object:
            given = list(args)
            for number, value in zip(numbers, chosen, strict=True):
                given[number] = value
            return f(*given, **kwargs)

        primals = tuple(args[number] for number in numbers)
        out, pull, *aux = vjp(of_chosen, *primals, has_aux=has_aux)
        found = _all_derivatives(primals, out, pull)
        if not is_several(argnums):
            found = [part[0] for part in found]
        parts = iter(found)
        result = _replaced(out, lambda: next(parts))
        return (result, *aux) if has_aux else result

    return jacobian_of_f


def hessian(f: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that takes what `f` takes and returns all second derivatives: the Jacobian of its gradient.

        zyx.hessian(f)(x)               of shape x.shape + x.shape: [i, .., j, ..] is d2f / dx[i, ..] dx[j, ..]

    Args:
        f: Returns a tensor of one element, a real float, or with `has_aux` a pair of such a tensor and anything.
        argnums: As for `jacobian`.
        has_aux: Then the result is ``(hessian, aux)``.

    Returns:
        A function. Its result is structured like the argument, and each tensor there like the argument again.

    Raises:
        GradientError: When called, as for `grad` and `jacobian`.

    >>> zyx.hessian(lambda x: (x**3).sum())(zyx.Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def gradient_of_f(*args: object, **kwargs: object) -> tuple[object, object]:
        value, gradient = both(*args, **kwargs)
        return gradient, value[1] if has_aux else None

    second = jacobian(gradient_of_f, argnums, has_aux=True)

    @functools.wraps(f)
    def hessian_of_f(*args: object, **kwargs: object) -> object:
        found, aux = second(*args, **kwargs)
        return (found, aux) if has_aux else found

    return hessian_of_f


# ---- passes


class _Push:
    """Products with the Jacobian from the right: the gradient of those from the left.

    Args:
        out: The result of the function.
        pull: Products from the left.
    """

    def __init__(self, out: Any, pull: Callable[[Any], Any]) -> None:  # noqa: ANN401  # see above
        self._tape = Tape()
        with self._tape:
            self._upstream = map_handles(_ones, out, "the result")
            self._gradients = [handle for _, handle in handles_of(pull(self._upstream), "gradients")]

    def along(self, number: int, direction: Handle) -> Any:  # noqa: ANN401  # see above
        """Return the change of the result along a direction of one tensor among the arguments."""
        return self._tape.gradient(self._gradients[number], self._upstream, direction)


def _all_derivatives(primals: tuple[Any, ...], out: Any, pull: Callable[[Any], Any]) -> list[Any]:  # noqa: ANN401
    """Return the derivatives of each tensor of `out`, structured like `primals`."""
    ends, starts = ([each for _, each in handles_of(tree, "tensors")] for tree in (out, primals))
    for each in (*ends, *starts):
        if each.dtype.is_complex:
            raise GradientError(
                f"a Jacobian is of real numbers, not {each.dtype}; differentiate the real and imaginary parts"
            )
    if sum(end.size for end in ends) <= sum(start.size for start in starts):

        def row(number: int, upstream: Handle) -> Any:  # noqa: ANN401  # see above
            return pull(_only(out, number, upstream))

        table = [_passes(end, functools.partial(row, k), starts) for k, end in enumerate(ends)]
    else:
        push = _Push(out, pull)
        columns = [_passes(start, functools.partial(push.along, k), ends) for k, start in enumerate(starts)]
        table = [[_turned(columns[j][i], start.ndim) for j, start in enumerate(starts)] for i in range(len(ends))]
    return [_replaced(primals, iter(row_of_one).__next__) for row_of_one in table]


def _passes(at: Handle, run: Callable[[Handle], Any], others: list[Handle]) -> list[Any]:
    """Return what `run` gives for each element of `at` alone, as tensors of shape ``at.shape + other.shape``."""
    runtime = at.runtime
    passes: list[list[Handle]] = [[] for _ in others]
    for i in range(at.size):
        found = [handle for _, handle in handles_of(run(_one_of(at, i)), "derivatives")]
        runtime.realize(found)
        for each, handle in zip(passes, found, strict=True):
            each.append(handle)
    return [_joined(each, at, other) for each, other in zip(passes, others, strict=True)]


def _joined(parts: list[Any], at: Handle, other: Handle) -> Any:  # noqa: ANN401  # a tensor
    shape = (*at.shape, *other.shape)
    if not parts:
        return at.like(at.runtime.graph.const(0, other.dtype, other.device, shape))
    joined = stack(parts)
    return joined.like(joined.runtime.graph.reshape(joined.node, shape))


def _turned(x: Any, count: int) -> Any:  # noqa: ANN401  # a tensor
    """Return `x` with its first axes, so many, behind the others."""
    order = (*range(count, x.ndim), *range(count))
    return x.like(x.runtime.graph.permute(x.node, order))


# ---- structures


def _apart(name: str, handle: Handle) -> Handle:
    """Return the same values as a tensor that nothing else has."""
    return type(handle).of(handle.runtime.graph.alias(handle.node), handle.runtime)


def _ones(name: str, handle: Handle) -> Handle:
    """Return ones that are no constant: a gradient can be taken at them.

    What is linear has the same slopes everywhere; but where nothing comes in and a slope is infinite, the rules let
    nothing out, which zeros would.
    """
    graph = handle.runtime.graph
    ones = graph.const(1, handle.dtype, handle.device, handle.shape)
    return type(handle).of(graph.contiguous(ones), handle.runtime)


def _one_of(like: Handle, number: int) -> Handle:
    """Return 1 at one element, in row-major order, and 0 elsewhere."""
    graph = like.runtime.graph
    places = graph.iota((like.numel(),), 0, dtypes.int32 if like.numel() < 1 << 31 else dtypes.int64, like.device)
    here = graph.binary(BinaryOp.EQ, places, graph.const(number, places.dtype, like.device, places.shape))
    return like.like(graph.reshape(graph.cast(here, like.dtype), like.shape))


def _only(out: Any, number: int, upstream: Handle) -> Any:  # noqa: ANN401  # see above
    """Return the gradient at one tensor of a result, and zeros at the others."""
    counted = iter(range(1 << 62))

    def pick(_: str, handle: Handle) -> Handle:
        if next(counted) == number:
            return upstream
        return handle.like(handle.runtime.graph.const(0, handle.dtype, handle.device, handle.shape))

    return map_handles(pick, out, "the result")


def _replaced(tree: Any, following: Callable[[], Any]) -> Any:  # noqa: ANN401  # see above
    """Return `tree` with whatever comes next in place of each tensor."""
    return map_handles(lambda _, handle: following(), tree, "the result")


def _sum(first: Any, second: Any) -> Any:  # noqa: ANN401  # see above
    """Return the sums of two structures that are alike."""
    others = iter([handle for _, handle in handles_of(second, "gradients")])
    return map_handles(lambda _, handle: add(handle, next(others)), first, "gradients")  # type: ignore[arg-type]


def _together(wanted: Any, given: Any, what: str) -> list[tuple[Handle, Handle]]:  # noqa: ANN401  # see above
    """Return the tensors of two structures in pairs.

    Raises:
        GradientError: They differ in structure, shape, dtype or device.
    """
    first, second = handles_of(wanted, what), handles_of(given, what)
    if [name for name, _ in first] != [name for name, _ in second]:
        names = ", ".join(name for name, _ in first)
        raise GradientError(f"{what} is structured otherwise than what it belongs to, which has {names}")
    for (name, x), (_, y) in zip(first, second, strict=True):
        if x.shape != y.shape or x.dtype is not y.dtype or x.device != y.device:
            raise GradientError(
                f"{name} is {y.dtype}{list(y.shape)} on {y.device}, and belongs to {x.dtype}{list(x.shape)} on "
                f"{x.device}"
            )
    return [(x, y) for (_, x), (_, y) in zip(first, second, strict=True)]


def _as_tuple(given: Any) -> Any:  # noqa: ANN401  # see above
    return tuple(given) if isinstance(given, list) else given


def _pair(f: Callable[..., Any], result: object) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GradientError(
            f"{_name(f)} returned {type(result).__name__}; with has_aux=True it returns a pair (value, aux)"
        )
    return result


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", None) or repr(f)
