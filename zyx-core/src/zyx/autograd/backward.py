"""`backward`: gradients as PyTorch has them, summed into ``.grad`` of the tensors that require them.

    w = zyx.ones(3, requires_grad=True)
    loss = (w * x).sum()
    loss.backward()
    w.grad                                  # x; a second loss adds to it, until it is set to None

What is kept for it, and how long, says `zyx.runtime.leaves`. Gradients are lazy like everything else, so that forward,
backward and the step of an optimiser are planned together; those that are added up are computed at once, so that they
do not pile up.

In a function under `zyx.jit`, ``.grad`` is that of the call: it is None at the beginning, and what `backward` gives
must be used in the same call, by a step or by reading it. Nothing of it is there after the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from weakref import ref

from zyx.autograd.gradient import gradient
from zyx.errors import DTypeError, GradientError, ShapeError
from zyx.graph.node import Leaf, Node
from zyx.graph.walk import ancestors, reached_from
from zyx.ops import BinaryOp
from zyx.runtime import leaves
from zyx.runtime.handle import Handle
from zyx.runtime.ownership import is_read
from zyx.shape import size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zyx.runtime.leaves import Wanted


class _Kept(Mapping[Node, Node]):
    """The histories that hang off leaves."""

    def __getitem__(self, node: Node) -> Node:
        history = getattr(node, "history", None)
        if isinstance(history, Node):
            return history
        raise KeyError(node)

    def __contains__(self, node: object) -> bool:
        return isinstance(getattr(node, "history", None), Node)

    def __iter__(self) -> Iterator[Node]:
        return iter(())

    def __len__(self) -> int:
        return 0


_KEPT: Final = _Kept()


# ---- what is asked of a tensor


def requires_grad(x: Handle) -> bool:
    """Return whether `x` is a tensor that gradients are kept of, or was computed from one."""
    observers = x.runtime.observers
    if not observers.leaves:
        return False
    return id(x) in observers.wanted or leaves.has_history(observers, x.node)


def set_requires_grad(x: Handle, enabled: bool) -> None:
    """Begin or end to keep gradients of `x`.

    Raises:
        GradientError: `x` is not of a float or complex dtype, or is to end it, and was computed from others.
    """
    record = x.runtime.observers.wanted.get(id(x))
    is_leaf = record is not None and not record.is_result
    if enabled and is_leaf:
        return
    if not enabled:
        if is_leaf:
            leaves.forget(x)
        elif requires_grad(x):
            raise GradientError(
                f"requires_grad = False: {_text(x.node)} was computed from tensors that require gradients; "
                "use its detach()"
            )
    elif not x.node.dtype.is_inexact:
        raise GradientError(f"requires_grad: only floats and complex numbers have gradients, not {_text(x.node)}")
    elif not requires_grad(x):
        runtime = x.runtime
        runtime.assign(x, runtime.graph.alias(runtime.graph.detach(x.node)))
        leaves.want(x)
        runtime.realize([x])


def is_leaf(x: Handle) -> bool:
    """Return whether `x` was not computed from tensors that require gradients."""
    record = x.runtime.observers.wanted.get(id(x))
    return (record is not None and not record.is_result) or not requires_grad(x)


def retain_grad(x: Handle) -> None:
    """Keep a gradient of `x` as well, which was computed from tensors that require them.

    It is that of all its uses, also of those before. Only where it was not used yet it is told from other tensors that
    were computed to the same value in the same way.

    Raises:
        GradientError: It has no history.
    """
    if id(x) in x.runtime.observers.wanted:
        return
    if not requires_grad(x):
        raise GradientError(f"retain_grad: {_text(x.node)} does not require a gradient; set requires_grad")
    node = x.node
    if isinstance(node, Leaf) and isinstance(node.history, Node):
        leaves.want(x, at=node.history)  # where gradients come by whether it was used before it was computed or after
        return
    del node
    if not is_read(x):
        x._node = x.runtime.graph.alias(x.node)
    leaves.want(x, at=x._node)


def grad_of(x: Handle) -> Handle | None:
    """Return the gradient of `x` that `backward` left, None without one."""
    record = x.runtime.observers.wanted.get(id(x))
    if record is None:
        return None
    tracing = x.runtime.tracing
    if tracing is None:
        return record.grad
    grad, _ = tracing.grads.get(record, (None, True))
    if record in tracing.grads:
        tracing.grads[record] = (grad, True)
    return grad


def set_grad(x: Handle, grad: object) -> None:
    """Set the gradient of `x`.

    Raises:
        GradientError: `grad` is neither None nor a tensor, or `x` does not require a gradient.
        ShapeError: It is of another shape than `x`.
        DTypeError: It is of another dtype or on another device.
    """
    record = x.runtime.observers.wanted.get(id(x))
    if grad is not None:
        if not isinstance(grad, Handle):
            raise GradientError(f"grad is a tensor or None, not {type(grad).__name__}")
        _check_alike("grad", grad.node, x.node)
        if record is None:
            raise GradientError(f"grad: {_text(x.node)} does not require one; set requires_grad = True first")
    if record is not None:
        _put(record, grad, x, is_used=True)


# ---- backward


def backward(
    x: Handle,
    gradient: Handle | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Handle | Sequence[Handle] | None = None,
) -> None:
    """Add the gradients of `x` to ``.grad`` of what it was computed from, where that requires gradients.

    Args:
        x: A tensor of one real element, or of any shape with a `gradient`.
        gradient: The gradient at `x`, of its shape, dtype and device.
        retain_graph: Whether it may be called again. If not, the history of `x` is let go of.
        create_graph: Whether the gradients have a history themselves, so that they can be differentiated. Then the
            graph is retained as well, unless `retain_graph` is false.
        inputs: Tensors to which alone gradients are added; to those that were computed from others, too.

    Raises:
        GradientError: `x` has several elements and there is no `gradient`; it has no history, or that was let go of, or
            is not kept on the way: the text says why and what to do.
        ShapeError, DTypeError: `gradient` does not fit.
    """
    runtime = x.runtime
    observers = runtime.observers
    if runtime.tracing is None and observers.spent.get(id(x), ("",))[0] == leaves.SPENT:
        raise GradientError(f"backward: {_text(x.node)} {leaves.SPENT}")
    end = x.node
    if not leaves.has_history(observers, end):
        raise GradientError(
            f"backward: {_text(end)} has no history: nothing it was computed from requires a gradient, or it was "
            "computed under no_grad; set requires_grad = True, or use zyx.grad or zyx.Tape"
        )
    if gradient is None and size_of(end.shape) != 1:
        raise GradientError(
            f"backward: the tensor has shape {end.shape}, not one element; take its sum() or mean(), or give the "
            "gradient at it: y.backward(gradient=zyx.ones_like(y))"
        )
    if gradient is not None:
        if not isinstance(gradient, Handle):
            raise GradientError(f"backward: gradient is a tensor or None, not {type(gradient).__name__}")
        _check_alike("backward: gradient", gradient.node, end)
    with runtime.lock:
        chosen = _chosen(inputs)
        end = x.node  # which may be one of these
        found = _found(x, end, gradient, chosen)
        again = [_add(record, node, x, create_graph=create_graph) for record, node in found.items()]
        if runtime.tracing is None and not (create_graph if retain_graph is None else retain_graph):
            leaves.spend(x, leaves.SPENT)
        if size_of(end.shape) == 1:
            runtime.realize_along(x)
        sums = [grad for grad in again if grad is not None]
        if sums and not create_graph:
            runtime.realize(sums)


def _found(x: Handle, end: Node, upstream: Handle | None, chosen: set[int] | None) -> dict[Wanted, Node]:
    """Return the gradient for each tensor that is to be given one."""
    runtime = x.runtime
    observers = runtime.observers
    records = {
        node: [observers.leaves[ref(node)], *observers.beside.get(ref(node), ())]
        for node in _ends(end, observers.leaves)
    }
    ends = {node for node, (record, *_) in records.items() if not record.is_result}
    for node in ancestors(end, _KEPT, ends):
        if node not in ends and isinstance(node, Leaf) and isinstance(node.history, str):
            raise GradientError(f"backward: {_text(node)}, on the way from {_text(end)}, {node.history}")

    def is_asked_for(record: Wanted) -> bool:
        handle = record.reference()
        return handle is not None and (chosen is None or id(handle) in chosen)

    starts = [node for node, known in records.items() if any(map(is_asked_for, known))]
    given = None if upstream is None else upstream.node
    found: dict[Wanted, Node] = {}
    for node, part in zip(
        starts, gradient(runtime.graph, end, starts, given, _KEPT, ends) if starts else (), strict=True
    ):
        for record in filter(is_asked_for, records[node]):
            found[record] = part if record not in found else runtime.graph.binary(BinaryOp.ADD, found[record], part)
    return found


def _ends(end: Node, known: Mapping[ref[Node], Wanted]) -> list[Node]:
    """Return the nodes below `end` that stand for tensors which gradients are kept of, as far as gradients reach."""
    found: list[Node] = []
    waiting, met = [end], {end}
    while waiting:
        node = waiting.pop()
        record = known.get(ref(node))
        if record is not None:
            found.append(node)
            if not record.is_result:
                continue
        for source in reached_from(node, _KEPT):
            if source not in met:
                met.add(source)
                waiting.append(source)
    return found


def _chosen(inputs: Handle | Sequence[Handle] | None) -> set[int] | None:
    if inputs is None:
        return None
    chosen: set[int] = set()
    for handle in [inputs] if isinstance(inputs, Handle) else inputs:
        if not isinstance(handle, Handle):
            raise GradientError(f"backward: inputs are tensors, not {type(handle).__name__}")
        retain_grad(handle)
        chosen.add(id(handle))
    return chosen


def _add(record: Wanted, node: Node, x: Handle, *, create_graph: bool) -> Handle | None:
    """Add a gradient to that of a tensor; return the sum if there was one before."""
    handle = record.reference()
    if handle is None:
        return None
    runtime = x.runtime
    graph = runtime.graph
    if not create_graph:
        node = graph.detach(node)
    tracing = runtime.tracing
    before = record.grad if tracing is None else tracing.grads.get(record, (None, True))[0]
    if before is None:
        _put(record, type(handle).of(node, runtime), x, is_used=False)
        return None
    total = graph.binary(BinaryOp.ADD, before.node, node)
    if create_graph:
        _put(record, type(handle).of(total, runtime), x, is_used=False)
    else:
        runtime.assign(before, total)
        _put(record, before, x, is_used=False)
    return before


def _put(record: Wanted, grad: Handle | None, x: Handle, *, is_used: bool) -> None:
    tracing = x.runtime.tracing
    if tracing is None:
        record.grad = grad
    else:
        tracing.grads[record] = (grad, is_used)


def _check_alike(what: str, given: Node, node: Node) -> None:
    if given.shape != node.shape:
        raise ShapeError(f"{what} has shape {given.shape}, and the tensor {node.shape}")
    if given.dtype is not node.dtype or given.device != node.device:
        raise DTypeError(f"{what} is {_text(given)}, and the tensor {_text(node)}")


def _text(node: Node) -> str:
    return f"{node.dtype}{list(node.shape)} on {node.device}"
