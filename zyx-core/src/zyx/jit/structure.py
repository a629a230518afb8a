"""Take arguments and results of functions apart, into tensors and what surrounds them.

A *structure* is hashable and says everything but the tensors: nesting, keys, and every value that is not a tensor.
Two calls with equal structures and equally typed tensors may share a trace. Lists, tuples, named tuples and dicts are
looked into; any other object is a static value and is compared by ``==`` if it is hashable, else by identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from zyx.errors import TraceError
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Structure: TypeAlias = "Hashable"

T = TypeVar("T")

_TENSOR = "tensor"


def take_apart(tree: object, tensors: list[Handle]) -> Structure:
    """Return the structure of `tree`, and append its tensors to `tensors`.

    Raises:
        TraceError: A NumPy array, whose values would be frozen into the trace.
    """
    if isinstance(tree, Handle):
        tensors.append(tree)
        node = tree._node
        return (_TENSOR, node.shape, node.dtype, node.device)
    kind = type(tree)
    if kind is tuple or kind is list:
        parts: list[Structure] = [kind]
        for item in tree:  # type: ignore[attr-defined]
            if isinstance(item, Handle):  # as above: most arguments are tensors, and a call takes as long as the rest
                tensors.append(item)
                node = item._node
                parts.append((_TENSOR, node.shape, node.dtype, node.device))
            else:
                parts.append(take_apart(item, tensors))
        return tuple(parts)
    if isinstance(tree, dict):
        return (dict, *[(key, take_apart(value, tensors)) for key, value in tree.items()])
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (kind, *[take_apart(item, tensors) for item in tree])
    if isinstance(tree, np.ndarray):
        raise TraceError(
            f"a jitted function was given a numpy array of shape {tree.shape}: its values would be frozen at the first "
            "call; pass zyx.asarray(...) of it"
        )
    # True == 1 == 1.0, but they trace differently.
    return (kind, tree) if _is_hashable(tree) else (kind, _Identity(tree))


def put_together(tree: object, kind: type[T], make: Callable[[T], object]) -> Any:  # noqa: ANN401  # mirrors `tree`
    """Return `tree` with each object of `kind` in it replaced by what `make` gives for it."""
    if isinstance(tree, kind):
        return make(tree)
    if isinstance(tree, dict):
        return {key: put_together(value, kind, make) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        items = [put_together(item, kind, make) for item in tree]
        return getattr(type(tree), "_make", type(tree))(items)
    return tree


class _Identity:
    """An object that is compared by identity, and kept alive as long as it may be compared."""

    __slots__ = ("_object",)

    def __init__(self, object_: object) -> None:
        self._object = object_

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
