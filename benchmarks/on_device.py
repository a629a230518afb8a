"""Say how much of drawn programs a device of tiles computes itself, and what it leaves to the host.

    python benchmarks/on_device.py --device tenstorrent --seed 504 --count 10

Of each family, so many programs of small drawn sizes are planned and run: a line has how many are on the device as a
whole, in part, or not at all, the launches of one there and on the host, and how many are wrong beside the interpreter.
Errors are relative ones of the whole result, in the Euclidean norm; the bound of a dtype is `BOUND`.
"""

from __future__ import annotations

import argparse
import collections
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import zyx
from zyx import nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Make: TypeAlias = Callable[[str], zyx.Tensor]

#: Relative error of a result: some roundings of its dtype, as operations are done in other orders.
BOUND: Final = {"float32": 2e-5, "bfloat16": 1.6e-2, "float16": 2e-3}
#: Sizes of axes: short ones, those of whole tiles, and those that end within one.
SIZES: Final = (1, 3, 17, 32, 40, 64, 70, 100, 128, 150)
DTYPES: Final = ("float32", "float32", "bfloat16")


class Draw:
    """Where a family gets its sizes and its inputs from."""

    def __init__(self, family: str, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([*family.encode(), seed, number])
        self.dtype = "float32"

    def pick(self, *of: Any) -> Any:
        """Return one of these."""
        return of[int(self.rng.integers(len(of)))]

    def size(self, least: int = 1) -> int:
        """Return a size of an axis."""
        return max(least, int(self.pick(*SIZES)))

    def shape(self, rank: int) -> tuple[int, ...]:
        """Return sizes of so many axes, of which only the last two are long."""
        return tuple(min(self.size(), 4) for _ in range(rank - 2)) + tuple(self.size(2) for _ in range(min(rank, 2)))

    def floats(self) -> None:
        """Draw the dtype of inputs."""
        self.dtype = self.pick(*DTYPES)

    def normal(self, *shape: int, scale: float = 1.0) -> Callable[[str], zyx.Tensor]:
        """Return what makes an input on a device."""
        data, dtype = (self.rng.standard_normal(shape) * scale).astype(np.float32), self.dtype
        return lambda device: zyx.Tensor(data, device=device).astype(dtype)

    def whole(self, most: int, *shape: int) -> Callable[[str], zyx.Tensor]:
        """Return what makes an input of whole numbers from 0 to `most` - 1."""
        data = self.rng.integers(0, most, shape)
        return lambda device: zyx.Tensor(data, device=device)


UNARY: Final[dict[str, Callable[[zyx.Tensor], zyx.Tensor]]] = {
    "exp": lambda x: zyx.exp(-zyx.abs(x)), "log": lambda x: zyx.log(zyx.abs(x) + 1), "tanh": zyx.tanh,
    "sin": lambda x: zyx.sin(x * 3), "sqrt": lambda x: zyx.sqrt(zyx.abs(x) + 0.5), "erf": zyx.erf,
    "log1p": lambda x: zyx.log1p(zyx.abs(x)), "square": lambda x: x * x, "floor": zyx.floor, "sigmoid": zyx.sigmoid,
    "gelu": zyx.gelu, "silu": zyx.silu, "relu": zyx.relu, "softplus": zyx.softplus, "leaky": zyx.leaky_relu,
    "clip": lambda x: zyx.clip(x, -1, 1),
}  # fmt: skip
BINARY: Final[dict[str, Callable[[zyx.Tensor, zyx.Tensor], zyx.Tensor]]] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "div": lambda x, y: x / (y * y + 1),
    "max": zyx.maximum, "where": lambda x, y: zyx.where(x > y, x - y, 0.0), "less": lambda x, y: x - (x < y) * 0.5,
}  # fmt: skip
FAMILIES: dict[str, Callable[[Draw], Make]] = {}


def family(draw: Callable[[Draw], Make]) -> Callable[[Draw], Make]:
    """Register a family, by the name of the function that draws one program of it."""
    FAMILIES[draw.__name__.replace("_", " ")] = draw
    return draw


@family
def chains(d: Draw) -> Make:
    """Return operations element by element, of two inputs that broadcast."""
    d.floats()
    shape = d.shape(d.pick(1, 2, 2, 3))
    x, y = d.normal(*shape), d.normal(*(d.pick(1, size, size) for size in shape))
    ops = [(UNARY[d.pick(*UNARY)], BINARY[d.pick(*BINARY)]) for _ in range(d.pick(1, 2, 3))]

    def make(device: str) -> zyx.Tensor:
        result, other = x(device), y(device)
        for unary, binary in ops:
            result = binary(unary(result), other)
        return result

    return make


