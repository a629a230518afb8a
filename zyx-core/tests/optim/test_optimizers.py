"""Optimisers against their formulas in NumPy, and what they do with state, missing gradients and settings."""

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import ArgumentError, DTypeError, GradientError, ShapeError, StateError
from zyx.optim.optimizer import Optimizer

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(4)
SHAPES = [(3, 4), (4,), ()]
FIRST = [RANDOM.standard_normal(shape) for shape in SHAPES]
GRADS = [[RANDOM.standard_normal(shape) for shape in SHAPES] for _ in range(4)]


def sgd(p, grads, lr=0.1, momentum=0.0, decay=0.0, dampening=0.0, nesterov=False, sign=1):
    buffer = None
    for g in grads:
        g = sign * g + decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


def adam(p, grads, lr=0.1, betas=(0.9, 0.999), eps=1e-8, decay=0.0, decoupled=False, amsgrad=False, sign=1):
    m = v = top = 0.0
    for t, g in enumerate(grads, start=1):
        g = sign * g
        if decoupled:
            p = p - lr * decay * p
        else:
            g = g + decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v) if amsgrad else v
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(top / (1 - betas[1] ** t)) + eps)
    return p


def rmsprop(p, grads, lr=0.1, alpha=0.99, eps=1e-8, decay=0.0, momentum=0.0, centered=False):
    square = mean = buffer = 0.0
    for g in grads:
        g = g + decay * p
        square = alpha * square + (1 - alpha) * g * g
        mean = alpha * mean + (1 - alpha) * g if centered else 0.0
        step = g / (np.sqrt(square - mean * mean) + eps)
        buffer = momentum * buffer + step
        p = p - lr * buffer
    return p


CASES = {
    "sgd": (lambda ps: optim.SGD(ps, 0.1), sgd),
    "sgd momentum": (
        lambda ps: optim.SGD(ps, 0.1, momentum=0.9, dampening=0.4, weight_decay=0.2),
        lambda p, g: sgd(p, g, momentum=0.9, dampening=0.4, decay=0.2),
    ),
    "sgd nesterov": (
        lambda ps: optim.SGD(ps, 0.1, momentum=0.9, nesterov=True, maximize=True),
        lambda p, g: sgd(p, g, momentum=0.9, nesterov=True, sign=-1),
    ),
    "adam": (lambda ps: optim.Adam(ps, 0.1, weight_decay=0.3), lambda p, g: adam(p, g, decay=0.3)),
    "adam amsgrad": (
        lambda ps: optim.Adam(ps, 0.1, (0.5, 0.6), 1e-3, amsgrad=True, maximize=True),
        lambda p, g: adam(p, g, betas=(0.5, 0.6), eps=1e-3, amsgrad=True, sign=-1),
    ),
    "adamw": (lambda ps: optim.AdamW(ps, 0.1), lambda p, g: adam(p, g, decay=0.01, decoupled=True)),
    "adamw without moments": (
        lambda ps: optim.AdamW(ps, 0.1, (0.0, 0.0), weight_decay=0.0),
        lambda p, g: adam(p, g, betas=(0.0, 0.0)),
    ),
    "rmsprop": (lambda ps: optim.RMSprop(ps, 0.1), rmsprop),
    "rmsprop centered": (
        lambda ps: optim.RMSprop(ps, 0.1, 0.8, centered=True, momentum=0.9, weight_decay=0.1),
        lambda p, g: rmsprop(p, g, alpha=0.8, centered=True, momentum=0.9, decay=0.1),
    ),
}


def tensors(arrays, dtype="float32"):
    return [zyx.Tensor(array, dtype=dtype) for array in arrays]


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("name", CASES)
def test_optimisers_follow_their_formulas(name, traced):
    make, formula = CASES[name]
    params = tensors(FIRST)
    optimizer = make(params)
    step = zyx.jit(optimizer.step) if traced else optimizer.step
    for grads in GRADS:
        step(tensors(grads))
    for position, param in enumerate(params):
        wanted = formula(FIRST[position], [grads[position] for grads in GRADS])
        assert np.allclose(param.numpy(), wanted, rtol=2e-5, atol=1e-6)
    assert optimizer.step_count.item() == len(GRADS)


def test_double_precision_is_kept():
    params = tensors(FIRST, "float64")
    optimizer = optim.AdamW(params, 0.1)
    for grads in GRADS:
        optimizer.step(tensors(grads, "float64"))
    wanted = adam(FIRST[0], [grads[0] for grads in GRADS], decay=0.01, decoupled=True)
    assert np.allclose(params[0].numpy(), wanted, rtol=1e-12)


