"""Nestings of tensors: lists, tuples and dicts, to any depth, with None where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from zyx.errors import GradientError
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

S = TypeVar("S")


def map_handles(function: Callable[[str, Handle], Handle], tree: S, name: str) -> S:
    """Return `tree` with each handle replaced by what `function` makes of its name and itself, in order.

    Args:
        function: Is given a name such as ``sources[0]['weight']`` and the handle.
        tree: A handle, None, or a list, tuple, named tuple or dict of such.
        name: What to call `tree`.

    Raises:
        GradientError: Something else is in it.
    """
    result: object
    if isinstance(tree, Handle):
        result = function(name, tree)
    elif tree is None:
        result = None
    elif isinstance(tree, dict):
        result = {key: map_handles(function, value, f"{name}[{key!r}]") for key, value in tree.items()}
    elif isinstance(tree, list | tuple):
        parts = [map_handles(function, value, f"{name}[{position}]") for position, value in enumerate(tree)]
        result = getattr(type(tree), "_make", type(tree))(parts)  # a named tuple is not made from a sequence
    else:
        raise GradientError(
            f"{name} is a {type(tree).__name__}; only tensors and lists, tuples and dicts of them have gradients"
        )
    return cast("S", result)


def handles_of(tree: object, name: str) -> list[tuple[str, Handle]]:
    """Return the handles in `tree` with their names, in the order of `map_handles`."""
    found: list[tuple[str, Handle]] = []

    def note(name: str, handle: Handle) -> Handle:
        found.append((name, handle))
        return handle

    map_handles(note, tree, name)
    return found
