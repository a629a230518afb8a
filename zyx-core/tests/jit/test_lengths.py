"""Sizes that change from call to call: one trace serves them, at any length."""

import cProfile
import pstats

import numpy as np
import pytest
from meanings.formulas import softmax

import zyx
import zyx.nn.functional as F
from zyx.jit.bucketed import BucketedTrace
from zyx.testing.lengths import operand

WEIGHT = np.arange(15, dtype=np.float32).reshape(3, 5) / 16 - 0.4


def slopes(x):
    weight = zyx.Tensor(WEIGHT)
    with zyx.Tape() as tape:
        loss = ((x @ weight) ** 2).mean()
    (slope,) = tape.gradient(loss, [weight])
    return slope


def slopes_of_arrays(x):
    return x.T @ (2 * (x @ WEIGHT) / (len(x) * 5))


def positions(x):
    return x * zyx.arange(x.shape[0]).astype(zyx.float32).reshape(-1, 1)


def causal(x):
    length = x.shape[0]
    scores = zyx.where(zyx.tri(length, length) > 0, x @ x.transpose(0, 1), -np.inf)
    return F.softmax(scores, -1) @ x


def causal_of_arrays(x):
    scores = np.where(np.tri(len(x)) > 0, x @ x.T, -np.inf)
    return softmax(scores) @ x


#: A function, what it is on arrays, the shape of its argument, and most kernels for lengths up to 512.
PROGRAMS = {
    "element by element": (lambda x: x * 2 + 1, lambda x: x * 2 + 1, lambda n: (n,), 12),
    "sums": (lambda x: x.sum(), np.sum, lambda n: (n,), 12),
    "means": (lambda x: x.mean(0), lambda x: x.mean(0), lambda n: (n, 3), 12),
    "by the length": (lambda x: x.sum(0) / x.shape[0], lambda x: x.mean(0), lambda n: (n, 3), 12),
    "variances": (lambda x: x.var(0), lambda x: x.var(0), lambda n: (n + 1, 3), 12),
    "an inner axis": (lambda x: F.softmax(x, -1), softmax, lambda n: (8, n), 12),
    "running sums": (lambda x: x.cumsum(0), lambda x: x.cumsum(0), lambda n: (n, 2), 12),
    "cut": (lambda x: x[1:-1] * 2, lambda x: x[1:-1] * 2, lambda n: (n + 2, 3), 12),
    "one shape": (lambda x: x.reshape(x.shape[0] * 3) + 1, lambda x: x.reshape(-1) + 1, lambda n: (n, 3), 12),
    "one size worked out": (lambda x: x.reshape(-1, 2) + 1, lambda x: x.reshape(-1, 2) + 1, lambda n: (n, 4), 12),
    "positions": (positions, lambda x: x * np.arange(len(x), dtype=np.float32)[:, None], lambda n: (n, 3), 12),
    "gradients": (slopes, slopes_of_arrays, lambda n: (n, 3), 24),
    "attention": (causal, causal_of_arrays, lambda n: (n, 4), 36),
}


def checked(jitted, meaning, shape, seed=0):
    x = operand(shape, seed)
    result = jitted(zyx.Tensor(x))
    expected = np.asarray(meaning(x))
    assert result.shape == expected.shape
    assert all(type(size) is int for size in result.shape)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-4, err_msg=str(shape))


