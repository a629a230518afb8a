"""`Tensor.backward`, and what is kept for it: of which tensors, for how long, and what says that there is none."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import ArgumentError, DTypeError, GradientError, ShapeError
from zyx.graph.node import Node

pytestmark = pytest.mark.usefixtures("interpreter")

X = [1.0, 2.0, 3.0]


def leaf(values=X):
    return zyx.Tensor(values, requires_grad=True)


def nodes() -> int:
    gc.collect()
    return sum(isinstance(thing, Node) for thing in gc.get_objects())


def live_bytes() -> int:
    return sum(use.live_bytes for use in zyx.memory_stats().values())


# ---- values


def test_gradients_are_summed_into_grad_until_it_is_none():
    w = leaf()
    assert w.grad is None
    (w * w).sum().backward()
    first = w.grad
    assert first.tolist() == [2, 4, 6]
    (w * 3).sum().backward()
    assert w.grad is first
    assert first.tolist() == [5, 7, 9]
    w.grad = None
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3, 3, 3]


@pytest.mark.parametrize("read", [lambda y: y.numpy(), lambda y: y.realize(), repr, lambda y: y.tolist()])
def test_what_is_read_between_forward_and_backward_keeps_its_history(read):
    w = leaf()
    h = (w * w).exp()
    read(h)
    loss = (h * h).sum()
    read(loss)
    loss.backward()
    x = np.array(X)
    np.testing.assert_allclose(w.grad.numpy(), 4 * x * np.exp(2 * x * x), rtol=1e-5)


def test_makers_take_requires_grad():
    made = [
        zyx.zeros(2, requires_grad=True),
        zyx.randn(2, requires_grad=True),
        zyx.full((2,), 3.0, requires_grad=True),
        zyx.asarray([1.0, 2.0], requires_grad=True),
        zyx.tensor([1.0, 2.0], requires_grad=True),
        zyx.ones_like(zyx.zeros(2), requires_grad=True),
        zyx.ones(2).requires_grad_(),
        nn.Parameter(zyx.ones(2)),
    ]
    for each in made:
        assert each.requires_grad and each.is_leaf
        (each * each).sum().backward()
        assert each.grad.tolist() == (each * 2).tolist()
    assert not zyx.ones(2, requires_grad=False).requires_grad
    assert not nn.Parameter(zyx.ones(2), requires_grad=False).requires_grad
    given = zyx.ones(2)
    assert zyx.asarray(given, requires_grad=True) is not given
    assert not given.requires_grad
    with pytest.raises(ArgumentError, match="requires_grad"):
        zyx.sum(given, requires_grad=True)


def test_equal_constants_have_gradients_of_their_own():
    a, b = zyx.ones(2, requires_grad=True), zyx.ones(2, requires_grad=True)
    (a * 2 + b * 3).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2, 2], [3, 3])


def test_results_are_no_leaves_and_pass_gradients_on_only_where_they_are_floats():
    w = leaf()
    y = w * 2
    assert (y.requires_grad, y.is_leaf, y.grad) == (True, False, None)
    assert not (y > 1).requires_grad
    assert not y.detach().requires_grad
    assert y.detach().is_leaf
    y.retain_grad()
    (y * y).sum().backward()
    assert y.grad.tolist() == [4, 8, 12]
    assert w.grad.tolist() == [8, 16, 24]


def test_upstream_inputs_and_higher_orders():
    w, v = leaf(), leaf()
    (w * v).backward(zyx.Tensor([1.0, 0.0, 2.0]), inputs=[w])
    assert w.grad.tolist() == [1, 0, 6]
    assert v.grad is None
    w.grad = None
    (w**3).sum().backward(create_graph=True)
    slope, w.grad = w.grad, None
    assert slope.requires_grad
    slope.sum().backward()
    assert w.grad.tolist() == [6, 12, 18]
    assert not w.grad.requires_grad


def test_a_value_that_a_parameter_had_is_that_parameter():
    w = leaf()
    loss = (w * w).sum()
    w.assign(zyx.zeros(3))
    later = (w + 1).sum()
    loss.backward()
    assert w.grad.tolist() == [2, 4, 6]
    later.backward()
    assert w.grad.tolist() == [3, 5, 7]
    given = zyx.ones(3)
    w.assign(given)
    assert not given.requires_grad
    assert not (given * 1).requires_grad


# ---- what is refused


def test_what_has_no_history_or_several_elements_is_refused():
    w = leaf()
    with pytest.raises(GradientError, match="has no history"):
        zyx.ones(1).backward()
    with pytest.raises(GradientError, match=r"shape \(3,\), not one element"):
        (w * 2).backward()
    with pytest.raises(ShapeError, match=r"gradient has shape \(2,\)"):
        (w * 2).backward(zyx.ones(2))
    with pytest.raises(DTypeError, match="float16"):
        (w * 2).backward(zyx.ones(3, dtype="float16"))
    with pytest.raises(GradientError, match="a tensor or None, not float"):
        (w * 2).backward(1.0)
    with pytest.raises(GradientError, match="only floats"):
        zyx.arange(3).requires_grad_()
    with pytest.raises(GradientError, match=r"detach\(\)"):
        (w * 2).requires_grad = False
    with pytest.raises(GradientError, match="does not require"):
        zyx.ones(2).retain_grad()


def test_grad_is_none_or_a_tensor_like_the_one_it_is_of():
    w = leaf()
    w.grad = zyx.ones(3)
    (w * 2).sum().backward()
    assert w.grad.tolist() == [3, 3, 3]
    with pytest.raises(ShapeError, match="grad has shape"):
        w.grad = zyx.ones(2)
    with pytest.raises(GradientError, match="not int"):
        w.grad = 1
    with pytest.raises(GradientError, match="requires_grad = True"):
        zyx.ones(2).grad = zyx.ones(2)
    zyx.ones(2).grad = None


@pytest.mark.parametrize("is_read", [False, True])
def test_a_second_backward_needs_retain_graph(is_read):
    w = leaf()
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.tolist() == [4, 8, 12]
    if is_read:
        loss.item()
    with pytest.raises(GradientError, match="retain_graph=True"):
        loss.backward()
    again = (w * w).sum()  # an equal one is another one
    again.backward()
    assert w.grad.tolist() == [6, 12, 18]


def test_what_was_assigned_and_computed_is_refused_and_what_was_not_is_passed():
    w, kept = leaf(), zyx.zeros(3)
    kept.assign(w * 2)
    (kept * 1).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    kept.realize()
    with pytest.raises(GradientError, match="was assigned"):
        (kept * w).sum().backward()
    assert w.grad.tolist() == [2, 2, 2]


def test_a_tape_and_grad_are_as_they_were():
    w = leaf()
    with zyx.no_grad():
        assert zyx.grad(lambda v: (v * v).sum())(w).tolist() == [2, 4, 6]
        with zyx.Tape() as tape:
            loss = (w * w).sum()
        assert tape.gradient(loss, w).tolist() == [2, 4, 6]
    assert w.grad is None


# ---- modes


def test_what_is_computed_without_gradients_has_no_history():
    w = leaf()
    with zyx.no_grad():
        y = w * 2
        with zyx.enable_grad():
            z = w * 3
        alike = w * 2
    with zyx.inference_mode():
        u = w * 2
    after = w * 2  # equal to `y`, and with a history
    assert [t.requires_grad for t in (y, z, alike, u, after)] == [False, True, False, False, True]
    (y * w).sum().backward()
    assert w.grad.tolist() == [2, 4, 6]
    y.realize()
    assert not y.requires_grad


def test_modes_are_decorators_and_statements():
    w = leaf()

    @zyx.no_grad()
    def without(x):
        """Say so."""
        return x * 2

    assert without.__doc__ == "Say so."
    assert not without(w).requires_grad
    assert not zyx.no_grad(lambda x: x * 2)(w).requires_grad
    with zyx.no_grad():
        assert zyx.enable_grad(lambda x: x * 2)(w).requires_grad
        assert not zyx.is_grad_enabled()
    with zyx.set_grad_enabled(False):
        assert not (w * 2).requires_grad
    assert (w * 2).requires_grad
    try:
        zyx.set_grad_enabled(False)
        assert not (w * 2).requires_grad
    finally:
        zyx.set_grad_enabled(True)
    with pytest.raises(ArgumentError, match="generator"):
        zyx.no_grad(lambda: (yield))


def test_assigning_without_gradients_steps_by_hand():
    w = leaf()
    (w * w).sum().backward()
    with zyx.no_grad():
        w.sub_(0.5 * w.grad)
    assert w.tolist() == [0, 0, 0]
    assert w.requires_grad and w.is_leaf


def test_a_mode_is_of_its_thread():
    w = leaf()
    found = []
    with zyx.no_grad():
        thread = threading.Thread(target=lambda: found.append((w * 2).requires_grad))
        thread.start()
        thread.join()
        assert not (w * 2).requires_grad
    assert found == [True]


def test_threads_add_to_one_gradient():
    w = leaf()

    def work(x):
        for _ in range(20):
            loss = (w * x).sum()
            loss.item()
            loss.backward()

    threads = [threading.Thread(target=work, args=(zyx.Tensor([1.0, 2.0, float(i)]),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [80, 160, 120]


# ---- jit


def test_under_jit_a_whole_step_is_traced_once_and_leaves_no_grad():
    zyx.manual_seed(1)
    model = nn.Linear(3, 1)
    twin = copy.deepcopy(model)
    optimizer, other = optim.SGD(model.parameters(), lr=0.1), optim.SGD(twin.parameters(), lr=0.1)

    @zyx.jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for seed in range(4):
        x = zyx.Tensor(np.random.default_rng(seed).standard_normal((5, 3)).astype(np.float32))
        other.zero_grad()
        loss = (twin(x) ** 2).mean()
        loss.backward()
        other.step()
        assert step(x).item() == pytest.approx(loss.item(), rel=1e-5)
    assert len(step.traces) == 1
    assert model.weight.grad is None
    np.testing.assert_allclose(model.weight.numpy(), twin.weight.numpy(), rtol=1e-5)


def test_under_jit_gradients_that_nobody_uses_are_an_error_that_names_value_and_grad():
    w = leaf()

    @zyx.jit
    def lost():
        (w * w).sum().backward()

    with pytest.raises(GradientError, match="value_and_grad"):
        lost()
    assert zyx.jit(lambda v: ((v * v).sum().backward(), v.grad)[1])(w).tolist() == [2, 4, 6]


def test_a_gradient_at_what_a_jitted_function_gave_is_an_error_and_not_a_part():
    w, v = leaf(), leaf()
    double = zyx.jit(lambda: w * 2)
    triple = zyx.jit(lambda x: x * 3)
    for y in (double(), double(), triple(w), triple(w * 1)):
        with pytest.raises(GradientError, match="value_and_grad"):
            (y * v).sum().backward()
    with zyx.no_grad():
        (triple(w) * v).sum()
    ((triple(zyx.ones(3)) * v).sum()).backward()
    assert v.grad.tolist() == [3, 3, 3]


def test_under_jit_parts_without_gradients_are_constants():
    w = leaf()

    @zyx.jit
    def slope(x):
        with zyx.no_grad():
            y = w * x
        (y * w).sum().backward()
        return w.grad

    assert slope(zyx.ones(3) * 2).tolist() == [2, 4, 6]
    assert slope(zyx.ones(3) * 3).tolist() == [3, 6, 9]
    assert len(slope.traces) == 1


def test_under_jit_what_requires_a_gradient_is_a_part_of_the_call():
    @zyx.jit
    def slopes(x, y):
        (x * y * v).sum().backward()
        return [zyx.zeros(3) if each.grad is None else each.grad for each in (x, y, v)]

    x, y, v = zyx.Tensor(X), leaf(), zyx.Tensor(X)
    slope = np.array(X) ** 2  # all three are alike

    for _ in range(2):
        for which in [(0, 1, 0), (1, 1, 0), (1, 0, 0), (1, 0, 1), (0, 0, 1), (1, 1, 1)]:
            for tensor, is_wanted in zip((x, y, v), which, strict=True):
                tensor.requires_grad_(bool(is_wanted))
            for part, is_wanted in zip(slopes(x, y), which, strict=True):
                assert part.tolist() == (slope * is_wanted).tolist(), which
    x, y, v = (tensor.requires_grad_(False) for tensor in (x, y, v))
    with pytest.raises(GradientError, match="has no history"):
        slopes(x, y)


def test_under_jit_an_argument_that_was_computed_from_leaves_is_another_one():
    @zyx.jit
    def slope(x, w):
        (x * w).sum().backward()
        return w.grad

    w, v = leaf(), leaf()
    assert slope(v.detach() * 1, w).tolist() == X
    with pytest.raises(GradientError, match="value_and_grad"):
        slope(v * 1, w)
    assert slope(v.detach() * 1, w).tolist() == X


def test_under_jit_a_parameter_that_is_trained_later_is_traced_anew():
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad_(False)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)

    @zyx.jit
    def step(x):
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    first = layer.weight.numpy()
    step(zyx.ones(4, 3))
    assert np.array_equal(layer.weight.numpy(), first)
    layer.weight.requires_grad_(True)
    for _ in range(2):
        step(zyx.ones(4, 3))
    np.testing.assert_allclose(layer.weight.numpy(), first - 0.8, rtol=1e-5)
    assert len(step.traces) == 2


def test_running_values_that_a_traced_function_assigned_are_given():
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    traced = zyx.jit(lambda x: network(x).sum())
    for seed in range(2):
        traced(zyx.Tensor(np.random.default_rng(seed).standard_normal((5, 3)).astype(np.float32)))
    network.eval()
    network(zyx.ones(5, 3)).sum().backward()
    assert network[1].bias.grad.tolist() == [5, 5, 5]


def test_two_networks_against_each_other_get_gradients_of_their_own():
    zyx.manual_seed(0)
    maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
    of_maker, of_judge = optim.SGD(maker.parameters(), lr=0.1), optim.SGD(judge.parameters(), lr=0.1)
    made = maker(zyx.ones(4, 2))
    before = [maker.weight.numpy(), judge.weight.numpy()]
    of_judge.zero_grad()
    judge(made.detach()).sum().backward()
    assert maker.weight.grad is None
    of_judge.step()
    of_maker.zero_grad()
    judge(made).sum().backward()
    assert np.allclose(maker.weight.grad.numpy(), 4 * judge.weight.numpy().repeat(2).reshape(2, 2))
    of_maker.step()
    assert not any(np.allclose(old, new.weight.numpy()) for old, new in zip(before, (maker, judge), strict=True))


# ---- memory


def test_memory_of_a_loop_without_backward_is_flat():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = zyx.ones(2, 3).contiguous().realize()

    def passes(count):
        for _ in range(count):
            loss = model(x).sum()
            loss.item()
        del loss
        return nodes(), live_bytes()

    before = passes(10)
    assert passes(10_000) == before


def test_history_dies_with_the_result_that_it_is_of():
    w = leaf()
    before = nodes(), live_bytes()
    h = w
    for _ in range(300):
        h = h * 1.01
        h.realize()
    assert nodes() > before[0] + 300
    h.sum().backward()
    del h
    w.grad = None
    assert (nodes(), live_bytes()) == before


def test_a_long_history_is_freed_without_recursion():
    w = leaf()
    h = w
    for _ in range(20_000):
        h = h * 1.0
        h.realize()
    del h


@pytest.mark.parametrize("way", ["backward", "tape", "value_and_grad", "no_grad", "assigned"])
def test_losses_in_a_list_do_not_keep_what_parameters_were(way):
    w = zyx.ones(1000, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    losses, running = [], zyx.zeros(())

    def loss_of(v):
        return (v * v).sum()

    def step():
        if way == "backward":
            optimizer.zero_grad()
            loss = loss_of(w)
            loss.backward()
            optimizer.step()
        elif way == "tape":
            with zyx.Tape() as tape:
                loss = loss_of(w)
            optimizer.step([tape.gradient(loss, w)])
        elif way == "value_and_grad":
            loss, grad = zyx.value_and_grad(loss_of)(w)
            optimizer.step([grad])
        elif way == "no_grad":
            with zyx.no_grad():
                loss = loss_of(w)
            w.assign(w.detach() * 0.9)
            w.realize()
        else:
            running.assign(running * 0.9 + loss_of(w))
            running.realize()
            loss = running.detach()
            w.assign(w.detach() * 0.9)
            w.realize()
        losses.append(loss.realize())

    step()
    before = live_bytes()
    for _ in range(50):
        step()
    assert live_bytes() <= before + 50 * 64 + 4000


def test_gradients_that_are_added_up_are_computed_and_do_not_pile_up():
    w = leaf()
    (w * 2).sum().backward()
    (w * 2).sum().backward()
    before = nodes()
    for _ in range(100):
        (w * zyx.Tensor(X)).sum().backward()
    assert nodes() <= before + 5


# ---- copies


def test_copies_of_parameters_keep_whether_they_require_gradients():
    for requires in (True, False):
        parameter = nn.Parameter(zyx.ones(2), requires_grad=requires)
        for twin in (copy.copy(parameter), copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
            assert type(twin) is nn.Parameter
            assert twin.requires_grad is requires
            assert twin.is_leaf
    parameter.requires_grad_()
    assert parameter.requires_grad


def test_copies_of_leaves_are_leaves_of_their_own():
    w = leaf()
    w.grad = zyx.ones(3)
    deep, pickled = copy.deepcopy([w, w]), pickle.loads(pickle.dumps(w))
    assert deep[0] is deep[1]
    assert deep[0].grad is not w.grad
    assert (deep[0].grad.tolist(), pickled.grad) == ([1, 1, 1], None)
    for twin in (deep[0], pickled):
        assert twin.is_leaf and twin.requires_grad
        twin.grad = None
        (twin * 2).sum().backward()
        assert twin.grad.tolist() == [2, 2, 2]
    assert w.grad.tolist() == [1, 1, 1]
    assert not pickle.loads(pickle.dumps(w * 2)).requires_grad


def test_in_place_operators_give_the_name_to_a_new_tensor():
    w = leaf()
    y = before = w * 2
    y += 1
    y *= w
    assert before.tolist() == [2, 4, 6]
    y.sum().backward()
    assert w.grad.tolist() == [5, 9, 13]


# ---- optimisers


def test_an_optimiser_steps_along_grad():
    w, v = leaf(), leaf()
    optimizer = optim.SGD([w, v], lr=1.0)
    with pytest.raises(GradientError, match=r"loss\.backward\(\)"):
        optimizer.step()
    (w * w).sum().backward()
    optimizer.step()
    assert (w.tolist(), v.tolist()) == ([-1, -2, -3], X)
    optimizer.zero_grad(set_to_none=False)
    assert (w.grad.tolist(), v.grad) == ([0, 0, 0], None)
    optimizer.zero_grad()
    assert w.grad is None
    group = optim.OptimizerGroup(optim.SGD([w], lr=1.0), optim.SGD([v], lr=2.0))
    (w + v).sum().backward()
    group.step()
    assert (w.tolist(), v.tolist()) == ([-2, -3, -4], [-1, 0, 1])
    group.zero_grad()
    assert w.grad is v.grad is None


def test_clipping_changes_grad():
    w, v = leaf([3.0]), leaf([4.0])
    unused = leaf()
    ((w * w + v * v) / 2).sum().backward()
    assert optim.clip_grad_norm_([w, v, unused], 1.0).item() == 5.0
    np.testing.assert_allclose([w.grad.item(), v.grad.item()], [0.6, 0.8], rtol=1e-5)
    optim.clip_grad_value_([w, v], 0.7)
    np.testing.assert_allclose([w.grad.item(), v.grad.item()], [0.6, 0.7], rtol=1e-5)
    assert optim.clip_grad_norm_(unused, 1.0).item() == 0.0
    w.grad = zyx.Tensor([np.inf])
    with pytest.raises(GradientError, match="inf"):
        optim.clip_grad_norm_(w, 1.0, error_if_nonfinite=True)
    with pytest.raises(ShapeError, match="max_norm"):
        optim.clip_grad_norm_(w, -1.0)
