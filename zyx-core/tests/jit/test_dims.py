"""Axes that are declared to vary: one trace for them from the first call on, within bounds."""

import copy
import cProfile
import pickle
import pstats

import numpy as np
import pytest

import zyx
from zyx import Dim
from zyx.errors import DimError, ShapeError, TraceError
from zyx.jit.bucketed import BucketedTrace
from zyx.testing.lengths import operand

N = Dim("n", 1, 8192)


def calls_of(function):
    """Return how many calls of Python are made in `jit` and `runtime`."""
    profile = cProfile.Profile()
    profile.runcall(function)
    counts = pstats.Stats(profile).stats
    return sum(calls for (file, _, _), (_, calls, *_) in counts.items() if "/jit/" in file or "/runtime/" in file)


def test_the_first_call_makes_the_one_trace_and_a_plan_for_each_greatest_length(interpreter):
    runs = []

    @zyx.jit(lengths={"x": {0: N}})
    def scaled(x):
        runs.append(x.ndim)
        return x * 2 - x.sum(0)

    for length, compiled in ((20, 1), (31, 1), (2, 1), (129, 2), (256, 2), (5, 2), (8192, 3)):
        x = operand((length, 3), length)
        np.testing.assert_allclose(scaled(zyx.Tensor(x)).numpy(), x * 2 - x.sum(0), rtol=1e-4, atol=1e-4)
        assert (len(runs), interpreter.compiler.compiled) == (1, compiled)
    assert [type(trace) for trace in scaled.traces] == [BucketedTrace]


def test_a_length_that_is_run_often_gets_no_other_trace(interpreter):
    scaled = zyx.jit(lambda x: x * 2, lengths={"x": {0: N}})
    for length in (5, *[6] * 300, 7):
        assert scaled(zyx.ones(length)).shape == (length,)
    assert len(scaled.traces) == 1


def test_lengths_of_0_and_1_have_traces_of_their_own(interpreter):
    total = zyx.jit(lambda x, y: (x * y).sum(0), lengths={"x": {0: Dim("n")}})
    for length in (3, 1, 3, 1):
        x, y = operand((length, 2), length), operand((3, 2), 7)
        np.testing.assert_allclose(total(zyx.Tensor(x), zyx.Tensor(y)).numpy(), (x * y).sum(0), rtol=1e-5)
    nothing = zyx.jit(lambda x: x.sum(0), lengths={"x": {0: Dim("n")}})
    for length in (4, 0, 5, 1, 0):
        assert nothing(zyx.ones((length, 2))).tolist() == [length, length]
    assert sorted(isinstance(trace, BucketedTrace) for trace in nothing.traces) == [False, False, True]


def test_a_length_out_of_bounds_is_an_error_with_the_name_the_bounds_and_the_length():
    scaled = zyx.jit(lambda x, y=None: x * 2, lengths={"x": {-1: Dim("rows", 4, 40)}})
    for length in (0, 3, 41):
        with pytest.raises(DimError, match=rf"rows is {length} along axis -1 of 'x', of .*at least 4 and at most 40"):
            scaled(zyx.ones((2, length)))
    assert not scaled.traces
    assert scaled(zyx.ones((2, 40))).shape == (2, 40)
    with pytest.raises(DimError, match="rows is 41"):
        scaled(zyx.ones((2, 41)))  # as after other calls
    with zyx.Tape(), pytest.raises(DimError, match="rows is 41"):
        scaled(zyx.ones((2, 41)))  # untraced, too
    with pytest.raises(DimError, match="'x' has no axis -1, which is declared as Dim"):
        scaled(zyx.ones(()))
    assert issubclass(DimError, ShapeError)


def test_axes_of_one_dim_have_one_length_in_a_call(interpreter):
    function = zyx.jit(lambda x, y: x.sum() + y.sum(), lengths={"x": {0: N}, "y": {1: N}})
    for length in (5, 40):
        assert float(function(zyx.ones(length), y=zyx.ones((2, length)))) == 3 * length
    with pytest.raises(DimError, match=r"n is 5 along axis 0 of 'x', .*, and 6 along axis 1 of 'y', of shape \(2, 6\)"):
        function(zyx.ones(5), zyx.ones((2, 6)))
    pair = zyx.jit(lambda pair: pair[0].sum() + pair[1].sum(), lengths={"pair": {0: N}})
    assert float(pair([zyx.ones(5), zyx.ones((5, 2))])) == 15
    with pytest.raises(DimError, match=r"n is 5 .* and 6"):
        pair([zyx.ones(5), zyx.ones(6)])


def test_two_and_three_lengths_share_one_trace(interpreter):
    a, b, c = Dim("a", 2, 100), Dim("b", 2, 100), Dim("c", 2, 100)
    two = zyx.jit(lambda x, y: zyx.tanh(x) @ y, lengths={"x": {0: a, 1: b}, "y": {0: b}})
    three = zyx.jit(lambda x, y: zyx.tanh(x) @ y * x.shape[1], lengths={"x": {0: a, 1: b}, "y": {0: b, 1: c}})
    for rows, depth, columns in ((5, 6, 7), (8, 9, 10), (40, 12, 13), (7, 50, 99), (7, 7, 7), (100, 100, 100)):
        x, y = operand((rows, depth), 1), operand((depth, columns), 2)
        expected = np.tanh(x) @ y
        found = two(zyx.Tensor(x), zyx.Tensor(y[:, :4]))
        np.testing.assert_allclose(found.numpy(), expected[:, :4], rtol=1e-3, atol=1e-4)
        found = three(zyx.Tensor(x), zyx.Tensor(y))
        np.testing.assert_allclose(found.numpy(), expected * depth, rtol=1e-3, atol=1e-3)
    assert len(two.traces) == len(three.traces) == 1


