"""Nestings of lists, tuples and dicts, and functions over what is in them.

    weights = {"dense": [w, b], "scale": s}
    zyx.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)      structured like the weights
    leaves, structure = zyx.tree.flatten(weights)                   [w, b, s]
    zyx.tree.unflatten(structure, leaves)                           the weights

Lists, tuples, named tuples, dicts and classes derived from them are looked into, to any depth; None has nothing in it.
Anything else is a leaf: a tensor, a number, a module. Leaves come in order, those of dicts in the order of their keys.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zyx.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["Structure", "flatten", "leaves", "map", "structure", "unflatten"]

# Any: what is in a tree is whatever its user has.
IsLeaf: TypeAlias = "Callable[[Any], bool] | None"


class _Leaf:
    """The place of a leaf."""

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "_LEAF"


_LEAF: Final = _Leaf()


def parts(tree: Any) -> list[tuple[object, Any]] | None:  # noqa: ANN401  # see above
    """Return what is in a tree, each with its place or key; None for a leaf."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        return list(tree.items())
    if isinstance(tree, list | tuple):
        return list(enumerate(tree))
    return None


def rebuilt(tree: Any, new: Sequence[object]) -> Any:  # noqa: ANN401  # see above
    """Return a tree like this one, with other parts in it."""
    if tree is None:
        return None
    kind: Any = type(tree)
    if kind is list or kind is tuple:
        return kind(new)
    if isinstance(tree, dict):
        items = dict(zip(tree, new, strict=True))
        if kind is dict:
            return items
        made = copy.copy(tree)
        for key, value in items.items():
            made[key] = value
        return made
    return getattr(kind, "_make", kind)(new)  # a named tuple is not made from a sequence


@dataclass(frozen=True, slots=True, repr=False)
class Structure:
    """What there is of a tree besides its leaves. Two that are equal are of trees of one nesting, classes and keys.

    Attributes:
        pattern: A tree without leaves, with a mark at the place of each.
        key: What makes two of them equal.
        size: How many leaves there are.

    >>> zyx.tree.structure([1, (2, 3)]).size
    3
    """

    pattern: Any
    key: object
    size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Structure) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Structure({self.pattern!r})"


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:  # noqa: ANN401  # see above
    """Return what `f` makes of each leaf, structured like `tree`.

    Args:
        f: Takes a leaf of `tree`, and what each of `rest` has at its place.
        tree: A nesting of lists, tuples and dicts.
        rest: Trees that begin like it: lists and tuples of its lengths, dicts of its keys, in any order. What they have
            at the place of a leaf may be anything.
        is_leaf: Says of what is in `tree` whether it is a leaf though it could be looked into.

    Raises:
        ArgumentError: One of `rest` is structured otherwise; the text has the place.

    >>> zyx.tree.map(lambda x: x + 1, {"a": 1, "b": [2, 3]})
    {'a': 2, 'b': [3, 4]}
    """
    return _mapped(f, tree, rest, is_leaf, "")


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Structure]:  # noqa: ANN401  # see above
    """Return the leaves of a tree in order, and its structure; `is_leaf` as for `map`.

    >>> leaves, structure = zyx.tree.flatten({"a": 1, "b": [2, 3]})
    >>> leaves
    [1, 2, 3]
    """
    found = leaves(tree, is_leaf)
    pattern = map(lambda _: _LEAF, tree, is_leaf=is_leaf)
    return found, Structure(pattern, _key(pattern), len(found))


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:  # noqa: ANN401  # see above
    """Return the tree of a structure, with leaves in order.

    Raises:
        ArgumentError: There are too few or too many, or the first argument is no structure.

    >>> zyx.tree.unflatten(zyx.tree.structure({"a": [1, 2]}), [3, 4])
    {'a': [3, 4]}
    """
    if not isinstance(structure, Structure):
        raise ArgumentError(
            f"tree.unflatten: structure is what flatten or structure gave, not of type {type(structure).__name__}; it "
            "comes first, the leaves second"
        )
    given = list(leaves)
    if len(given) != structure.size:
        raise ArgumentError(f"tree.unflatten: {structure!r} has {structure.size} leaves, and {len(given)} are given")
    following = iter(given)
    return map(lambda _: next(following), structure.pattern)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:  # noqa: ANN401  # see above
    """Return the leaves of a tree in order; `is_leaf` as for `map`.

    >>> zyx.tree.leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return [*_leaves(tree, is_leaf)]


def structure(tree: Any, is_leaf: IsLeaf = None) -> Structure:  # noqa: ANN401  # see above
    """Return the structure of a tree; `is_leaf` as for `map`.

    >>> zyx.tree.structure({"a": [1, 2]}) == zyx.tree.structure({"a": [3, 4]})
    True
    """
    return flatten(tree, is_leaf)[1]


def _leaves(tree: Any, is_leaf: IsLeaf) -> Iterator[Any]:  # noqa: ANN401  # see above
    inside = None if is_leaf is not None and is_leaf(tree) else parts(tree)
    if inside is None:
        yield tree
    else:
        for _, part in inside:
            yield from _leaves(part, is_leaf)


def _mapped(f: Callable[..., Any], tree: Any, rest: Sequence[Any], is_leaf: IsLeaf, place: str) -> Any:  # noqa: ANN401
    """Return what `map` does; `place` is where `tree` is."""
    inside = None if is_leaf is not None and is_leaf(tree) else parts(tree)
    if inside is None:
        return f(tree, *rest)
    others: list[dict[object, Any]] = []
    for number, other in enumerate(rest, 1):
        found = parts(other)
        alike = found is not None and isinstance(other, dict) == isinstance(tree, dict)
        by_key = dict(found or ())
        if not alike or (other is None) is not (tree is None) or by_key.keys() != {key for key, _ in inside}:
            raise ArgumentError(
                f"tree.map: tree {number} has {_told(other)} where the first one has {_told(tree)}"
                + (f", at {place}" if place else "")
            )
        others.append(by_key)
    return rebuilt(
        tree,
        [_mapped(f, part, [by_key[key] for by_key in others], is_leaf, f"{place}[{key!r}]") for key, part in inside],
    )


def _told(tree: Any) -> str:  # noqa: ANN401  # see above
    """Say what is at a place."""
    inside = parts(tree)
    if tree is None:
        return "None"
    if inside is None:
        return f"a leaf of type {type(tree).__name__}"
    if isinstance(tree, dict):
        return f"a {type(tree).__name__} of {', '.join([repr(key) for key in tree]) or 'no keys'}"
    return f"a {type(tree).__name__} of {len(inside)}"


def _key(pattern: Any) -> object:  # noqa: ANN401  # see above
    """Return what makes structures equal: hashable if the keys of dicts are, as they have to be."""
    inside = parts(pattern)
    if inside is None:
        return True
    return (type(pattern), tuple([(key, _key(part)) for key, part in inside]))
