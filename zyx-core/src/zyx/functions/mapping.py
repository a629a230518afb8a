"""Functions of one example, run once for many: `vmap`.

    distance = lambda x, y: ((x - y) ** 2).sum().sqrt()         of two vectors
    zyx.vmap(distance)(xs, ys)                                  of row i of xs and row i of ys, for all i
    zyx.vmap(zyx.vmap(distance, (None, 0)), (0, None))(xs, ys)  of each row of xs and each of ys
    zyx.vmap(zyx.grad(loss), (None, 0, 0))(weights, x, y)       a gradient for each example

The function is called once, with tensors that stand for one example; of the graph that comes out,
`zyx.graph.batching` makes that of all examples, which has as many kernels.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar, get_args

from zyx.errors import ArgumentError, AxisError, ShapeError
from zyx.functions import take_habits
from zyx.graph.batching import Examples, batched
from zyx.graph.making import joined
from zyx.integers import as_integer
from zyx.runtime.handle import Handle
from zyx.runtime.mapping import MappedRun, Randomness
from zyx.runtime.runtime import current
from zyx.tree import parts, rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zyx.graph import Graph
    from zyx.graph.node import Node

__all__ = ["vmap"]

# Any: what users' functions take and return is theirs, and `in_axes` is structured like it.
T = TypeVar("T")
#: From the name of a tensor, the tensor and its axis to what takes its place.
Taken: TypeAlias = "Callable[[str, Any, int | None], object]"
_NO_AXIS: Final = (
    "give None for it in in_axes, so that it is the same for all, or zyx.asarray(...) of the values of all examples"
)


class _Place(NamedTuple):
    """A tensor among the arguments, and the axis along which it has the examples."""

    name: str
    tensor: Handle
    axis: int

    @property
    def text(self) -> str:
        """What errors call it."""
        return f"axis {self.axis} of {self.name}, of shape {self.tensor.shape},"


def vmap(
    f: Callable[..., Any],
    in_axes: Any = 0,  # noqa: ANN401  # see above
    out_axes: Any = 0,  # noqa: ANN401  # see above
    *,
    axis_size: int | None = None,
    randomness: Randomness = "different",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that takes the arguments of `f` for many examples, and returns the results of all.

        zyx.vmap(f)(xs)[i]                          f(xs[i])
        zyx.vmap(f, in_axes=(None, 1))(w, xs)[i]    f(w, xs[:, i])

    `f` is called once in each call, with tensors that lack the axis of the examples; what it does with them is done for
    all examples by kernels that are as many as those for one. Whatever there is may be inside: gradients, functions
    made by `zyx.jit`, and `vmap` itself; and it may be inside of these.

    Args:
        f: Of tensors; lists, tuples and dicts of tensors; and of anything else where `in_axes` is None. It returns
            tensors, or lists, tuples and dicts of tensors or None. It is called once, so that its ifs and loops are the
            same for all examples, and it can read no value that differs between them. Tensors that it finds outside
            are the same for all, and can be assigned what is the same for all.
        in_axes: The axis along which an argument has the examples, counted from the end if negative; None for one that
            is the same for all. One for all arguments by position, or a tuple or list with one for each; for an
            argument with a structure, one for all tensors in it, or a structure of the same kind. It is PyTorch's
            ``in_dims``. Arguments by name have the examples along axis 0, as in JAX, if they are tensors or structures
            of tensors; anything else is given to `f` as it is.
        out_axes: The axis along which the result has the examples; of several results as for `in_axes`. None says that
            one is the same for all examples, and has no such axis. It is PyTorch's ``out_dims``.
        axis_size: How many examples there are, which must be given where `in_axes` is None everywhere.
        randomness: "different" gives each example random numbers of its own: of a draw of n words example i has words
            ``i * n`` to ``(i + 1) * n`` of the generator's stream, so that ``vmap(lambda: zyx.rand(n), axis_size=m)()``
            is ``zyx.rand(m, n)``. With "same" all examples have those of one call of `f`. "error" refuses to draw.
        chunk_size: So many examples, or fewer at the end, are computed at a time, to need less memory; None computes
            all together. The results are the same.

    Returns:
        A function. Its results are structured like those of `f`; those that are the same for all examples are repeated.

    Raises:
        IntegerError: An axis is no integer.
        ArgumentError: An option that there is not, or `in_axes` is a dict. When called: `in_axes` or `out_axes` do not
            fit the structure; an argument that has an axis is no tensor; `f` returned what is none; a result with the
            axis None differs between examples; or there is no argument with an axis, and no `axis_size`.
        AxisError: When called: a tensor has no such axis.
        ShapeError: `chunk_size` is below 1. When called: numbers of examples differ.
        TraceError: When called: `f` reads values that differ between examples, or assigns such to a tensor that it
            found outside; or draws random numbers with `randomness` "error".

    >>> zyx.vmap(lambda row: row.sum())(zyx.ones(2, 3)).tolist()
    [3.0, 3.0]
    """
    if not callable(f):
        raise ArgumentError(f"vmap takes a function, not a {type(f).__name__}")
    if randomness not in get_args(Randomness):
        raise ArgumentError(f'vmap: randomness is "different", "same" or "error", not {randomness!r}')
    count = None if axis_size is None else as_integer(axis_size, "axis_size")
    at_once = None if chunk_size is None else as_integer(chunk_size, "chunk_size")
    if count is not None and count < 0:
        raise ShapeError(f"vmap: axis_size is at least 0, not {count}")
    if at_once is not None and at_once < 1:
        raise ShapeError(f"vmap: chunk_size is at least 1, not {at_once}")
    in_axes, out_axes = _as_axes(in_axes, "in_axes"), _as_axes(out_axes, "out_axes")
    if isinstance(in_axes, dict):
        raise ArgumentError(f"vmap: in_axes is {in_axes!r}; of several arguments it is a tuple, with a part for each")
    name = getattr(f, "__name__", None) or type(f).__name__

    @functools.wraps(f, updated=())
    def of_all_examples(*args: object, **kwargs: object) -> Any:  # noqa: ANN401  # see above
        places = _places(name, args, kwargs, in_axes)
        examples = Examples.all_of(_count(name, places, count))
        run = MappedRun(current(), name, examples.size, randomness)
        given = iter([_values(place) for place in places])

        def example(_: str, value: Any, axis: int | None) -> object:  # noqa: ANN401  # see above
            return value if axis is None or not isinstance(value, Handle) else run.example(value, next(given))

        with run.begun():
            given_args = tuple(_mapped_arguments(args, in_axes, example))
            given_kwargs = {key: _mapped(value, 0, key, example, is_strict=False) for key, value in kwargs.items()}
            result = f(*given_args, **given_kwargs)
            found = _results(name, result, out_axes)
            nodes = [handle.node for _, handle, _ in found]
        new = iter(_of_all(run, found, nodes, examples, at_once))
        run.finish()
        return _mapped(result, out_axes, "the result", lambda _, value, axis: next(new), is_result=True)

    return of_all_examples


