"""What an object held when its key was made: for as long as it holds the same, the key serves again.

The object of a jitted method is looked at in each call, with all that is in its attributes. Making a key of it takes
about a microsecond a value; that the values are the very same objects as before is seen at once for all of them:

    self.rate, self.sizes, self.kernel     a number, a list of two numbers, a function: three places in memory, and two
                                           more below the second of them

What cannot change is kept, so that nothing else can come to its place in memory. Of all else there is a weak reference,
and of what traces look into, a snapshot of its own.
"""

from __future__ import annotations

import enum
import types
import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zyx.dtype import DType
from zyx.runtime.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.jit.exact_key import AboutClass

#: What cannot change, and holds nothing that could.
_CONSTANT: Final[frozenset[type]] = frozenset(
    {int, bool, float, complex, str, bytes, types.NoneType, types.EllipsisType, types.NotImplementedType, DType}
)
#: What counts as the object that it is, whatever it holds.
_ITSELF: Final = (Handle, np.ndarray, types.FunctionType, type, types.ModuleType)


class Snapshot:
    """The values in a list, tuple or dict, or in the attributes of an object.

    Attributes:
        names: The keys of a dict, the names of attributes; None for a list or tuple.
        places: Where the values are in memory.
        constants: Those that are kept.
        references: To those that others could come to the place of.
        below: Snapshots of those that are looked into, with their numbers.
    """

    __slots__ = ("below", "constants", "names", "places", "references")

    def __init__(self, names: tuple[object, ...] | None, values: Sequence[object]) -> None:
        self.names = names
        self.places = [*map(id, values)]
        self.constants: list[object] = []
        self.references: list[weakref.ref[object]] = []
        self.below: list[tuple[int, Snapshot]] = []

    def shows(self, value: Any) -> bool:  # noqa: ANN401  # whatever there is a snapshot of
        """Whether this is how `value` is."""
        names = self.names
        if names is not None:
            held = value if type(value) is dict else value.__dict__
            if (*held,) != names:
                return False
            value = held.values()
        if [*map(id, value)] != self.places:
            return False
        for reference in self.references:
            if reference() is None:
                return False
        if self.below:
            values = [*value]
            for number, below in self.below:
                if not below.shows(values[number]):
                    return False
        return True


def snapshot_of(value: Any, about_class: Callable[[type], AboutClass]) -> Snapshot | None:  # noqa: ANN401  # as above
    """Return a snapshot of a list, tuple or dict, or of the attributes of an object, if that shows all changes."""
    return _taken(value, about_class, set())


def _taken(value: Any, about_class: Callable[[type], AboutClass], above: set[int]) -> Snapshot | None:  # noqa: ANN401
    if id(value) in above:
        return None
    above = above | {id(value)}
    kind = type(value)
    held = None if kind is list or kind is tuple else value if kind is dict else value.__dict__
    if held is not None and not all(type(name) is str for name in held):
        return None
    values = [*(value if held is None else held.values())]
    taken = Snapshot(None if held is None else (*held,), values)
    for number, inner in enumerate(values):
        of_class = type(inner)
        if of_class in _CONSTANT or isinstance(inner, enum.Enum | np.generic):
            taken.constants.append(inner)
            continue
        is_plain_container = of_class is dict or of_class is list or of_class is tuple
        if not is_plain_container:
            about = about_class(of_class)
            is_followed = about.is_plain and not (about.is_container or about.slots or about.has_trace_key)
            try:
                taken.references.append(weakref.ref(inner))
            except TypeError:
                return None
            if isinstance(inner, _ITSELF) or (is_followed and about.is_left_alone):
                continue
            if not is_followed:
                return None
            if not hasattr(inner, "__dict__"):
                continue
        below = _taken(inner, about_class, above)
        if below is None:
            return None
        taken.below.append((number, below))
    return taken
