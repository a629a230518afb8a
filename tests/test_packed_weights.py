"""Packed weights on every device that there is: the numbers of the interpreter, bit for bit, and products of them."""

import numpy as np
import pytest

import zyx
from zyx.errors import NoDeviceError
from zyx.quantize import GGUF, QuantizedTensor, layout_for, matmul, take
from zyx.testing.opening import open_runtime

FORMATS = [*GGUF, "int8", "int8/40", "int4", "int4/16"]


def random_blocks(form, rows, blocks):
    """Return random bytes whose scales are finite; those of each eighth row are large, small or 0."""
    layout = GGUF.get(form) or layout_for(form, int(form.partition("/")[2] or 80))
    random = np.random.default_rng(7)
    data = random.integers(0, 256, (rows, blocks, layout.nbytes)).astype(np.uint8)
    kind = np.float32 if layout.wide_scale else np.float16
    extremes = np.array([0, 6e-8, -65504, 6.2e-5], np.float16)
    for at in {layout.scale, layout.scale if layout.offset is None else layout.offset}:
        values = random.standard_normal((rows, blocks, 1)).astype(kind)
        values[::8] = extremes[random.integers(0, 4, values[::8].shape)]
        data[..., at : at + values.itemsize] = values.view(np.uint8)
    return data.reshape(rows, -1)


@pytest.fixture(scope="module", params=["c", "opencl", "wgpu"])
def device(request):
    """Return the name of a device of a backend."""
    try:
        runtime = open_runtime(request.param)
    except NoDeviceError as error:
        pytest.skip(f"no device of {request.param}: {error}")
    name = runtime.default_device
    runtime.close()
    return name


@pytest.mark.parametrize("form", FORMATS)
def test_every_device_unpacks_the_same_numbers_and_multiplies_them(form, device):
    blocks = 1 if form in {"int8", "int4"} else 2
    data = random_blocks(form, 24, blocks)
    expected = QuantizedTensor(zyx.Tensor(data, device="interpreter"), form).dequantize().numpy()
    weight = QuantizedTensor(zyx.Tensor(data, device=device), form)
    found = weight.dequantize().numpy()
    assert np.array_equal(found, expected)
    assert np.array_equal(weight.aligned().dequantize().numpy(), expected)
    rows = take(weight, zyx.Tensor([3, 0, 23, 3], device=device)).numpy()
    assert np.array_equal(rows, expected[[3, 0, 23, 3]])
    numbers = expected.astype(np.float64)
    for batch in (1, 5):
        x = np.random.default_rng(batch).standard_normal((batch, numbers.shape[1])).astype(np.float32)
        got = matmul(zyx.Tensor(x, device=device), weight).numpy()
        assert (np.abs(got - x @ numbers.T) <= 2e-6 * (np.abs(x) @ np.abs(numbers).T)).all()
        near = matmul(zyx.Tensor(x, device=device), weight, activations="int8").numpy()
        greatest = (
            np.abs(x.reshape(batch, -1, weight.layout.count)).max(-1, keepdims=True).repeat(weight.layout.count, -1)
        )
        allowed = greatest.reshape(x.shape) @ np.abs(numbers).T * (1 / 254 + 4e-6)
        assert (np.abs(near - x @ numbers.T) <= allowed).all()
