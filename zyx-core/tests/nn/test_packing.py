"""Modules whose weights are packed compute what they did with the numbers that these stand for."""

import copy

import numpy as np
import pytest

import zyx
from zyx import nn
from zyx.errors import FormatError, ShapeError, StateError
from zyx.nn import functional as F
from zyx.quantize import QuantizedTensor

pytestmark = pytest.mark.usefixtures("interpreter")


def normal(*shape):
    return zyx.Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


class Tied(nn.Module):
    def __init__(self):
        self.tokens = nn.Embedding(10, 32, padding_idx=0)
        self.norm = nn.LayerNorm(32)
        self.inner = nn.Linear(32, 32)
        self.head = nn.Linear(32, 10, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        return self.head(self.inner(self.norm(self.tokens(tokens))))


def test_layers_compute_with_the_numbers_that_are_packed():
    model = Tied()
    tokens = zyx.Tensor([[1, 0, 9], [-1, 4, 4]])
    expected = model(tokens).numpy()
    assert nn.quantize(model, "Q8_0") is model
    assert model.head.weight is model.tokens.weight
    assert (model.head.weight.format, model.head.weight.shape) == ("Q8_0", (10, 32))
    assert [name for name, _ in model.named_parameters()] == ["norm.weight", "norm.bias", "inner.bias"]
    found = model(tokens).numpy()
    assert not np.array_equal(found, expected)
    assert np.linalg.norm(found - expected) < 1e-2 * np.linalg.norm(expected)
    assert np.array_equal(zyx.jit(model)(tokens).numpy(), found)
    for name in ("tokens", "inner"):
        layer = getattr(model, name)
        layer.weight = nn.Parameter(layer.weight.dequantize())
    model.head.weight = model.tokens.weight
    assert np.allclose(model(tokens).numpy(), found, rtol=1e-5, atol=1e-5)


def test_packed_modules_are_saved_loaded_and_moved(tmp_path):
    model, other = nn.quantize(Tied(), "int4/16"), nn.quantize(Tied(), "int4/16")
    tokens = zyx.Tensor([1, 2, 3])
    state = model.state_dict()
    assert (state["head.weight.data"].dtype, state["head.weight.data"].shape) == (zyx.uint8, (10, 24))
    zyx.save(tmp_path / "x.safetensors", {name: value for name, value in state.items() if name[:4] != "head"})
    saved = zyx.load(tmp_path / "x.safetensors")
    assert not other.load_state_dict(saved, strict=False).unexpected_keys
    assert np.array_equal(other(tokens).numpy(), model(tokens).numpy())
    with pytest.raises(StateError, match=r"inner.weight"):
        model.load_state_dict(Tied().state_dict())
    before = model(tokens).numpy()
    assert np.allclose(model.to("interpreter:0", dtype="float64")(tokens).numpy(), before, rtol=1e-5, atol=1e-5)


def test_gradients_pass_through_packed_layers_to_what_is_trained():
    model = nn.quantize(Tied(), "Q4_1")
    (model(zyx.Tensor([1, 2])) ** 2).sum().backward()
    found = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    plain = Tied()
    plain.load_state_dict(model.state_dict(), strict=False)
    for name in ("tokens", "inner"):
        getattr(plain, name).weight = nn.Parameter(getattr(model, name).weight.dequantize())
    plain.head.weight = plain.tokens.weight
    (plain(zyx.Tensor([1, 2])) ** 2).sum().backward()
    for name, gradient in found.items():
        assert np.allclose(gradient, plain.get_parameter(name).grad.numpy(), rtol=1e-4, atol=1e-4)
    assert set(found) == {"norm.weight", "norm.bias", "inner.bias"}


def test_layers_are_left_out_and_what_cannot_be_packed_leaves_all_as_it_was():
    model = nn.Sequential(nn.Linear(32, 48), nn.Linear(48, 8))
    with pytest.raises(FormatError, match=r"1: rows of 48 numbers are no whole number of blocks of 32, which Q8_0 has"):
        nn.quantize(model, "Q8_0")
    assert not any(isinstance(layer.weight, QuantizedTensor) for layer in model)
    nn.quantize(model, "Q8_0", where=lambda name, layer: layer.in_features == 32)
    assert [isinstance(layer.weight, QuantizedTensor) for layer in model] == [True, False]
    nn.quantize(model, "int8")
    assert [layer.weight.format for layer in model] == ["Q8_0", "int8"]


def test_packed_weights_that_do_not_fit_are_refused():
    weight = zyx.quantize.quantize(normal(4, 32), "Q8_0")
    with pytest.raises(ShapeError, match=r"input \(2, 31\) does not fit weights \(4, 32\)"):
        F.linear(normal(2, 31), weight)
    with pytest.raises(ShapeError, match=r"bias \(3,\) does not fit weights \(4, 32\)"):
        F.linear(normal(2, 32), weight, normal(3))
    with pytest.raises(ShapeError, match=r"weights have shape \(n, width\), not \(1, 4, 32\)"):
        F.embedding(zyx.arange(2), zyx.quantize.quantize(normal(1, 4, 32), "Q8_0"))


def test_bytes_of_packed_weights_are_replaced_for_a_call():
    model, other = nn.quantize(Tied(), "Q8_0"), nn.quantize(Tied(), "Q8_0")
    tokens = zyx.Tensor([1, 2, 3])
    before, expected = model(tokens).numpy(), other(tokens).numpy()
    names = dict(other.named_parameters()) | dict(other.named_buffers())
    assert "inner.weight.data" in names
    assert np.array_equal(nn.functional_call(model, names, (tokens,)).numpy(), expected)
    assert np.array_equal(model(tokens).numpy(), before)
    assert isinstance(model.inner.weight, QuantizedTensor)


def test_modules_with_packed_weights_are_copied():
    model = nn.quantize(Tied(), "int8")
    copied = copy.deepcopy(model)
    assert copied.inner.weight.data is not model.inner.weight.data
    assert np.array_equal(copied(zyx.Tensor([4])).numpy(), model(zyx.Tensor([4])).numpy())
