"""Functions drawn at random, which read and assign tensors that they are given and find, do the same traced or not.

Tensors come as arguments, from outside, as both, twice, and as other tensors with the same values; now and then
somebody assigns to one of them between the calls. Values are small whole numbers, so that results are exact.
"""

import random

import numpy as np
import pytest

import zyx

pytestmark = pytest.mark.usefixtures("interpreter")

SIDE = 5
STEPS = 4


def operations():
    return [
        lambda a, b: a + b,
        lambda a, b: a - b.flip(0),
        lambda a, b: zyx.roll(a, 2, 1) + b,
        lambda a, b: a @ b,
        lambda a, b: a.T + b,
        lambda a, b: zyx.where(a > b, a, b),
        lambda a, b: a.sum(axis=0) + b,
        lambda a, b: a[zyx.Tensor([5 * row % (SIDE - 1) for row in range(SIDE)])] * b,
        lambda a, b: a.cumsum(1) - b,
        lambda a, b: a.detach() + 1.0,
        lambda a, b: a.reshape(-1).reshape(SIDE, SIDE) * b,
        lambda a, b: b,
    ]


class World:
    """The tensors that there are, and a function over them; equal seeds make equal ones."""

    def __init__(self, seed, wrap, record):
        self.random = random.Random(seed)
        values = np.random.default_rng(seed)
        self.tensors = [zyx.Tensor(values.integers(-2, 3, (SIDE, SIDE)).astype(np.float32)) for _ in range(4)]
        self.tensors.append(zyx.Tensor(self.tensors[0]))  # the same values, as another tensor
        self.tensors.append(self.tensors[1].reshape(SIDE * SIDE).reshape(SIDE, SIDE))
        self.program = [
            (
                self.random.randrange(12),
                self.random.randrange(8),
                self.random.randrange(8),
                self.random.random(),
                number,
            )
            for number in range(STEPS)
        ]
        self.outside = self.random.sample(range(6), 3)
        self.step = wrap(self.function)
        self.record = record

    def function(self, first, second, named):
        found = [first, second, named["x"], *[self.tensors[number] for number in self.outside], first, second]
        results = []
        for operation, left, right, action, number in self.program:
            value = operations()[operation](found[left], found[right]) % 4.0
            if action < 0.4:
                found[right].assign(value)
            elif action < 0.55:
                found[left][number % SIDE] = value[0]
            elif action < 0.8:
                results.append(value)
            else:
                found[right] = value
        return results

    def run(self, calls):
        for _ in range(calls):
            given = [self.tensors[self.random.randrange(6)] for _ in range(3)]
            self.record += [result.numpy() for result in self.step(given[0], given[1], named={"x": given[2]})]
            if self.random.random() < 0.3:
                changed, other = self.random.randrange(6), self.random.randrange(6)
                self.tensors[changed].assign(self.tensors[other].flip(1))
        self.record += [tensor.numpy() for tensor in self.tensors]


@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 40)]])
def test_traced_and_untraced_programs_do_the_same(seed):
    untraced, traced = [], []
    World(seed, lambda function: function, untraced).run(3)
    World(seed, zyx.jit, traced).run(3)
    assert len(untraced) == len(traced)
    for wanted, found in zip(untraced, traced, strict=True):
        np.testing.assert_array_equal(found, wanted)
