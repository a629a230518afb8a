"""Blocks of 8 rows lie together, mean what they meant, and are multiplied by groups of bytes."""

import numpy as np
import pytest

import zyx
from zyx.errors import FormatError, ShapeError
from zyx.quantize import QuantizedTensor, layout_for, matmul, quantize, take

pytestmark = pytest.mark.usefixtures("interpreter")

RANDOM = np.random.default_rng(3)
KINDS = ["Q4_0", "Q4_1", "Q8_0", "int4/24", "int8/12"]


def rows(count, width=96, scale=1.0):
    return zyx.Tensor((RANDOM.standard_normal((count, width)) * scale).astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_the_rows_side_by_side(kind):
    weight = quantize(rows(16), kind)
    found, layout = weight.interleaved(), weight.layout
    assert (found.format, found.shape, found.nbytes, found.ndim) == (f"{kind}x8", (16, 96), weight.nbytes, 2)
    blocks = weight.data.numpy().reshape(2, 8, -1, layout.nbytes)
    groups = found.data.numpy().reshape(2, blocks.shape[2], layout.nbytes * 8)
    start = layout.low.at
    for at in range(start):  # of scales, each byte is beside those of the other rows
        assert np.array_equal(groups[..., 8 * at : 8 * at + 8], np.moveaxis(blocks[..., at], 1, 2))
    for at in range(start, layout.nbytes, 4):
        word = groups[..., 8 * at : 8 * at + 32].reshape(2, -1, 8, 4)
        assert np.array_equal(word, np.moveaxis(blocks[..., at : at + 4], 1, 2))


@pytest.mark.parametrize("kind", [*KINDS, "Q4_0+"])
def test_numbers_rows_and_products_are_what_they_were(kind):
    weight = quantize(rows(24), kind)
    found = weight.interleaved()
    assert np.array_equal(found.dequantize().numpy(), weight.dequantize().numpy())
    indices = zyx.Tensor(np.array([[0, 7, 8], [23, -1, -24]], np.int32))
    assert np.array_equal(take(found, indices).numpy(), take(weight, indices).numpy())
    for count in (1, 3, 9):
        x = rows(count)
        for activations in (None, "int8"):
            both = [matmul(x, each, activations=activations).numpy() for each in (found, weight)]
            assert np.allclose(*both, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "header", "code", "value"), [("Q4_1", [1.0, 0.5], 255, 15.5), ("Q8_0", [1.0], 128, -128.0)]
)
def test_sums_of_the_greatest_codes_and_activations_do_not_wrap(kind, header, code, value):
    start = np.array(header, np.float16).view(np.uint8)
    data = np.full((8, layout_for(kind, 32).nbytes), code, np.uint8)
    data[:, : start.size] = start
    weight = QuantizedTensor(zyx.Tensor(data), kind).interleaved()
    for sign in (1.0, -1.0):
        y = matmul(zyx.full((1, 32), sign), weight, activations="int8")
        assert np.allclose(y.numpy(), sign * 32 * value, rtol=1e-6)


def test_gradients_pass_to_what_is_multiplied():
    weight = quantize(rows(8), "Q4_1")
    x = rows(1)
    found, expected = (
        zyx.grad(lambda x, w=each: matmul(x, w, activations="int8").sum())(x).numpy()
        for each in (weight.interleaved(), weight)
    )
    assert np.allclose(found, expected, rtol=1e-5)


def test_others_stay_as_they_are_and_names_are_checked():
    for kind in ("Q5_1", "int4/20", "int8/10", "Q5_0+"):
        weight = quantize(rows(8, 160), kind)
        assert weight.interleaved() is weight
    for shape in ((12, 96), (2, 8, 96)):
        weight = quantize(zyx.ones(shape), "Q4_1")
        assert weight.interleaved() is weight
    found = quantize(rows(8), "Q4_1").interleaved()
    assert found.interleaved() is found and found.aligned() is found
    with pytest.raises(FormatError, match="no format is called"):
        layout_for("Q5_1x8", 32)
    with pytest.raises(FormatError, match="no whole number of blocks of 160 bytes"):
        QuantizedTensor(zyx.zeros((2, 40), dtype=zyx.uint8), "Q4_1x8")


def test_numbers_are_packed_with_rows_together():
    x = rows(16)
    assert np.array_equal(quantize(x, "Q4_1x8").data.numpy(), quantize(x, "Q4_1").interleaved().data.numpy())
    with pytest.raises(ShapeError, match="where 8 divides n"):
        quantize(rows(12), "Q4_1x8")