@family
def reductions(d: Draw) -> Make:
    """Return a reduction along some axes."""
    shape = d.shape(d.pick(1, 2, 2, 3))
    x = d.normal(*shape)
    op = d.pick("sum", "mean", "max", "min", "var", "std", "any", "prod", "argmax")
    axis = int(d.rng.integers(len(shape))) if op == "argmax" else d.pick(None, *range(len(shape)))
    return lambda device: getattr(x(device) > 2 if op == "any" else x(device), op)(axis=axis)


@family
def softmax(d: Draw) -> Make:
    """Return shares of rows, their logarithms, or the gradient of something of them."""
    shape = d.shape(d.pick(1, 2, 2, 3))
    x, weight = d.normal(*shape, scale=3), d.normal(*shape)
    axis, op = int(d.rng.integers(len(shape))), d.pick(zyx.softmax, zyx.log_softmax)
    if d.pick(False, True):
        return lambda device: zyx.grad(lambda x: (op(x, axis=axis) * weight(device)).sum())(x(device))
    return lambda device: op(x(device), axis=axis)


@family
def norms(d: Draw) -> Make:
    """Return a layer or RMS norm with weights, or its gradient."""
    shape = d.shape(d.pick(2, 3))
    x, weight, bias = d.normal(*shape), d.normal(shape[-1]), d.normal(shape[-1])
    is_layer, is_gradient = d.pick(False, True), d.pick(False, True)

    def norm(device: str, x: zyx.Tensor) -> zyx.Tensor:
        if is_layer:
            return nn.functional.layer_norm(x, (shape[-1],), weight(device), bias(device))
        return nn.functional.rms_norm(x, (shape[-1],), weight(device))

    if is_gradient:
        return lambda device: zyx.grad(lambda x: (norm(device, x) ** 2).sum())(x(device))
    return lambda device: norm(device, x(device))


@family
def products(d: Draw) -> Make:
    """Return a product of matrices, of a batch or not, either of them transposed or not."""
    d.floats()
    m, k, n, batch = d.size(), d.size(), d.size(), d.pick((), (), (3,))
    turns = d.pick(False, True), d.pick(False, True)
    shapes = [(*batch, *(size[::-1] if turn else size)) for size, turn in zip(((m, k), (k, n)), turns, strict=True)]
    x, y = d.normal(*shapes[0]), d.normal(*shapes[1], scale=1 / math.sqrt(k))

    def make(device: str) -> zyx.Tensor:
        left, right = (each.mT if turn else each for each, turn in zip((x(device), y(device)), turns, strict=True))
        return left @ right

    return make


@family
def layers(d: Draw) -> Make:
    """Return a linear layer with an activation."""
    n, i, o = d.size(), d.size(), d.size()
    x, w, b = d.normal(n, i), d.normal(o, i, scale=1 / math.sqrt(i)), d.normal(o)
    activation = d.pick(zyx.relu, zyx.gelu, zyx.silu, zyx.tanh)
    return lambda device: activation(x(device) @ w(device).T + b(device))


@family
def attention(d: Draw) -> Make:
    """Return attention with a few heads, of all or of what comes before."""
    shape = d.pick(1, 2), d.pick(1, 3), d.size(4), d.pick(16, 32, 40)
    q, k, v = (d.normal(*shape) for _ in range(3))
    is_causal = d.pick(False, True)
    attend = nn.functional.scaled_dot_product_attention
    return lambda device: attend(q(device), k(device), v(device), is_causal=is_causal)


@family
def steps_of_training(d: Draw) -> Make:
    """Return the gradient of the first weights of two layers, of squares or of a cross entropy."""
    n, i, h, o = d.size(2), d.size(2), d.size(2), d.size(2)
    x, y, labels = d.normal(n, i), d.normal(n, o), d.whole(o, n)
    w1, w2 = d.normal(i, h, scale=1 / math.sqrt(i)), d.normal(h, o, scale=1 / math.sqrt(h))
    activation, is_squares = d.pick(zyx.relu, zyx.gelu, zyx.tanh), d.pick(False, True)

    def make(device: str) -> zyx.Tensor:
        def loss(w: zyx.Tensor) -> zyx.Tensor:
            found = activation(x(device) @ w) @ w2(device)
            return ((found - y(device)) ** 2).mean() if is_squares else zyx.cross_entropy(found, labels(device))

        found: zyx.Tensor = zyx.grad(loss)(w1(device))
        return found

    return make


