"""Keep the history of values, and differentiate through it.

    with zyx.Tape() as tape:
        loss = model(x)
    print(loss.numpy())                         # computes it; without the tape its history would be gone now
    gradients = tape.gradient(loss, weights)

What is kept, and for how long:

1. Values lie in memory once they were read or realised; a tensor then stands for a leaf, and how it was computed is
   forgotten. A tape in whose block the tensor was made or computed remembers, for that leaf, the node that it was.
2. It remembers as long as both the tape and the leaf live. Nothing else is held: a value that nobody needs dies as
   usual, and dropping the tape frees all history.
3. What was made before the block but not computed is history like any other. What `realize` computed before counts as
   given. What was computed since somebody looked (printed it, asked for its values, gave it to a function made by
   `zyx.jit`) has lost its history too, unless something else has it; a gradient at what it was made from is refused
   then, so that looking changes none.
4. The target must have been made inside the block; the sources may come from anywhere.
5. A source that was assigned to means the value that the target was computed from: of all the values it had while the
   tape lived, the last that the target depends on.
6. Functions made by `zyx.jit` run untraced while a tape records, so that what they do is history like everything else.
   What one of them computed earlier counts as given.
7. Tapes nest. What `gradient` returns inside a block, of this or of another tape, is recorded like everything else, so
   it can be differentiated again.
"""

from __future__ import annotations

import weakref
from collections import ChainMap
from typing import TYPE_CHECKING, Self, TypeVar

from zyx.autograd.gradient import check_source, gradient
from zyx.autograd.structure import handles_of, map_handles
from zyx.errors import GradientError
from zyx.graph.walk import ancestors
from zyx.modes import is_grad_enabled, switch_grad
from zyx.runtime import leaves
from zyx.runtime.handle import Handle
from zyx.runtime.runtime import current
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from zyx.graph.node import Leaf, Node
    from zyx.modes import UndoSwitch
    from zyx.runtime.runtime import Runtime

S = TypeVar("S")


