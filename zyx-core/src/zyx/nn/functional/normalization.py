"""Bring values to mean 0 and variance 1, over the axes that each function names.

Variances are those of the values at hand (divided by n, not n - 1). float16 and bfloat16 are computed in float32 and
rounded once at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zyx import dtype as dtypes
from zyx import shape as shapes
from zyx.errors import DTypeError, ShapeError
from zyx.functions.operands import kept, require, term_of, wrap
from zyx.integers import as_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.functions.term import Term
    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last axes. Ba, Kiros and Hinton, "Layer normalization", 2016.

    Args:
        x: ``(..., *normalized_shape)`` of floats.
        normalized_shape: Sizes of the axes to normalise over.
        weight: ``normalized_shape``, multiplied in the end.
        bias: ``normalized_shape``, added in the end.
        eps: Added to the variance.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: Not of floats.

    >>> zyx.nn.functional.layer_norm(zyx.Tensor([[1.0, 1.0]]), (2,)).tolist()
    [[0.0, 0.0]]
    """
    term, axes, sizes = _last_axes(x, normalized_shape, "layer_norm")
    result = _affine(_standardised(term, axes, eps), weight, bias, sizes, "layer_norm")
    return wrap(result.cast(kept(x.node.dtype)).node, x)


def rms_norm(
    x: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root of the mean square over the last axes.

    Zhang and Sennrich, "Root mean square layer normalization", 2019.

    Args:
        x: ``(..., *normalized_shape)`` of floats.
        normalized_shape: Sizes of the axes to normalise over.
        weight: ``normalized_shape``, multiplied in the end.
        eps: Added to the mean square; None is the distance of 1 to the next number of the dtype.

    Raises:
        ShapeError: Shapes that do not fit.
        DTypeError: Not of floats.

    >>> zyx.nn.functional.rms_norm(zyx.Tensor([3.0, 3.0]), 2, eps=0.0).tolist()
    [1.0, 1.0]
    """
    term, axes, sizes = _last_axes(x, normalized_shape, "rms_norm")
    offset = 2.0 ** -_FRACTION_BITS[x.node.dtype] if eps is None else eps
    result = _affine(term * _inverse_root(_mean(term * term, axes) + offset), weight, None, sizes, "rms_norm")
    return wrap(result.cast(kept(x.node.dtype)).node, x)


_FRACTION_BITS = {dtypes.float16: 10, dtypes.bfloat16: 7, dtypes.float32: 23, dtypes.float64: 52}


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each example over groups of channels. Wu and He, "Group normalization", 2018.

    Args:
        x: ``(N, C, ...)`` of floats.
        num_groups: Into how many groups the channels fall, in order; all axes behind belong to them.
        weight: ``(C,)``, multiplied in the end.
        bias: ``(C,)``, added in the end.
        eps: Added to the variance.

    Raises:
        ShapeError: Shapes that do not fit, or C is no multiple of `num_groups`.
        DTypeError: Not of floats.

    >>> zyx.nn.functional.group_norm(zyx.ones(2, 6, 4), 3).shape
    (2, 6, 4)
    """
    term = _wide(x, "group_norm")
    shape, num_groups = term.shape, as_integer(num_groups, "num_groups")
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(f"group_norm takes (N, C, ...) with C a multiple of {num_groups} groups, not {shape}")
    grouped = term.reshape((shape[0], num_groups, shape[1] // num_groups, *shape[2:]))
    result = _standardised(grouped, range(2, len(grouped.shape)), eps).reshape(shape)
    return wrap(_affine_channels(result, weight, bias, "group_norm").cast(kept(x.node.dtype)).node, x)


def instance_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
) -> Tensor:
    """Normalise each channel of each example. Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016.

    Args:
        x: ``(N, C, ...)`` of floats.
        weight: ``(C,)``, multiplied in the end.
        bias: ``(C,)``, added in the end.
        eps: Added to the variance.
        running_mean: ``(C,)``; with `use_input_stats` it follows the means as that of `batch_norm` does.
        running_var: ``(C,)``; likewise.
        use_input_stats: Whether to use mean and variance of `x`; else the running ones.
        momentum: Weight of the new values in the running ones.

    Raises:
        ShapeError: Shapes that do not fit, or no running values where they are to be used.
        DTypeError: Not of floats.

    >>> zyx.nn.functional.instance_norm(zyx.Tensor([[[1.0, 1.0], [5.0, 5.0]]])).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """
    term = _wide(x, "instance_norm")
    if len(term.shape) < 3:
        raise ShapeError(f"instance_norm takes (N, C, ...) with axes behind the channels, not {term.shape}")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ShapeError("instance_norm: without use_input_stats it takes running_mean and running_var")
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = range(2, len(term.shape))
    if running_mean is not None and running_var is not None:
        count = shapes.size_of(term.shape[2:])
        mean = _mean(term, axes)
        spread = _mean((term - mean) * (term - mean), axes) * (count / max(count - 1, 1))
        _follow(running_mean, _mean(mean, (0,)), momentum)
        _follow(running_var, _mean(spread, (0,)), momentum)
    result = _standardised(term, axes, eps)
    return wrap(_affine_channels(result, weight, bias, "instance_norm").cast(kept(x.node.dtype)).node, x)


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch and all axes behind. Ioffe and Szegedy, "Batch normalization", 2015.

    In training, and where there are no running values, by mean and variance of `x`; else by the running ones.

    Args:
        x: ``(N, C, ...)`` of floats.
        running_mean: ``(C,)``; in training it is assigned ``(1 - momentum) * running_mean + momentum * mean``.
        running_var: ``(C,)``; likewise, of the variance divided by n - 1.
        weight: ``(C,)``, multiplied in the end.
        bias: ``(C,)``, added in the end.
        training: Whether it is training.
        momentum: Weight of the new values; a tensor of one element if it changes.
        eps: Added to the variance.

    Raises:
        ShapeError: Shapes that do not fit, only one of the running values, or in training one value a channel.
        DTypeError: Not of floats.

    >>> zyx.nn.functional.batch_norm(zyx.ones(2, 3), zyx.zeros(3), zyx.ones(3)).shape
    (2, 3)
    """
    term = _wide(x, "batch_norm")
    if len(term.shape) < 2:
        raise ShapeError(f"batch_norm takes (N, C, ...), not {term.shape}")
    if (running_mean is None) != (running_var is None):
        raise ShapeError("batch_norm takes both running values, or none")
    axes = [0, *range(2, len(term.shape))]
    if training or running_mean is None or running_var is None:
        count = shapes.size_of(term.shape) // max(term.shape[1], 1)
        if training and count < 2:
            raise ShapeError(f"batch_norm: in training each channel needs more than the one value of {term.shape}")
        mean = _mean(term, axes)
        centred = term - mean
        variance = _mean(centred * centred, axes)
        if training and running_mean is not None and running_var is not None:
            _follow(running_mean, mean, momentum)
            _follow(running_var, variance * (count / (count - 1)), momentum)
    else:
        mean, variance = (_along_channels(t, term, "batch_norm") for t in (running_mean, running_var))
        centred = term - mean
    result = centred * _inverse_root(variance + eps)
    return wrap(_affine_channels(result, weight, bias, "batch_norm").cast(kept(x.node.dtype)).node, x)


def _follow(running: Tensor, value: Term, momentum: float | Tensor) -> None:
    """Move `running` toward `value`, without a gradient."""
    old = term_of(running, "batch_norm")
    new = value.detach().cast(old.dtype)
    if new.reshape((new.shape[1],)).shape != old.shape:
        raise ShapeError(f"batch_norm: running values {old.shape} for {new.shape[1]} channels")
    share = momentum if isinstance(momentum, float | int) else term_of(momentum, "batch_norm").cast(old.dtype)
    moved = old + (new.reshape(old.shape) - old) * share
    running.runtime.assign(running, moved.node)
    running.runtime.realize_along(running)


# ---- what they share


def _wide(x: Tensor, what: str) -> Term:
    term = term_of(x, what)
    if not term.dtype.is_float:
        raise DTypeError(f"{what} takes floats, not {term.dtype}")
    return term.cast(dtypes.accumulator(term.dtype))


def _last_axes(x: Tensor, sizes: int | Sequence[int], what: str) -> tuple[Term, range, Shape]:
    term, wanted = _wide(x, what), shapes.as_shape(sizes, "normalized_shape")
    count = len(wanted)
    if not count or term.shape[-count:] != wanted:
        raise ShapeError(f"{what}: the last axes of {term.shape} are not {wanted}")
    return term, range(len(term.shape) - count, len(term.shape)), wanted


def _mean(term: Term, axes: Sequence[int]) -> Term:
    return term.sum(axes) / shapes.as_float(math.prod(term.shape[axis] for axis in axes))


def _inverse_root(term: Term) -> Term:
    return term.sqrt().reciprocal()


def _standardised(term: Term, axes: Sequence[int], eps: float) -> Term:
    centred = term - _mean(term, axes)
    return centred * _inverse_root(_mean(centred * centred, axes) + eps)


def _affine(term: Term, weight: Tensor | None, bias: Tensor | None, sizes: Shape, what: str) -> Term:
    for name, given in (("weight", weight), ("bias", bias)):
        if given is not None and require(given, what).node.shape != sizes:
            raise ShapeError(f"{what}: {name} {given.node.shape} should be {sizes}")
    if weight is not None:
        term = term * term_of(weight, what).cast(term.dtype)
    return term if bias is None else term + term_of(bias, what).cast(term.dtype)


def _affine_channels(term: Term, weight: Tensor | None, bias: Tensor | None, what: str) -> Term:
    if weight is not None:
        term = term * _along_channels(weight, term, what)
    return term if bias is None else term + _along_channels(bias, term, what)


def _along_channels(given: Tensor, term: Term, what: str) -> Term:
    """Return one value a channel in the rank and dtype of `term`."""
    channels = term.shape[1]
    value = term_of(given, what)
    if value.shape != (channels,):
        raise ShapeError(f"{what}: a value of shape {value.shape} for the {channels} channels of {term.shape}")
    return value.cast(term.dtype).reshape((1, channels, *[1] * (len(term.shape) - 2)))
