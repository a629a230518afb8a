"""Observers of handles, which are gradient tapes and traces; and what is remembered without any.

A `Runtime` has one `Observers` and calls

    created(handle)               for every new handle
    computed(handle, node, leaf)  when the values of a handle lie in memory and `leaf` takes the place of `node`
    assigned(handle, old)         when a handle that stood for `old` was given another value

and each observer that lives is told. Nobody is kept alive by observing: a tape that its user drops is gone.

To print a value, to ask for it in another way or to give it to a traced function computes it, and the way there is
forgotten. So that this changes no later gradient in silence, what was *looked at* remembers which values that are still
around it was made from:

    h = p * 2; print(h)         looked(h): its leaf was made from p
    with Tape() as tape: ...    a gradient at p of what reads h is refused: `Observers.lost_on_the_way`

It costs a walk through what is computed, which a look can bear. After `realize`, values count as given.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Protocol

from zyx.graph.node import Alias, Binary
from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zyx.graph import walk
    from zyx.graph.node import Leaf, Node
    from zyx.runtime import leaves
    from zyx.runtime.handle import Handle
    from zyx.runtime.leaves import Wanted
else:
    walk = lazy_import("zyx.graph.walk", globals())
    leaves = lazy_import("zyx.runtime.leaves", globals())


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


class Past:
    """What a value was made from, which it stays as it is computed.

    Attributes:
        is_looked_at: Whether its way is not to be forgotten without a trace.
        origins: The values that it was made from, once its way is forgotten.
    """

    __slots__ = ("__weakref__", "is_looked_at", "origins")

    def __init__(self) -> None:
        self.is_looked_at = False
        self.origins: tuple[weakref.ref[Past], ...] = ()


class Observers:
    """The observers of one runtime, held weakly.

    Attributes:
        references: To each that lives; where there is none, there is nobody to tell.
        pasts: By nodes that live, what was looked at and what that was made from.
        wanted: By the ids of tensors, those that gradients are kept of; see `zyx.runtime.leaves`.
        leaves: By nodes that live, which of these they stand for.
        lost: By nodes that live, why no history of them is kept.
        spent: By the ids of tensors that were differentiated, what that leaves of their history.
        beside: Likewise, further ones: results that stand for the same value.
        changes: How often that has changed of a tensor.
        free: Nodes without history, made while gradients were off.
    """

    def __init__(self) -> None:
        self.references: list[weakref.ref[Observer]] = []
        self.pasts: dict[weakref.ref[Node], Past] = {}
        self.wanted: dict[int, Wanted] = {}
        self.changes = 0
        self.leaves: dict[weakref.ref[Node], Wanted] = {}
        self.beside: dict[weakref.ref[Node], list[Wanted]] = {}
        self.lost: dict[weakref.ref[Node], str] = {}
        self.spent: dict[int, tuple[str, weakref.ref[Handle]]] = {}
        self.free: weakref.WeakSet[Node] = weakref.WeakSet()
        self._bystanders = 0
        self._quiet: Observer | None = None
        self._quiet_blocks = 0

    def add(self, observer: Observer, *, is_following: bool = True) -> None:
        """Tell `observer` from now on, for as long as it lives; one not following, until `drop_bystander`."""
        self.references.append(weakref.ref(observer, self.references.remove))
        self._bystanders += not is_following

    def drop_bystander(self, observer: Observer) -> None:
        """Tell `observer`, which is not following, no more."""
        self.references.remove(weakref.ref(observer))
        self._bystanders -= 1

    def quieten(self, quiet: Observer) -> None:
        """Tell `quiet`, until `unquieten`: a block begins in which gradients are off, in whatever thread."""
        self._quiet_blocks += 1
        if self._quiet is None:
            self._quiet = quiet
            self.add(quiet)

    def unquieten(self) -> None:
        """End such a block."""
        self._quiet_blocks -= 1
        if self._quiet_blocks == 0:
            self._quiet = None  # nobody else has it

    @property
    def are_following(self) -> bool:
        """Whether one of them may want values that handles had before."""
        return len(self.references) > (self._quiet is not None) + self._bystanders

    @property
    def are_recording(self) -> bool:
        """Whether one of them keeps how values are computed."""
        return any(observer.is_recording for observer in self._living())

    def are_of_a_handle(self, node: Node) -> bool:
        """Return whether gradients may be asked for at `node` by a tensor that stood for it, as far as they know."""
        if weakref.ref(node) in self.leaves:
            return True
        return any(node in getattr(observer, "recorded", ()) for observer in self._living())

    def marks_of(self, handles: Sequence[Handle]) -> tuple[int, ...]:
        """Return of each handle whether gradients are kept of it, where there are `leaves`; () if of none."""
        return leaves.marks_of(self, handles)

    def created(self, handle: Handle) -> None:
        """Tell all of a new handle."""
        for observer in self._living():
            observer.created(handle)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Tell all that `leaf` takes the place of `node`."""
        if self.references:
            for observer in self._living():
                observer.computed(handle, node, leaf)
        if self.leaves:
            record = self.leaves.get(weakref.ref(node))
            if record is not None and not record.is_result:
                self.leaves[weakref.ref(leaf, self.leaves.pop)] = record
            elif (
                type(node) is not Alias or not node.detached
            ):  # as what optimisers assign is: all parameters, each step
                leaves.computed(self, handle, node, leaf)
        past = self.pasts.get(weakref.ref(node))
        if past is not None:
            self.pasts[weakref.ref(leaf, self.pasts.pop)] = past
            if past.is_looked_at:
                past.is_looked_at = False
                past.origins = self._origins_of(node)

    def keep(self, node: Node) -> bool:
        """Return whether the history of `node` is kept once it is computed, so that nothing may be stored over it."""
        if not self.leaves:
            return False
        return weakref.ref(node) not in self.lost and leaves.has_history(self, node)

    def assigning(self, handle: Handle, node: Node, *, is_fresh: bool) -> Node:
        """Return what `handle` is to stand for when `node` is assigned to it, where there are `leaves`."""
        if is_fresh:
            record = self.wanted.get(id(handle))
            if record is not None and not record.is_result:
                self.leaves[weakref.ref(node, self.leaves.pop)] = record
            return node
        return leaves.assigned(handle, node)

    def assigned(self, handle: Handle, old: Node) -> None:
        """Tell all that `handle` no longer stands for `old`."""
        for observer in self._living():
            observer.assigned(handle, old)

    def looked(self, node: Node) -> None:
        """Remember what `node` is made from, once it is computed: somebody looks at its values."""
        if node.sources and node.dtype.is_inexact:
            self._past_of(node).is_looked_at = True

    def ways_of(self, nodes: Iterable[Node]) -> dict[Node, Node]:
        """Map computed leaves among `nodes` to the node, also among them, whose values they are."""
        pasts = self.pasts
        known = [(node, past) for node in nodes if (past := pasts.get(weakref.ref(node))) is not None]
        before = {past: node for node, past in known if node.sources}
        return {node: before[past] for node, past in known if not node.sources and past in before}

    def lost_on_the_way(self, reached: Iterable[Node], sources: Iterable[Node]) -> tuple[Node, Node] | None:
        """Return a node of `reached` whose forgotten history leads to one of `sources`, with that source; or None."""
        pasts = self.pasts
        wanted = {past: node for node in sources if (past := pasts.get(weakref.ref(node))) is not None}
        if wanted:
            for node in reached:
                past = pasts.get(weakref.ref(node))
                for origin in () if past is None or node.sources else past.origins:
                    if (found := origin()) in wanted:
                        return node, wanted[found]
        return None

    def _origins_of(self, node: Node) -> tuple[weakref.ref[Past], ...]:
        """Return all that the gradient at `node` reaches, and what that was made from."""
        reached: Sequence[Node] = node.sources
        if type(node) is not Binary or reached[0].sources or reached[1].sources:  # in a third of the time for those
            reached = walk.ancestors(node)[:-1]
        found: dict[weakref.ref[Past], None] = {}
        for ancestor in reached:
            past = self._past_of(ancestor)
            found[weakref.ref(past)] = None
            for origin in past.origins:
                if origin() is not None:
                    found[origin] = None
        return tuple(found)

    def _past_of(self, node: Node) -> Past:
        past = self.pasts.get(weakref.ref(node))
        if past is None:
            past = self.pasts[weakref.ref(node, self.pasts.pop)] = Past()
        return past

    def _living(self) -> Iterator[Observer]:
        for reference in tuple(self.references):  # a copy: one may die meanwhile
            observer = reference()
            if observer is not None:
                yield observer