def test_half_precision_parameters_have_state_in_single_precision():
    param = zyx.Tensor(np.ones(3, np.float16))
    optimizer = optim.Adam([param], 1e-3)
    optimizer.step([zyx.full(3, 1e-4, dtype="float16")])
    assert param.dtype is zyx.float16
    assert optimizer.state["exp_avg_sq"][0].dtype is zyx.float32
    assert optimizer.state["exp_avg_sq"][0].numpy().all()  # 1e-11 is 0 in float16


def test_a_parameter_without_gradient_stays_with_its_state():
    params = tensors(FIRST)
    optimizer = optim.Adam(params, 0.1)
    optimizer.step([None, zyx.Tensor(GRADS[0][1], dtype="float32"), None])
    assert np.array_equal(params[0].numpy(), FIRST[0].astype(np.float32))
    assert not optimizer.state["exp_avg"][0].numpy().any()
    assert not np.array_equal(params[1].numpy(), FIRST[1].astype(np.float32))


def test_parameters_may_be_constants_and_then_have_gradients_of_their_own():
    first, second = zyx.zeros(2), zyx.zeros(2)
    optimizer = optim.SGD([first, second], 1.0)
    with zyx.Tape() as tape:
        loss = (first + second * 2.0).sum()
    optimizer.step(tape.gradient(loss, [first, second]))
    assert first.tolist() == [-1, -1]
    assert second.tolist() == [-2, -2]


def test_a_step_computes_parameters_and_state_together():
    params = tensors(FIRST)
    optimizer = optim.AdamW(params)
    optimizer.step(tensors(GRADS[0]))
    state = [tensor for kept in optimizer.state.values() for tensor in kept]
    assert all(tensor.is_realized for tensor in [*params, *state, optimizer.step_count])


# ---- learning rates and settings


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_the_learning_rate_can_be_set_between_steps(traced):
    param = zyx.Tensor([0.0])
    optimizer = optim.SGD([param], lr=1.0)
    step = zyx.jit(lambda grad: optimizer.step([grad])) if traced else lambda grad: optimizer.step([grad])
    one = zyx.Tensor([1.0])
    step(one)
    optimizer.lr = 0.25
    step(one)
    assert optimizer.lr == 0.25
    assert param.tolist() == [-1.25]
    if traced:
        assert len(step.traces) == 1


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_the_learning_rate_may_be_a_tensor_or_a_schedule(traced):
    param, rate = zyx.Tensor([0.0]), zyx.Tensor(1.0)
    optimizer = optim.SGD([param], lr=rate)
    step = zyx.jit(lambda grad: optimizer.step([grad])) if traced else lambda grad: optimizer.step([grad])
    one = zyx.Tensor([1.0])
    step(one)
    rate.assign(zyx.Tensor(0.5))
    step(one)
    assert param.tolist() == [-1.5]
    optimizer.lr = optim.LambdaLR(1.0, lambda count: count.astype("float32"))
    step(one)
    assert param.tolist() == [-3.5]
    optimizer.lr = 0.5
    step(one)
    assert param.tolist() == [-4.0]


def test_other_settings_may_be_changed_between_traced_steps():
    param = zyx.Tensor([1.0])
    optimizer = optim.SGD([param], lr=1.0)
    step = zyx.jit(lambda grad: optimizer.step([grad]))
    step(zyx.Tensor([0.0]))
    optimizer.weight_decay = 0.5
    step(zyx.Tensor([0.0]))
    assert param.tolist() == [0.5]
    optimizer.momentum = 0.9
    with pytest.raises(StateError, match="SGD was made without momentum_buffer; make a new one"):
        step(zyx.Tensor([0.0]))


# ---- saving and loading


