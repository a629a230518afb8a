"""Functions of one example that draw, read, assign, or do not fit, run once for many."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import zyx
import zyx.nn.functional as F
from zyx import nn, vmap
from zyx.errors import ArgumentError, AxisError, IntegerError, ShapeError, TraceError

pytestmark = pytest.mark.usefixtures("interpreter")


RANDOM = np.random.default_rng(3)
SIZE = 3


def normal(*shape):
    return zyx.Tensor(RANDOM.standard_normal(shape).astype(np.float32))


# ---- random numbers


def seeded(f):
    zyx.manual_seed(7)
    return f().numpy()


@pytest.mark.parametrize("draw", [zyx.rand, zyx.randn], ids=["rand", "randn"])
def test_each_example_has_random_numbers_of_its_own(draw):
    wanted = seeded(lambda: draw(3, 2))
    assert len(np.unique(wanted)) == 6
    np.testing.assert_array_equal(seeded(vmap(lambda: draw(2), axis_size=3)), wanted)
    np.testing.assert_array_equal(seeded(vmap(lambda: draw(2), axis_size=3, chunk_size=2)), wanted)
    np.testing.assert_array_equal(seeded(zyx.jit(vmap(lambda: draw(2), axis_size=3))), wanted)


def test_the_next_draw_goes_on_behind_all_examples():
    zyx.manual_seed(7)
    both = zyx.rand(3, 2).numpy(), zyx.rand(2).numpy()
    zyx.manual_seed(7)
    np.testing.assert_array_equal(vmap(lambda x: zyx.rand(2) + 0 * x)(zyx.zeros(3)).numpy(), both[0])
    np.testing.assert_array_equal(zyx.rand(2).numpy(), both[1])


def test_all_examples_may_have_the_same_random_numbers():
    found = seeded(lambda: vmap(lambda x: zyx.rand(2) + x, randomness="same")(zyx.zeros(3)))
    np.testing.assert_array_equal(found, np.stack([seeded(lambda: zyx.rand(2))] * 3))


@pytest.mark.parametrize("inner", ["different", "same"])
@pytest.mark.parametrize("outer", ["different", "same"])
def test_maps_that_nest_draw_as_each_says(inner, outer):
    f = vmap(vmap(lambda y: zyx.rand(4) + 0 * y, randomness=inner), randomness=outer)
    shape = (2 if outer == "different" else 1, 3 if inner == "different" else 1, 4)
    wanted = np.broadcast_to(seeded(lambda: zyx.rand(*shape)), (2, 3, 4))
    np.testing.assert_array_equal(seeded(lambda: f(zyx.zeros((2, 3)))), wanted)


def test_numbers_drawn_outside_are_the_same_for_all():
    noise = zyx.rand(2)
    found = vmap(lambda x: x + noise)(zyx.zeros((3, 1)))
    np.testing.assert_array_equal(found.numpy(), np.stack([noise.numpy()] * 3))


def test_generators_made_inside_and_outside():
    outside = zyx.Generator(5)
    wanted = zyx.rand(3, 2, generator=zyx.Generator(5)).numpy()
    np.testing.assert_array_equal(vmap(lambda: zyx.rand(2, generator=outside), axis_size=3)().numpy(), wanted)
    inside = vmap(lambda: zyx.rand(2, generator=zyx.Generator(5)), axis_size=3)
    np.testing.assert_array_equal(inside().numpy(), wanted)
    same = vmap(lambda: zyx.rand(2, generator=zyx.Generator(5)), axis_size=3, randomness="same")
    np.testing.assert_array_equal(same().numpy(), np.stack([zyx.rand(2, generator=zyx.Generator(5)).numpy()] * 3))


def test_dropout_and_permutations_differ_between_examples():
    kept = vmap(lambda x: F.dropout(x, 0.5, training=True))(zyx.ones((8, 32))).numpy() != 0
    assert len({row.tobytes() for row in kept}) == 8
    orders = vmap(lambda: zyx.randperm(20), axis_size=4)().numpy()
    assert (np.sort(orders, axis=1) == np.arange(20)).all()
    assert len({row.tobytes() for row in orders}) == 4


def test_draws_may_be_refused():
    with pytest.raises(TraceError, match=r'test_vmap_states.py, line \d+: .* randomness="error" refuses'):
        vmap(lambda x: x + zyx.rand(2), randomness="error")(zyx.zeros(3))


# ---- values, and states


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x if x.sum() > 0 else -x, lambda x: x * float(x.sum()), lambda x: x * x.sum().item(),
        lambda x: zyx.Tensor(x.numpy()), lambda x: x[x > 0], zyx.nonzero, zyx.unique_values,
        lambda x: zyx.arange(x[0].astype("int32")), lambda x: zyx.rand(2)[0].item() * x,
    ],
)  # fmt: skip
def test_to_read_what_differs_between_examples_is_an_error_that_names_the_line(read):
    with pytest.raises(
        TraceError, match=r"test_vmap_states.py, line \d+.* read inside of vmap of .* each of 3 examples"
    ):
        vmap(read)(zyx.ones((3, 2)))


def test_what_is_the_same_for_all_may_be_read():
    scale = zyx.Tensor(3.0)
    assert vmap(lambda x, n: x * float(scale * n), in_axes=(0, None))(zyx.ones(2), zyx.Tensor(2)).tolist() == [6, 6]
    assert vmap(lambda x: x * float(zyx.ones(3).sum()))(zyx.ones(2)).tolist() == [3, 3]
    with pytest.raises(TraceError, match="while the function is being traced"):
        zyx.jit(vmap(lambda x, n: x * float(n), in_axes=(0, None)))(zyx.ones(2), zyx.Tensor(2))


def test_to_assign_what_differs_between_examples_is_an_error_and_changes_nothing():
    state = zyx.zeros(2)

    def f(x):
        state.assign(state + x)
        return x

    with pytest.raises(
        TraceError, match=r"test_vmap_states.py, line \d+: .* not made in f, is assigned .* of the 3 examples"
    ):
        vmap(f)(zyx.ones((3, 2)))
    assert state.tolist() == [0, 0]


def test_statistics_of_batches_are_such_states():
    norm = nn.BatchNorm1d(2).eval()
    vmap(norm)(normal(3, 4, 2))
    norm.train()
    with pytest.raises(TraceError, match="is assigned a value inside of vmap"):
        vmap(norm)(normal(3, 4, 2))


def test_states_that_are_the_same_for_all_and_those_made_inside_are_assigned():
    count = zyx.zeros(())

    def f(x):
        count.assign(count + 1)
        own = zyx.zeros(2)
        own[0] = x
        x += 1
        return own * x

    assert vmap(f)(zyx.Tensor([1.0, 2.0])).tolist() == [[2, 0], [6, 0]]
    assert count.item() == 1


def test_an_example_that_is_kept_has_no_values_later():
    kept = []
    vmap(lambda x: kept.append(x) or x)(zyx.ones(3))
    with pytest.raises(TraceError):
        (kept[0] + 1).numpy()


# ---- what does not fit

X = np.ones((3, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (vmap(lambda x: x, in_axes=2), AxisError, "argument 0 is 2; its shape is (3, 2), so that there are 2 axes"),
        (vmap(lambda x: x, in_axes=-3), AxisError, "in_axes of argument 0 is -3"),
        (vmap(lambda x: x, out_axes=2), AxisError, "is 2; its shape is (2,), so that there are 2 axes, the one of"),
        (lambda x: vmap(zyx.add)(x, x.T), ShapeError,
         "axis 0 of argument 0, of shape (3, 2), says that there are 3 examples, and axis 0 of argument 1, of shape "
         "(2, 3), that there are 2"),
        (lambda x: vmap(lambda x, *, y: x)(x, y=x.T), ShapeError, "axis 0 of argument y, of shape (2, 3)"),
        (vmap(zyx.sin, axis_size=4), ShapeError, "axis_size says that there are 4 examples, and axis 0"),
        (lambda x: vmap(zyx.sin, axis_size=-1), ShapeError, "axis_size is at least 0, not -1"),
        (lambda x: vmap(zyx.sin, chunk_size=0), ShapeError, "chunk_size is at least 1, not 0"),
        (vmap(zyx.sin, in_axes=None), ArgumentError, "no argument of sin has an axis of examples"),
        (lambda x: vmap(lambda: x)(), ArgumentError, "say how many there are: axis_size"),
        (vmap(zyx.sin, in_axes=(0, 0)), ArgumentError, "in_axes has 2 parts, (0, 0), and sin was called"),
        (lambda x: vmap(zyx.sin, in_axes={"x": 0}), ArgumentError, "in_axes is {'x': 0}"),
        (lambda x: vmap(sum, in_axes=([0, 0],))([x]), ArgumentError, "is (0, 0), and argument 0 a list of 1"),
        (lambda x: vmap(sum, in_axes=({"a": 0},))({"b": x}), ArgumentError, "and argument 0 a dict of 'b'"),
        (vmap(zyx.sin, in_axes=((0,),)), ArgumentError, "and argument 0 a tensor"),
        (lambda x: vmap(zyx.multiply)(x, 2), ArgumentError, "argument 1 is of type int, which has no axis 0"),
        (lambda x: vmap(zyx.multiply)(x, X), ArgumentError, "argument 1 is of type ndarray"),
        (lambda x: vmap(zyx.sin, in_axes="0"), IntegerError, "in_axes is an integer, not '0'"),
        (lambda x: vmap(zyx.sin, out_axes=(0, 1.5)), IntegerError, "out_axes[1] is an integer, not 1.5"),
        (vmap(lambda x: 3), ArgumentError, "the result of <lambda> is of type int; only tensors"),
        (vmap(lambda x: (x, {"a": "b"})), ArgumentError, "the result of <lambda>[1]['a'] is of type str"),
        (vmap(lambda x: x, out_axes=None), ArgumentError, "out_axes of the result of <lambda> is None"),
        (vmap(lambda x: (x, x), out_axes=(0,)), ArgumentError, "out_axes of the result of <lambda> is (0,)"),
        (lambda x: vmap(zyx.sin, randomness="none"), ArgumentError, "\"different\", \"same\" or \"error\", not 'none'"),
        (lambda x: vmap(zyx.sin, in_axis=0), ArgumentError, "did you mean in_axes"),
        (lambda x: vmap(3), ArgumentError, "vmap takes a function, not a int"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, error, text):
    with pytest.raises(error) as found:
        call(zyx.Tensor(X))
    assert text in str(found.value)


def test_errors_inside_leave_no_trace():
    def fails(x):
        raise KeyError("inside")

    with pytest.raises(KeyError):
        vmap(fails)(zyx.ones(3))
    assert (zyx.ones(2) + 1).tolist() == [2, 2]
    assert not zyx.ones(1).runtime.traces


def test_other_threads_go_on_meanwhile():
    inside, done = threading.Event(), threading.Event()
    found = []

    def waits(x):
        inside.set()
        assert done.wait(30)
        return x + 1

    thread = threading.Thread(target=lambda: found.append(vmap(waits)(zyx.ones(3)).tolist()))
    thread.start()
    assert inside.wait(30)
    traced = zyx.jit(lambda x: x * 2)
    assert [traced(zyx.ones(2)).tolist(), traced(zyx.ones(2)).tolist(), float(zyx.ones(2).sum())] == [[2, 2], [2, 2], 2]
    done.set()
    thread.join()
    assert found == [[2, 2, 2]]
