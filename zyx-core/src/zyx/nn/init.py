"""First values of parameters: each function gives a tensor new values, in place, and returns it.

    zyx.nn.init.xavier_uniform_(layer.weight)
    zyx.nn.init.zeros_(layer.bias)

Names, arguments and distributions are PyTorch's. Values are computed at once, in float32 (float64 for float64), and
kept in the dtype and place of the tensor; a function made by `zyx.jit` draws new ones at each call. Random ones come
from `generator`, or from the default one, which `zyx.manual_seed` sets.

Weights are ``(outputs, inputs, window...)``: fan_in is inputs times window, fan_out outputs times window.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from zyx import dtype as dtypes
from zyx.errors import ArgumentError, DTypeError, ShapeError
from zyx.functions.choosing import where
from zyx.functions.operands import require
from zyx.integers import as_index
from zyx.lazy_import import lazy_import
from zyx.tensor import random
from zyx.tensor.tensor import Tensor
from zyx.tensor.weights import fans

if TYPE_CHECKING:
    from zyx import linalg
    from zyx.dtype import DType
    from zyx.shape import Shape
    from zyx.tensor.generator import Generator
else:
    linalg = lazy_import("zyx.linalg", globals())

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_CONVOLUTIONS: Final = tuple(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor of deviations with which signals keep their size through a nonlinearity.

    Args:
        nonlinearity: "linear", "sigmoid" or a convolution: 1; "tanh": 5/3; "relu": the root of 2; "leaky_relu": the
            root of ``2 / (1 + slope**2)``; "selu": 3/4.
        param: The slope of "leaky_relu"; None is 0.01.

    Raises:
        ArgumentError: Another nonlinearity, or a slope that is no number.

    >>> round(zyx.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    slope = 0.01 if param is None else param
    if isinstance(slope, bool) or not isinstance(slope, int | float):
        raise ArgumentError(f"calculate_gain: the slope of leaky_relu is a number, not {slope!r}")
    gains = {
        "linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75,
        "leaky_relu": math.sqrt(2.0 / (1.0 + slope * slope)), **dict.fromkeys(_CONVOLUTIONS, 1.0),
    }  # fmt: skip
    if nonlinearity not in gains:
        raise ArgumentError(f"calculate_gain: nonlinearity is one of {', '.join(sorted(gains))}, not {nonlinearity!r}")
    return gains[nonlinearity]


# ---- constants


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Make all elements `val`.

    Raises:
        DTypeError: `tensor` is no tensor, or `val` no number.

    >>> zyx.nn.init.constant_(zyx.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """
    values = np.full(require(tensor, "constant_").node.shape, val)
    if values.dtype.kind not in "biufc":
        raise DTypeError(f"constant_ takes a number, not {val!r}")
    return _given(tensor, values)


