"""The loss of sequences whose places are not known. Graves et al., "Connectionist temporal classification", 2006.

    targets            a  b          what may be read, step by step: each label at least once,
    with blanks     -  a  -  b  -    blanks between them as one likes, but between equal labels at least one

The probability of all readings that have come to place s after t steps follows from those one step before at s, at
s - 1, and, if s is no blank and another label than s - 2, at s - 2.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from zyx import dtype as dtypes
from zyx.autograd.loops import backward, with_saved
from zyx.errors import DTypeError, ShapeError
from zyx.functions.arithmetic import maximum
from zyx.functions.choosing import where
from zyx.functions.joining import pad, stack
from zyx.functions.losses import check_reduction
from zyx.functions.operands import is_tensor, require
from zyx.functions.selection import take, take_along_axis
from zyx.functions.transcendental import exp, log
from zyx.graph.loop import Body, Lie, Loop
from zyx.integers import as_index, as_integers
from zyx.shape import cached_by_shape
from zyx.tensor.creation import arange, asarray
from zyx.tensor.loops import leaf, output, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the logarithm of the probability of all readings of a target, reduced.

    Args:
        log_probs: Logarithms of probabilities, ``(T, N, C)``, or ``(T, C)``.
        targets: Labels, ``(N, S)``, or ``(S,)``; or all targets of a batch one after the other, for which
            `target_lengths` are best given as numbers.
        input_lengths: How many steps of each sequence count, ``(N,)`` or ``()``.
        target_lengths: How many labels each has, likewise.
        blank: The class that is no label.
        reduction: "mean" is of the losses each divided by the length of its target.
        zero_infinity: Whether targets that are too long to be read have the loss 0, and not infinity.

    Returns:
        One number, or with "none" ``(N,)``, or ``()``. Gradients are those of `log_probs` as independent numbers;
        behind a `log_softmax` they are PyTorch's.

    Raises:
        ShapeError: Shapes that do not fit, `blank` is no class, or an unknown reduction.
        DTypeError: `log_probs` are no floats, or targets no integers.

    >>> scores, target = zyx.log_softmax(zyx.zeros(4, 1, 3), -1), zyx.Tensor([[1, 2]])
    >>> round(zyx.nn.functional.ctc_loss(scores, target, zyx.Tensor([4]), zyx.Tensor([2])).item(), 4)
    0.8432
    """
    check_reduction(reduction)
    given = require(log_probs, "ctc_loss").node
    labels = require(targets, "ctc_loss")
    if given.ndim not in (2, 3) or not given.shape[0]:
        raise ShapeError(f"ctc_loss takes (T, N, C) or (T, C) with at least one step, not {given.shape}")
    if not given.dtype.is_float or not labels.dtype.is_integer:
        raise DTypeError(f"ctc_loss takes floats and integer targets, not {given.dtype} and {labels.dtype}")
    blank = as_index(blank, "blank")
    if not 0 <= blank < given.shape[-1]:
        raise ShapeError(f"ctc_loss: blank {blank} is no class of {given.shape[-1]}")
    steps = log_probs.astype(dtypes.accumulator(given.dtype))
    steps = steps if given.ndim == 3 else steps.expand_dims(1)
    count = steps.shape[1]
    ends, lengths = (_lengths(each, count, name, log_probs) for each, name in (
        (input_lengths, "input_lengths"), (target_lengths, "target_lengths")
    ))  # fmt: skip
    rows = _rows(labels, target_lengths, lengths, count)
    loss = _forward(steps, rows, ends, lengths, blank)
    loss = where(loss == math.inf, 0.0, loss) if zero_infinity else loss
    if reduction == "mean":
        loss = (loss / maximum(lengths, 1).astype(loss.dtype)).mean()
    elif reduction == "sum":
        loss = loss.sum()
    elif given.ndim == 2:
        loss = loss.reshape(())
    return loss.astype(given.dtype)


