"""Constants that change from run to run: kernels are given them, and nothing is compiled for each."""

import math

import numpy as np
import pytest
from fuzz.running import constants_given

import zyx
from zyx.graph import Graph
from zyx.graph.host_call import HostCall
from zyx.graph.signature import signature
from zyx.graph.walk import topological
from zyx.ops import BinaryOp, UnaryOp
from zyx.specialise import numbers
from zyx.specialise.table import Table
from zyx.testing.graph_runs import GraphRunner, with_other_constants
from zyx.testing.graphs import GraphOptions

X = np.array([-2.0, -0.0, 0.5, 3.0], np.float32)


def compiled(lab, function, values):
    """Return how many kernels are compiled for the results of `function` for `values`, which NumPy has, too."""
    before = lab.compiler.compiled
    for value in values:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(function(zyx.Tensor(X), value).numpy(), function(X, value), rtol=1e-6)
    return lab.compiler.compiled - before


@pytest.mark.parametrize(
    "function",
    [
        lambda x, value: x * value,
        lambda x, value: value - x,
        lambda x, value: x / value,
        lambda x, value: (x > value).sum(),
        lambda x, value: (x * value + 1.0).sum(),
    ],
)
def test_numbers_that_change_compile_two_kernels(lab, function):
    assert compiled(lab, function, [0.1 * number + 0.05 for number in range(40)]) == 2


def test_a_loop_over_a_changing_rate_compiles_nothing_after_its_second_step(lab):
    weight, counts = zyx.Tensor(X), []
    for step in range(8):
        weight = weight - weight * (0.1 / (1 + step))
        weight.realize()
        counts.append(lab.compiler.compiled)
    assert counts[1:] == [2] * 7
    expected = np.prod([1 - 0.1 / (1 + step) for step in range(8)])
    np.testing.assert_allclose(weight.numpy(), X * expected, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 1e-45, 3.4e38, 1e39])
def test_no_value_is_taken_for_another(lab, value):
    x = zyx.Tensor(X)
    for other in (0.25, 0.75):
        (x * other).realize()
    with np.errstate(all="ignore"):
        expected = X * np.float32(value)
    result = (x * value).numpy()
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    np.testing.assert_array_equal((x * 0.25).numpy(), X * 0.25)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int32", "int64", "uint64"])
def test_numbers_have_the_dtype_of_the_tensor(lab, dtype):
    x = np.arange(5).astype(dtype)
    for number in (3, 5, 7):
        result = (zyx.Tensor(x) + number).numpy()
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result, x + x.dtype.type(number))


def test_what_has_not_changed_stays_a_part_of_the_kernel(lab):
    x = zyx.Tensor(X)
    for number in (0.3, 0.6, 0.9):
        (x * number + 0.5).realize()
    (step,) = list(lab._plans.values())[-1].steps
    assert len(step.given) == 1
    for number in (0.7, 0.8):
        np.testing.assert_allclose((x * 0.6 + number).numpy(), X * np.float32(0.6) + np.float32(number), rtol=1e-6)
    (step,) = list(lab._plans.values())[-1].steps
    assert len(step.given) == 2


def test_a_result_of_numbers_alone_is_one(lab):
    for number in (1.5, 2.5, 3.5):
        assert zyx.full((2, 3), number).tolist() == [[number] * 3] * 2
    assert lab.compiler.compiled == 2


def test_gradients_follow_numbers_that_change(lab):
    before = lab.compiler.compiled
    for rate in (0.5, 0.25, 2.0, 4.0):
        gradient = zyx.grad(lambda x, rate=rate: (x * x * rate).sum())(zyx.Tensor(X))
        np.testing.assert_allclose(gradient.numpy(), 2 * rate * X)
    assert lab.compiler.compiled - before == 2


def test_several_kernels_of_one_run_are_given_numbers(lab, device):
    x = zyx.Tensor(np.ones((4, 4), np.float32))
    for number in (0.5, 0.25, 2.0, 3.0, 4.0):
        y = ((x * number) @ x).contiguous()
        z = (y + number).softmax() * number
        z.realize()
        np.testing.assert_allclose(z.numpy(), np.full((4, 4), number / 4), rtol=1e-6)
    assert len(device.launched) > 5


