"""How many Python calls small operations take, where these are all that they cost: on the processor, on 16 numbers.

Calls are counted, not time, so that the counts are the same on every machine. They are those of CPython 3.11; later
versions make fewer, since comprehensions are no calls there. Each bound is what was counted when it was written, and
one more. What raises a count makes every small operation slower, by 50 to 150 ns a call.
"""

import sys

import numpy as np
import pytest

import zyx

pytest.importorskip("zyx_backend_c", reason="the CPU backend, of which these counts are, is not installed")

N = 100  # so that what is done once in a while, or once, counts as what it is for one


@pytest.fixture(autouse=True)
def processor(runtime):
    with runtime.default("c"):
        yield


def numbers(*shape):
    return zyx.Tensor(np.ones(shape, np.float32)).realize()


def calls(function):
    """Return how many Python functions one call of `function` calls, itself not counted, once everything is compiled.

    Generators count at each value, and finalisers as well.
    """
    for _ in range(3):
        function()
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for _ in range(N):
            function()
    finally:
        sys.setprofile(before)
    return count / N - 1


class TestEager:
    """One operation whose result is computed before the next."""

    def test_a_sum_that_replaces_an_operand(self):
        x, y = numbers(16), numbers(16)

        def step():
            nonlocal x
            x = x + y
            x.realize()

        # 8 to make the node and the tensor, 8 to find the plan, 9 to run it (4 of them the backend's), 3 to put a leaf
        # in place of the node, 1 to note that the old buffer is free; 2 of `realize`.
        assert calls(step) <= 32


class TestLazy:
    """Operations that are computed together."""

    def test_an_operation_in_a_chain(self):
        x, y = numbers(16), numbers(16)

        def chain(length):
            def build():
                z = x
                for _ in range(length):
                    z = z + y
                z.realize()

            return calls(build)

        # Two to ask what the operands are now, two for the node, two for the tensor, and the operator. The key of the
        # plan takes none.
        assert chain(110) - chain(10) <= 8 * 100


class TestReplay:
    """A traced function."""

    def test_one_operation(self):
        x, y = numbers(16), numbers(16)
        step = zyx.jit(lambda x, y: x + y)
        assert calls(lambda: step(x, y)) <= 26

    def test_its_length_does_not_count(self):
        x, y = numbers(16), numbers(16)

        def function(length):
            def step(x, y):
                for _ in range(length):
                    x = x + y
                return x

            return zyx.jit(step)

        short, long = function(1), function(50)
        assert calls(lambda: short(x, y)) == calls(lambda: long(x, y))
