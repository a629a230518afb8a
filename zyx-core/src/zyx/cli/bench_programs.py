"""The programs of ``zyx bench``: what they are called, and what they are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from zyx.shape import Shape

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class BenchmarkInput:
    """What a program is given: normal numbers of float32.

    Attributes:
        shape: Of it.
        small: The same where everything is small, for devices that are slow.
        scale: What all numbers are multiplied by; 0 for one over the root of the first length, as weights have.
        classes: If not 0, they are integers below it instead.
    """

    shape: Shape
    small: Shape
    scale: float = 1.0
    classes: int = 0

    def draw(self, random: np.random.Generator, *, small: bool) -> Array:
        """Return such numbers."""
        shape = self.small if small else self.shape
        if self.classes:
            return random.integers(0, self.classes, shape)
        scale = self.scale or 1 / math.sqrt(shape[0])
        return (random.standard_normal(shape) * scale).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Something to time.

    Attributes:
        name: What the table calls it.
        method: What it is in `zyx.cli.bench_peers.Peer`.
        operands: What it is given.
    """

    name: str
    method: str
    operands: tuple[BenchmarkInput, ...]

    def draw(self, *, small: bool) -> list[Array]:
        """Return the operands, the same at each call."""
        random = np.random.default_rng(0)
        return [operand.draw(random, small=small) for operand in self.operands]


_ROWS: Final = BenchmarkInput((4096, 1000), (16, 20))
_IMAGES: Final = BenchmarkInput((16, 32, 56, 56), (1, 2, 6, 6))
_HEADS: Final = BenchmarkInput((1, 8, 512, 64), (1, 2, 8, 4))
_CLASSES: Final = 10

PROGRAMS: Final = (
    Benchmark("small matmul", "matmul", (BenchmarkInput((256, 256), (8, 8)),) * 2),
    Benchmark("large matmul", "matmul", (BenchmarkInput((1024, 1024), (24, 24)),) * 2),
    Benchmark("softmax", "softmax", (_ROWS,)),
    Benchmark("layer norm", "layer_norm", (_ROWS, BenchmarkInput((1000,), (20,)), BenchmarkInput((1000,), (20,)))),
    Benchmark("attention", "attention", (_HEADS,) * 3),
    Benchmark("convolution", "convolution", (_IMAGES, BenchmarkInput((64, 32, 3, 3), (3, 2, 3, 3), scale=0.0))),
    Benchmark("row sums", "row_sums", (BenchmarkInput((4096, 2048), (16, 20)),)),
    Benchmark("elementwise", "elementwise", (BenchmarkInput((2048, 2048), (16, 20)),) * 2),
    Benchmark(
        "training step",
        "training_step",
        (
            BenchmarkInput((256, 784), (4, 12)),
            BenchmarkInput((256,), (4,), classes=_CLASSES),
            BenchmarkInput((784, 256), (12, 6), scale=0.0),
            BenchmarkInput((256,), (6,)),
            BenchmarkInput((256, _CLASSES), (6, _CLASSES), scale=0.0),
            BenchmarkInput((_CLASSES,), (_CLASSES,)),
        ),
    ),
    Benchmark("running sums", "running_sums", (BenchmarkInput((2048, 2048), (16, 20)),)),
)
