"""Recurrent networks over whole sequences.

Sequences are ``(length, N, width)``, with `batch_first` ``(N, length, width)``, or ``(length, width)``. Layer k and
direction d have parameters ``weight_ih_l{k}``, ``weight_hh_l{k}``, ``bias_ih_l{k}`` and ``bias_hh_l{k}``, with
``_reverse`` at the end for the way back; states are ``(layers * directions, N, hidden_size)``, the directions of a
layer side by side. Gates and first values are as in `zyx.nn.cells`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from zyx.dtype import float32
from zyx.errors import ShapeError
from zyx.functions.joining import concat, stack
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.modes import set_low_precision
from zyx.nn import initial
from zyx.nn.cells import check_nonlinearity
from zyx.nn.module import Module
from zyx.nn.recurrence import Cell, Weights, over_steps, turned
from zyx.tensor.creation import zeros
from zyx.tensor.random import dropout

if TYPE_CHECKING:
    from zyx.dtype import DTypeLike
    from zyx.tensor.tensor import Tensor

State: TypeAlias = "tuple[Tensor, ...]"


class _Recurrent(Module):
    """What recurrent networks share. A state is a tuple of `states` tensors, of which the first is the output."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the network.

        Args:
            input_size: Width of the input.
            hidden_size: Width of the states.
            num_layers: How many networks there are, each reading the output of the one before.
            bias: Whether gates have biases.
            batch_first: Whether sequences are ``(N, length, width)``.
            dropout: Probability with which elements between layers are dropped in training.
            bidirectional: Whether each layer reads the sequence backward, too, and outputs both.
            dtype: Of the parameters.
            device: Where they lie.

        Raises:
            ShapeError: No layer.
        """
        input_size, hidden_size = as_index(input_size, "input_size"), as_index(hidden_size, "hidden_size")
        num_layers = as_index(num_layers, "num_layers")
        if num_layers < 1:
            raise ShapeError(f"there is at least one layer, not {num_layers}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        bound, rows = 1.0 / math.sqrt(max(hidden_size, 1)), self.gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * (2 if bidirectional else 1)
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih{suffix}", initial.within(bound, (rows, width), dtype, device))
                setattr(self, f"weight_hh{suffix}", initial.within(bound, (rows, hidden_size), dtype, device))
                for name in ("bias_ih", "bias_hh"):
                    setattr(self, name + suffix, initial.within(bound, (rows,), dtype, device) if bias else None)

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    @property
    def _cell(self) -> Cell:
        """What a step does."""
        raise NotImplementedError

    def _run(self, x: Tensor, hx: State | None) -> tuple[Tensor, State]:
        """Return the outputs, and the last states."""
        name = type(self).__name__
        node = require(x, name).node
        if node.ndim not in (2, 3) or node.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name} takes (length, N, {self.input_size}) or (length, {self.input_size}), not {node.shape}"
            )
        batched = node.ndim == 3
        sequence = x if batched else x.expand_dims(1)
        if not sequence.shape[1 if batched and self.batch_first else 0]:
            raise ShapeError(f"{name} takes sequences of at least one element, not {node.shape}")
        if batched and self.batch_first:
            sequence = turned(sequence, 1)
        total = self.num_layers * (2 if self.bidirectional else 1)
        shape = (total, sequence.shape[1], self.hidden_size)
        first = self._first_states(hx, shape, sequence, batched=batched)
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                sequence = dropout(sequence, self.dropout, True)
            outputs = []
            for suffix in self._suffixes(layer):
                state = tuple(given[len(last)] for given in first)
                output, state = self._read(sequence, state, suffix)
                outputs.append(output)
                last.append(state)
            sequence = outputs[0] if len(outputs) == 1 else concat(outputs, axis=-1)
        states = tuple(stack([state[i] for state in last]) for i in range(self.states))
        if not batched:
            return sequence.squeeze(1), tuple(state.squeeze(1) for state in states)
        return turned(sequence, 0) if self.batch_first else sequence, states

    def _first_states(self, hx: State | None, shape: tuple[int, ...], like: Tensor, *, batched: bool) -> State:
        if hx is None:
            return (zeros(*shape, dtype=like.dtype, device=like.device),) * self.states
        given = hx if batched else tuple(state.expand_dims(1) for state in hx)
        for state in given:
            if state.shape != shape:
                raise ShapeError(f"{type(self).__name__}: a first state of shape {state.shape} should be {shape}")
        return given

    def _read(self, sequence: Tensor, state: State, suffix: str) -> tuple[Tensor, State]:
        """Return the outputs of one layer in one direction, and its last state."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = Weights(*(getattr(self, name + suffix) for name in names))
        with set_low_precision(None):  # a state is of one type from step to step
            return over_steps(self._cell, sequence, state, weights, is_backward=suffix.endswith("_reverse"))

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        text += "" if vars(self)["bias_ih_l0"] is not None else ", bias=False"
        text += ", batch_first=True" if self.batch_first else ""
        text += f", dropout={self.dropout}" if self.dropout else ""
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(_Recurrent):
    """`RNNCell` over sequences.

    Raises:
        ShapeError: When called: another rank than 2 or 3, or a last axis that is not `input_size` long.

    >>> values, state = zyx.nn.RNN(3, 4)(zyx.ones(5, 2, 3))
    >>> values.shape, state.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: DTypeLike = float32,
        device: str | None = None,
    ) -> None:
        """Make the network; `nonlinearity` is "tanh" or "relu", and the rest as for `LSTM`."""
        check_nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, device)
        self.nonlinearity = nonlinearity

    @property
    def _cell(self) -> Cell:
        return Cell("rnn", self.nonlinearity)

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs ``(length, N, directions * hidden_size)`` and the last states; the first are 0 if None."""
        outputs, (last,) = self._run(x, None if h is None else (h,))
        return outputs, last


class GRU(_Recurrent):
    """`GRUCell` over sequences.

    Raises:
        ShapeError: When called: another rank than 2 or 3, or a last axis that is not `input_size` long.

    >>> values, state = zyx.nn.GRU(3, 4)(zyx.ones(5, 2, 3))
    >>> values.shape, state.shape
    ((5, 2, 4), (1, 2, 4))
    """

    gates = 3

    @property
    def _cell(self) -> Cell:
        return Cell("gru")

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs ``(length, N, directions * hidden_size)`` and the last states; the first are 0 if None."""
        outputs, (last,) = self._run(x, None if h is None else (h,))
        return outputs, last


class LSTM(_Recurrent):
    """`LSTMCell` over sequences.

    Raises:
        ShapeError: When called: another rank than 2 or 3, or a last axis that is not `input_size` long.

    >>> values, state = zyx.nn.LSTM(3, 4)(zyx.ones(5, 2, 3))
    >>> values.shape
    (5, 2, 4)
    """

    gates = 4
    states = 2

    @property
    def _cell(self) -> Cell:
        return Cell("lstm")

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the outputs ``(length, N, directions * hidden_size)``, and the last hidden states and cells."""
        outputs, (h, c) = self._run(x, state)
        return outputs, (h, c)
