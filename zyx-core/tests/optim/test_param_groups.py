"""Groups of parameters: what they share, what is their own, state, traces, clipping."""

import copy
import pickle

import numpy as np
import pytest

import zyx
from zyx import nn, optim
from zyx.errors import ArgumentError, DTypeError, GradientError, ShapeError, StateError


def parameters(count=3):
    return [nn.Parameter(np.full(2, 1.0 + i, np.float32)) for i in range(count)]


def ones(count=3):
    return [zyx.Tensor([1.0, 1.0]) for _ in range(count)]


def values(params):
    return [round(p.numpy()[0].item(), 5) for p in params]


def test_groups_have_rates_and_settings_of_their_own_and_share_the_rest():
    p = parameters()
    optimizer = optim.SGD(
        [{"params": p[:1]}, {"params": p[1:2], "lr": 0.01}, {"params": {"bias": p[2]}, "weight_decay": 0.0}],
        lr=0.1,
        weight_decay=1.0,
    )
    optimizer.step(ones())
    assert values(p) == [0.8, 1.97, 2.9]
    assert optimizer.names == ["0", "1", "bias"]
    group = optimizer.param_groups[2]
    assert group["params"][0] is p[2]
    assert dict(group)["weight_decay"] == 0.0
    assert {"lr", "params", "momentum"} < set(group)
    assert "weight_decay=0.0" in repr(group)
    optimizer.weight_decay = 0.0
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.0, 0.0, 0.0]


def test_rates_are_set_for_a_group_or_for_all_without_one():
    p = parameters(2)
    optimizer = optim.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.5}], lr=0.1)
    optimizer.lr = 0.2
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.5]
    optimizer.param_groups[1]["lr"] = optim.StepLR(1.0, 1, 0.1)
    step = zyx.jit(lambda: optimizer.step(ones(2)))
    step()
    optimizer.param_groups[0]["lr"] = 0.4
    step()
    assert values(p) == [0.4, 0.9]
    assert optimizer.param_groups[1].last_lr.item() == pytest.approx(0.1)


def test_a_setting_of_a_group_makes_a_traced_step_trace_anew():
    p = parameters(2)
    optimizer = optim.SGD([{"params": p[:1]}, {"params": p[1:]}], lr=1.0)
    step = zyx.jit(lambda: optimizer.step(ones(2)))
    step()
    optimizer.param_groups[1]["maximize"] = True
    step()
    assert values(p) == [-1.0, 2.0]
    del optimizer.param_groups[1]["maximize"]
    step()
    assert values(p) == [-2.0, 1.0]


def test_what_only_one_group_keeps_is_empty_for_the_others():
    p = parameters(2)
    optimizer = optim.SGD([{"params": p[:1]}, {"params": p[1:], "momentum": 0.9}], lr=0.1)
    optimizer.step(ones(2))
    optimizer.step(ones(2))
    assert values(p) == [0.8, 1.71]
    assert list(optimizer.state_dict()) == ["step", "lr", "lr.1", "1.momentum_buffer"]
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(StateError, match="momentum_buffer"):
        optimizer.step(ones(2))


def test_state_is_saved_and_copied_with_groups():
    def made():
        p = parameters(2)
        return p, optim.Adam([{"params": p[:1]}, {"params": p[1:], "lr": 0.5, "betas": (0.5, 0.5)}], lr=0.1)

    p, optimizer = made()
    optimizer.step(ones(2))
    q, other = made()
    other.param_groups[1]["lr"] = 0.1
    other.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in other.param_groups] == [pytest.approx(0.1), 0.5]
    for a, b in zip(q, p, strict=True):
        a.assign(b)
    for each in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        each.step(ones(2))
        assert each.param_groups[1]["params"][0] is each.params[1]
        assert each.param_groups[1]["betas"] == (0.5, 0.5)
        found = values(each.params)
    optimizer.step(ones(2))
    other.step(ones(2))
    assert values(p) == values(q) == found


def test_pairs_of_names_and_tensors_are_taken():
    net = nn.Linear(2, 1)
    assert optim.SGD(net.named_parameters(), lr=0.1).names == ["weight", "bias"]


def test_what_does_not_fit_is_refused():
    p = parameters(2)
    optimizer = optim.SGD(p[:1], lr=0.1)
    for call, error, text in [
        (lambda: optimizer.add_param_group({"params": p}), GradientError, "0 and 1 are the same"),
        (lambda: optimizer.add_param_group({"params": p[1:], "momentun": 0.9}), ArgumentError, "momentun"),
        (lambda: optimizer.add_param_group({"lr": 0.9}), GradientError, "params"),
        (lambda: optimizer.add_param_group({"params": [zyx.arange(2)]}), DTypeError, "int64"),
        (lambda: optimizer.param_groups[0].__setitem__("rate", 1), ArgumentError, "rate"),
        (lambda: optimizer.param_groups[0].__setitem__("lr", -1.0), ShapeError, "at least 0"),
        (lambda: optim.SGD([{"params": p[:1]}, {"params": p[:1]}], lr=0.1), GradientError, "same tensor"),
        (lambda: optim.Muon(p, lr=0.1), ShapeError, "matrices"),
        (lambda: optim.SGD([{"lr": 0.1}], lr=0.1), GradientError, "params"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert optimizer.params == p[:1] or len(optimizer.params) == 1
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_gradients_are_bounded_group_by_group():
    p = parameters()
    optimizer = optim.SGD([{"params": p[:2]}, {"params": p[2:]}], lr=1.0)
    grads = [zyx.Tensor([3.0, 0.0]), zyx.Tensor([0.0, 4.0]), zyx.Tensor([6.0, 8.0])]
    clipped, norms = optim.clip_grad_norm_by_group(optimizer, grads, [1.0, None])
    assert np.allclose([g.numpy() for g in clipped], [[0.6, 0], [0, 0.8], [6, 8]], atol=1e-5)
    assert norms[0].item() == 5.0
    assert norms[1] is None
    clipped, norms = optim.clip_grad_norm_by_group(optimizer, [None, None, grads[2]], 5.0)
    assert clipped[:2] == [None, None]
    assert np.allclose(clipped[2].numpy(), [3, 4], atol=1e-5)
    with pytest.raises(ShapeError, match="3 bounds for 2 groups"):
        optim.clip_grad_norm_by_group(optimizer, grads, [1.0] * 3)
    with pytest.raises(GradientError, match="1 gradients for 3"):
        optim.clip_grad_norm_by_group(optimizer, grads[:1], 1.0)