class TestBetterKnown:
    """Constants that kernels of their own are much faster for have some, but not any number of them."""

    def test_exponents(self, lab):
        assert compiled(lab, lambda x, value: x**value, [2.0, 3.0, 4.0]) == 3
        assert compiled(lab, lambda x, value: x**value, [float(number) for number in range(2, 40)]) <= 5

    def test_divisors_of_integers(self, lab):
        x = np.arange(100, dtype=np.int32)
        before = lab.compiler.compiled
        for number in range(3, 30):
            np.testing.assert_array_equal((zyx.Tensor(x) % number).numpy(), x % number)
        assert lab.compiler.compiled - before <= 6

    def places(self, *makes):
        """Return which constants are given to the last of the graphs that `makes` make."""
        table, given = Table(), None
        for make in makes:
            graph = Graph()
            x = graph.leaf((8,), zyx.float32, "test:0")
            outputs = [make(graph, x)]
            key, _, order = signature(outputs)
            given = numbers.given(table, key, order)
        return () if given is None else given.places

    def test_what_coordinates_are_combined_with(self, lab):
        def make(more, factor, op=BinaryOp.MUL):
            def result(graph, x):
                index = graph.iota((8,), 0, zyx.int32, "test:0")
                moved = graph.binary(op, index, graph.const(more, zyx.int32, "test:0", (8,)))
                below = graph.binary(BinaryOp.LT, moved, graph.const(6, zyx.int32, "test:0", (8,)))
                scaled = graph.binary(BinaryOp.MUL, x, graph.const(factor, zyx.float32, "test:0", (8,)))
                return graph.where(below, scaled, x)

            return result

        assert self.places(make(3, 0.5)) == ()
        assert self.places(make(3, 0.5), make(4, 0.5)) == ()
        assert self.places(make(3, 0.5), make(4, 0.75)) == (2,)
        assert self.places(*(make(more, 0.5) for more in range(10, 19))) == (0,)
        assert self.places(*(make(more, more / 8) for more in range(10, 19))) == (0, 2)

    def test_what_coordinates_are_compared_with_is_not_among_them(self, lab):
        def make(limit):
            def result(graph, x):
                index = graph.iota((8,), 0, zyx.int32, "test:0")
                return graph.where(
                    graph.binary(BinaryOp.LT, index, graph.const(limit, zyx.int32, "test:0", (8,))),
                    x,
                    graph.unary(UnaryOp.NEG, x),
                )

            return result

        assert self.places(make(3)) == ()
        assert self.places(make(3), make(4)) == (0,)


def test_a_device_that_refuses_numbers_has_them_in_its_kernels(lab, refuses_numbers, capsys):
    with zyx.debug("plan"):
        for number in (0.5, 0.25, 2.0):
            np.testing.assert_array_equal((zyx.Tensor(X) * number).numpy(), X * number)
    assert capsys.readouterr().err.count("next: a kernel for this constant alone") == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i : i + 5] + 1,
        lambda x, i: x[:, i : i + 3] * 2,
        lambda x, i: x[i : i + 3, 2:9].sum(0),
        lambda x, i: x[i] + x[i + 1],
        lambda x, i: x[2 * i : 2 * i + 6 : 2],
        lambda x, i: x[i : i + 4].T @ x[i + 1 : i + 5],
        lambda x, i: x[i, 3],
    ],
)
def test_slices_that_begin_elsewhere_compile_two_kernels(lab, function):
    array = np.arange(400, dtype=np.float32).reshape(40, 10)
    x = zyx.Tensor(array)
    for i in range(8):
        np.testing.assert_allclose(function(x, i).numpy(), function(array, i), rtol=1e-6)
    assert lab.compiler.compiled <= 2


def _double(array):
    return (array * 2,)


def _doubled(x):
    """Return what the host makes of `x`."""
    call = HostCall("double", "NumPy", _double, ((x.shape, x.dtype),), ())
    (node,) = call.apply(x.runtime.graph, [x.node])
    return x.like(node)


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("reader", ["a loop", "the host"])
def test_what_is_given_buffers_alone_reads_slices_that_begin_elsewhere(lab, reader, is_traced):
    network = zyx.nn.RNN(3, 4)
    read = {"a loop": lambda x: network(x)[0], "the host": _doubled}[reader]
    array = np.random.default_rng(3).standard_normal((40, 2, 3)).astype(np.float32)
    x = zyx.Tensor(array).realize()

    def function(x, i):
        return read(x[i : i + 5])

    called = zyx.jit(function) if is_traced else function
    for i in range(0, 24, 3):
        np.testing.assert_allclose(called(x, i).numpy(), read(zyx.Tensor(array[i : i + 5])).numpy(), rtol=1e-6)