def test_other_sizes_and_dtypes_have_traces_beside(interpreter):
    scaled = zyx.jit(lambda x: x * 2, lengths={"x": {0: N}})
    for beside in (3, 4, 5, *range(3, 30)):
        for length in (5, 6):
            assert scaled(zyx.ones((length, beside))).shape == (length, beside)
    assert len(scaled.traces) == 16  # the last ones
    for dtype in (zyx.int32, zyx.float32, zyx.int32):
        for length in (8, 9):
            assert scaled(zyx.ones((length, 29), dtype=dtype)).dtype == dtype
    assert len(scaled.traces) == 17


def test_methods_defaults_and_copies_have_declared_lengths(interpreter):
    class Model:
        @zyx.jit(lengths={"x": {0: N}, "mask": {0: N}, "rest": {0: N}, "named": {0: N}})
        def go(self, x, mask=None, *rest, **named):
            found = x * 2 if mask is None else x * mask
            return sum([*rest, *named.values()], found)

    model = Model()
    for length in (5, 6):
        x = zyx.ones(length)
        assert model.go(x).tolist() == [2] * length
        assert model.go(x, x, x, other=x).tolist() == [3] * length
    assert len(Model.go.traces) == 2
    with pytest.raises(DimError, match="and 4 along axis 0 of 'rest'"):
        model.go(zyx.ones(5), zyx.ones(5), zyx.ones(4))
    with pytest.raises(DimError, match="and 4 along axis 0 of 'named'"):
        model.go(zyx.ones(5), zyx.ones(5), other=zyx.ones(4))
    with pytest.raises(DimError, match="n is 9000"):
        copy.deepcopy(Model.go)(model, zyx.ones(9000))
    assert pickle.loads(pickle.dumps(N)) == N


def test_numbers_and_static_parameters_are_as_without(interpreter):
    scaled = zyx.jit(lambda x, factor, times: x * factor * times, static="times", lengths={"x": {0: N}})
    for length, factor, times in ((5, 0.5, 2), (6, 1.5, 2), (7, 2.5, 2), (8, 3.5, 3), (9, 4.5, 3)):
        assert scaled(zyx.ones(length), factor, times).tolist() == [factor * times] * length
    assert len(scaled.traces) == 3  # the first with its number, then one for each of those that are static


def test_what_looks_at_the_length_itself_has_traces_of_its_own_and_says_so(interpreter, capsys):
    def function(x):
        return sum([x[row] for row in range(x.shape[0])], zyx.zeros(3))

    jitted = zyx.jit(function, lengths={"x": {0: Dim("n", 1, 50)}})
    with zyx.debug("plan"):
        for length in (5, 6, 7, 8):
            assert jitted(zyx.ones((length, 3))).tolist() == [length] * 3
    shown = capsys.readouterr().err
    assert "for lengths that were declared; for lengths such as 5" in shown
    assert "looks at the number of elements itself" in shown
    assert "next: a trace for this length alone" in shown


def test_a_function_that_cannot_follow_a_length_is_named(interpreter, capsys):
    pooled = zyx.jit(lambda x: zyx.max_pool1d(x, 2), lengths={"x": {2: Dim("n", 4, 50)}})
    with zyx.debug("plan"):
        for length in (20, 23, 24):
            assert pooled(zyx.ones((1, 2, length))).shape == (1, 2, length // 2)
    shown = capsys.readouterr().err
    assert "test_dims.py, line" in shown
    assert "in max_pool1d, looks at the number of elements itself; next: a trace for this length alone" in shown


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("",), "the name of a Dim is"),
        ((3,), "the name of a Dim is"),
        (("n", -1), "min is a length"),
        (("n", 1.0, 5), "min is a length"),
        (("n", None, 5), "min is a length"),
        (("n", 1, True), "max is a length"),
        (("n", 5, 4), "max is 4, which is less than min, 5"),
    ],
)
def test_dims_that_make_no_sense_are_refused(args, said):
    with pytest.raises(DimError, match=said):
        Dim(*args)


def test_declarations_that_make_no_sense_are_refused():
    with pytest.raises(TraceError, match=r"lengths: .* has no parameter 'y'; it has x"):
        zyx.jit(lambda x: x, lengths={"y": {0: N}})
    with pytest.raises(DimError, match="have one name, and other bounds"):
        zyx.jit(lambda x: x, lengths={"x": {0: N, 1: Dim("n", 1, 10)}})
    for wrong in (N, {0: 5}, {"0": N}):
        with pytest.raises(DimError, match="lengths:"):
            zyx.jit(lambda x: x, lengths={"x": wrong})
    assert (repr(N), Dim("n", 1, 8192) == N, Dim("n") == N, len({N, Dim("n", 1, 8192)})) == (
        "Dim('n', 1, 8192)", True, False, 1,
    )  # fmt: skip


def test_a_length_costs_at_most_three_times_the_calls_of_a_repeated_call(interpreter):
    jitted = zyx.jit(lambda x: (x * 2 - x.mean()).sum(), lengths={"x": {0: N}})
    given = {length: zyx.Tensor(operand((length, 3), length)).realize() for length in range(5, 30)}
    for length in range(5, 20):
        jitted(given[length])
    repeated = calls_of(lambda: jitted(given[5]))
    assert calls_of(lambda: jitted(given[25])) <= 3 * repeated
