"""Recurrent layers: RNN, GRU and LSTM, of one direction or both, with sequences of different lengths, as loops.

x ``(length, batch, width)``, weights ``(directions, gates * hidden, ...)``; with ``layout`` 1 the batch is first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zyx.errors import UnsupportedError
from zyx.functions import activations, choosing, joining, linalg, movement, transcendental
from zyx.io.onnx.quantization import dynamic_product
from zyx.io.onnx.registry import operator
from zyx.tensor import creation
from zyx.tensor.loops import scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zyx.functions.operands import Array
    from zyx.io.onnx.node import NodeCall
    from zyx.io.onnx.values import Value
    from zyx.tensor.tensor import Tensor

    State = tuple[Tensor, ...]


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Tensor], Tensor]:
    def either(value: float | None, default: float) -> float:
        return default if value is None else value

    table: dict[str, Callable[[Tensor], Tensor]] = {
        "tanh": transcendental.tanh,
        "sigmoid": activations.sigmoid,
        "relu": activations.relu,
        "softsign": activations.softsign,
        "softplus": activations.softplus,
        "affine": lambda x: x * either(alpha, 1.0) + either(beta, 0.0),
        "leakyrelu": lambda x: activations.leaky_relu(x, either(alpha, 0.01)),
        "thresholdedrelu": lambda x: choosing.where(x > either(alpha, 1.0), x, 0),
        "scaledtanh": lambda x: transcendental.tanh(x * either(beta, 1.0)) * either(alpha, 1.0),
        "hardsigmoid": lambda x: choosing.clip(x * either(alpha, 0.2) + either(beta, 0.5), 0, 1),
        "elu": lambda x: activations.elu(x, either(alpha, 1.0)),
    }
    if name.lower() not in table:
        raise UnsupportedError(f"activation {name!r} of a recurrent layer is unknown; there are {sorted(table)}")
    return table[name.lower()]


class Weight(NamedTuple):
    """What is multiplied with: ``(n_out, n_in)``; integers have a scale, and what they meet is quantised as well."""

    values: Tensor
    scale: Tensor | None = None
    zero: Tensor | None = None

    def times(self, x: Tensor) -> Tensor:
        """Return ``x @ values.T``."""
        if self.scale is not None:
            return dynamic_product(x, self.values.T, self.scale, self.zero)
        return linalg.matmul(x, self.values.T)


@dataclass(frozen=True)
class LayerDirection:
    """One direction of a layer.

    Attributes:
        of_input: What the input is multiplied with, ``(gates * hidden, width)``.
        of_state: What the state is multiplied with, ``(gates * hidden, hidden)``.
        input_bias: ``(gates * hidden,)``.
        state_bias: The same, of what the state is multiplied with.
        peepholes: ``(3 * hidden,)`` of an LSTM, for input, output and forget gate; or None.
        functions: The activations.
        clip: Limit of what they get, or None.
        options: Attributes of the node.
    """

    of_input: Weight
    of_state: Weight
    input_bias: Tensor
    state_bias: Tensor
    peepholes: Tensor | None
    functions: list[Callable[[Tensor], Tensor]]
    clip: float | None
    options: NodeCall

    def active(self, number: int, x: Tensor) -> Tensor:
        """Return an activation of what is limited before."""
        return self.functions[number](x if self.clip is None else choosing.clip(x, -self.clip, self.clip))


def _parts(x: Tensor, count: int) -> list[Tensor]:
    return list(joining.split(x, x.shape[-1] // count, -1))


def _rnn_step(layer: LayerDirection, given: Tensor, state: State) -> State:
    (h,) = state
    return (layer.active(0, given + layer.of_state.times(h) + layer.state_bias),)


def _gru_step(layer: LayerDirection, given: Tensor, state: State) -> State:
    (h,) = state
    update_x, reset_x, new_x = _parts(given, 3)
    update_w, reset_w, new_w = joining.split(layer.of_state.values, h.shape[-1], 0)
    update_b, reset_b, new_b = _parts(layer.state_bias, 3)
    update = layer.active(0, update_x + linalg.matmul(h, update_w.T) + update_b)
    reset = layer.active(0, reset_x + linalg.matmul(h, reset_w.T) + reset_b)
    if layer.options.get("linear_before_reset", 0):
        inner = reset * (linalg.matmul(h, new_w.T) + new_b)
    else:
        inner = linalg.matmul(reset * h, new_w.T) + new_b
    new = layer.active(1, new_x + inner)
    return ((1 - update) * new + update * h,)


def _lstm_step(layer: LayerDirection, given: Tensor, state: State) -> State:
    h, c = state
    gates = given + layer.of_state.times(h) + layer.state_bias
    enter, leave, forget, new = _parts(gates, 4)
    if layer.peepholes is not None:
        of_enter, of_leave, of_forget = _parts(layer.peepholes, 3)
        enter, forget = enter + of_enter * c, forget + of_forget * c
    enter = layer.active(0, enter)
    forget = 1 - enter if layer.options.get("input_forget", 0) else layer.active(0, forget)
    c = forget * c + enter * layer.active(1, new)
    if layer.peepholes is not None:
        leave = leave + of_leave * c
    return layer.active(0, leave) * layer.functions[2](c), c


#: The step, how many gates there are, how many parts a state has, and the activations.
_KINDS: dict[str, tuple[Callable[[LayerDirection, Tensor, Any], State], int, int, tuple[str, ...]]] = {
    "RNN": (_rnn_step, 1, 1, ("Tanh",)),
    "GRU": (_gru_step, 3, 1, ("Sigmoid", "Tanh")),
    "LSTM": (_lstm_step, 4, 2, ("Sigmoid", "Tanh", "Tanh")),
}


def _run(
    layer: LayerDirection,
    step: Callable[[LayerDirection, Tensor, Any], State],
    x: Tensor,
    state: State,
    lengths: Array | None,
    *,
    turned: bool,
) -> tuple[Tensor, State]:
    """Return the first parts of the states of all steps, and the last state of each sequence."""
    sequences = [layer.of_input.times(x) + layer.input_bias]
    length = x.shape[0]
    if 0 in (length, *state[0].shape):
        return creation.zeros((length, *state[0].shape), dtype=x.dtype, device=x.device), state
    if lengths is not None and int(lengths.min()) < length:
        sequences.append(layer.options.tensor(np.arange(length)[:, None, None] < lengths[:, None]))

    def one(before: Sequence[Tensor], slices: Sequence[Tensor]) -> tuple[State, State]:
        new = step(layer, slices[0], tuple(before))
        if len(slices) == 1:
            return new, new[:1]
        going = slices[1]  # sequences that are over keep their state, and give zeros
        state = tuple(choosing.where(going, now, old) for now, old in zip(new, before, strict=True))
        return state, (choosing.where(going, new[0], 0),)

    last, (outputs,) = scan(one, state, sequences, is_backward=turned)
    return outputs, tuple(last)


def _layers(
    node: NodeCall,
    kind: str,
    x: Tensor,
    weights: Sequence[tuple[Weight, Weight]],
    bias: Tensor | None,
    lengths: Array | None,
    rest: Sequence[Tensor | None],
) -> Value:
    """Compute the directions of a layer.

    Args:
        node: The call.
        kind: "RNN", "GRU" or "LSTM".
        x: The input.
        weights: For each direction what the input and the state are multiplied with.
        bias: ``(directions, 2 * gates * hidden)``.
        lengths: Those of sequences.
        rest: The parts of the first state, and peepholes.
    """
    step, gates, parts, defaults = _KINDS[kind]
    batch_first = bool(node.get("layout", 0))
    if batch_first:
        x = movement.swapaxes(x, 0, 1)
    count, hidden = len(weights), weights[0][1].values.shape[-1]
    names = node.get("activations") or list(defaults) * count
    alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
    functions = [
        _activation(name, alphas[i] if i < len(alphas) else None, betas[i] if i < len(betas) else None)
        for i, name in enumerate(names)
    ]
    initial = [*rest, None, None][:parts]
    peepholes = rest[2] if len(rest) > 2 else None
    outputs, states = [], []
    for number, (of_input, of_state) in enumerate(weights):
        vector = None if bias is None else bias[number]
        zeros = creation.zeros((gates * hidden,), dtype=x.dtype, device=x.device)
        layer = LayerDirection(
            of_input,
            of_state,
            zeros if vector is None else vector[: gates * hidden],
            zeros if vector is None else vector[gates * hidden :],
            None if peepholes is None else peepholes[number],
            functions[number * len(defaults) : (number + 1) * len(defaults)],
            node.get("clip"),
            node,
        )
        state = tuple(
            creation.zeros((x.shape[1], hidden), dtype=x.dtype, device=x.device)
            if first is None
            else (first[:, number] if batch_first else first[number])
            for first in initial
        )
        turned = number == 1 or node.get("direction", "forward") == "reverse"
        found, last = _run(layer, step, x, state, lengths, turned=turned)
        outputs.append(found)
        states.append(last)
    y = joining.stack(outputs, 1)  # (length, directions, batch, hidden)
    lasts = [joining.stack([last[part] for last in states], 1 if batch_first else 0) for part in range(parts)]
    if batch_first:
        y = movement.permute_dims(y, (2, 0, 1, 3))
    return (y, *lasts)


def _recurrence(kind: str) -> Callable[..., Value]:
    def compute(
        node: NodeCall,
        x: Tensor,
        weight: Tensor,
        recurrence: Tensor,
        bias: Tensor | None = None,
        lengths: Array | None = None,
        *rest: Tensor | None,
    ) -> Value:
        weights = [(Weight(weight[way]), Weight(recurrence[way])) for way in range(weight.shape[0])]
        return _layers(node, kind, x, weights, bias, lengths, rest)

    return compute


for _kind in _KINDS:
    operator(_kind, reads=(4,))(_recurrence(_kind))


@operator("DynamicQuantizeLSTM", domain="com.microsoft", reads=(4,))
def dynamic_quantize_lstm(
    node: NodeCall, x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None, lengths: Array | None,
    *rest: Tensor | None,
) -> Value:  # fmt: skip
    """Compute an LSTM of quantised weights ``(directions, width, 4 * hidden)``; all steps of x have one scale."""
    of_input, input_zero, of_state, state_zero = rest[3:7]
    weights = []
    for way in range(weight.shape[0]):
        pairs = ((weight, of_input, input_zero), (recurrence, of_state, state_zero))
        first, second = (
            Weight(values[way].T, None if scale is None else scale[way], None if zero is None else zero[way])
            for values, scale, zero in pairs
        )
        weights.append((first, second))
    return _layers(node, "LSTM", x, weights, bias, lengths, rest[:3])