PLACES = {
    "a slice of what is computed": lambda x, i: (x * 2)[i : i + 3],
    "a slice along two axes": lambda x, i: (x * 2)[i : i + 2, i % 3 : i % 3 + 2],
    "a position that is assigned to": lambda x, i: _assigned(x * 2, i),
    "positions of what lies in memory": lambda x, i: _assigned(x, (slice(None), i % 4)),
    "a box of what lies in memory": lambda x, i: _assigned(x, (slice(i + 1, i + 3), slice(i % 3, i % 3 + 2))),
    "a roll": lambda x, i: (np if isinstance(x, np.ndarray) else zyx).roll(x, i + 1, 0),
    "what is padded": lambda x, i: (np if isinstance(x, np.ndarray) else zyx).pad(x * 2, ((i, 12 - i), (1, 2))),
}


def _assigned(x, key):
    x = x.copy() if isinstance(x, np.ndarray) else x
    x[key] = 7
    return x


@pytest.mark.parametrize("what", PLACES)
def test_places_are_given_to_one_kernel(lab, what):
    array = np.arange(48, dtype=np.float32).reshape(12, 4)
    counts = []
    for i in range(8):
        result = PLACES[what](zyx.Tensor(array).realize(), i)
        np.testing.assert_array_equal(result.numpy(), PLACES[what](array, i))
        counts.append(lab.compiler.compiled)
    assert counts[1:] == counts[1:2] * 7


def test_a_loop_over_batches_of_what_lies_in_memory_compiles_nothing_after_the_second(lab):
    data, weight, counts = zyx.Tensor(np.eye(12, dtype=np.float32)), zyx.Tensor(np.ones((12, 2), np.float32)), []
    for start in range(0, 12, 3):
        gradient = zyx.grad(lambda w, batch=data[start : start + 3]: ((batch @ w) ** 2).sum())(weight)
        expected = np.zeros((12, 2))
        expected[start : start + 3] = 2
        np.testing.assert_array_equal(gradient.numpy(), expected)
        counts.append(lab.compiler.compiled)
    assert counts[1:] == counts[1:2] * 3


def test_all_constants_can_be_given(lab):
    with constants_given(lab):
        x = np.arange(6, dtype=np.int32)
        result = zyx.where(zyx.arange(6) < 4, zyx.Tensor(x) * 3 + 1, -2) % 4
        np.testing.assert_array_equal(result.numpy(), np.where(x < 4, x * 3 + 1, -2) % 4)
        (step,) = list(lab._plans.values())[-1].steps
        assert len(step.given) > 4
    assert numbers.given(lab.outlines, *signature([(zyx.Tensor(x) * 3).node])[::2]) is None


def test_random_graphs_with_other_constants_agree_with_the_oracle(lab):
    runner = GraphRunner(lab, "lab")
    options = GraphOptions(most_nodes=10, most_elements=200)
    given = 0
    for seed in range(80):
        case = runner.random([seed], options)
        runner.check(case, has_other_constants=True)
        given += any(step.given for plan in lab._plans.values() for step in plan.steps if hasattr(step, "given"))
        other = with_other_constants(case, 1)
        assert len(topological(other.outputs)) <= len(topological(case.outputs))
    assert given > 20


def test_constants_that_were_read_are_values_all_the_same(lab):
    """What lies in a buffer is no part of a kernel, and what is a part of one is no buffer."""
    kept = []
    for number in (4, 3, 4, 5):
        for value, expected in ((zyx.full((3,), number), [number] * 3), (zyx.arange(number), list(range(number)))):
            assert value.tolist() == expected
            total = value + 0
            assert total.tolist() == expected
            assert (total + value).tolist() == [2 * each for each in expected]
            kept += [value, total]


def test_statistics_of_integers_under_jit_know_how_many_there_are():
    seconds = np.arange(1_700_000_000, 1_700_000_100)
    both = zyx.jit(lambda x: (zyx.mean(x), zyx.std(x)))
    for number in (100, 99, 7, 61, 62, 63):
        mean, spread = both(zyx.Tensor(seconds[:number]))
        assert mean.item() == pytest.approx(seconds[:number].mean(), 1e-7)
        assert spread.item() == pytest.approx(seconds[:number].std(), 1e-6)