def test_training_goes_on_from_a_saved_state_as_if_it_had_not_stopped():
    params = tensors(FIRST)
    optimizer = optim.AdamW(dict(zip("abc", params, strict=True)), 0.1)
    for grads in GRADS[:2]:
        optimizer.step(tensors(grads))
    saved, values = optimizer.state_dict(), [param.numpy() for param in params]
    assert sorted(saved) == sorted(["step", "lr", *[f"{n}.{s}" for n in "abc" for s in ("exp_avg", "exp_avg_sq")]])
    for grads in GRADS[2:]:
        optimizer.step(tensors(grads))
    again = tensors(values)
    other = optim.AdamW(dict(zip("abc", again, strict=True)), 0.7)
    other.load_state_dict(saved)
    assert other.lr == pytest.approx(0.1)
    for grads in GRADS[2:]:
        other.step(tensors(grads))
    for a, b in zip(params, again, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_a_state_that_does_not_fit_is_refused():
    optimizer = optim.Adam(tensors(FIRST))
    with pytest.raises(StateError, match=r"3 unexpected: 0\.max_exp_avg_sq"):
        optimizer.load_state_dict(optim.Adam(tensors(FIRST), amsgrad=True).state_dict())
    with pytest.raises(StateError, match=r"0.exp_avg is \(4,\) and should be \(3, 4\)"):
        optimizer.load_state_dict(optim.Adam(tensors([FIRST[1], FIRST[1], FIRST[2]])).state_dict())


# ---- errors


def test_what_is_no_parameter_is_refused():
    with pytest.raises(GradientError, match="at least one parameter"):
        optim.SGD([])
    with pytest.raises(DTypeError, match="parameter 1 is not a tensor of floats, but int64"):
        optim.SGD([zyx.Tensor([1.0]), zyx.Tensor([1])])
    with pytest.raises(GradientError, match="put it in brackets"):
        optim.SGD(zyx.Tensor([1.0]))
    x = zyx.Tensor([1.0])
    with pytest.raises(GradientError, match="parameters a and b are the same tensor"):
        optim.SGD({"a": x, "b": x})


def test_gradients_that_do_not_fit_are_refused_and_nothing_changes():
    params = tensors(FIRST)
    optimizer = optim.SGD({"w": params[0], "b": params[1]}, 0.1)
    with pytest.raises(GradientError, match="SGD has 2 parameters and was given 1 gradients"):
        optimizer.step(tensors(GRADS[0][:1]))
    with pytest.raises(ShapeError, match=r"the gradient of parameter b, \(4,\), has shape \(3, 4\)"):
        optimizer.step(tensors([GRADS[0][0], GRADS[0][0]]))
    with pytest.raises(ShapeError, match="is a float"):
        optimizer.step([None, 1.0])
    assert np.array_equal(params[0].numpy(), FIRST[0].astype(np.float32))
    assert optimizer.step_count.item() == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda ps: optim.SGD(ps, lr=-1.0), "a learning rate is at least 0, not -1.0"),
        (lambda ps: optim.SGD(ps, lr=zyx.zeros(2)), "a learning rate is one number"),
        (lambda ps: optim.SGD(ps, momentum=-0.1), "momentum is at least 0.0, not -0.1"),
        (lambda ps: optim.SGD(ps, nesterov=True), "nesterov needs a momentum"),
        (lambda ps: optim.Adam(ps, betas=(1.0, 0.9)), r"betas\[0\] is from 0.0 to less than 1.0, not 1.0"),
        (lambda ps: optim.AdamW(ps, eps=float("nan")), "eps is at least 0.0, not nan"),
        (lambda ps: optim.RMSprop(ps, alpha=-1.0), "alpha is at least 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(make, text):
    with pytest.raises(ShapeError, match=text):
        make(tensors(FIRST))


def test_an_optimiser_of_ones_own_says_what_a_step_does():
    class SignDescent(Optimizer):
        def update(self, param, grad, state, lr, step):
            return {"param": param - (grad > 0.0).where(lr, -lr)}

    param = zyx.Tensor([0.0, 0.0])
    SignDescent([param], 0.5).step([zyx.Tensor([3.0, -3.0])])
    assert param.tolist() == [-0.5, 0.5]


# ---- several optimisers


def test_a_group_steps_all_its_optimisers():
    a, b = zyx.Tensor([1.0]), zyx.Tensor([1.0])
    group = optim.OptimizerGroup(optim.SGD([a], 1.0, weight_decay=0.5), optim.SGD([b], 0.5))
    group.step([zyx.Tensor([0.0]), zyx.Tensor([1.0])])
    assert a.tolist() == b.tolist() == [0.5]
    state = group.state_dict()
    assert sorted(state) == ["0.lr", "0.step", "1.lr", "1.step"]
    assert group.load_state_dict(state).loaded == ("0.step", "0.lr", "1.step", "1.lr")
    with pytest.raises(GradientError, match="2 parameters and was given 1"):
        group.step([None])
    with pytest.raises(GradientError, match="no parameter twice"):
        optim.OptimizerGroup(optim.SGD([a]), optim.SGD([a]))


def test_a_closure_gives_loss_and_gradients():
    for returns_gradients in (False, True):
        parameter = nn.Parameter(zyx.Tensor([1.0, -2.0]))
        optimizer = optim.SGD([parameter], lr=0.25)

        def closure(parameter=parameter, optimizer=optimizer, returns_gradients=returns_gradients):
            if returns_gradients:
                loss, slope = zyx.value_and_grad(lambda p: (p * p).sum())(parameter)
                return loss, [slope]
            optimizer.zero_grad()
            loss = (parameter * parameter).sum()
            loss.backward()
            return loss

        assert [optimizer.step(closure).item() for _ in range(2)] == [5.0, 1.25]
        assert parameter.tolist() == [0.25, -0.5]
    with pytest.raises(ArgumentError, match="SGD: the closure returns the loss, a tensor, not NoneType"):
        optimizer.step(lambda: None)
    assert optimizer.step([zyx.ones(2)]) is None