def zeros_(tensor: Tensor) -> Tensor:
    """Make all elements 0.

    Raises:
        DTypeError: `tensor` is no tensor.

    >>> zyx.nn.init.zeros_(zyx.ones(2)).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Make all elements 1.

    Raises:
        DTypeError: `tensor` is no tensor.

    >>> zyx.nn.init.ones_(zyx.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, or as much of it as its shape has.

    Raises:
        ShapeError: No matrix.

    >>> zyx.nn.init.eye_(zyx.zeros(2, 3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    shape = require(tensor, "eye_").node.shape
    if len(shape) != 2:
        raise ShapeError(f"eye_ takes a matrix, not {shape}")
    return _given(tensor, np.eye(*shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make filters of a convolution those that give the inputs back, as many channels as there are on both sides.

    Args:
        tensor: ``(outputs, inputs, window...)``, of 1 to 3 axes behind the first two.
        groups: Parts into which the outputs fall, each of which gives the inputs back.

    Raises:
        ShapeError: Another rank, or outputs that do not fall into `groups` parts.

    >>> zyx.nn.init.dirac_(zyx.zeros(1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    shape, groups = require(tensor, "dirac_").node.shape, as_index(groups, "groups")
    if not 3 <= len(shape) <= 5:
        raise ShapeError(f"dirac_ takes filters (outputs, inputs, window...) of rank 3 to 5, not {shape}")
    if groups < 1 or shape[0] % groups:
        raise ShapeError(f"dirac_: {shape[0]} outputs do not fall into {groups} groups")
    values = np.zeros(shape)
    middle = tuple(size // 2 for size in shape[2:])
    each = shape[0] // groups
    for group in range(groups):
        for channel in range(min(each, shape[1])):
            values[(group * each + channel, channel, *middle)] = 1.0
    return _given(tensor, values)


# ---- distributions


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw the elements evenly from [`a`, `b`).

    Raises:
        ShapeError: `a` is above `b`.

    >>> x = zyx.nn.init.uniform_(zyx.zeros(100), 2.0, 3.0)
    >>> bool(((x >= 2) & (x < 3)).all())
    True
    """
    if a > b:
        raise ShapeError(f"uniform_: a {a} is above b {b}")
    if a == b:
        return constant_(tensor, a)
    shape, dtype, device = _place(tensor, "uniform_")
    return _assigned(tensor, random.uniform(shape, low=a, high=b, dtype=dtype, device=device, generator=generator))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw the elements from the normal distribution of `mean` and `std`.

    Raises:
        ShapeError: `std` is negative.

    >>> zyx.nn.init.normal_(zyx.zeros(2), mean=3.0, std=0.0).tolist()
    [3.0, 3.0]
    """
    shape, dtype, device = _place(tensor, "normal_")
    return _assigned(tensor, random.normal(shape, mean=mean, std=std, dtype=dtype, device=device, generator=generator))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Draw the elements from the normal distribution of `mean` and `std`, of which only [`a`, `b`] is left.

    Even numbers between the values of the distribution function at the ends are put through its inverse.

    Raises:
        ShapeError: `std` is not above 0, or `a` not below `b`.

    >>> bool((zyx.abs(zyx.nn.init.trunc_normal_(zyx.zeros(100))) <= 2).all())
    True
    """
    if not std > 0.0 or not a < b:
        raise ShapeError(f"trunc_normal_: std {std} is above 0, and a {a} below b {b}")
    shape, dtype, device = _place(tensor, "trunc_normal_")
    root = math.sqrt(2.0)
    ends = [math.erf((end - mean) / (std * root)) for end in (a, b)]
    if ends[0] == ends[1]:  # beyond what the distribution function tells apart: the nearer end is all there is
        return constant_(tensor, a if a > mean else b)
    wide = dtypes.accumulator(dtype)
    even = random.uniform(shape, low=ends[0], high=ends[1], dtype=wide, device=device, generator=generator)
    return _assigned(tensor, (even.erfinv() * (std * root) + mean).clip(a, b))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw the elements evenly within ``gain * sqrt(6 / (fan_in + fan_out))`` of 0.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    Raises:
        ShapeError: Fewer than two axes.

    >>> bool((zyx.abs(zyx.nn.init.xavier_uniform_(zyx.zeros(4, 2))) <= 1).all())
    True
    """
    bound = gain * math.sqrt(6.0 / max(sum(fans(require(tensor, "xavier_uniform_").node.shape)), 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Draw the elements with the deviation ``gain * sqrt(2 / (fan_in + fan_out))``; see `xavier_uniform_`.

    Raises:
        ShapeError: Fewer than two axes.

    >>> zyx.nn.init.xavier_normal_(zyx.zeros(4, 3)).shape
    (4, 3)
    """
    std = gain * math.sqrt(2.0 / max(sum(fans(require(tensor, "xavier_normal_").node.shape)), 1))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw the elements evenly within ``gain * sqrt(3 / fan)`` of 0.

    He et al., "Delving deep into rectifiers", 2015.

    Args:
        tensor: Weights.
        a: The slope of "leaky_relu".
        mode: "fan_in" keeps the size of signals, "fan_out" that of gradients.
        nonlinearity: What `calculate_gain` takes.
        generator: Where random numbers come from.

    Raises:
        ShapeError: Fewer than two axes.
        ArgumentError: Another mode or nonlinearity.

    >>> bool((zyx.abs(zyx.nn.init.kaiming_uniform_(zyx.zeros(4, 6))) <= 1).all())
    True
    """
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity, "kaiming_uniform_")
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Draw the elements with the deviation ``gain / sqrt(fan)``; see `kaiming_uniform_`.

    Raises:
        ShapeError: Fewer than two axes.
        ArgumentError: Another mode or nonlinearity.

    >>> zyx.nn.init.kaiming_normal_(zyx.zeros(4, 3)).shape
    (4, 3)
    """
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity, "kaiming_normal_"), generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Make rows, or columns if there are fewer, orthogonal and `gain` long; axes behind the first count as one.

    The Q of normal numbers, with the signs by which it is unique, is evenly distributed among all such matrices.
    Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning", 2013; Mezzadri, "How to
    generate random matrices from the classical compact groups", 2007.

    Raises:
        ShapeError: Fewer than two axes.

    >>> x = zyx.nn.init.orthogonal_(zyx.zeros(2, 3))
    >>> zyx.allclose(x @ x.T, zyx.eye(2), atol=1e-6)
    True
    """
    shape, dtype, device = _place(tensor, "orthogonal_")
    if len(shape) < 2:
        raise ShapeError(f"orthogonal_ takes at least two axes, not {shape}")
    rows, columns = shape[0], math.prod(shape[1:])
    if not rows or not columns:
        return tensor
    wide = dtypes.accumulator(dtype)
    numbers = random.normal((max(rows, columns), min(rows, columns)), dtype=wide, device=device, generator=generator)
    q, r = linalg.qr(numbers)
    q = q * where(r.diagonal() < 0, -1.0, 1.0)
    return _assigned(tensor, ((q if rows >= columns else q.mT) * gain).reshape(shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Draw the elements of a matrix with the deviation `std`, and make a share of each column 0.

    Martens, "Deep learning via Hessian-free optimization", 2010.

    Args:
        tensor: A matrix.
        sparsity: Share of the elements of a column that are 0, rounded up to whole ones; 0 to 1.
        std: Of the others.
        generator: Where random numbers come from.

    Raises:
        ShapeError: No matrix, or a share that is not 0 to 1.

    >>> int((zyx.nn.init.sparse_(zyx.ones(4, 3), 0.5) == 0).sum())
    6
    """
    shape, dtype, device = _place(tensor, "sparse_")
    if len(shape) != 2 or not 0.0 <= sparsity <= 1.0:
        raise ShapeError(f"sparse_ takes a matrix and a share from 0 to 1, not {shape} and {sparsity}")
    empty = math.ceil(sparsity * shape[0])
    ranks = random.rand(shape, device=device, generator=generator).argsort(axis=0).argsort(axis=0)
    values = random.normal(shape, std=std, dtype=dtype, device=device, generator=generator)
    return _assigned(tensor, where(ranks < empty, 0.0, values))


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str, what: str) -> float:
    """Return the deviation that He's formula gives."""
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f'{what}: mode is "fan_in" or "fan_out", not {mode!r}')
    inputs, outputs = fans(require(tensor, what).node.shape)
    return calculate_gain(nonlinearity, a) / math.sqrt(max(inputs if mode == "fan_in" else outputs, 1))


def _place(tensor: Tensor, what: str) -> tuple[Shape, DType, str | None]:
    node = require(tensor, what).node
    if not node.dtype.is_float:
        raise DTypeError(f"{what} draws floats, and the tensor is {node.dtype}")
    return node.shape, node.dtype, node.device


def _given(tensor: Tensor, values: np.ndarray) -> Tensor:
    node = tensor.node
    return _assigned(tensor, Tensor(values.astype(node.dtype.numpy), device=node.device))


def _assigned(tensor: Tensor, values: Tensor) -> Tensor:
    """Let `tensor` have these values from now on, which have no history."""
    runtime, node = tensor.runtime, tensor.node
    new = values.detach().astype(node.dtype).to(node.device)
    tensor.assign(new.like(runtime.graph.alias(new.node)))
    runtime.realize([tensor])
    return tensor
