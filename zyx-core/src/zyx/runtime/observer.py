"""Who follows what becomes of handles: gradient tapes and traces.

A `Runtime` has one `Observers` and calls

    created(handle)               for every new handle
    computed(handle, node, leaf)  when the values of a handle lie in memory and `leaf` takes the place of `node`
    assigned(handle, old)         when a handle that stood for `old` was given another value

and each observer that lives is told. Nobody is kept alive by observing: a tape that its user drops is gone.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zyx.graph.node import Leaf, Node
    from zyx.runtime.handle import Handle


class Observer(Protocol):
    """What follows handles. The calls come while the runtime is at work: they are short, and ask for no values.

    Attributes:
        is_recording: Whether it keeps how values are computed, so that they must not be computed in a way that nobody
            can follow, such as by replaying a trace.
    """

    is_recording: bool

    def created(self, handle: Handle) -> None:
        """Learn of a new handle."""

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Learn that `handle` stands for `leaf` from now on, which has the values of `node`.

        Unless an observer keeps `node`, the way in which the values were computed is forgotten.
        """

    def assigned(self, handle: Handle, old: Node) -> None:
        """Learn that `handle` was given another value; it stood for `old`."""


class Observers:
    """The observers of one runtime, held weakly.

    Attributes:
        references: To each that lives; where there is none, there is nobody to tell.
    """

    def __init__(self) -> None:
        self.references: list[weakref.ref[Observer]] = []

    def add(self, observer: Observer) -> None:
        """Tell `observer` from now on, for as long as it lives."""
        self.references.append(weakref.ref(observer, self.references.remove))

    @property
    def are_recording(self) -> bool:
        """Whether one of them keeps how values are computed."""
        return any(observer.is_recording for observer in self._living())

    def created(self, handle: Handle) -> None:
        """Tell all of a new handle."""
        for observer in self._living():
            observer.created(handle)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Tell all that `leaf` takes the place of `node`."""
        for observer in self._living():
            observer.computed(handle, node, leaf)

    def assigned(self, handle: Handle, old: Node) -> None:
        """Tell all that `handle` no longer stands for `old`."""
        for observer in self._living():
            observer.assigned(handle, old)

    def _living(self) -> Iterator[Observer]:
        for reference in tuple(self.references):  # a copy: one may die meanwhile
            observer = reference()
            if observer is not None:
                yield observer