def _values(place: _Place) -> Node:
    """Return the values of all examples, along the first axis."""
    node, axis = place.tensor.node, place.axis
    return place.tensor.runtime.graph.permute(node, (axis, *[i for i in range(node.ndim) if i != axis]))


# ---- arguments


def _as_axes(given: Any, name: str) -> Any:  # noqa: ANN401  # see above
    """Return `in_axes` or `out_axes` with integers in it.

    Raises:
        IntegerError: Something else is in it.
    """
    if given is None:
        return None
    if isinstance(given, dict):
        return {key: _as_axes(part, f"{name}[{key!r}]") for key, part in given.items()}
    if isinstance(given, list | tuple):
        return tuple([_as_axes(part, f"{name}[{place}]") for place, part in enumerate(given)])
    return as_integer(given, name)


def _mapped(
    tree: Any,  # noqa: ANN401  # see above
    axes: Any,  # noqa: ANN401  # see above
    name: str,
    take: Taken,
    *,
    is_strict: bool = True,
    is_result: bool = False,
) -> Any:  # noqa: ANN401  # see above
    """Return `tree` with each tensor replaced by what `take` gives for its name, itself and its axis.

    Args:
        tree: A tensor, None, or a list, tuple or dict of such; where the axis is None, and it is no result, anything.
        axes: An axis, None, or a structure of such that `tree` begins with.
        name: What to call `tree`.
        take: See above.
        is_strict: Whether what is no tensor is refused where there is an axis.
        is_result: Whether it is a result, whose parts all are tensors.

    Raises:
        ArgumentError: `axes` do not fit, or something else is in it.
    """
    which = "out_axes" if is_result else "in_axes"
    is_whole = not isinstance(axes, list | tuple | dict)
    if is_whole and isinstance(tree, Handle):
        return take(name, tree, axes)
    if is_whole and (tree is None or (axes is None and not is_result)):
        return tree
    inside = parts(tree)
    if inside is not None:
        if not is_whole:
            _check_alike(axes, tree, f"vmap: {which} of {name}", name)
        new = [
            _mapped(
                part,
                axes if is_whole else axes[key],
                f"{name}[{key!r}]",
                take,
                is_strict=is_strict,
                is_result=is_result,
            )
            for key, part in inside
        ]
        return rebuilt(tree, new)
    kind = "a tensor" if isinstance(tree, Handle) else f"of type {type(tree).__name__}"
    if not is_whole:
        raise ArgumentError(f"vmap: {which} of {name} is {axes!r}, and {name} {kind}")
    if is_result:
        raise ArgumentError(f"vmap: {name} is {kind}; only tensors and lists, tuples and dicts of them are results")
    if is_strict:
        raise ArgumentError(f"vmap: {name} is {kind}, which has no axis {axes}; {_NO_AXIS}")
    return tree


