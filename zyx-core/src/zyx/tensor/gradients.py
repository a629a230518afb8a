"""What tensors have of gradients as PyTorch knows them; all of it is in `zyx.autograd.backward`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zyx.lazy_import import lazy_import

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.autograd import backward as leaf_gradients
    from zyx.tensor import data
    from zyx.tensor.tensor import Tensor
else:
    leaf_gradients = lazy_import("zyx.autograd.backward", globals())
    data = lazy_import("zyx.tensor.data", globals())


def requires_grad(x: Tensor) -> bool:
    """Whether gradients are kept of the tensor, or pass it; of a tensor that was not computed it can be set."""
    return leaf_gradients.requires_grad(x)


def set_requires_grad(x: Tensor, enabled: bool) -> None:
    """Begin or end to keep gradients of `x`. Raises as `requires_grad_` does."""
    leaf_gradients.set_requires_grad(x, enabled)


def requires_grad_(x: Tensor, requires_grad: bool = True) -> Tensor:
    """Begin or end to keep gradients of `x`; return `x`.

    Raises:
        GradientError: `x` is not of a float or complex dtype, or is to end it, and was computed from others.
    """
    set_requires_grad(x, requires_grad)
    return x


def grad_of(x: Tensor) -> Tensor | None:
    """The gradient that `backward` left, None without one; it can be set, to None or to a tensor of the same kind."""
    return leaf_gradients.grad_of(x)  # type: ignore[return-value]  # handles are tensors


def set_grad(x: Tensor, grad: Tensor | None) -> None:
    """Set the gradient of `x`.

    Raises:
        GradientError: `grad` is neither None nor a tensor, or `x` does not require a gradient.
        ShapeError: It is of another shape than `x`.
        DTypeError: It is of another dtype, or on another device.
    """
    leaf_gradients.set_grad(x, grad)


def is_leaf(x: Tensor) -> bool:
    """Whether the tensor was not computed from tensors that require gradients."""
    return leaf_gradients.is_leaf(x)


def is_wanted(x: Tensor) -> bool:
    """Tell whether gradients are kept of `x`, and it was not computed from others."""
    wanted = x.runtime.observers.wanted
    return bool(wanted) and (record := wanted.get(id(x))) is not None and not record.is_result


def copied_to(x: Tensor, twin: Tensor, memo: dict[int, Any]) -> Tensor:
    """Let `twin` have the values of `x` as a leaf of its own, with a copy of the gradient; return it."""
    twin = memo[id(x)] = twin.detach()
    twin.requires_grad_()
    copy_grad(x, twin)
    return twin


def copied(x: Tensor) -> Tensor:
    """Return a tensor of the same values. These never change: assignment changes what a tensor stands for."""
    return x.of(x.node, x.runtime)


def deeply_copied(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a tensor of the same values; if gradients of `x` are kept, a leaf of its own."""
    return copied_to(x, copied(x), memo) if is_wanted(x) else copied(x)


def copy_grad(x: Tensor, twin: Tensor) -> None:
    """Give `twin` a copy of the gradient of `x`, if that has one."""
    grad = grad_of(x)
    if grad is not None:
        set_grad(twin, grad.detach())


def leaf_of(kind: type[Tensor], values: object) -> Tensor:
    """Return a tensor that was pickled, which keeps gradients."""
    return kind(values, requires_grad=True)


def detached(x: Tensor) -> Tensor:
    """The same values, at which gradients end; to set it, or to assign to it, assigns values without their history."""
    return data.Data.owned_by(x)


def set_data(x: Tensor, values: Tensor) -> None:
    """Let `x` have other values of the same shape and dtype."""
    x.assign(values.detach())


def retain_grad(x: Tensor) -> None:
    """Keep a gradient of `x` as well, which was computed from tensors that require them.

    Raises:
        GradientError: `x` does not require a gradient.
    """
    leaf_gradients.retain_grad(x)


def backward(
    x: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Add the gradients of `x` to ``.grad`` of what it was computed from, where that requires gradients.

    Args:
        x: A tensor of one real element, or of any shape with a `gradient`.
        gradient: The gradient at `x`, of its shape, dtype and device.
        retain_graph: Whether it may be called again. If not, the history of `x` is let go of.
        create_graph: Whether the gradients have a history themselves, so that they can be differentiated. Then the
            graph is retained as well, unless `retain_graph` is false.
        inputs: Tensors to which alone gradients are added.

    Raises:
        GradientError: `x` has several elements and there is no `gradient`; it has no history, or that was let go of, or
            is not kept on the way: the text says why and what to do.
        ShapeError: `gradient` is of another shape.
        DTypeError: `gradient` is of another dtype, or on another device.
    """
    leaf_gradients.backward(x, gradient, retain_graph, create_graph, inputs)
