"""Take arguments and results of functions apart, into tensors and what surrounds them.

A *structure* is hashable and says everything but the tensors: nesting, names, and every value that is not a tensor.
Two calls with equal structures and equally typed tensors may share a trace. Lists, tuples, dicts, deques, dataclasses
and classes derived from them are looked into, and come back as what they were; any other object is a value, of which
the structure has the `zyx.jit.exact_key`.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zyx.errors import TraceError
from zyx.jit.exact_key import EXACT, Structure, about_class, attributes_of, exact_key, float_key, identity_key
from zyx.runtime.handle import Handle, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

_TENSOR = "tensor"


def take_apart(tree: object, tensors: list[Handle], numbers: list[float] | None = None) -> Structure:
    """Return the structure of `tree`, and append its tensors to `tensors`.

    With `numbers`, floats and ints are appended there, and count by their types only; tensors count by their ranks, not
    by their shapes.

    Raises:
        TraceError: A NumPy array, whose values would be frozen into the trace, or an iterator; or as `exact_key`.
    """
    if isinstance(tree, Handle):
        tensors.append(tree)
        node = tree._node  # below, the name of its dtype, which is hashed faster than that
        return (_TENSOR, node.shape if numbers is None else len(node.shape), node.dtype.name, node.device)
    kind: Any = type(tree)
    if kind is tuple or kind is list:
        parts: list[Structure] = [kind]
        for item in tree:  # type: ignore[attr-defined]
            if isinstance(item, Handle):  # as above: most arguments are tensors, and a call takes as long as the rest
                tensors.append(item)
                node = item._node
                shape = node.shape if numbers is None else len(node.shape)
                parts.append((_TENSOR, shape, node.dtype.name, node.device))
            else:
                parts.append(take_apart(item, tensors, numbers))
        return tuple(parts)
    if kind is Size:
        kind, tree = int, int(tree)  # type: ignore[call-overload]  # it is one
    if numbers is not None and (kind is float or kind is int):
        numbers.append(tree)  # type: ignore[arg-type]  # it is one
        return (kind,)
    if kind in EXACT:
        return (kind, tree)
    if kind is float:
        return (kind, tree) if tree and tree == tree else float_key(tree)  # type: ignore[arg-type]  # noqa: PLR0124
    about = about_class(kind)
    if about.is_looked_into:
        return (kind, _names(tree), *[take_apart(part, tensors, numbers) for part in parts_of(tree) or ()])
    if isinstance(tree, np.ndarray):
        raise TraceError(
            f"a jitted function was given a numpy array of shape {tree.shape}: its values would be frozen at the first "
            "call; pass zyx.asarray(...) of it"
        )
    if about.is_consumed:
        raise TraceError(
            f"a jitted function was given a {kind.__name__}, of which it would take values at the first call only; "
            "pass a list of them"
        )
    return (kind, identity_key(tree)) if about.has_trace_key else exact_key(tree)


def put_together(tree: object, kind: type[T] | tuple[type[T], ...], make: Callable[[T], object]) -> Any:  # noqa: ANN401  # mirrors `tree`
    """Return `tree` with each object of `kind` in it replaced by what `make` gives for it."""
    if isinstance(tree, kind):
        return make(tree)
    inside = parts_of(tree)
    if inside is None:
        return tree
    return _with_parts(tree, inside, [put_together(part, kind, make) for part in inside])


def parts_of(tree: object) -> list[object] | None:
    """Return what is in `tree`, in order; None if it is not looked into."""
    kind: Any = type(tree)
    if not about_class(kind).is_looked_into:
        return None
    if isinstance(tree, list | tuple | deque):
        return list(tree)
    if isinstance(tree, dict):
        return list(tree.values())
    return [value for _, value in attributes_of(tree)]


def containers_in(tree: object) -> Iterator[tuple[object, list[object]]]:
    """Yield all that is looked into, with what is in it, outermost first."""
    inside = parts_of(tree)
    if inside is not None:
        yield tree, inside
        for part in inside:
            yield from containers_in(part)


def values_in(tree: object) -> Iterator[object]:
    """Yield all that is not looked into."""
    inside = parts_of(tree)
    if inside is None:
        yield tree
    else:
        for part in inside:
            yield from values_in(part)


def _names(tree: object) -> Structure:
    """Return what there is to say of something that is looked into, besides its class and what is in it."""
    kind = type(tree)
    if isinstance(tree, dict):
        names = tuple([key if type(key) is str else exact_key(key) for key in tree])
        return names if kind is dict else (names, exact_key(getattr(tree, "default_factory", None)), _besides(tree))
    if isinstance(tree, deque):
        return (tree.maxlen, _besides(tree))
    if isinstance(tree, list | tuple):
        return _besides(tree)
    return tuple([name for name, _ in attributes_of(tree)])


def _besides(tree: object) -> Structure:
    return tuple([(name, exact_key(value)) for name, value in attributes_of(tree)])


def _with_parts(tree: object, old: Sequence[object], new: list[object]) -> object:
    """Return a copy of `tree` in which the parts `new` take the place of `old`."""
    kind: Any = type(tree)
    if kind is list:
        return new
    if kind is tuple:
        return tuple(new)
    made: Any
    if isinstance(tree, tuple):
        made = tree._make(new) if hasattr(tree, "_make") else tuple.__new__(kind, new)
        for name, value in attributes_of(tree):
            setattr(made, name, value)
        return made
    if isinstance(tree, dict) and kind is dict:
        return dict(zip(tree, new, strict=True))
    if about_class(kind).is_dataclass and all(part is before for part, before in zip(new, old, strict=True)):
        return tree
    made = copy.copy(tree)
    if isinstance(tree, dict):
        for key, part in zip(tree, new, strict=True):
            dict.__setitem__(made, key, part)
    elif isinstance(tree, list):
        list.__setitem__(made, slice(None), new)
    elif isinstance(tree, deque):
        made.clear()
        made.extend(new)
    else:
        for (name, _), part in zip(attributes_of(tree), new, strict=True):
            object.__setattr__(made, name, part)
    return made