def _check_alike(axes: Any, tree: Any, what: str, name: str) -> None:  # noqa: ANN401  # see above
    """Raise `ArgumentError` unless a structure of axes has the parts that `tree` has."""
    if isinstance(tree, dict):
        is_alike, parts_of_tree = isinstance(axes, dict) and axes.keys() == tree.keys(), ", ".join(map(repr, tree))
    else:
        is_alike, parts_of_tree = not isinstance(axes, dict) and len(axes) == len(tree or ()), str(len(tree or ()))
    if not is_alike:
        raise ArgumentError(f"{what} is {axes!r}, and {name} a {type(tree).__name__} of {parts_of_tree or 'nothing'}")


def _mapped_arguments(args: Sequence[object], in_axes: Any, take: Taken) -> Iterator[object]:  # noqa: ANN401
    """Yield the arguments by position with each tensor replaced, as `_mapped` does."""
    for number, value in enumerate(args):
        axes = in_axes[number] if isinstance(in_axes, list | tuple) else in_axes
        yield _mapped(value, axes, f"argument {number}", take)


def _places(name: str, args: Sequence[object], kwargs: dict[str, object], in_axes: Any) -> list[_Place]:  # noqa: ANN401
    """Return the tensors among the arguments that have an axis of examples.

    Raises:
        ArgumentError: `in_axes` do not fit.
        AxisError: There is no such axis.
    """
    if isinstance(in_axes, list | tuple) and len(in_axes) != len(args):
        raise ArgumentError(
            f"vmap: in_axes has {len(in_axes)} parts, {in_axes!r}, and {name} was called with {len(args)} arguments by "
            "position"
        )
    places: list[_Place] = []

    def note(name: str, value: Any, axis: int | None) -> object:  # noqa: ANN401  # see above
        if axis is not None:
            places.append(_Place(name, value, _checked(axis, value.ndim, f"in_axes of {name} is {axis}", value)))
        return value

    for _ in _mapped_arguments(args, in_axes, note):
        pass
    for key, value in kwargs.items():
        _mapped(value, 0, f"argument {key}", note, is_strict=False)
    return places


def _checked(axis: int, rank: int, what: str, tensor: Handle) -> int:
    """Return the number of an axis, which is not negative."""
    if not -rank <= axis < rank:
        with_examples = "" if rank == tensor.ndim else ", the one of the examples among them"
        raise AxisError(f"vmap: {what}; its shape is {tensor.shape}, so that there are {rank} axes{with_examples}")
    return axis % rank