def _lengths(given: Any, count: int, name: str, like: Tensor) -> Tensor:  # noqa: ANN401  # numbers or a tensor
    """Return lengths as a tensor ``(N,)``."""
    lengths = given if is_tensor(given) else asarray(as_integers(given, name), dtype="int64", device=like.device)
    if not lengths.dtype.is_integer or lengths.size != count:
        raise ShapeError(f"ctc_loss: {name} are {count} integers, not {lengths.dtype} {lengths.shape}")
    return lengths.reshape((count,)).astype("int64").to(like.device)


def _rows(targets: Tensor, given: Any, lengths: Tensor, count: int) -> Tensor:  # noqa: ANN401
    """Return targets as ``(N, S)``."""
    shape = targets.shape
    if len(shape) == 2 and shape[0] == count:
        return targets
    if len(shape) != 1:
        raise ShapeError(f"ctc_loss: targets are ({count}, S), or all in a row, not {shape}")
    if count == 1:
        return targets.expand_dims(0)
    longest = shape[0] if is_tensor(given) else max(as_integers(given, "target_lengths"), default=0)
    first = lengths.cumsum(0) - lengths
    places = first.expand_dims(1) + arange(longest, device=targets.device).expand_dims(0)
    return take(targets, places.clip(0, max(shape[0] - 1, 0)), 0) if shape[0] else places


def _forward(steps: Tensor, labels: Tensor, ends: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Return the losses ``(N,)``."""
    count, longest = labels.shape
    width = 2 * longest + 1
    spaced = pad(labels.expand_dims(-1), [(0, 0), (0, 0), (1, 0)], value=blank).reshape((count, 2 * longest))
    spaced = pad(spaced, [(0, 0), (0, 1)], value=blank).astype("int64")
    place = arange(width, device=steps.device)
    before = pad(spaced, [(0, 0), (2, 0)], value=-1)[:, :width]
    may_skip = (spaced != before).logical_and(spaced != blank).logical_and(place >= 2)
    read = take_along_axis(steps, spaced.expand_dims(0).expand(steps.shape[0], count, width), axis=2)
    state = where(place < 2, read[0], -math.inf)
    state = _over_steps(state, read, ends, may_skip)
    last = (2 * lengths).expand_dims(1)
    reached = [where(place == last, state, -math.inf), where(place == last - 1, state, -math.inf)]
    found = _log_sum_exp([part.max(-1) for part in reached])
    return -where(ends > 0, found, where(lengths == 0, 0.0, -math.inf))


def _over_steps(state: Tensor, read: Tensor, ends: Tensor, may_skip: Tensor) -> Tensor:
    """Return what the state ``(N, width)`` of the first step has become after the last of ``(T, N, width)``."""
    length = operator.index(read.shape[0]) - 1
    if not length or 0 in state.shape:
        return state
    body = _step(state.shape, state.dtype.name, state.node.device)
    sources = (state, read[1:], arange(1, length + 1, device=state.device).astype("int64"), ends, may_skip)
    return output(Loop(body, length, 1, False, backward), tuple(each.node for each in sources), 0, state)


@cached_by_shape
def _step(shape: Shape, dtype: str, device: str) -> Body:
    """Return the body of a step."""
    before, read, number = leaf(shape, dtype, device), leaf((1, *shape), dtype, device), leaf((1,), "int64", device)
    ends, may_skip = leaf(shape[:1], "int64", device), leaf(shape, "bool", device)
    state = tensor(before)
    one, two = (pad(state, [(0, 0), (by, 0)], value=-math.inf)[:, : shape[1]] for by in (1, 2))
    after = _log_sum_exp([state, one, where(tensor(may_skip), two, -math.inf)]) + tensor(read).squeeze(0)
    new = where((tensor(ends) > tensor(number)).expand_dims(1), after, state)
    body = Body((before,), (read, number), (ends, may_skip), (new.node,), (), (Lie(0), Lie(0)), ())
    return with_saved(body, True)


def _log_sum_exp(parts: list[Tensor]) -> Tensor:
    """Return the logarithm of the sum of exponentials, of which all may be 0."""
    together = stack(parts)
    top = together.max(0).detach()
    base = where(top == -math.inf, 0.0, top)
    total = exp(together - base).sum(0)
    empty = total == 0
    return where(empty, -math.inf, log(where(empty, 1.0, total)) + base)
