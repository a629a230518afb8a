"""L-BFGS; tests/test_beside_torch.py holds it beside PyTorch's."""

import copy

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import ArgumentError, GradientError, IntegerError, ShapeError, StateError
from zyx.optim.line_search import C1, C2, LinePoint, strong_wolfe

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(5)
SQUARE = RANDOM.normal(size=(6, 6))
HESSIAN = SQUARE @ SQUARE.T + np.eye(6)
SHIFT = RANDOM.normal(size=6)


def quadratic(x):
    return 0.5 * (x @ (zyx.Tensor(HESSIAN) @ x)) - (zyx.Tensor(SHIFT) * x).sum()


def valley(x):
    """Return Rosenbrock's function."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def closure_of(function, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = function(optimizer.params[0])
        loss.backward()
        return loss

    return closure


def begun(*values, **settings):
    return optim.LBFGS([nn.Parameter(zyx.Tensor(np.array(values)))], **settings)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_it_finds_where_a_quadratic_is_least(search):
    optimizer = begun(*np.zeros(6), max_iter=40, tolerance_change=1e-14, line_search_fn=search)
    first = optimizer.step(closure_of(quadratic, optimizer))
    assert first.item() == 0.0
    np.testing.assert_allclose(optimizer.params[0].numpy(), np.linalg.solve(HESSIAN, SHIFT), rtol=1e-5, atol=1e-6)
    assert optimizer.step_count.item() == 1
    assert optimizer.func_evals <= 50


def test_a_search_comes_down_a_curved_valley():
    optimizer = begun(-1.2, 1.0, line_search_fn="strong_wolfe", max_iter=100, tolerance_change=1e-16)
    optimizer.step(closure_of(valley, optimizer))
    np.testing.assert_allclose(optimizer.params[0].numpy(), [1.0, 1.0], rtol=1e-6)


@pytest.mark.parametrize("first", [1e-4, 0.1, 1.0, 30.0])
@pytest.mark.parametrize(
    ("loss", "slope"),
    [
        (lambda t: -t / (t * t + 2.0), lambda t: (t * t - 2.0) / (t * t + 2.0) ** 2),
        (lambda t: (t + 0.004) ** 5 - 2 * (t + 0.004) ** 4, lambda t: 5 * (t + 0.004) ** 4 - 8 * (t + 0.004) ** 3),
        (lambda t: np.cos(3.0 * t) - 0.1 * t, lambda t: -3.0 * np.sin(3.0 * t) - 0.1),
    ],
)
def test_the_conditions_hold_where_a_search_ends(loss, slope, first):
    looked = []

    def look(at):
        looked.append(at)
        return LinePoint(at, loss(at), slope(at), zyx.zeros(1))

    start = LinePoint(0.0, loss(0.0), slope(0.0), zyx.zeros(1))
    found, count = strong_wolfe(look, start, first, 1.0, 1e-9, 40)
    assert count == len(looked)
    assert found.loss <= start.loss + C1 * found.at * start.slope
    assert abs(found.slope) <= C2 * abs(start.slope)


def test_a_closure_may_return_gradients_and_a_rate_may_follow_a_schedule():
    weights = [zyx.zeros(2, 2), zyx.zeros(3)]

    def loss_of(a, b):
        return ((a - 2.0) ** 2).sum() + ((b + 1.0) ** 4).sum()

    def closure():
        with zyx.Tape() as tape:
            loss = loss_of(*weights)
        return loss, tape.gradient(loss, weights)

    optimizer = optim.LBFGS(weights, lr=optim.StepLR(1.0, 2, 0.5), line_search_fn="strong_wolfe")
    for _ in range(4):
        optimizer.step(closure)
    assert optimizer.last_lr.item() == 0.5
    np.testing.assert_allclose(weights[0].numpy(), 2.0, atol=1e-5)
    np.testing.assert_allclose(weights[1].numpy(), -1.0, atol=0.02)


def test_half_precision_is_searched_in_float32():
    parameter = nn.Parameter(zyx.Tensor([3.0, -2.0], dtype="float16"))
    optimizer = optim.LBFGS([parameter], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(lambda x: ((x - 0.5) ** 2).sum(), optimizer))
    assert parameter.dtype.name == "float16"
    np.testing.assert_allclose(parameter.numpy(), 0.5, atol=1e-2)


@pytest.mark.parametrize("way", ["state", "copy"])
def test_a_saved_state_goes_on_as_what_was_saved(way):
    optimizer = begun(-1.2, 1.0, 0.7, line_search_fn="strong_wolfe", max_iter=4)
    optimizer.step(closure_of(valley, optimizer))
    if way == "copy":
        again = copy.deepcopy(optimizer)
    else:
        again = begun(*optimizer.params[0].tolist(), line_search_fn="strong_wolfe", max_iter=4)
        report = again.load_state_dict(optimizer.state_dict())
        assert {"gradient", "direction", "length", "scale", "step.0", "change.1", "inverse.0"} <= set(report.loaded)
    for each in (optimizer, again):
        each.step(closure_of(valley, each))
    assert again.params[0] is not optimizer.params[0]
    assert again.params[0].tolist() == optimizer.params[0].tolist()
    fresh = begun(0.0, 0.0)
    with pytest.raises(StateError, match=r"gradient is \(3,\) and should be \(2,\)"):
        fresh.load_state_dict(optimizer.state_dict())
    assert fresh.state_dict().keys() == {"step", "lr"}


def test_more_history_takes_no_more_programs(interpreter):
    optimizer = begun(*np.linspace(-1.0, 1.0, 8), line_search_fn="strong_wolfe", max_iter=6)
    optimizer.step(closure_of(valley, optimizer))
    before = interpreter.compiler.compiled
    for _ in range(4):
        optimizer.step(closure_of(valley, optimizer))
    assert len(optimizer._pairs) > 12
    assert interpreter.compiler.compiled == before


def test_what_cannot_be_done_is_an_error():
    with pytest.raises(ArgumentError, match="line_search_fn is None or \"strong_wolfe\", not 'armijo'"):
        begun(1.0, line_search_fn="armijo")
    for name in ("max_iter", "max_eval", "history_size"):
        with pytest.raises(IntegerError, match=name):
            begun(1.0, **{name: 2.5})
    with pytest.raises(ShapeError, match="max_iter is at least 1, not 0"):
        begun(1.0, max_iter=0)
    with pytest.raises(ShapeError, match="history_size is at least 1, not 0"):
        begun(1.0, history_size=0)
    with pytest.raises(ArgumentError, match="LBFGS takes one group of parameters"):
        optim.LBFGS([{"params": [zyx.ones(1)]}, {"params": [zyx.ones(1)]}])
    optimizer = begun(1.0)
    with pytest.raises(ArgumentError, match="takes a closure that returns the loss, not NoneType"):
        optimizer.step(None)
    with pytest.raises(ArgumentError, match="returns the loss, a tensor, not float"):
        optimizer.step(lambda: 3.0)
    with pytest.raises(GradientError, match="no parameter has a gradient"):
        optimizer.step(lambda: zyx.Tensor(3.0))
    assert optimizer.params[0].tolist() == [1.0]
