"""How many Python calls small operations take, where these are all that they cost: on the processor, on 16 numbers.

Calls are counted, not time, so that the counts are the same on every machine. They are those of CPython 3.11; later
versions make fewer, since comprehensions are no calls there. Each bound is what was counted when it was written, and
at most one more. What raises a count makes every small operation slower, by 50 to 150 ns a call.
"""

import statistics
import sys

import numpy as np
import pytest

import zyx

pytest.importorskip("zyx_backend_c", reason="the CPU backend, of which these counts are, is not installed")

N = 101


@pytest.fixture(autouse=True)
def processor(runtime):
    with runtime.default("c"):
        yield


def numbers(*shape):
    return zyx.Tensor(np.ones(shape, np.float32)).realize()


def calls(function):
    """Return how many Python functions one call of `function` calls, itself not counted, once everything is compiled.

    Generators count at each value, and finalisers as well. It is the median of many calls: what is done once in a
    while, such as sweeping a table, or by the collection of what other tests left, is not counted.
    """
    for _ in range(3):
        function()
    counts = []
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for _ in range(N):
            count = 0
            function()
            counts.append(count - 1)
    finally:
        sys.setprofile(before)
    return statistics.median(counts)


class TestEager:
    """One operation whose result is computed before the next."""

    def test_a_sum_that_replaces_an_operand(self):
        x, y = numbers(16), numbers(16)

        def step():
            nonlocal x
            x = x + y
            x.realize()

        # 9: 1 makes the node and the tensor, as below. 2 are `realize`, 2 find the plan, 2 run it (memory for the
        # result), 1 puts a leaf in the place of the node, and 1 notes that the memory of the old value is free.
        assert calls(step) <= 9

    @pytest.mark.parametrize(
        ("operation", "bound"),
        [
            (lambda x, y, row: x + row, 24), (lambda x, y, row: x < y, 8), (lambda x, y, row: x.exp(), 8),
            (lambda x, y, row: x.sum(axis=1), 26), (lambda x, y, row: x @ y, 31), (lambda x, y, row: x[0], 25),
            (lambda x, y, row: x.softmax(), 28), (lambda x, y, row: x.reshape(16), 12),
        ],
        ids=["+ row", "<", "exp", "sum", "@", "[0]", "softmax", "reshape"],
    )  # fmt: skip
    def test_what_computing_takes_hardly_depends_on_the_graph(self, operation, bound):
        """Counted without making the graph: 8 for one operation, else about 24; nothing moves elements."""
        x, y, row = numbers(4, 4), numbers(4, 4), numbers(4)
        made = calls(lambda: operation(x, y, row))
        assert calls(lambda: operation(x, y, row).realize()) - made <= bound + 1


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

        # The operator. The key of the plan and computing take none.
        assert chain(110) - chain(10) <= 100

    @pytest.mark.parametrize(
        ("operation", "bound"),
        [
            (lambda x, y, row: x + y, 1), (lambda x, y, row: x * 2.0, 11), (lambda x, y, row: x + row, 20),
            (lambda x, y, row: x < y, 9), (lambda x, y, row: -x, 5), (lambda x, y, row: x.exp(), 6),
            (lambda x, y, row: x.relu(), 19), (lambda x, y, row: x.astype("float64"), 12),
            (lambda x, y, row: x.sum(axis=1), 36), (lambda x, y, row: x @ y, 89), (lambda x, y, row: x.reshape(16), 15),
            (lambda x, y, row: x.T, 30), (lambda x, y, row: x[0], 19), (lambda x, y, row: x.softmax(), 86),
        ],
        ids=[
            "+", "* number", "+ row", "<", "-", "exp", "relu", "astype", "sum", "@", "reshape", "T", "[0]", "softmax",
        ],
    )  # fmt: skip
    def test_making_a_graph(self, operation, bound):
        """Counted; a node is 5 to 6 of them, and a product of matrices has seven nodes."""
        x, y, row = numbers(4, 4), numbers(4, 4), numbers(4)
        assert calls(lambda: operation(x, y, row)) <= bound + 1


class TestReplay:
    """A traced function."""

    def test_one_operation(self):
        x, y = numbers(16), numbers(16)
        step = zyx.jit(lambda x, y: x + y)
        # 13: 6 find the trace, 4 run its plan, 2 make a tensor of the result, and 1 notes that the memory of the one
        # before is free.
        assert calls(lambda: step(x, y)) <= 13

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
