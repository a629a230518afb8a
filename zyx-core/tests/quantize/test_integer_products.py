"""Products with activations that are rounded to 8 bits differ by what is stated, and only where they are rounded."""

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError
from zyx.nn import functional
from zyx.quantize import GGUF, QuantizedTensor, layout_for, matmul, quantize

pytestmark = pytest.mark.usefixtures("interpreter")

FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_0+", "Q8_0+", "int8", "int8/24", "int4", "int4/64"]
RANDOM = np.random.default_rng(5)


def rounded(x, count):
    """Return rows as they are with 8 bits, and the greatest magnitude of each block, in the shape of the rows."""
    blocks = x.reshape(x.shape[0], -1, count)
    greatest = np.abs(blocks).max(-1, keepdims=True)
    step = greatest / np.float32(127)
    near = np.round(blocks / np.where(step == 0, np.float32(1), step)) * step.astype(np.float64)
    return near.reshape(x.shape), np.broadcast_to(greatest, blocks.shape).reshape(x.shape)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_an_element_differs_by_what_rounding_the_activations_does(kind, rows):
    width = 192
    weight = quantize(zyx.Tensor(RANDOM.standard_normal((5, width)).astype(np.float32)), kind)
    x = RANDOM.standard_normal((rows, width)).astype(np.float32)
    x[0, :96] = 0
    found = matmul(zyx.Tensor(x), weight, activations="int8").numpy()
    numbers = weight.dequantize().numpy().astype(np.float64)
    near, greatest = rounded(x, layout_for(kind, width).count)
    roundings = 2e-6 * (np.abs(x) @ np.abs(numbers).T) + 2e-6 * (greatest @ np.abs(numbers).T)
    assert (np.abs(found - near @ numbers.T) <= roundings).all()
    assert (np.abs(found - x @ numbers.T) <= greatest / 254 @ np.abs(numbers).T + roundings).all()
    assert np.abs(found - x @ numbers.T).max() > 1e-5  # they are rounded


def test_greatest_products_do_not_wrap():
    data = np.zeros((1, 34), np.uint8)
    data[:, :2] = np.array([1], np.float16).view(np.uint8)
    data[:, 2:] = 128  # -128
    weight = QuantizedTensor(zyx.Tensor(data), "Q8_0")
    assert matmul(zyx.full((1, 32), -1.0), weight, activations="int8").item() == pytest.approx(32 * 128, rel=1e-6)


@pytest.mark.parametrize("kind", ["Q4_K", "Q6_K"])
def test_weights_with_scales_of_parts_are_multiplied_with_floats(kind):
    data = RANDOM.integers(0, 60, (4, GGUF[kind].nbytes)).astype(np.uint8)
    weight, x = QuantizedTensor(zyx.Tensor(data), kind), zyx.Tensor(RANDOM.standard_normal((1, 256)))
    x = x.astype("float32")
    assert (matmul(x, weight, activations="int8") == matmul(x, weight)).all()


def test_many_rows_and_longer_floats_are_multiplied_as_they_are():
    weight = quantize(zyx.Tensor(RANDOM.standard_normal((4, 64)).astype(np.float32)), "Q8_0")
    for shape, dtype in [((9, 64), "float32"), ((1, 64), "float64")]:
        x = zyx.Tensor(RANDOM.standard_normal(shape)).astype(dtype)
        assert (matmul(x, weight, activations="int8") == matmul(x, weight)).all()


def test_what_is_not_finite_makes_its_row_so_and_no_other():
    weight = quantize(zyx.ones(4, 64), "Q4_1")
    x = np.ones((2, 64), np.float32)
    for value in (np.nan, np.inf):
        x[0, 40] = value
        found = matmul(zyx.Tensor(x), weight, activations="int8").numpy()
        assert not np.isfinite(found[0]).any()
        assert np.allclose(found[1], 64, rtol=1e-2)


def test_gradients_are_those_of_the_product_without_rounding():
    weight = quantize(zyx.Tensor(RANDOM.standard_normal((4, 64)).astype(np.float32)), "Q4_0")
    x = zyx.Tensor(RANDOM.standard_normal((2, 64)).astype(np.float32))
    found = zyx.grad(lambda x: matmul(x, weight, activations="int8").sum())(x)
    assert np.allclose(found.numpy(), weight.dequantize().numpy().sum(0), atol=1e-5)


def test_linear_layers_take_rounded_activations_with_packed_weights_alone():
    weight = quantize(zyx.Tensor(RANDOM.standard_normal((4, 64)).astype(np.float32)), "Q4_0")
    x, bias = zyx.Tensor(RANDOM.standard_normal((2, 64)).astype(np.float32)), zyx.ones(4)
    found = functional.linear(x, weight, bias, activations="int8")
    assert (found == matmul(x, weight, activations="int8") + 1).all()
    with pytest.raises(DTypeError, match="linear: activations are rounded for packed weights alone, not for float32"):
        functional.linear(x, weight.dequantize(), activations="int8")


@pytest.mark.parametrize("given", ["int4", "", 8, "float16"])
def test_other_activations_are_refused(given):
    weight = quantize(zyx.ones(4, 64), "Q4_0")
    with pytest.raises(DTypeError, match=f"rounded to 'int8', or not at all with None, not to {given!r}"):
        matmul(zyx.ones(1, 64), weight, activations=given)