@family
def convolutions(d: Draw) -> Make:
    """Return a convolution of images, or what of them pooling leaves."""
    n, c, o, side, k = d.pick(1, 2), d.pick(1, 3, 8), d.pick(1, 4, 8), d.pick(8, 12, 17), d.pick(1, 2, 3)
    x, w = d.normal(n, c, side, side), d.normal(o, c, k, k)
    match d.pick("conv", "conv", "max", "mean"):
        case "conv":
            padding = d.pick(0, 1)
            return lambda device: nn.functional.conv2d(x(device), w(device), padding=padding)
        case "max":
            return lambda device: nn.functional.max_pool2d(x(device), 2)
        case _:
            return lambda device: nn.functional.avg_pool2d(x(device), 2)


@family
def moves(d: Draw) -> Make:
    """Return what padding, joining, slicing, turning and masks make of two matrices."""
    m, n = d.size(4), d.size(4)
    x, y = d.normal(m, n), d.normal(m, n)
    op: Callable[[zyx.Tensor, zyx.Tensor], zyx.Tensor] = d.pick(
        lambda x, y: zyx.pad(x, ((1, 2), (3, 0)), value=1.0) * 2.0,
        lambda x, y: zyx.concat([x, y * 2.0], axis=0),
        lambda x, y: zyx.concat([x, y], axis=1) + 1.0,
        lambda x, y: zyx.stack([x, y], axis=0) + 1.0,
        lambda x, y: x[1:, 2:] - y[:-1, :-2],
        lambda x, y: x.T + 1.0,
        lambda x, y: zyx.flip(x, axis=0) + y,
        lambda x, y: zyx.tril(x) + zyx.triu(y),
        lambda x, y: zyx.roll(x, 2, 1) * y,
        lambda x, y: (x.reshape((-1,)) + 1.0).reshape((n, m)),
    )
    return lambda device: op(x(device), y(device))


@family
def places(d: Draw) -> Make:
    """Return what reads by index, sorts, runs along an axis, or is of whole numbers: the host's, with the rest."""
    m, n = d.size(4), d.size(4)
    x, at, bits = d.normal(m, n), d.whole(m, 7), d.whole(100, m, n)
    op: Callable[[zyx.Tensor, zyx.Tensor, zyx.Tensor], zyx.Tensor] = d.pick(
        lambda x, at, bits: x[at] * 2.0,
        lambda x, at, bits: zyx.sort(x * 2.0, axis=1),
        lambda x, at, bits: zyx.tanh(x).cumsum(axis=1),
        lambda x, at, bits: (bits ^ 5).astype(zyx.float32) * x,
        lambda x, at, bits: x % 0.7,
    )
    return lambda device: op(x(device), at(device), bits(device))


def devices_of(result: zyx.Tensor) -> list[str]:
    """Return the device of each launch of what computes a result."""
    return [step["device"] for step in zyx.explain_plan(result)["steps"] if step["kind"] not in ("copy", "view")]


def is_wrong(found: zyx.Tensor, wanted: zyx.Tensor, dtype: str) -> bool:
    """Whether a result is beyond its bound; whole numbers and truths have none."""
    x, y = (each.astype(zyx.float32).numpy().astype(np.float64) for each in (found, wanted))
    if not found.dtype.is_float:
        return not np.array_equal(x, y)
    return bool(np.linalg.norm(x - y) > BOUND[dtype] * max(float(np.linalg.norm(y)), 1e-3))


def main() -> None:
    """Print a line for each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="tenstorrent")
    parser.add_argument("--seed", type=int, default=504)
    parser.add_argument("--count", type=int, default=10, help="programs of a family")
    parser.add_argument("--families", nargs="*", default=[*FAMILIES])
    arguments = parser.parse_args()
    all_: collections.Counter[str] = collections.Counter()
    print(f"{'family':<18} {'all':>4} {'part':>5} {'host':>5} {'wrong':>6}   launches there, on the host")
    for name in arguments.families:
        count: collections.Counter[str] = collections.Counter()
        for number in range(arguments.count):
            drawn = Draw(name, arguments.seed, number)
            make = FAMILIES[name](drawn)
            found = make(arguments.device)
            devices = devices_of(found)
            there = sum(device.startswith(arguments.device) for device in devices)
            count["there"] += there
            count["elsewhere"] += len(devices) - there
            count["all" if there == len(devices) else "part" if there else "host"] += 1
            if is_wrong(found, make("interpreter"), drawn.dtype):
                count["wrong"] += 1
                print(f"{name} {number} is wrong")
        all_ += count
        _show(name, count, arguments.count)
    _show("all", all_, arguments.count * len(arguments.families))


def _show(name: str, count: collections.Counter[str], programs: int) -> None:
    launches = f"{count['there'] / programs:.1f}, {count['elsewhere'] / programs:.1f}"
    print(
        f"{name:<18} {count['all']:>4} {count['part']:>5} {count['host']:>5} {count['wrong']:>6}   {launches}",
        flush=True,
    )


if __name__ == "__main__":
    main()
