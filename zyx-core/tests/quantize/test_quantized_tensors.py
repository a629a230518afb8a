"""Packed numbers mean what the definition of their format says, also in products."""

import numpy as np
import pytest

import zyx
from zyx.errors import DTypeError, FormatError, ShapeError
from zyx.quantize import GGUF, QuantizedTensor, layout_for, matmul, quantize, take

pytestmark = pytest.mark.usefixtures("interpreter")

FORMATS = [*sorted(GGUF), "int8", "int8/24", "int4", "int4/64"]


def some(kind, rows=3, blocks=2):
    """Return random bytes of blocks whose scales are float16 that are neither large nor infinite."""
    block = GGUF[kind]
    random = np.random.default_rng(1)
    data = random.integers(0, 256, (rows, blocks, block.nbytes)).astype(np.uint8)
    halves = [208] if kind == "Q6_K" else [0, 2] if kind in {"Q4_1", "Q5_1", "Q4_K", "Q5_K"} else [0]
    for at in halves:
        data[..., at : at + 2] = random.standard_normal((rows, blocks, 1)).astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def by_definition(kind, data):
    """Return the numbers of one block, each by itself, as `zyx.quantize.layouts` defines them."""
    half = [float(data[at : at + 2].view(np.float16)[0]) for at in (0, 2)]
    numbers = []
    for i in range(GGUF[kind].count):
        if kind in {"Q4_0", "Q4_1", "Q5_0", "Q5_1"}:
            start = {"Q4_0": 2, "Q4_1": 4, "Q5_0": 6, "Q5_1": 8}[kind]
            q = int(data[start + i % 16]) >> (4 if i >= 16 else 0) & 15
            if kind.startswith("Q5"):
                q |= (int(data[start - 4 + i // 8]) >> i % 8 & 1) << 4
            middle = {"Q4_0": -8, "Q5_0": -16}.get(kind)
            numbers.append(half[0] * (q + middle) if middle else half[0] * q + half[1])
        elif kind == "Q8_0":
            numbers.append(half[0] * int(data[2 + i].view(np.int8)))
        elif kind == "Q6_K":
            part, within = divmod(i, 128)
            low = int(data[64 * part + within % 64]) >> (4 if within >= 64 else 0) & 15
            high = int(data[128 + 32 * part + within % 32]) >> 2 * (within // 32) & 3
            d = float(data[208:210].view(np.float16)[0])
            numbers.append(d * int(data[192 + i // 16].view(np.int8)) * ((high << 4 | low) - 32))
        else:
            part = i // 32
            packed = [int(byte) for byte in data[4:16]]
            if part < 4:
                s, t = packed[part] & 63, packed[part + 4] & 63
            else:
                s = packed[part + 4] & 15 | packed[part - 4] >> 6 << 4
                t = packed[part + 4] >> 4 | packed[part] >> 6 << 4
            start = 16 if kind == "Q4_K" else 48
            q = int(data[start + 32 * (part // 2) + i % 32]) >> 4 * (part % 2) & 15
            if kind == "Q5_K":
                q |= (int(data[16 + i % 32]) >> part & 1) << 4
            numbers.append(half[0] * s * q - half[1] * t)
    return numbers


@pytest.mark.parametrize("kind", sorted(GGUF))
def test_blocks_mean_what_the_definition_says(kind):
    data = some(kind)
    count, nbytes = GGUF[kind].count, GGUF[kind].nbytes
    found = QuantizedTensor(zyx.Tensor(data), kind).dequantize()
    expected = np.array([by_definition(kind, block) for block in data.reshape(-1, nbytes)]).reshape(3, 2 * count)
    assert found.dtype is zyx.float32
    assert np.allclose(found.numpy(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(GGUF))
def test_blocks_mean_what_they_mean_to_the_package_of_the_format(kind):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    data = some(kind, 8, 5)
    found = QuantizedTensor(zyx.Tensor(data), kind).dequantize()
    assert np.array_equal(found.numpy(), gguf.dequantize(data, gguf.GGMLQuantizationType[kind]))


def test_every_float16_is_a_scale():
    halves = np.arange(1 << 16, dtype=np.uint16)
    data = np.zeros((1 << 16, 34), np.uint8)
    data[:, :2] = halves.view(np.uint8).reshape(-1, 2)
    data[:, 2:] = 1
    found = QuantizedTensor(zyx.Tensor(data), "Q8_0").dequantize()[:, 0].numpy()
    assert np.array_equal(found, halves.view(np.float16).astype(np.float32), equal_nan=True)


def test_what_cannot_be_packed_numbers_is_refused():
    data = zyx.zeros(2, 34, dtype="uint8")
    assert QuantizedTensor(data, "Q8_0").dequantize().tolist() == [[0.0] * 32] * 2
    for given, text in [
        ((data, "Q9_9"), "no format is called 'Q9_9'; there are Q4_0"),
        ((data, ["Q8_0"]), r"no format is called \['Q8_0'\]"),
        ((data, "int8/"), "no format is called 'int8/'"),
        ((data, "int8/0"), "at least one number, and of int4 an even number of them, not 0"),
        ((data, "int4/3"), "of int4 an even number of them, not 3"),
        ((data, "int8/32"), "rows of 34 bytes are no whole number of blocks of 36 bytes, which int8/32 has"),
        ((data[:, :33], "Q8_0"), "rows of 33 bytes are no whole number of blocks of 34 bytes"),
        ((data[:, :4], "int8"), "at least one number"),
        ((data[0, 0], "Q8_0"), r"uint8 with an axis for the bytes, not uint8 of shape \(\)"),
        ((zyx.zeros(8 * 34, dtype="uint8"), "Q8_0x8"), r"several rows are together, \(groups, bytes\), not \(272,\)"),
        ((data.astype("int8"), "Q8_0"), r"not int8 of shape \(2, 34\)"),
        ((data.numpy(), "Q8_0"), "not ndarray"),
    ]:
        with pytest.raises(FormatError, match=text):
            QuantizedTensor(*given)
    with pytest.raises(DTypeError, match="packed numbers are floats, not int8"):
        QuantizedTensor(data, "Q8_0").dequantize("int8")
    assert QuantizedTensor(zyx.zeros(0, 34, dtype="uint8"), "Q8_0").dequantize().shape == (0, 32)


MADE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def spread():
    """Return rows of numbers of all magnitudes that float16 has scales for, zeros, equal ones and halves among them."""
    random = np.random.default_rng(4)
    rows = random.standard_normal((12, 96)).astype(np.float32) * np.float32(10.0) ** np.arange(-6, 6)[:, None] / 50
    rows[0], rows[1], rows[2] = 0, 3, np.arange(-48, 48) / 2
    return rows.astype(np.float32)


@pytest.mark.parametrize("kind", MADE)
def test_numbers_are_put_into_blocks_as_near_as_their_bits_allow(kind):
    rows = spread()
    blocks = quantize(zyx.Tensor(rows), kind)
    assert (blocks.format, blocks.shape, blocks.data.dtype) == (kind, (12, 96), zyx.uint8)
    found = blocks.dequantize().numpy().reshape(-1, 32)
    given = rows.reshape(-1, 32)
    width = given.max(1) - given.min(1) if kind.endswith("_1") else 2 * np.abs(given).max(1)
    steps = {"Q4_0": 16, "Q4_1": 15, "Q5_0": 32, "Q5_1": 31, "Q8_0": 254}[kind]
    # A step at most for numbers at the end that has no code of its own, and what float16 rounds of scale and offset.
    allowed = width / steps * (1 if kind in {"Q4_0", "Q5_0"} else 0.5) + np.abs(given).max(1) * 2e-3
    allowed = allowed + 2.0**-25 * 128  # half the distance of the smallest float16, times the greatest code
    assert (np.abs(found - given).max(1) <= allowed).all()


@pytest.mark.parametrize("kind", MADE)
def test_blocks_are_made_as_by_the_package_of_the_format(kind):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    rows = spread()
    made = quantize(zyx.Tensor(rows), kind).data.numpy()
    assert np.array_equal(made, gguf.quantize(rows, gguf.GGMLQuantizationType[kind]))


def test_what_cannot_be_put_into_blocks_is_refused():
    x = zyx.ones(2, 32)
    for given, kind, text in [
        (x, "Q6_K", "blocks of Q6_K are read and written, but not made"),
        (x, "Q1", "no format is called 'Q1'"),
        (zyx.ones(2, 31), "Q8_0", "no whole number of blocks of 32"),
        (x * np.inf, "Q8_0", "not finite"),
        (x * 1e38, "Q8_0", "too large for its scale"),
    ]:
        with pytest.raises(FormatError, match=text):
            quantize(given, kind)
    for given in (zyx.ones(2, 32, dtype="int8"), np.ones((2, 32))):
        with pytest.raises(DTypeError, match=r"quantize: floats are put into blocks, not (int8|ndarray)"):
            quantize(given, "Q8_0")
    assert quantize(x.astype("bfloat16"), "Q8_0").dequantize().numpy().max() == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("family", ["int8", "int4"])
@pytest.mark.parametrize("group", [0, 12, 48])
def test_integers_by_channel_and_by_group_are_as_near_as_their_bits_allow(family, group):
    rows = spread()
    packed = quantize(zyx.Tensor(rows), f"{family}/{group}" if group else family)
    assert packed.shape == rows.shape
    count = group or 96
    assert packed.nbytes == 12 * 96 // count * (count * (8 if family == "int8" else 4) // 8 + 4)
    given, found = (each.reshape(-1, count) for each in (rows, packed.dequantize().numpy()))
    most = np.abs(given).max(1)
    allowed = most / 254 * 1.001 if family == "int8" else (given.max(1) - given.min(1)) / 30 + most * 2e-3 + 2.0**-21
    assert (np.abs(found - given).max(1) <= allowed).all()


@pytest.mark.parametrize("kind", sorted(GGUF))
def test_scales_that_are_large_small_or_not_finite_mean_what_they_mean_to_the_package_of_the_format(kind):
    gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
    block = GGUF[kind]
    random = np.random.default_rng(5)
    extreme = np.array([0, 0x8000, 1, 0x83FF, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00], np.uint16)
    data = random.integers(0, 256, (len(extreme) ** 2, block.nbytes)).astype(np.uint8)
    pairs = np.stack(np.meshgrid(extreme, extreme), axis=-1).reshape(-1, 2)
    data[:, block.scale : block.scale + 2] = pairs[:, :1].copy().view(np.uint8)
    if block.offset is not None:
        data[:, block.offset : block.offset + 2] = pairs[:, 1:].copy().view(np.uint8)
    found = QuantizedTensor(zyx.Tensor(data), kind).dequantize().numpy()
    with np.errstate(all="ignore"):
        expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(found, expected, equal_nan=True)


def packed(kind, rows=5, count=512):
    """Return random packed weights."""
    if kind in GGUF:
        return QuantizedTensor(zyx.Tensor(some(kind, rows, count // GGUF[kind].count)), kind)
    count = count // 24 * 24 if kind == "int8/24" else count
    return quantize(zyx.Tensor(np.random.default_rng(3).standard_normal((rows, count)).astype(np.float32)), kind)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("Q4_0", 0.086), ("Q4_1", 0.079), ("Q5_0", 0.043), ("Q5_1", 0.038), ("Q8_0", 0.0054), ("int8", 0.0079),
        ("int8/64", 0.006), ("int4", 0.127), ("int4/64", 0.09),
    ],
)  # fmt: skip
def test_the_error_of_normally_distributed_weights_and_of_products_with_them_is_as_stated(kind, error):
    random = np.random.default_rng(0)
    rows, x = (random.standard_normal((n, 1024)).astype(np.float32) for n in (128, 16))
    weight = quantize(zyx.Tensor(rows), kind)
    found = weight.dequantize().numpy()
    assert 0.9 * error < np.linalg.norm(found - rows) / np.linalg.norm(rows) < 1.02 * error
    expected = x @ rows.T
    assert np.linalg.norm(matmul(zyx.Tensor(x), weight).numpy() - expected) < 1.1 * error * np.linalg.norm(expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("lead", [(), (1,), (2, 3), (3, 4)])
def test_products_with_packed_weights_are_those_with_their_numbers(kind, lead):
    weight = packed(kind)
    numbers = weight.dequantize().numpy().astype(np.float64)
    x = np.random.default_rng(2).standard_normal((*lead, weight.shape[1])).astype(np.float32)
    found = matmul(zyx.Tensor(x), weight)
    assert found.shape == (*lead, 5)
    scale = np.abs(x).astype(np.float64) @ np.abs(numbers).T
    assert (np.abs(found.numpy() - x @ numbers.T) <= 2e-6 * scale).all()
    half = matmul(zyx.Tensor(x).astype("bfloat16"), weight)
    assert half.dtype is zyx.bfloat16
    assert (np.abs(half.astype("float32").numpy() - x @ numbers.T) <= 2e-2 * scale).all()
    wide = matmul(zyx.Tensor(x.astype(np.float64)), weight)
    assert wide.dtype is zyx.float64
    assert (np.abs(wide.numpy() - x @ numbers.T) <= 1e-14 * scale).all()
    with zyx.autocast("float16"):
        assert matmul(zyx.Tensor(x), weight).dtype is zyx.float16


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", FORMATS)
def test_products_of_few_rows_read_the_packed_bytes_and_store_results_alone(kind, rows):
    """As large as those that are divided into several products where there is more to gain."""
    width, count = (1536, 64) if kind in {"int8/24", "int4/64"} else (2048, 64)
    blocks = width // layout_for(kind, width).count
    data = np.zeros((count, blocks * layout_for(kind, width).nbytes), np.uint8)
    x = zyx.Tensor(np.ones((rows, width), np.float32))
    plan = zyx.explain_plan(matmul(x, QuantizedTensor(zyx.Tensor(data), kind)))
    assert [step["kind"] for step in plan["steps"]] == ["launch"]
    assert plan["temporaries"] == []
    assert plan["steps"][0]["bytes"] == data.nbytes + 4 * rows * (width + count)


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_are_taken_by_number(kind):
    weight = packed(kind)
    found = take(weight, zyx.Tensor(np.array([[4, 0, 4], [-1, 2, 1]])))
    assert found.shape == (2, 3, weight.shape[1])
    assert np.array_equal(found.numpy(), weight.dequantize().numpy()[[[4, 0, 4], [4, 2, 1]]])


@pytest.mark.parametrize("kind", ["Q4_1", "Q5_0", "Q6_K", "int8"])
def test_gradients_pass_to_what_is_multiplied_with_packed_weights(kind):
    weight = packed(kind)
    random = np.random.default_rng(2)
    x, upstream = (zyx.Tensor(random.standard_normal((3, n)).astype(np.float32)) for n in (weight.shape[1], 5))
    found = zyx.grad(lambda x: (matmul(x, weight) * upstream).sum())(x)
    assert np.allclose(found.numpy(), upstream.numpy() @ weight.dequantize().numpy(), rtol=1e-4, atol=1e-4)


def test_products_with_packed_weights_are_differentiated_twice_and_mapped():
    weight = packed("Q4_1")
    numbers = weight.dequantize().numpy().astype(np.float64)
    x = np.random.default_rng(2).standard_normal((3, 512)).astype(np.float32)
    first = zyx.grad(lambda x: (matmul(x, weight) ** 2).sum())
    second = zyx.grad(lambda x: (first(x) ** 2).sum())(zyx.Tensor(x)).numpy()
    square = numbers.T @ numbers
    assert np.linalg.norm(second - 8 * x @ square @ square) < 1e-5 * np.linalg.norm(second)
    assert np.allclose(
        zyx.vmap(lambda x: matmul(x, weight))(zyx.Tensor(x)).numpy(), x @ numbers.T, rtol=1e-4, atol=1e-3
    )
    assert np.allclose(zyx.jacobian(lambda x: matmul(x, weight))(zyx.Tensor(x[0])).numpy(), numbers, rtol=1e-6)


def test_packed_weights_are_arguments_of_traced_functions():
    traced = zyx.jit(matmul)
    for kind in ("Q4_0", "Q8_0", "Q4_0"):
        weight = packed(kind)
        for rows in (1, 2, 3, 4, 20, 5, 30):
            x = zyx.ones(rows, 512)
            assert np.allclose(traced(x, weight).numpy(), (x @ weight.dequantize().T).numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", sorted(GGUF))
def test_blocks_are_aligned_and_mean_the_same(kind):
    weight = packed(kind)
    found = weight.aligned()
    if kind not in {"Q4_0", "Q5_0", "Q8_0", "Q6_K"}:
        assert found is weight
        return
    assert (found.format, found.shape) == (f"{kind}+", weight.shape)
    assert found.nbytes == weight.nbytes // GGUF[kind].nbytes * (GGUF[kind].nbytes + 2)
    assert found.aligned() is found
    assert np.array_equal(found.dequantize().numpy(), weight.dequantize().numpy())
    x = zyx.ones(2, 512)
    assert np.array_equal(matmul(x, found).numpy(), matmul(x, weight).numpy())
    empty = QuantizedTensor(weight.data[:0], kind).aligned()
    assert (empty.format, empty.shape) == (f"{kind}+", (0, 512))


def test_numbers_are_packed_in_aligned_blocks():
    rows = zyx.Tensor(spread())
    found = quantize(rows, "Q8_0+")
    assert (found.format, found.data.shape) == ("Q8_0+", (12, 108))
    assert np.array_equal(found.dequantize().numpy(), quantize(rows, "Q8_0").dequantize().numpy())
    with pytest.raises(FormatError, match=r"no format is called 'int8\+'"):
        QuantizedTensor(found.data, "int8+")


def test_packed_weights_say_what_they_are():
    weight = packed("Q4_K")
    assert (weight.shape, weight.ndim, weight.size, weight.nbytes) == ((5, 512), 2, 2560, 1440)
    assert weight.to("interpreter:0").device == weight.device == "interpreter:0"
    assert repr(weight) == "QuantizedTensor(Q4_K, shape=(5, 512), nbytes=1440, device='interpreter:0')"
    assert weight.dequantize("float16").dtype is zyx.float16


def test_what_does_not_fit_packed_weights_is_refused():
    weight = packed("Q8_0")
    with pytest.raises(ShapeError, match=r"input \(2, 3\) does not fit packed weights \(5, 512\)"):
        matmul(zyx.ones(2, 3), weight)
    with pytest.raises(ShapeError, match=r"input \(512,\) does not fit packed weights \(512,\)"):
        matmul(zyx.ones(512), QuantizedTensor(weight.data[0], "Q8_0"))
    with pytest.raises(DTypeError, match="multiplied with floats, not int64"):
        matmul(zyx.ones(2, 512, dtype="int64"), weight)
    with pytest.raises(DTypeError, match=r"takes a zyx.quantize.QuantizedTensor, not Tensor"):
        matmul(zyx.ones(2, 512), weight.dequantize())
    with pytest.raises(ShapeError, match=r"shape \(512,\) have no rows"):
        take(QuantizedTensor(weight.data[0], "Q8_0"), zyx.arange(2))
    for wrong in (lambda: zyx.ones(2, 512) @ weight, lambda: weight * 2, lambda: 2 * weight, lambda: weight + weight):
        with pytest.raises(DTypeError, match=r"shape \(5, 512\) are no tensor: see zyx.quantize.matmul"):
            wrong()
    empty = QuantizedTensor(weight.data[:0], "Q8_0")
    assert matmul(zyx.ones(2, 512), empty).shape == (2, 0)
    assert matmul(zyx.ones(0, 512), weight).shape == (0, 5)