def _count(name: str, places: Sequence[_Place], given: int | None) -> int:
    """Return how many examples there are."""
    count, origin = given, None
    for place in places:
        size = place.tensor.shape[place.axis]
        if count is None:
            count, origin = size, place
        elif size != count:
            where = "axis_size" if origin is None else origin.text
            raise ShapeError(
                f"vmap: {where} says that there are {count} examples, and {place.text} that there are {size}"
            )
    if count is None:
        raise ArgumentError(f"vmap: no argument of {name} has an axis of examples; say how many there are: axis_size")
    return count


# ---- results


def _results(name: str, result: object, out_axes: Any) -> list[tuple[str, Handle, int | None]]:  # noqa: ANN401
    """Return the tensors among the results, with their names and axes."""
    found: list[tuple[str, Handle, int | None]] = []

    def note(where: str, value: Any, axis: int | None) -> object:  # noqa: ANN401  # see above
        if axis is not None:
            axis = _checked(axis, value.ndim + 1, f"out_axes of {where} is {axis}", value)
        found.append((where, value, axis))
        return value

    _mapped(result, out_axes, f"the result of {name}", note, is_result=True)
    return found


def _of_all(
    run: MappedRun,
    found: Sequence[tuple[str, Handle, int | None]],
    nodes: Sequence[Node],
    examples: Examples,
    at_once: int | None,
) -> list[Handle]:
    """Return the results of all examples."""
    runtime = current()
    graph = runtime.graph
    if examples.size == 0:
        of_all: list[Node | None] = [
            None if axis is None else graph.const(0, node.dtype, node.device, (0, *node.shape))
            for node, (_, _, axis) in zip(nodes, found, strict=True)
        ]
    elif at_once is None or at_once >= examples.size:
        of_all = batched(graph, nodes, run.mapped, examples, run.streams, run.rule_of_all)
    else:
        of_all = _in_chunks(run, [handle for _, handle, _ in found], nodes, examples, at_once)
    results: list[Handle] = []
    for (name, handle, axis), node, new in zip(found, nodes, of_all, strict=True):
        if axis is None:
            if new is not None:
                raise ArgumentError(
                    f"vmap: out_axes of {name} is None, which says that it is the same for all examples; it depends on "
                    "an argument that is not"
                )
            placed = node
        else:
            placed = _with_axis_at(graph, node, new, examples.size, axis)
        results.append(type(handle).of(placed, runtime))
    return results


def _with_axis_at(graph: Graph, node: Node, new: Node | None, count: int, axis: int) -> Node:
    """Return a result with the examples along `axis`, repeated if it is the same for all."""
    if new is None:
        shape = node.shape
        one = graph.reshape(node, (*shape[:axis], 1, *shape[axis:]))
        return graph.expand(one, (*shape[:axis], count, *shape[axis:]))
    return graph.permute(new, (*range(1, axis + 1), 0, *range(axis + 1, new.ndim)))


def _in_chunks(
    run: MappedRun, handles: Sequence[Handle], nodes: Sequence[Node], examples: Examples, at_once: int
) -> list[Node | None]:
    """Return the results of all examples, those of some computed before the next ones are made."""
    runtime = current()
    graph = runtime.graph
    chunks: list[list[Handle | None]] = []
    for first in range(0, examples.size, at_once):
        some = Examples(min(at_once, examples.size - first), first, examples.total)
        values = {
            leaf: graph.shrink(node, ((first, first + some.size), *[(0, size) for size in leaf.shape]))
            for leaf, node in run.mapped.items()
        }
        of_some = batched(graph, nodes, values, some, run.streams, run.rule_of_all)
        made = [
            None if new is None else type(handle).of(new, runtime) for handle, new in zip(handles, of_some, strict=True)
        ]
        runtime.realize([handle for handle in made if handle is not None])
        chunks.append(made)
    together: list[Node | None] = []
    for of_result in zip(*chunks, strict=True):
        present = [part.node for part in of_result if part is not None]
        together.append(joined(graph, present, 0) if present else None)
    return together


take_habits(globals(), __all__)
