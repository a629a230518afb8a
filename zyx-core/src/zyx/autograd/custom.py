"""Gradients by a rule of one's own, and gradients that compute values anew instead of keeping them.

Both are an `Alias` with a rule: to whatever computes it, it is the result; a gradient that comes to it goes on to the
inputs of the rule, and not through what the result was made of.

    x -> ... -> value -> alias          computed: as it was written
    x <------- rule <--- alias          gradients: by the rule
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from zyx.autograd.gradient import pulled_to
from zyx.autograd.structure import handles_of, map_handles
from zyx.errors import GradientError
from zyx.graph import Graph
from zyx.graph.node import Alias, Cast, Expand, Leaf, Permute, Reshape
from zyx.graph.rebuild import rebuild
from zyx.graph.walk import below, reached_from, topological
from zyx.runtime.handle import Handle
from zyx.runtime.runtime import current

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from zyx.graph import Node
    from zyx.graph.base import AliasRule
    from zyx.runtime.runtime import Runtime

__all__ = ["checkpoint", "custom_gradient"]

P = ParamSpec("P")

#: What operands are brought to one shape and dtype by.
_ALIGNED: Final = frozenset({Reshape, Expand, Permute, Cast})

_inside_checkpoint: Final[ContextVar[bool]] = ContextVar("inside_checkpoint", default=False)

# Any: what users' functions take and return is theirs.


# ---- a rule of one's own


class _Written:
    """The rule of one result of a function that says what its gradients are.

    Attributes:
        inputs: The tensors that it was given, of floats or complex numbers.
    """

    def __init__(self, name: str, pull: Callable[[Any], Any], arguments: Any, out: Any, place: int) -> None:  # noqa: ANN401
        self._name = name
        self._pull = pull
        self._arguments = [
            None if handle is None else handle.node if handle.node.dtype.is_inexact else None for handle in arguments
        ]
        self._kinds = [type(handle) if handle is not None else None for handle in arguments]
        self._out = out
        self._place = place
        self.inputs = tuple(node for node in self._arguments if node is not None)

    def pull(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        """Ask the function that was returned beside the result; of several results the others have the upstream 0."""
        count = -1

        def given(_: str, handle: Handle) -> Handle:
            nonlocal count
            count += 1
            mine = graph.conjugate(upstream) if count == self._place else _zeros(graph, handle.node)
            return type(handle).of(mine, handle.runtime)

        found = self._pull(map_handles(given, self._out, f"the result of {self._name}"))
        listed = list(found) if isinstance(found, tuple | list) else [found]
        if len(listed) != len(self._arguments):
            raise GradientError(
                f"the gradient of {self._name} returned {len(listed)} values for {len(self._arguments)} arguments; "
                "return a tuple with one for each, or None"
            )
        parts: list[Node | None] = []
        for number, (part, like) in enumerate(zip(listed, self._arguments, strict=True)):
            if like is None:
                continue
            if part is not None and not isinstance(part, Handle):
                raise GradientError(
                    f"the gradient of {self._name} returned a {type(part).__name__} for argument {number}, not a "
                    "tensor or None"
                )
            at = None if part is None else part.node
            if at is not None and (at.shape, at.dtype, at.device) != (like.shape, like.dtype, like.device):
                raise GradientError(
                    f"the gradient of {self._name} at argument {number} is {at!r}, and the argument {like!r}; they "
                    "must agree in shape, dtype and device"
                )
            parts.append(None if at is None else graph.conjugate(at))
        return parts


def _zeros(graph: Graph, node: Node) -> Node:
    return graph.const(0, node.dtype, node.device, node.shape)


def custom_gradient(function: Callable[P, tuple[Any, Callable[..., Any]]]) -> Callable[P, Any]:
    """Return a function whose gradients are those that `function` says, as ``jax.custom_gradient`` has it.

        @zyx.custom_gradient
        def clipped(x):
            def pull(g):
                return g.clip(-1, 1)        # the gradient at x of one at the result
            return x, pull

    Args:
        function: Takes tensors by position, and anything by name. Returns a pair: tensors, or lists, tuples and dicts
            of such; and a function of the gradient at these, structured alike, that returns a tuple of the gradients at
            the arguments, None for what has none. Of one argument it may be the gradient alone. It is called once for
            each tensor of the result that gradients come to, with 0 at the others; what it computes with tensors can be
            differentiated again.

    Returns:
        A function of the same arguments, which returns the first of the pair. Gradients come to its arguments alone:
        tensors that `function` finds outside count as constants.

    Raises:
        GradientError: When called: an argument by position that is no tensor and not None, or a result that is no pair.
            When differentiated: gradients of another number, shape, dtype or device than the arguments.

    >>> doubled = zyx.custom_gradient(lambda x: (x, lambda g: 2 * g))
    >>> zyx.grad(lambda x: doubled(x).sum())(zyx.Tensor([5.0])).tolist()
    [2.0]
    """
    name = getattr(function, "__qualname__", type(function).__name__)

    @functools.wraps(function)
    def with_gradient(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  # see above
        for number, argument in enumerate(args):
            if argument is not None and not isinstance(argument, Handle):
                raise GradientError(
                    f"{name}: argument {number} is a {type(argument).__name__}, not a tensor; give what has no "
                    "gradient by name"
                )
        pair = function(*args, **kwargs)
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise GradientError(f"{name} returned {type(pair).__name__}, not (result, function of the gradient at it)")
        out, pull = pair
        place = -1

        def guided(_: str, handle: Handle) -> Handle:
            nonlocal place
            place += 1
            rule = _Written(name, pull, args, out, place)
            return type(handle).of(handle.runtime.graph.alias(handle.node, rule), handle.runtime)

        return map_handles(guided, out, f"the result of {name}")

    return with_gradient


# ---- computing anew


class _Copier:
    """Makes nodes again over others in place of some.

    Args:
        graph: Makes them.
        copies: For the nodes to be replaced, what replaces them.
    """

    def __init__(self, graph: Graph, copies: dict[Node, Node]) -> None:
        self._graph = graph
        self._copies = copies

    def of(self, node: Node) -> Node:
        """Return `node` over what takes the place of its sources; itself if it depends on nothing that is replaced."""
        waiting = [node]
        while waiting:
            current = waiting[-1]
            missing = [each for each in below(current) if each not in self._copies]
            if current in self._copies:
                waiting.pop()
            elif missing:
                waiting += missing
            else:
                self._copies[current] = self._copy(current)
                waiting.pop()
        return self._copies[node]

    def replace(self, old: Node, node: Node) -> None:
        """Let a copy of `node` take the place of `old`, also where nothing in it is replaced."""
        for each in below(node):
            self.of(each)
        self._copies[old] = self._made(node)

    def _copy(self, node: Node) -> Node:
        if all(self._copies[each] is each for each in below(node)):
            return node
        return self._made(node)

    def _made(self, node: Node) -> Node:
        sources = [self._copies[source] for source in node.sources]
        if isinstance(node, Alias) and not node.detached:
            rule = None if node.rule is None else _Moved(node.rule, self)
            return self._graph.alias(sources[0], rule)
        return rebuild(self._graph, node, sources)


class _Moved:
    """A rule whose inputs, and what it computes from them, are made again."""

    def __init__(self, rule: AliasRule, copier: _Copier) -> None:
        self._rule = rule
        self._copier = copier
        self.inputs = tuple(copier.of(node) for node in rule.inputs)

    def pull(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        """Ask the rule."""
        return [part if part is None else self._copier.of(part) for part in self._rule.pull(graph, node, upstream)]


class _Anew:
    """The rule of what was computed, and is computed anew when a gradient comes to it.

    Args:
        runtime: What it belongs to.
        value: The result.
        given: What stands for the arguments in it.
        arguments: The arguments.

    Attributes:
        inputs: The arguments, and what else the result was made of: of that, what does not depend on them.
    """

    is_computed_at_once = True

    def __init__(self, runtime: Runtime, value: Node, given: Sequence[Node], arguments: Sequence[Node]) -> None:
        self._runtime = runtime
        self._value = value
        self._given = tuple(given)
        inside = set(given)
        outside: dict[Node, None] = {}
        for node in topological([value], through_storage=True):
            if not inside.isdisjoint(below(node)):
                inside.add(node)
                outside |= dict.fromkeys(reached_from(node))
        found = dict.fromkeys(self._origin(node) for node in outside if node not in inside)
        self._outside = tuple(found)
        self.inputs = (*arguments, *self._outside)

    def _origin(self, node: Node) -> Node:
        """Return what `node` was made of by operations such as those that align operands, whose results are large."""
        observers = self._runtime.observers
        while type(node) in _ALIGNED and node.storage is None and node.sources[0].dtype.is_inexact:
            if observers.are_of_a_handle(node):
                break
            node = node.sources[0]
        return node

    def pull(self, graph: Graph, node: Node, upstream: Node) -> Sequence[Node | None]:
        """Make the result again, and take the gradient through that."""
        count = len(self._given)
        again = [graph.alias(argument) for argument in self.inputs[:count]]
        anew = _Copier(graph, dict(zip(self._given, again, strict=True))).of(self._value)
        found = pulled_to(graph, anew, upstream, [*again, *self._outside])
        if self._runtime.tracing is None:  # now, so that what was made again does not live beside all that follows
            handles = [Handle.of(part, self._runtime) for part in found if part is not None]
            self._runtime.realize(handles)
        return found


class _Apart(Graph):
    """Makes nodes that are nobody else's, each as it is asked for."""

    merges = False


