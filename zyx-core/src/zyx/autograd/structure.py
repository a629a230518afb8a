"""Nestings of tensors: lists, tuples and dicts, to any depth, with None where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from zyx.errors import GradientError
from zyx.runtime.handle import Handle
from zyx.tree import parts, rebuilt

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
    if isinstance(tree, Handle):
        return cast("S", function(name, tree))
    inside = parts(tree)
    if inside is None:
        raise GradientError(
            f"{name} is a {type(tree).__name__}; only tensors and lists, tuples and dicts of them have gradients"
        )
    new = [map_handles(function, part, f"{name}[{key!r}]") for key, part in inside]
    return cast("S", rebuilt(tree, new))


def handles_of(tree: object, name: str) -> list[tuple[str, Handle]]:
    """Return the handles in `tree` with their names, in the order of `map_handles`."""
    found: list[tuple[str, Handle]] = []

    def note(name: str, handle: Handle) -> Handle:
        found.append((name, handle))
        return handle

    map_handles(note, tree, name)
    return found