class Tape:
    """Records what is computed inside its ``with`` block, in the current runtime.

    Attributes:
        is_recording: Whether the block is being run.
        recorded: What tensors that were made in the block stood for then.

    Raises:
        GradientError: When a gradient is asked for: the target was not made in the block.

    >>> x = zyx.Tensor([2.0, 3.0])
    >>> with zyx.Tape() as tape:
    ...     loss = (x * x).sum()
    >>> tape.gradient(loss, x).tolist()
    [4.0, 6.0]
    """

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self.is_recording = False
        self._undo: UndoSwitch | None = None
        self.recorded: weakref.WeakSet[Node] = weakref.WeakSet()
        self._history: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()
        # By id, since `==` of tensors compares their elements: the handle, and the nodes it stood for earlier.
        self._earlier: dict[int, tuple[weakref.ref[Handle], list[weakref.ref[Node]]]] = {}

    def __enter__(self) -> Self:
        runtime = current()
        if self.is_recording or self._runtime not in (None, runtime):
            raise GradientError("this tape is recording already, or belongs to another runtime; make another Tape")
        if self._runtime is None:
            self._runtime = runtime
            runtime.observers.add(self)
        self.is_recording = True
        if not is_grad_enabled():  # a tape is more than a habit: what is computed in its block has history
            self._undo = switch_grad(True)
            self._undo.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_recording = False
        if self._undo is not None:
            self._undo.__exit__(kind, error, traceback)
            self._undo = None

    def gradient(self, target: Handle, sources: S, upstream: Handle | None = None) -> S:
        """Return the gradient of `target` with respect to each of `sources`, in the structure that these have.

        Gradients have the shape, dtype and device of their source. Nothing is computed yet; when something is, a target
        of one element that is still around by then is computed along with it, since reading a loss after the step it
        led to would otherwise start from the beginning. It may be called any number of times, inside the block or after
        it.

        At a complex number ``x + iy`` the gradient is ``dL/dx + i dL/dy``, as PyTorch has it: to subtract it descends.
        JAX has its conjugate.

        Args:
            target: A tensor of one element, real unless there is an `upstream`, made inside the block.
            sources: A tensor, or lists, tuples and dicts of tensors; None stays None. The gradient with respect to one
                that `target` does not depend on is 0.
            upstream: The gradient at `target`, of its shape, dtype and device; then it may have any shape.

        Raises:
            GradientError: `target` is no tensor or was not made inside the block; it or a source is not of a float
                or complex dtype; a source is a constant; `target` has several elements and no upstream; an operation
                on the way has no gradient; or how a value on the way was made from a source is forgotten (rule 3).
        """
        if not isinstance(target, Handle):
            raise GradientError(
                f"the target is a {type(target).__name__}, not a tensor; numbers read from one have no history"
            )
        end = self._kept(target.node)
        if self._runtime is None or end not in self.recorded:
            raise GradientError(
                f"the target, {end.dtype}{list(end.shape)}, was not made inside the block of this tape, so its history "
                "is not kept; compute it there: `with Tape() as tape: ...`"
            )
        named = handles_of(sources, "sources")
        history: Mapping[Node, Node] = self._history
        pasts = self._runtime.observers.pasts
        reached = set(ancestors(end, history)) if self._earlier or pasts else set()
        starts = [self._value_of(handle, reached) for _, handle in named]
        if pasts:
            ways = self._runtime.observers.ways_of(reached.union(starts))
            if ways:
                history = ChainMap(ways, self._history)  # another thread may add to it
                reached = set(ancestors(end, history))
                starts = [ways.get(node, node) for node in starts]
        for (name, _), node in zip(named, starts, strict=True):
            check_source(name, node)
        if pasts:
            self._check_ways(reached.difference(history), dict(zip(starts, (name for name, _ in named), strict=True)))
        found = gradient(self._runtime.graph, end, starts, None if upstream is None else upstream.node, history)
        if size_of(end.shape) == 1:
            self._runtime.realize_along(target)
        if self._runtime.observers.leaves and not self._runtime.traces:
            leaves.spend(target, leaves.TAPED)  # or losses in a list would keep all values that parameters had
        made = iter(Handle.of_each(list(found), [handle for _, handle in named]))
        return map_handles(lambda _, __: next(made), sources, "sources")

    def _check_ways(self, reached: set[Node], names: Mapping[Node, str]) -> None:
        """Raise `GradientError` if one of `reached` was made from a source, and nobody knows how: rule 3."""
        assert self._runtime is not None
        lost = self._runtime.observers.lost_on_the_way(reached, names)
        if lost is not None:
            value, source = lost
            raise GradientError(
                f"the target depends on {value.dtype}{list(value.shape)}, which was made from {names[source]}, "
                f"{source.dtype}{list(source.shape)}, and computed outside the block of this tape when somebody looked "
                "at it (printed it, asked for its values, gave it to a jitted function): how is forgotten, so the "
                "gradient would lack that part. Make it inside the block, or use its detach() where it is to count as "
                "given"
            )

    def _value_of(self, handle: Handle, reached: set[Node]) -> Node:
        """Return the node that `handle` means as a source of a target that depends on `reached`: rule 5."""
        now = self._kept(handle.node)
        _, earlier = self._earlier.get(id(handle), (None, []))
        if now not in reached:
            for reference in reversed(earlier):
                node = reference()
                if node is not None and node in reached:
                    return node
        return now

    def _kept(self, node: Node) -> Node:
        """Return what `node` was before it was computed, as far as this tape knows."""
        return self._history.get(node, node)

    # ---- called by the runtime

    def created(self, handle: Handle) -> None:
        """Record a new handle."""
        if self.is_recording:
            self.recorded.add(handle._node)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Remember what `leaf` was computed as, if that is for this tape to keep: rule 1."""
        if self.is_recording or node in self.recorded:
            self._history[leaf] = node
        else:
            self._note_earlier(handle, node)

    def assigned(self, handle: Handle, old: Node) -> None:
        """Remember what `handle` stood for."""
        self._note_earlier(handle, self._kept(old))

    def _note_earlier(self, handle: Handle, node: Node) -> None:
        """Note that `handle` stood for `node`, weakly: if the target depends on `node`, that keeps it alive."""
        key, earlier = id(handle), self._earlier
        if key not in earlier:
            earlier[key] = (weakref.ref(handle, lambda _: earlier.pop(key, None)), [])
        nodes = earlier[key][1]
        nodes[:] = [reference for reference in nodes if reference() is not None]
        nodes.append(weakref.ref(node))