class _Computed:
    """An `Observer` of what is computed while a function runs: by ``realize``, or since somebody looks at it.

    A tensor stands for its values from then on, and its history ends there. `of` has the history again, of nodes that
    hold no values.
    """

    is_recording = False

    def __init__(self) -> None:
        self._inside: set[Node] = set()
        self._before: dict[Node, Node] = {}
        self._copies: dict[Node, Node] = {}

    def created(self, handle: Handle) -> None:
        """Remember what is made while the function runs: the history of all else is not its own."""
        self._inside.add(handle._node)

    def assigned(self, handle: Handle, old: Node) -> None:
        """Remember what is assigned, likewise."""
        self._inside.add(handle._node)

    def computed(self, handle: Handle, node: Node, leaf: Leaf) -> None:
        """Remember what a leaf was."""
        if node.sources and node in self._inside:
            self._before[leaf] = node

    def rebuild(self, given: Collection[Node]) -> None:
        """Make again what was computed, in the order in which it was, over what is given; and remember no more."""
        copier = _Copier(_Apart(), self._copies)
        for leaf, node in self._before.items():
            if node in given:
                self._copies[leaf] = node
            else:
                copier.replace(leaf, node)
        self._before.clear()
        self._inside.clear()

    def of(self, node: Node) -> Node:
        """Return `node` over what was computed, in place of its values."""
        return _Copier(_Apart(), self._copies).of(node) if self._copies else node


