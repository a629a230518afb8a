"""Calls of modules whose gradients are watched; see `zyx.nn.hooks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.autograd.watching import Watch
from zyx.errors import GradientError
from zyx.functions.operands import is_tensor
from zyx.graph.node import Alias
from zyx.runtime.runtime import current
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.graph import Node
    from zyx.nn.module import Module
    from zyx.runtime.runtime import Runtime


class _Watched:
    """A call; what `zyx.autograd.watching.WatchedCall` says."""

    def __init__(
        self, module: Module, runtime: Runtime, before: list[Callable[..., Any]], after: list[Callable[..., Any]]
    ) -> None:
        self._module, self._runtime, self._before, self._after = module, runtime, before, after
        self.counts = (0, 0)

    def before(self, outlets: Sequence[Node | None]) -> Sequence[Node | None]:
        for hook in self._before:
            outlets = self._replaced(hook(self._module, self._tensors(outlets)), outlets)
        return outlets

    def after(self, inlets: Sequence[Node | None], outlets: Sequence[Node | None]) -> Sequence[Node | None]:
        shown = self._tensors(outlets)
        for hook in self._after:
            inlets = self._replaced(hook(self._module, self._tensors(inlets), shown), inlets)
        return inlets

    def _tensors(self, nodes: Sequence[Node | None]) -> tuple[Tensor | None, ...]:
        return tuple([None if node is None else Tensor.of(node, self._runtime) for node in nodes])

    def _replaced(self, given: object, nodes: Sequence[Node | None]) -> Sequence[Node | None]:
        """Return the gradients that a hook gives in place of `nodes`."""
        if given is None:
            return nodes
        listed = given if isinstance(given, tuple | list) else (given,)
        if len(listed) != len(nodes):
            raise GradientError(
                f"a hook of {type(self._module).__name__} returned {len(listed)} gradients in place of {len(nodes)}"
            )
        found: list[Node | None] = []
        for number, (new, old) in enumerate(zip(listed, nodes, strict=True)):
            if new is not None and (not is_tensor(new) or (old is not None and new.node.shape != old.shape)):
                what = f"shape {new.node.shape}" if is_tensor(new) else type(new).__name__
                wanted = "a tensor or None" if old is None else f"one of shape {old.shape}, or None"
                raise GradientError(
                    f"a hook of {type(self._module).__name__}: gradient {number} is {what}, not {wanted}"
                )
            node = None if new is None or old is None else new.node
            graph = self._runtime.graph
            found.append(
                node if node is None or old is None else graph.to_device(graph.cast(node, old.dtype), old.device)
            )
        return found

    def bordered(self, value: Any, *, is_outlet: bool) -> Any:  # noqa: ANN401  # what goes in or comes out
        """Return `value` with aliases in place of tensors, itself or those of a tuple; and count them."""
        listed = list(value) if isinstance(value, tuple | list) else [value]
        self.counts = (self.counts[0], len(listed)) if is_outlet else (len(listed), self.counts[1])
        for position, item in enumerate(listed):
            if is_tensor(item) and item.node.dtype.is_inexact:
                node = self._runtime.graph.alias(item.node)
                assert isinstance(node, Alias)
                node.watch = Watch(self, is_outlet, position)
                listed[position] = Tensor.of(node, self._runtime)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*listed)
        return type(value)(listed) if isinstance(value, tuple | list) else listed[0]


def observed(
    module: Module,
    before: list[Callable[..., Any]],
    after: list[Callable[..., Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:  # noqa: ANN401  # as `forward`
    """Return what the module gives for its arguments; gradients that pass it call `before` and `after`."""
    call = _Watched(module, current(), before, after)
    args = call.bordered(args, is_outlet=False)
    return call.bordered(module.forward(*args, **kwargs), is_outlet=True)
