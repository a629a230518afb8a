"""Recurrences over sequences ``(length, N, width)``, as loops: a program for each kernel of a step, for all lengths.

    given = x @ weight_ih.T                         16 places at a time
    h = step(given[i] + h @ weight_hh.T)            one after the other

What is multiplied does not know how long a sequence is, nor does anything else here.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from zyx.autograd.loops import backward, block_of, with_saved
from zyx.functions.movement import swapaxes
from zyx.graph.loop import Body, Lie, Loop, Product
from zyx.nn.cells import gru_step, lstm_step, rnn_step
from zyx.nn.functional.linear import linear
from zyx.shape import cached_by_shape
from zyx.tensor.creation import zeros
from zyx.tensor.loops import leaf, output, tensor

if TYPE_CHECKING:
    from zyx.shape import Shape
    from zyx.tensor.tensor import Tensor

State: TypeAlias = "tuple[Tensor, ...]"


class Cell(NamedTuple):
    """What a step does: "rnn" with a nonlinearity, "lstm" or "gru"."""

    kind: str
    nonlinearity: str = ""


class Weights(NamedTuple):
    """The parameters of a layer in one direction, with biases or without."""

    of_input: Tensor
    of_state: Tensor
    input_bias: Tensor | None
    state_bias: Tensor | None


def turned(x: Tensor, axis: int) -> Tensor:
    """Return `x` with the first two axes exchanged; `axis`, 0 or 1, is that of a length which may be any."""
    if 0 in x.shape:
        return swapaxes(x, 0, 1)
    node = x.node
    length = operator.index(node.shape[axis])
    places = block_of(length)
    shape = (node.shape[1 - axis], places, *node.shape[2:])
    body = _turning(shape, axis, node.dtype.name, node.device)
    return output(Loop(body, length, places, False, backward), (node,), 0, x)


def over_steps(
    cell: Cell, sequence: Tensor, state: State, weights: Weights, *, is_backward: bool
) -> tuple[Tensor, State]:
    """Return the first part of the states of all steps ``(length, N, hidden)``, and the last state.

    Args:
        cell: What a step does.
        sequence: ``(length, N, width)``, of at least one step.
        state: The first state, each part ``(N, hidden)``.
        weights: The parameters.
        is_backward: Whether the last place of the sequence is the first step.
    """
    length = operator.index(sequence.shape[0])
    if 0 in state[0].shape:
        return zeros(length, *state[0].shape, dtype=state[0].dtype, device=state[0].device), state
    # What the state is multiplied with has its bias here where it is only added.
    is_added = cell.kind != "gru"
    bias = weights.input_bias
    if bias is not None and weights.state_bias is not None and is_added:
        bias = bias + weights.state_bias
    given = _products(sequence, weights.of_input, bias, length)
    dtype = given.dtype
    constants = [weights.of_state] if is_added or weights.state_bias is None else [weights.of_state, weights.state_bias]
    inputs = [part.astype(dtype) for part in (*state, given, *constants)]
    sizes = (given.shape[1:], state[0].shape[1])
    body = _step(cell, *sizes, len(state), len(constants), dtype.name, given.node.device)
    loop = Loop(body, length, 1, is_backward, backward)
    sources = tuple(part.node for part in inputs)
    last = tuple(output(loop, sources, number, given) for number in range(len(state)))
    return output(loop, sources, len(state), given), last


def _with_places(shape: Shape, axis: int, places: int) -> Shape:
    return (*shape[:axis], places, *shape[axis + 1 :])


def _products(x: Tensor, weight: Tensor, bias: Tensor | None, length: int) -> Tensor:
    """Return ``x @ weight.T + bias``, some places of the first axis at a time."""
    if 0 in x.shape:
        return linear(x, weight, bias)
    places = block_of(length)
    inputs = (x, weight) if bias is None else (x, weight, bias)
    kinds = tuple(part.dtype.name for part in inputs)
    body = _multiplying(_with_places(x.shape, 0, places), weight.shape, kinds, x.node.device)
    return output(Loop(body, length, places, False, backward), tuple(part.node for part in inputs), 0, x)


# ---- bodies


@cached_by_shape
def _turning(shape: Shape, axis: int, dtype: str, device: str) -> Body:
    x = leaf(shape, dtype, device)
    read, written = Lie(axis, axis == 0), Lie(1 - axis, axis == 1)
    return with_saved(Body((), (x,), (), (), (x,), (read,), (written,)), False)


@cached_by_shape
def _multiplying(shape: Shape, weight_shape: Shape, dtypes: tuple[str, ...], device: str) -> Body:
    x = leaf(shape, dtypes[0], device)
    weight = leaf(weight_shape, dtypes[1], device)
    bias = [leaf(weight_shape[:1], dtype, device) for dtype in dtypes[2:]]
    result = linear(tensor(x), tensor(weight), tensor(bias[0]) if bias else None)
    return with_saved(Body((), (x,), (weight, *bias), (), (result.node,), (Lie(0),), (Lie(0),)), shape[0] == 1)


@cached_by_shape
def _step(cell: Cell, gates: Shape, hidden: int, states: int, constants: int, dtype: str, device: str) -> Body:
    """Return the body of a step: `gates` is the shape of what the input gives, `constants` are 2 with a bias."""
    state = tuple(leaf((gates[0], hidden), dtype, device) for _ in range(states))
    given = leaf((1, *gates), dtype, device)
    weight, *bias = (leaf(shape, dtype, device) for shape in ((gates[1], hidden), (gates[1],))[:constants])
    h, from_input = tensor(state[0]), tensor(given).squeeze(0)
    kept = linear(h, tensor(weight), tensor(bias[0]) if bias else None)
    result = kept if cell.kind == "gru" else from_input + kept
    new: State
    if cell.kind == "gru":
        new = (gru_step(from_input, kept, h),)
    elif cell.kind == "lstm":
        new = lstm_step(result, tensor(state[1]))
    else:
        new = (rnn_step(result, cell.nonlinearity),)
    product = Product(result.node, state[0], 0, 1 if bias else None)
    after = tuple(part.node for part in new)
    row = new[0].expand_dims(0).node
    body = Body(state, (given,), (weight, *bias), after, (row,), (Lie(0),), (Lie(0),), (product,))
    return with_saved(body, True)
