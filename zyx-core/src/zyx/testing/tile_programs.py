"""What devices that compute on tiles compute by themselves: one table for all of them, of functions of a few tensors.

What is wanted is the same function on the interpreter. Sizes are no multiples of a tile's, so that programs have pads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

import zyx
from zyx.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from zyx.semantics import Array


@dataclass(frozen=True, slots=True)
class Operands:
    """What programs are given, on the default device, in float32.

    Attributes:
        x, y: ``(rows, 70)``.
        low, high: The numbers of `x`, all of which are less than 0 here, and greater than 0 there, as pads are not.
        w: ``(70, columns)``.
        row: ``(70,)``.
        stack: ``(3, 40, 70)``.
    """

    x: Tensor
    y: Tensor
    low: Tensor
    high: Tensor
    w: Tensor
    row: Tensor
    stack: Tensor


def operands(rows: int = 50, columns: int = 90) -> Operands:
    """Return operands with the same numbers each time."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    x, y = normal(rows, 70), normal(rows, 70)
    w, row, stack = normal(70, columns), normal(70), normal(3, 40, 70)
    return Operands(*map(Tensor, (x, y, x - 9, x + 9, w, row, stack)))


#: What is one program: elements, products and reductions.
WHOLE: Final[dict[str, Callable[[Operands], Tensor]]] = {
    "chain": lambda o: zyx.exp(o.x + o.y * 2.7),
    "row": lambda o: o.x * o.row,
    "column": lambda o: o.x - o.y[:, :1],
    "vector": lambda o: o.row / 3.0,
    "transposition": lambda o: o.x.T + 1,
    "part": lambda o: o.x[3:-10, 5:60] * 2,
    "backwards": lambda o: zyx.flip(o.x, axis=1) * 2,
    "product": lambda o: o.x @ o.w,
    "layer": lambda o: zyx.maximum(o.x @ o.w + 0.3, 0.0),
    "transposed factor": lambda o: o.x.T @ o.y,
    "products": lambda o: o.stack @ o.w,
    "sum of rows": lambda o: o.x.sum(axis=1),
    "sum of columns": lambda o: o.x.sum(axis=0),
    "sum of all": lambda o: o.x.sum(),
    "greatest of rows": lambda o: o.low.max(axis=1),
    "greatest of columns": lambda o: o.low.max(axis=0),
    "least of columns": lambda o: o.high.min(axis=0),
    "least of all": lambda o: o.high.min(),
    "mean of squares": lambda o: (o.x * o.x).mean(axis=1),
}

#: What is one program, whatever the tensor, which has two axes or more: several reductions of the same rows.
ROWS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "softmax of rows": lambda x: zyx.softmax(x, axis=-1),
    "softmax of columns": lambda x: zyx.softmax(x, axis=-2),
    "log of softmax": lambda x: zyx.log_softmax(x, axis=-1),
    "layer norm": lambda x: zyx.nn.LayerNorm(x.shape[-1])(x),
    "RMS norm": lambda x: zyx.nn.RMSNorm(x.shape[-1])(x),
    "squares from the mean": lambda x: ((x - x.mean(axis=-1, keepdims=True)) ** 2).mean(axis=-1),
    "between the least and the greatest": lambda x: (
        (x - x.min(axis=-1, keepdims=True)) / (x.max(axis=-1, keepdims=True) - x.min(axis=-1, keepdims=True))
    ),
    "gradient of softmax": zyx.grad(lambda x: (zyx.softmax(x, axis=-1) * (x.detach() + 1)).sum()),
    "share of all": lambda x: zyx.exp(x) / zyx.exp(x).sum(),
}

#: What is computed on the device alone, of two tensors of one shape: choices, masks, padding and places.
CHOICES: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "where": lambda x, y: zyx.where(x > 0, y, x),
    "where not": lambda x, y: zyx.where(x > 0, 0.0, y),
    "where it is nan": lambda x, y: zyx.where(x > 0, y, float("nan")) + zyx.where(y > 0, float("nan"), x),
    "choice of a number": lambda x, y: zyx.where(x > 0, y, 0.5),
    "clip": lambda x, y: zyx.clip(x, -1, 1),
    "relu": lambda x, y: zyx.relu(x) * y,
    "gradient of relu": lambda x, y: zyx.grad(lambda x: (zyx.relu(x) * y.detach()).sum())(x),
    "leaky relu": lambda x, y: zyx.leaky_relu(x),
    "sigmoid": lambda x, y: zyx.sigmoid(x),
    "silu": lambda x, y: zyx.silu(x),
    "tanh gelu": lambda x, y: zyx.gelu(x, approximate="tanh"),
    "gelu": lambda x, y: zyx.gelu(x),
    "gradient of gelu": lambda x, y: zyx.grad(lambda x: (zyx.gelu(x) * y.detach()).sum())(x),
    "softplus": lambda x, y: zyx.softplus(x),
    "variance": lambda x, y: x.var(axis=1),
    "triangle": lambda x, y: zyx.tril(x),
    "padding": lambda x, y: zyx.pad(x, ((1, 2), (3, 4)), value=2.0) + 1.0,
    "padding of a vector": lambda x, y: zyx.pad(x[0], ((5, 6),)) + 1.0,
    "side by side": lambda x, y: zyx.concat([x, y], axis=1) + 1.0,
    "one after the other": lambda x, y: zyx.concat([x[3:20], y * 2.0], axis=0),
    "vectors": lambda x, y: zyx.concat([x[0], y[1]]) * 2.0,
    "shifted": lambda x, y: zyx.pad(x[:, 2:], ((0, 0), (0, 2))) - y,
    "positions": lambda x, y: x * zyx.arange(70, device=x.device).astype(zyx.float32),
    "short floats": lambda x, y: zyx.where(x.astype("bfloat16") > 0, y.astype("bfloat16"), 1.0).astype(zyx.float32),
}


def compute(name: str, given: Operands) -> Tensor:
    """Return what a program of any of the tables makes of operands."""
    if name in WHOLE:
        return WHOLE[name](given)
    return ROWS[name](given.x) if name in ROWS else CHOICES[name](given.x, given.y)


def on_the_interpreter(make: Callable[[], Tensor]) -> Array:
    """Return what `make` makes on the interpreter."""
    with zyx.device("interpreter"):
        return make().numpy()