def is_inside_checkpoint() -> bool:
    """Whether this thread or task runs a function of `checkpoint`, so that what it computes may be computed again."""
    return _inside_checkpoint.get()


def checkpoint(function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:  # noqa: ANN401
    """Return ``function(*args, **kwargs)``, whose gradient computes it anew instead of keeping what it computed.

        y = zyx.checkpoint(block, x)        block(x) now; once more on the way back

    The result is computed at once, and so are gradients as they pass: so at no time is there memory for the values
    inside of more than one such part. What the function itself computes by ``realize``, or looks at, is kept longer,
    until the result is gone. Random numbers that are drawn inside are the same both times. In a function under
    `zyx.jit` values are the same, too; there one plan is made of all, and decides what is kept.

    Args:
        function: Returns tensors, or lists, tuples and dicts of such. Tensors that it finds outside, such as
            parameters, get their gradients as well. (Of one that was only reshaped, expanded, permuted or cast before
            the block of a tape, and is not computed, it is what that was made of that gets it.)
        args: What it takes; tensors by position, also in lists, tuples and dicts, get gradients.
        use_reentrant: Changes nothing; PyTorch has it.
        kwargs: What it takes by name; tensors there get gradients like those found outside.

    Raises:
        GradientError: The result is no tensor.

    >>> x = zyx.Tensor([2.0, 3.0], requires_grad=True)
    >>> zyx.checkpoint(lambda x: (x * x).sum(), x).backward()
    >>> x.grad.tolist()
    [4.0, 6.0]
    """
    given: list[Node] = []
    arguments: list[Node] = []

    def stand_in(argument: Any) -> Any:  # noqa: ANN401  # see above
        if isinstance(argument, Handle) and argument.node.dtype.is_inexact:
            node = argument.node
            alias = argument.runtime.graph.alias(node)
            given.append(alias)
            arguments.append(node)
            return type(argument).of(alias, argument.runtime)
        if isinstance(argument, dict):
            return {key: stand_in(value) for key, value in argument.items()}
        if isinstance(argument, list | tuple):
            return getattr(type(argument), "_make", type(argument))([stand_in(value) for value in argument])
        return argument

    observers, computed = current().observers, _Computed()
    inside = _inside_checkpoint.set(True)
    observers.add(computed, is_following=False)
    try:
        out = function(*[stand_in(argument) for argument in args], **kwargs)
    finally:
        observers.drop_bystander(computed)
        _inside_checkpoint.reset(inside)
    computed.rebuild(given)
    name = f"the result of {getattr(function, '__qualname__', type(function).__name__)}"

    def guided(_: str, handle: Handle) -> Handle:
        node, runtime = handle.node, handle.runtime
        value = computed.of(node)
        if not node.dtype.is_inexact or isinstance(value, Leaf):
            return handle
        rule = _Anew(runtime, value, given, arguments)
        return type(handle).of(runtime.graph.alias(node, rule), runtime)

    result = map_handles(guided, out, name)
    handles = [handle for _, handle in handles_of(result, name)]
    if handles:
        handles[0].runtime.realize(handles)
    return result
