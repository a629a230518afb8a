"""One step of recurrent networks.

Gates stand in the rows of the weights in PyTorch's order: input, forget, cell, output (LSTM); reset, update, new (GRU).
All weights and biases begin within ``1 / sqrt(hidden_size)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.functions.activations import relu
from zyx.functions.joining import chunk
from zyx.functions.operands import require
from zyx.functions.transcendental import tanh
from zyx.integers import as_index
from zyx.modes import set_low_precision
from zyx.nn import initial
from zyx.nn.functional.linear import linear
from zyx.nn.module import Module
from zyx.tensor.creation import zeros

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {"tanh": tanh, "relu": relu}


def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``, by a function whose slope follows from its value: that is kept for gradients."""
    return tanh(x * 0.5) * 0.5 + 0.5


def check_nonlinearity(name: str) -> None:
    """Raise `ShapeError` unless there is a nonlinearity called `name`."""
    if name not in NONLINEARITIES:
        raise ShapeError(f"nonlinearity is one of {', '.join(NONLINEARITIES)}, not {name!r}")


def rnn_step(gates: Tensor, nonlinearity: str) -> Tensor:
    """Return the next hidden state.

    Args:
        gates: What input and hidden state give: ``linear(x, weight_ih, bias_ih) + linear(h, weight_hh, bias_hh)``.
        nonlinearity: "tanh" or "relu".
    """
    return NONLINEARITIES[nonlinearity](gates)


def lstm_step(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next hidden state and cell. Hochreiter and Schmidhuber, "Long short-term memory", 1997."""
    i, f, g, o = chunk(gates, 4, axis=-1)
    cell = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(cell), cell


def gru_step(given: Tensor, kept: Tensor, h: Tensor) -> Tensor:
    """Return the next hidden state. Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.

    Args:
        given: What the input gives to the gates: ``linear(x, weight_ih, bias_ih)``.
        kept: What the hidden state gives to them: ``linear(h, weight_hh, bias_hh)``.
        h: Hidden state.
    """
    given_r, given_z, given_n = chunk(given, 3, axis=-1)
    from_r, from_z, from_n = chunk(kept, 3, axis=-1)
    r, z = sigmoid(given_r + from_r), sigmoid(given_z + from_z)
    n = tanh(given_n + r * from_n)
    return n + z * (h - n)


class _Cell(Module):
    """What cells share."""

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        input_size, hidden_size = as_index(input_size, "input_size"), as_index(hidden_size, "hidden_size")
        self.input_size, self.hidden_size = input_size, hidden_size
        bound, rows = 1.0 / math.sqrt(max(hidden_size, 1)), self.gates * hidden_size
        self.weight_ih = initial.within(bound, (rows, input_size), dtype, device)
        self.weight_hh = initial.within(bound, (rows, hidden_size), dtype, device)
        self.bias_ih = initial.within(bound, (rows,), dtype, device) if bias else None
        self.bias_hh = initial.within(bound, (rows,), dtype, device) if bias else None

    def _given(self, x: Tensor) -> Tensor:
        with set_low_precision(None):  # a state is of one type from step to step
            return linear(require(x, type(self).__name__), self.weight_ih, self.bias_ih)

    def _kept(self, h: Tensor) -> Tensor:
        with set_low_precision(None):
            return linear(h, self.weight_hh, self.bias_hh)

    def _zeros(self, x: Tensor) -> Tensor:
        node = x.node
        return zeros(*node.shape[:-1], self.hidden_size, dtype=node.dtype, device=node.device)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias_ih is not None else ", bias=False")


class RNNCell(_Cell):
    """``tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``, or relu in place of tanh.

    From an input ``(N, input_size)`` and a state ``(N, hidden_size)`` to the next state.

    Raises:
        ShapeError: When called: the last axis of the input is not `input_size` long.

    >>> zyx.nn.RNNCell(3, 4)(zyx.ones(2, 3)).shape
    (2, 4)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the cell.

        Raises:
            ShapeError: Another nonlinearity than "tanh" and "relu".
        """
        check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, dtype, device)
        self.nonlinearity = nonlinearity

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the next hidden state of ``(N, input_size)`` and ``(N, hidden_size)``, which is 0 if it is None."""
        h = self._zeros(x) if h is None else h
        return rnn_step(self._given(x) + self._kept(h), self.nonlinearity)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(_Cell):
    """One step of an LSTM; see `lstm_step`.

    Raises:
        ShapeError: When called: the last axis of the input is not `input_size` long.

    >>> hidden, cell = zyx.nn.LSTMCell(3, 4)(zyx.ones(2, 3))
    >>> hidden.shape
    (2, 4)
    """

    gates = 4

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next hidden state and cell of ``(N, input_size)`` and the ones before, which are 0 if None."""
        h, c = (self._zeros(x), self._zeros(x)) if state is None else state
        return lstm_step(self._given(x) + self._kept(h), c)


class GRUCell(_Cell):
    """One step of a GRU; see `gru_step`.

    From an input ``(N, input_size)`` and a state ``(N, hidden_size)`` to the next state.

    Raises:
        ShapeError: When called: the last axis of the input is not `input_size` long.

    >>> zyx.nn.GRUCell(3, 4)(zyx.ones(2, 3)).shape
    (2, 4)
    """

    gates = 3

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """Return the next hidden state of ``(N, input_size)`` and ``(N, hidden_size)``, which is 0 if it is None."""
        h = self._zeros(x) if h is None else h
        return gru_step(self._given(x), self._kept(h), h)