def pooled(x, *sizes):
    """The greatest of each window along the last axes."""
    for place, size in enumerate(sizes):
        x = np.moveaxis(x, place - len(sizes), -1)
        x = x[..., : x.shape[-1] // size * size].reshape(*x.shape[:-1], -1, size).max(-1)
        x = np.moveaxis(x, -1, place - len(sizes))
    return x


#: A function, what it is on arrays, the shape of its argument, and how many rests there are.
DIVIDED = {
    "half": (lambda x: x[: x.shape[0] // 2] + 1, lambda x: x[: len(x) // 2] + 1, lambda n: (n,), 2),
    "windows": (lambda x: F.max_pool1d(x, 2) * 2, lambda x: pooled(x, 2) * 2, lambda n: (1, 3, n), 2),
    "twice": (
        lambda x: F.max_pool1d(F.max_pool1d(x, 2), 2),
        lambda x: pooled(pooled(x, 2), 2),
        lambda n: (1, 2, n),
        4,
    ),
    "of two": (lambda x: F.max_pool2d(x, (3, 2)), lambda x: pooled(x, 3, 2), lambda n: (1, 2, n * 5 % 31 + 6, n), 6),
    "of odd ones": (
        lambda x: F.softmax((x @ x.T)[: x.shape[0] // 2].reshape(x.shape[0], -1), -1),
        lambda x: softmax((x @ x.T)[: len(x) // 2].reshape(len(x), -1)),
        lambda n: (2 * n + 8, 3),
        1,
    ),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_lengths_that_are_divided_share_traces_with_those_of_the_same_rest(name):
    function, meaning, shape, most = DIVIDED[name]
    jitted = zyx.jit(function)
    for n in np.random.default_rng(2).permutation(np.arange(8, 90)):
        given = operand(shape(int(n)), int(n))
        np.testing.assert_allclose(jitted(zyx.Tensor(given)).numpy(), meaning(given), rtol=1e-4, atol=1e-5)
    traces = [trace for trace in jitted.traces if isinstance(trace, BucketedTrace)]
    assert 1 <= len(traces) <= most
    assert len(jitted.traces) <= len(traces) + 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_lengths_1_to_512_are_right_with_a_handful_of_traces_and_compilations(interpreter, name):
    function, meaning, shape_at, kernels = PROGRAMS[name]
    runs = []

    @zyx.jit
    def jitted(x):
        runs.append(x.ndim)
        return function(x)

    lengths = np.random.default_rng(512).permutation(512) + 1
    large = set(lengths[lengths > 100][:20].tolist()) | {128, 129, 256, 257, 511, 512}
    for length in lengths.tolist():
        if length <= 100 or length in large:
            checked(jitted, meaning, shape_at(length), length)
        else:
            jitted(zyx.Tensor(operand(shape_at(length), length)))
    assert interpreter.compiler.compiled <= kernels
    assert len(runs) <= 8


def test_the_first_two_sizes_have_traces_of_their_own():
    jitted = zyx.jit(lambda x: x * 2)
    for length in (64, 17, 64, 17):
        checked(jitted, lambda x: x * 2, (length,))
    assert not any(isinstance(trace, BucketedTrace) for trace in jitted.traces)
    checked(jitted, lambda x: x * 2, (18,))
    assert isinstance(jitted.traces[-1], BucketedTrace)


def test_what_depends_on_how_a_size_compares_is_traced_for_each_side(interpreter):
    def function(x):
        return x * 2 if x.shape[0] > 20 else x + 1 if x.shape[0] != 7 else -x

    jitted = zyx.jit(function)
    for length in (5, 9, 12, 7, 20, 21, 40, 33, 6, 7, 19, 100, 3):
        checked(jitted, function, (length, 2), length)
    assert len(jitted.traces) <= 6


def test_what_looks_at_the_number_itself_is_traced_for_each(interpreter, capsys):
    def function(x):
        total = x[0] * 0
        for row in range(x.shape[0]):
            total = total + x[row]
        return total

    jitted = zyx.jit(function)
    with zyx.debug("plan"):
        for length in (2, 3, 4, 5, 6, 7):
            checked(jitted, function, (length, 2), length)
    assert len(jitted.traces) == 6
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("lengths")]
    assert len(shown) == 1  # it is not tried for ever
    assert "test_lengths.py, line" in shown[0]
    assert "looks at the number" in shown[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x.shape[0] // 2),
        lambda x: x * float(f"{x.shape[0]}"),
        lambda x: x * {5: 2, 9: 3}.get(x.shape[0], 7),
        lambda x: x * len({x.shape[0], 9, 12}),
        lambda x: x * [*range(50)][x.shape[0]],
        lambda x: x * (x.shape[0] % 3),
        lambda x: x * (1 << (x.shape[0] - 1).bit_length()),
        lambda x: x * max(x.shape[0], 10),
        lambda x: x * min(x.shape[0] * 2, 30) + x.shape[0] ** 2,
        lambda x: x * (3.0 if x.shape[0] > 9.5 else 0.5) * (100 - x.shape[0]),
        lambda x: x * abs(x.shape[0] - 11) + (x.shape[0] == 13),
        lambda x: x[: 40 - x.shape[0]] + x.shape[0] / 8 - 1 / x.shape[0],
        lambda x: x * (x.shape[0] * 6 // 3 + divmod(x.shape[0] * x.shape[0], x.shape[0])[0]),
        lambda x: x * (not x.shape[0] - 12) + -x.shape[0] * 0.25,
        lambda x: x * np.float32(x.shape[0]),
        lambda x: x * np.arange(x.shape[0], dtype=np.float32)[-1],
    ],
)
def test_whatever_is_done_with_a_size_gives_what_it_gives_untraced(interpreter, function):
    jitted = zyx.jit(function)
    for length in (5, 9, 12, 10, 11, 13, 31, 8, 2, 1, 12, 19, 20):
        checked(jitted, function, (length,), length)


def test_sizes_returned_are_ints(interpreter):
    jitted = zyx.jit(lambda x: (x * 2, x.shape[0]))
    for length in (5, 9, 12, 4):
        assert type(jitted(zyx.ones(length))[1]) is int
        assert jitted(zyx.ones(length))[1] == length


def test_sizes_that_outlive_the_trace_compute_as_ints(interpreter):
    kept = []

    @zyx.jit
    def jitted(x):
        kept.append(x.shape[0])
        return x * 2

    for length in (5, 9, 12, 4):
        jitted(zyx.ones(length))
    assert [size + 1 for size in kept] == [6, 10, 13]
    assert all(type(size + 1) is int for size in kept)
    np.testing.assert_array_equal((zyx.zeros(kept[2]) + kept[2]).numpy(), np.full(12, 12, np.float32))
    assert jitted(zyx.ones(7)).shape == (7,)


def test_several_arguments_follow_one_length(interpreter):
    @zyx.jit
    def jitted(x, y, weights):
        return (x @ weights * y[:, None]).sum(0), y

    weights = operand((3, 2), 1)
    for length in (5, 9, 12, 4, 40, 1, 2, 33):
        x, y = operand((length, 3), length), operand((length,), length + 1)
        found, same = jitted(zyx.Tensor(x), zyx.Tensor(y), zyx.Tensor(weights))
        np.testing.assert_allclose(found.numpy(), (x @ weights * y[:, None]).sum(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(same.numpy(), y)
    assert len(jitted.traces) == 4


def test_two_lengths_that_change_apart_are_right(interpreter):
    jitted = zyx.jit(lambda x: F.softmax(x, 0) + x.mean())
    shapes = ((3, 3), (4, 4), (5, 3), (3, 5), (6, 7), (7, 7), (9, 9), (1, 4), (4, 1), (8, 3), (9, 3), (3, 9), (10, 10))
    for shape in shapes:
        checked(jitted, lambda x: softmax(x, 0) + x.mean(), shape, shape[0])


def trained(x):
    weight = zyx.Tensor(WEIGHT)
    rows, columns, _ = x.shape
    with zyx.Tape() as tape:
        scores = F.log_softmax((x @ weight).reshape(rows * columns, 5), -1)
        loss = -scores[:, 0].mean() + (x * x).sum() / (rows * columns)
    (slope,) = tape.gradient(loss, [weight])
    return slope


#: Of two lengths: a function, and the shape of its argument.
OF_TWO = {
    "element by element": (lambda x: x * 2 + 1, lambda n, m: (n, m)),
    "means": (lambda x: x.mean(), lambda n, m: (n, m)),
    "means of rows": (lambda x: x.mean(1), lambda n, m: (n, m, 2)),
    "variances": (lambda x: x.var(), lambda n, m: (n, m)),
    "softmax": (lambda x: F.softmax(x, -1), lambda n, m: (n, m)),
    "one axis": (lambda x: x.reshape(-1) * 2, lambda n, m: (n, m, 3)),
    "one axis by name": (lambda x: x.reshape(x.shape[0] * x.shape[1], 3).cumsum(0), lambda n, m: (n, m, 3)),
    "turned": (lambda x: x.transpose(0, 1).reshape(-1), lambda n, m: (n, m)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), lambda n, m: (n, m, 4)),
    "by both": (lambda x: x.sum((0, 1)) / (x.shape[0] * x.shape[1]), lambda n, m: (n, m, 2)),
    "by which is longer": (lambda x: x * 2 if x.shape[0] > x.shape[1] else x + 1, lambda n, m: (n, m)),
    "cut": (lambda x: x[1:, :-1].sum(0), lambda n, m: (n + 1, m + 1)),
    "backwards": (lambda x: x.flip((0, 1)), lambda n, m: (n, m)),
    "gradients": (trained, lambda n, m: (n, m, 3)),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_two_lengths_may_vary_at_once(interpreter, name):
    function, shape_at = OF_TWO[name]
    jitted = zyx.jit(function)
    pairs = (
        (4, 7),
        (5, 9),
        (6, 7),
        (3, 12),
        (9, 9),
        (2, 2),
        (1, 5),
        (5, 1),
        (33, 4),
        (3, 40),
        (8, 8),
        (7, 3),
        (12, 31),
    )
    found = []
    for pair in pairs:
        x = operand(shape_at(*pair), sum(pair))
        found.append((x, jitted(zyx.Tensor(x)).numpy()))
    assert len(jitted.traces) <= 8  # two that came first, two with a length of 1, and a few for all others
    for x, result in found:
        expected = function(zyx.Tensor(x)).numpy()
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4, err_msg=str(x.shape))


def test_three_lengths_have_traces_of_their_own(interpreter):
    jitted = zyx.jit(lambda x: x * 2)
    for shape in ((2, 3, 4), (3, 5, 7), (4, 9, 5), (7, 4, 3), (5, 3, 2), (6, 7, 8)):
        checked(jitted, lambda x: x * 2, shape)
    assert not any(isinstance(trace, BucketedTrace) for trace in jitted.traces)


def test_numbers_may_change_along_with_sizes(interpreter):
    jitted = zyx.jit(lambda x, factor, axis: (x * factor).sum(axis))
    calls = ((5, 0.5, 0), (9, 0.5, 0), (12, 0.5, 0), (4, 2.5, 0), (6, 3.5, 0), (7, 0.0, 1), (8, -0.0, 1), (9, 4.5, 1))
    for length, factor, axis in calls:
        x = operand((length, 2), length)
        found = jitted(zyx.Tensor(x), factor, axis)
        np.testing.assert_allclose(found.numpy(), (x * np.float32(factor)).sum(axis), rtol=1e-4, atol=1e-5)
    assert len(jitted.traces) <= 6


def test_state_is_assigned_as_in_any_trace(interpreter):
    weight, steps = zyx.Tensor(WEIGHT), zyx.zeros(())
    expected = WEIGHT.copy()

    @zyx.jit
    def step(x):
        with zyx.Tape() as tape:
            loss = ((x @ weight) ** 2).mean()
        (slope,) = tape.gradient(loss, [weight])
        weight.assign(weight - slope * 0.1)
        steps.assign(steps + 1)
        return loss

    for count, length in enumerate((5, 9, 12, 4, 40, 31, 1, 2, 33, 9), 1):
        x = operand((length, 3), length)
        loss = step(zyx.Tensor(x))
        np.testing.assert_allclose(loss.numpy(), ((x @ expected) ** 2).mean(), rtol=1e-3)
        expected -= 0.1 * slopes_at(x, expected)
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-3, atol=1e-5)
        assert steps.item() == count
    assert len(step.traces) == 4


def slopes_at(x, weight):
    return x.T @ (2 * (x @ weight) / (len(x) * 5))


def test_arguments_are_assigned_in_their_own_shapes(interpreter):
    @zyx.jit
    def step(x):
        x.assign(x * 2 + 1)
        return x.sum()

    for length in (5, 9, 12, 4, 40):
        array = operand((length, 3), length)
        x = zyx.Tensor(array)
        total = step(x)
        assert x.shape == (length, 3)
        np.testing.assert_allclose(x.numpy(), array * 2 + 1, rtol=1e-5)
        np.testing.assert_allclose(total.numpy(), (array * 2 + 1).sum(), rtol=1e-4, atol=1e-4)


def test_modules_that_change_are_traced_again(interpreter):
    layer = zyx.nn.Dropout(0.5)
    jitted = zyx.jit(lambda x: layer(x) * 2)
    layer.eval()
    for length in (5, 9, 12, 4):
        assert jitted(zyx.ones(length)).sum().item() == 2 * length
    layer.train()
    found = jitted(zyx.ones(300)).numpy()
    assert set(found.tolist()) == {0.0, 4.0}
    layer.eval()
    assert jitted(zyx.ones(7)).sum().item() == 14


def test_random_numbers_are_those_of_calls_untraced(interpreter):
    def function(x):
        return x + zyx.rand(x.shape[0], 3)

    jitted = zyx.jit(function)
    found = []
    for called in (function, jitted):
        zyx.manual_seed(7)
        found.append([called(zyx.zeros((length, 3))).numpy() for length in (5, 9, 12, 4, 40, 1, 2, 33)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(jitted.traces) == 4


def test_no_elements_are_right_before_and_after_others(interpreter):
    jitted = zyx.jit(lambda x: ((x + 1).sum(0), x * 2))
    for length in (0, 3, 5, 0, 7, 9, 0, 1):
        x = operand((length, 2), length)
        total, doubled = jitted(zyx.Tensor(x))
        np.testing.assert_allclose(total.numpy(), (x + 1).sum(0), rtol=1e-5)
        np.testing.assert_array_equal(doubled.numpy(), x * 2)


def test_a_length_that_stays_gets_a_trace_of_its_own(interpreter):
    jitted = zyx.jit(lambda x: x * 2 - 1)
    for length in (3, 4, 5, *[6] * 12):
        checked(jitted, lambda x: x * 2 - 1, (length,))
    assert sorted(isinstance(trace, BucketedTrace) for trace in jitted.traces) == [False, False, False, True]


def test_nodes_of_one_trace_are_not_taken_for_those_of_another(interpreter):
    def function(x, kind):
        zeros = zyx.zeros(x.shape[0], 2)  # without values of its own: equal ones are one node
        return zyx.concat([x, zeros.reshape(zeros.shape[0] * 2)[: zeros.shape[0] + 1]], 0) * (2 if kind > 1 else 3)

    jitted = zyx.jit(function)
    for length, kind in ((5, 1), (9, 1), (12, 1), (7, 2), (8, 2), (40, 2), (13, 1), (6, 3), (4, 3)):
        x = operand((length,), length)
        expected = np.concatenate([x, np.zeros(length + 1, np.float32)]) * (2 if kind > 1 else 3)
        np.testing.assert_array_equal(jitted(zyx.Tensor(x), kind).numpy(), expected)
    assert len(jitted.traces) == 5


def test_results_in_one_buffer_are_cut_off_once(interpreter):
    jitted = zyx.jit(lambda x: ((turned := x.transpose(0, 1) + 0.0), turned[0]))
    for length in (5, 9, 12, 4, 40):
        x = operand((length, 1), length)
        turned, row = jitted(zyx.Tensor(x))
        np.testing.assert_array_equal(turned.numpy(), x.T)
        np.testing.assert_array_equal(row.numpy(), x[:, 0])


def test_errors_are_those_of_the_function(interpreter):
    jitted = zyx.jit(lambda x: x + zyx.ones((7, 3)))
    jitted(zyx.ones((7, 3)))
    for length in (5, 9, 12, 6):
        with pytest.raises(zyx.errors.ShapeError, match="do not broadcast"):
            jitted(zyx.ones((length, 3)))
    assert jitted(zyx.ones((1, 3))).shape == (7, 3)


def test_what_is_large_has_traces_of_its_own(interpreter):
    jitted = zyx.jit(lambda x: x * 2)
    for length in (1_500_000, 1_500_001, 1_500_002):
        jitted(zyx.Tensor(np.ones(length, np.float32)))
    assert interpreter.compiler.compiled == 3


def test_traces_go_with_the_objects_that_they_are_about(interpreter):
    class Model:
        @zyx.jit
        def go(self, x):
            return x * 2

    model = Model()
    for length in (5, 9, 12, 4):
        model.go(zyx.ones(length))
    assert len(Model.go.traces) == 3
    del model
    assert not Model.go.traces


def calls_of(function):
    """Return how many calls are made, but for those of the device, which is one of Python."""
    profile = cProfile.Profile()
    profile.runcall(function)
    counts = pstats.Stats(profile).stats
    return sum(calls for (file, _, _), (_, calls, *_) in counts.items() if "/jit/" in file or "/runtime/" in file)


def test_a_length_costs_at_most_three_times_the_calls_of_a_repeated_call(interpreter):
    jitted = zyx.jit(lambda x: (x * 2 - x.mean()).sum())
    given = {length: zyx.Tensor(operand((length, 3), length)) for length in range(5, 30)}
    for length in range(5, 20):
        jitted(given[length])
    for tensor in given.values():
        tensor.realize()
    repeated = calls_of(lambda: jitted(given[5]))
    assert calls_of(lambda: jitted(given[12])) <= 3 * repeated
    assert calls_of(lambda: jitted(given[25])) <= 3 * repeated


def test_rows_may_be_as_far_apart_as_a_product_of_lengths_less_one(interpreter):
    jitted = zyx.jit(lambda x: x[1:, 1:, 1:].contiguous() * 2)
    for rows, columns in ((5, 7), (6, 7), (5, 9), (9, 4), (12, 20), (40, 11), (150, 3), (7, 7)):
        x = operand((rows, columns, 3), rows)
        np.testing.assert_allclose(jitted(zyx.Tensor(x)).numpy(), x[1:, 1:, 1:] * 2, rtol=1e-5)
    assert len(jitted.traces) < 8
